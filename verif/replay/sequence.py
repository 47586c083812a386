# SPDX-License-Identifier: Apache-2.0
"""The traffic of a replay: every worker's lines in, results and count planes out.

Lines go in chunks that fit the slot pool together with the chunk before: while the contributions of
one chunk are on their way, the chunk before is read. Within a line the workers come one after the
other (slot hits), in an order drawn from the seed: no result may depend on it. Where several
regions take part their lines are mixed evenly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cocotbext.cxl.agent import CxlBatchItem, CxlMemSequence
from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.wire.enums import NdrOp
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models.regions import PLANE_SELECTOR, CommitCode
from verif.replay.counters import USED, ZERO
from verif.replay.prepare import Lines, StepWork
from verif.replay.replay_plan import Placement, RegionUse, Round
from verif.replay.result import Figures, StepResult

if TYPE_CHECKING:
    from verif.env.env import NfEnv

Job = tuple[RegionUse, Placement, int]
"""A line of a tensor: its region, its placement, its number within the placement."""

LDIDS = 16


class ReplaySequence(CxlMemSequence):
    """One step; `result` holds what came back. Start it on the sequencer of the CXL agent."""

    def __init__(self, env: NfEnv, work: StepWork) -> None:
        super().__init__("replay")
        self.env = env
        self.work = work
        self.rng = random.Random(env.cfg.seed << 20 | work.step)
        self.figures = Figures(writes=work.writes, reads=work.reads)
        self.result = StepResult({n: t.room() for n, t in work.tensors.items()}, self.figures)

    async def body(self) -> None:
        before = await self._counters()
        start = self.env.cxl.monitor.cycle
        for one in self.work.plan.rounds:
            await self._round(one)
        self.figures.cycles = self.env.cxl.monitor.cycle - start
        after = await self._counters()
        self._account({name: after[name] - before[name] for name in after})

    # -- traffic ------------------------------------------------------------------------------
    async def _round(self, one: Round) -> None:
        for use in one.uses:
            code = await self.env.registers.commit(use.region, use.config, one.epoch)
            if code != CommitCode.OK:
                raise AssertionError(f"commit of region {use.region} was refused: {code.name}")
        jobs = mixed(one.uses)
        size = max(1, self.work.plan.params.slots // 4)
        reads: list[tuple[Job, list[Transaction]]] = []
        previous: tuple[list[Job], list[Transaction]] = [], []
        for at in range(0, len(jobs), size):
            chunk = jobs[at : at + size]
            writes = await self._send(list(self._writes(chunk)))
            reads += await self._read_back(*previous)
            previous = chunk, writes
        reads += await self._read_back(*previous)
        for job, transactions in reads:
            await self._store(job, transactions)
        for use in one.uses:
            await self._check_region(use)

    async def _send(self, messages: Sequence[M2SMessage]) -> list[Transaction]:
        item = CxlBatchItem(messages)
        await self.start_item(item)
        await self.finish_item(item)
        return item.transactions

    def _writes(self, jobs: Sequence[Job]) -> Iterator[M2SMessage]:
        workers = list(range(self.work.plan.workers))
        for use, place, line in jobs:
            sent = self.work.tensors[place.tensor.name].sent
            self.rng.shuffle(workers)
            for worker in workers:
                addr = use.config.address(worker, place.first_line + line)
                data = sent[worker, line].tobytes()
                yield M2SRwD(RwdOp.MEM_WR, 0, addr, ldid=worker % LDIDS, data=data)

    async def _read_back(
        self, jobs: Sequence[Job], writes: Sequence[Transaction]
    ) -> list[tuple[Job, list[Transaction]]]:
        """Send the reads of lines whose contributions have all been answered."""
        for write in writes:
            answer = await write.wait()
            if not isinstance(answer, S2MNDR) or answer.opcode != NdrOp.CMP:
                self._problem(f"write of {write.message.addr:#x} was answered by {answer}")
        out = []
        for job in jobs:
            use, place, line = job
            planes = len(self.work.tensors[place.tensor.name].expected.planes)
            selectors = [0, *range(PLANE_SELECTOR, PLANE_SELECTOR + planes)]
            addresses = [use.config.address(s, place.first_line + line) for s in selectors]
            ldid = line % min(LDIDS, self.work.plan.workers)
            requests = [M2SReq(ReqOp.MEM_RD, 0, addr, ldid=ldid) for addr in addresses]
            out.append((job, await self._send(requests)))
        return out

    async def _store(self, job: Job, transactions: Sequence[Transaction]) -> None:
        _, place, line = job
        own: Lines = self.result.got[place.tensor.name]
        targets = [own.result, *own.planes]
        for transaction, target in zip(transactions, targets, strict=True):
            answer = await transaction.wait()
            where = f"tensor {place.tensor.name} line {line}"
            if not isinstance(answer, S2MDRS):
                self._problem(f"{where}: the read was answered by {answer}")
                continue
            if answer.poison:
                self._problem(f"{where}: read of {transaction.message.addr:#x} came back poisoned")
            target[line] = np.frombuffer(answer.data, dtype=np.uint8)

    # -- registers ----------------------------------------------------------------------------
    async def _check_region(self, use: RegionUse) -> None:
        complete = await self.env.registers.read(f"REGION[{use.region}].COMPLETE_LINES")
        if complete != use.used_lines:
            self._problem(f"region {use.region}: {complete} of {use.used_lines} lines complete")
        done = await self.env.registers.read("DONE") >> use.region & 1
        if done != (use.padding_lines == 0):
            self._problem(f"region {use.region}: DONE is {done}, {use.padding_lines} lines empty")

    async def _counters(self) -> dict[str, int]:
        return {name: await self.env.registers.read(name) for name in (*ZERO, *USED)}

    def _account(self, counted: dict[str, int]) -> None:
        for name in ZERO:
            if counted[name]:
                self._problem(f"counter {name} went up by {counted[name]}")
        if counted["CONTRIBUTION"] != self.work.writes:
            self._problem(
                f"counter CONTRIBUTION went up by {counted['CONTRIBUTION']}, "
                f"{self.work.writes} lines were written"
            )
        figures = self.figures
        figures.slot_hits, figures.slot_misses = counted["SLOT_HIT"], counted["SLOT_MISS"]
        figures.evictions = counted["EVICTION"]
        figures.rx_flits, figures.tx_flits = counted["RX_FLIT"], counted["TX_FLIT"]

    def _problem(self, text: str) -> None:
        if len(self.figures.problems) < 10:
            self.figures.problems.append(f"step {self.work.step}: {text}")


def mixed(uses: Sequence[RegionUse]) -> list[Job]:
    """Every line of every region once; regions of any size run from begin to end side by side."""
    keyed: list[tuple[float, int, Job]] = []
    for use in uses:
        jobs = [(use, place, i) for place in use.placements for i in range(place.lines)]
        keyed += [((n + 0.5) / len(jobs), use.region, job) for n, job in enumerate(jobs)]
    return [job for _, _, job in sorted(keyed, key=lambda item: item[:2])]
