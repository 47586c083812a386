# SPDX-License-Identifier: Apache-2.0
"""The bench of `nf replay`: one session through the RTL, judged here and by the command line.

NF_REPLAY_JOB names the job file that the command line wrote. The lines that came back are left in
the job's folder also when they are wrong.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_uvm
from verif.replay.bench_job import JOB, BenchJob
from verif.replay.check import compare
from verif.replay.prepare import Session
from verif.replay.result import write_raw
from verif.replay.sequence import ReplaySequence


class ReplayTest(NfBaseTest):
    """Drives a session; red when a line differs, or when a counter tells of trouble."""

    def session(self) -> Session:
        """The steps to drive."""
        session: Session = self.settings["session"]
        return session

    def connect_phase(self) -> None:
        """A wrong line does not end the run, so that all are read back; a hanging request does."""
        super().connect_phase()
        stop = self.env.failed.set
        self.env.core.on_error = lambda text: stop() if text.startswith("STUCK") else None

    async def scenario(self) -> None:
        faults: list[str] = []
        for work in self.session():
            sequence = ReplaySequence(self.env, work)
            await sequence.start(self.env.cxl.sequencer)
            folder: Path | None = self.settings.get("folder")
            if folder is not None:
                write_raw(folder, work.step, sequence.result)
            verdict = compare(work, sequence.result.got)
            figures = sequence.figures
            self.figure(f"step_{work.step}_cycles", figures.cycles)
            if verdict.wrong:
                faults.append(f"{verdict.wrong} of {verdict.lines} lines differ: {verdict.first}")
            faults += figures.problems
        assert not faults, faults[0]


@cocotb.test(skip=JOB not in os.environ)
async def replay(_dut: Any) -> None:
    """The session that the job file describes."""
    job = BenchJob.read(Path(os.environ[JOB]))
    await run_uvm(ReplayTest, session=job.prepare(), folder=job.folder)
