# SPDX-License-Identifier: Apache-2.0
"""The bench of `nf replay`: one session through the RTL, judged here and by the command line.

NF_REPLAY_JOB names the job file that the command line wrote. The lines that came back are left in
the job's folder also when they are wrong.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cocotb

from verif.env.base import NfBaseTest, run_uvm
from verif.replay.check import compare
from verif.replay.options import ReplayOptions
from verif.replay.prepare import Session, prepare
from verif.replay.result import write_raw
from verif.replay.sequence import ReplaySequence

JOB = "NF_REPLAY_JOB"


@dataclass(frozen=True)
class BenchJob:
    """What one simulator process has to do; results go to ``folder``."""

    options: ReplayOptions
    session: int
    folder: Path

    def write(self, path: Path) -> None:
        """Leave the job for the bench."""
        values = {
            "options": json.loads(self.options.to_json()),
            "session": self.session,
            "folder": str(self.folder),
        }
        path.write_text(json.dumps(values, indent=1))

    @staticmethod
    def read(path: Path) -> BenchJob:
        """The job that the command line left."""
        values = json.loads(path.read_text())
        options = ReplayOptions.from_json(json.dumps(values["options"]))
        return BenchJob(options, values["session"], Path(values["folder"]))


class ReplayTest(NfBaseTest):
    """Drives a session; red when a line differs, or when a counter tells of trouble."""

    def session(self) -> Session:
        """The steps to drive."""
        session: Session = self.settings["session"]
        return session

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
    session = prepare(job.options).sessions[job.session]
    await run_uvm(ReplayTest, session=session, folder=job.folder)
