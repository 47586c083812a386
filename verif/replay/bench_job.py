# SPDX-License-Identifier: Apache-2.0
"""What the command line tells the bench, in a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from neuron_fabric.errors import CaptureError
from neuron_fabric.output import write_text
from verif.replay.options import ReplayOptions
from verif.replay.prepare import Session, prepare

JOB = "NF_REPLAY_JOB"
"""The environment variable that names the file."""


@dataclass(frozen=True)
class BenchJob:
    """What one simulator process has to do; results go to ``folder``. ``content`` is that of the
    capture as the command line has read it."""

    options: ReplayOptions
    session: int
    folder: Path
    content: str

    def prepare(self) -> Session:
        """The steps to drive, read from the capture again; CaptureError also when it is no longer
        the one that the command line judges by."""
        replay = prepare(self.options)
        if replay.content != self.content:
            what = "has changed since this replay began to read it"
            raise CaptureError(self.options.capture, what, "replay it again")
        return replay.sessions[self.session]

    def write(self, path: Path) -> None:
        """Leave the job for the bench."""
        values = {
            "options": json.loads(self.options.to_json()),
            "session": self.session,
            "folder": str(self.folder),
            "content": self.content,
        }
        write_text(path, json.dumps(values, indent=1))

    @staticmethod
    def read(path: Path) -> BenchJob:
        """The job that the command line left."""
        values = json.loads(path.read_text(encoding="utf-8"))
        options = ReplayOptions.from_json(json.dumps(values["options"]))
        return BenchJob(options, values["session"], Path(values["folder"]), values["content"])
