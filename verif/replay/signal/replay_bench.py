# SPDX-License-Identifier: Apache-2.0
"""Testbench of `nf replay`: one session through the RTL, judged here and by the command.

NF_REPLAY_JOB names the job file. The returned lines are written even if they are wrong.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cocotb
import numpy as np

from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.uvm_agent import CxlMemSequence
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    S2MNDR,
    M2SReq,
    M2SRwD,
    NdrOp,
    ReqOp,
    RwdOp,
)
from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from verif.env.base_test import NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.host.c_interface import Kind
from verif.replay.epoch import EpochLines, shuffled_workers, traffic
from verif.replay.line_check import COST, COUNTERS, counter_problems, judge, region_problems
from verif.replay.plan import RegionUse
from verif.replay.signal.job_file import JOB, SignalJob, steps_of, write_raw


class ReplayTest(NfBaseTest):
    """Test that drives the steps of a session; it fails if a line differs or a register reports an
    error.
    """

    def configure(self, cfg: EnvConfig) -> None:
        if memory := self.settings.get("memory"):
            memory.apply(cfg.mem)

    def steps(self) -> Iterable[list[EpochLines]]:
        """Yield the epochs of each step to drive."""
        yield from self.settings["steps"]

    def connect_phase(self) -> None:
        """Let the test go on after a finding of the scoreboard, so that all lines are read back.

        Only a stuck request stops it.
        """
        super().connect_phase()
        stop = self.env.failed.set
        self.env.scoreboard.on_error = lambda text: stop() if text.startswith("STUCK") else None

    async def scenario(self) -> None:
        faults: list[str] = []
        for works in self.steps():
            sequence = ReplaySequence(self.env, works)
            await sequence.start(self.env.cxl.sequencer)
            if folder := self.settings.get("folder"):
                write_raw(folder, works, sequence.figures, sequence.problems)
            self.figure(f"step_{sequence.step}_cycles", sequence.figures["cycles"])
            verdicts = [judge(work) for work in works]
            found = [verdict.first.text for verdict in verdicts if verdict.first is not None]
            if found:
                lines, wrong = sum(v.lines for v in verdicts), sum(v.wrong for v in verdicts)
                faults.append(f"{wrong} of {lines} lines differ: {found[0]}")
            faults += sequence.problems
        assert not faults, faults[0]


@cocotb.test(skip=JOB not in os.environ)
async def replay(_dut: Any) -> None:
    """Drive the session of the job file that NF_REPLAY_JOB names."""
    job = SignalJob.read(Path(os.environ[JOB]))
    steps = steps_of(job.prepare(), job.keys)
    memory = job.options.memory
    await run_uvm(ReplayTest, steps=steps, folder=job.folder, memory=memory)


if TYPE_CHECKING:
    from verif.env.env import NfEnv


class ReplaySequence(CxlMemSequence):
    """Sequence that drives one step of a replay on the sequencer of the CXL agent.

    It fills in the returned lines of the epochs ``works``; ``figures`` and ``problems`` are those
    of `runner.Driven`.
    """

    def __init__(self, env: NfEnv, works: Sequence[EpochLines]) -> None:
        super().__init__("replay")
        self.env = env
        self.works = works
        self.step = works[0].step
        self.rng = random.Random(env.cfg.seed << 20 | self.step)
        self.figures: Counter[str] = Counter()
        self.problems: list[str] = []

    async def body(self) -> None:
        before = await self._counters()
        start = self.env.cxl.monitor.cycle
        for work in self.works:
            await self._epoch(work)
        self.figures["cycles"] = self.env.cxl.monitor.cycle - start
        self.figures["lines"] = sum(work.lines for work in self.works)
        after = await self._counters()
        counted = {name: after[name] - before[name] for name in after}
        self.figures.update({name: counted[name] for name in COST})
        self._problem(*counter_problems(counted, sum(work.writes for work in self.works)))

    # -- traffic ------------------------------------------------------------------------------
    async def _epoch(self, work: EpochLines) -> None:
        for use in work.uses:
            code = await self.env.registers.commit(use.region, use.config, work.epoch)
            if code != CommitCode.OK:
                raise AssertionError(f"commit of region {use.region} was refused: {code.name}")
        chunk = max(1, work.plan.params.slots // 4)
        made, batch = traffic(work, chunk, shuffled_workers(work, chunk, self.rng))
        sent = np.concatenate([one.reshape(-1, LINE_BYTES) for one in work.sent])
        writes_before = np.cumsum(made["kind"] == Kind.WRITE).tolist()
        writes: list[Transaction] = []
        reads: list[tuple[int, Transaction]] = []
        answered = 0
        for ops in np.split(made, np.flatnonzero(np.diff(batch)) + 1):
            lines = ops["line"].tolist()
            rows = list(zip(ops["address"].tolist(), ops["ldid"].tolist(), lines))
            if ops["kind"][0] == Kind.WRITE:
                data = [
                    M2SRwD(RwdOp.MEM_WR, 0, address, ldid=ldid, data=sent[line].tobytes())
                    for address, ldid, line in rows
                ]
                writes += await self.issue_all(data)
                continue
            due = writes_before[int(ops["after"][0]) - 1]
            for write in writes[answered:due]:
                await self._acknowledged(write)
            answered = max(answered, due)
            requests = [M2SReq(ReqOp.MEM_RD, 0, address, ldid=ldid) for address, ldid, _ in rows]
            reads += zip(lines, await self.issue_all(requests))
        for line, read in reads:
            await self._store(work, line, read)
        for use in work.uses:
            await self._check_region(use)

    async def _acknowledged(self, write: Transaction) -> None:
        answer = await write.wait()
        if not isinstance(answer, S2MNDR) or answer.opcode != NdrOp.CMP:
            self._problem(f"write of {write.message.addr:#x} was answered by {answer}")

    async def _store(self, work: EpochLines, line: int, read: Transaction) -> None:
        answer = await read.wait()
        where = f"read of {read.message.addr:#x}"
        if not isinstance(answer, S2MDRS):
            self._problem(f"{where} was answered by {answer}")
            return
        if answer.poison:
            self._problem(f"{where} was poisoned")
        work.returned[line] = np.frombuffer(answer.data, dtype=np.uint8)

    # -- registers ----------------------------------------------------------------------------
    async def _check_region(self, use: RegionUse) -> None:
        complete = await self.env.registers.read(f"REGION[{use.region}].COMPLETE_LINES")
        done = await self.env.registers.read("DONE")
        self._problem(*region_problems([use], [complete], done))

    async def _counters(self) -> dict[str, int]:
        return {name: await self.env.registers.read(name) for name in COUNTERS}

    def _problem(self, *texts: str) -> None:
        room = 10 - len(self.problems)
        self.problems += [f"step {self.step}: {text}" for text in texts[:room]]
