# SPDX-License-Identifier: Apache-2.0
"""Testbench of `nf replay`: one session through the RTL, judged here and by the command.

NF_REPLAY_JOB names the job file. The returned lines are written even if they are wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.mem.memory_timing import MemoryTiming
from verif.replay.epoch import EpochLines
from verif.replay.line_check import judge
from verif.replay.signal.replay_sequence import ReplaySequence
from verif.replay.signal.session import SESSION, Session, steps_of, write_raw


class ReplayTest(NfBaseTest):
    """Test that drives the steps of a session; it fails if a line differs or a register reports an
    error.
    """

    def configure(self, cfg: EnvConfig) -> None:
        memory: MemoryTiming | None = self.settings.get("memory")
        if memory is not None:
            memory.apply(cfg.mem)

    def steps(self) -> Iterable[list[EpochLines]]:
        """Yield the epochs of each step to drive."""
        steps: Iterable[list[EpochLines]] = self.settings["steps"]
        return steps

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
            folder: Path | None = self.settings.get("folder")
            if folder is not None:
                write_raw(folder, works, sequence.figures, sequence.problems)
            self.figure(f"step_{sequence.step}_cycles", sequence.figures["cycles"])
            verdicts = [judge(work) for work in works]
            found = [verdict.first.text for verdict in verdicts if verdict.first is not None]
            if found:
                lines, wrong = sum(v.lines for v in verdicts), sum(v.wrong for v in verdicts)
                faults.append(f"{wrong} of {lines} lines differ: {found[0]}")
            faults += sequence.problems
        assert not faults, faults[0]


@cocotb.test(skip=SESSION not in os.environ)
async def replay(_dut: Any) -> None:
    """Drive the session of the job file that NF_REPLAY_JOB names."""
    session = Session.read(Path(os.environ[SESSION]))
    steps = steps_of(session.prepare(), session.keys)
    memory = session.options.memory
    await run_uvm(ReplayTest, steps=steps, folder=session.folder, memory=memory)
