# SPDX-License-Identifier: Apache-2.0
"""What the command line tells the bench, in a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from verif.replay.options import ReplayOptions

JOB = "NF_REPLAY_JOB"
"""The environment variable that names the file."""


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
