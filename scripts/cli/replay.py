# SPDX-License-Identifier: Apache-2.0
"""`nf replay`: captured gradients through the design. verif.replay does it; here is its runner."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from neuron_fabric.text import telling
from scripts.build import bulk_build, registry
from scripts.common import claims
from scripts.common.errors import BuildError
from scripts.common.paths import BUILD
from scripts.common.records import Edit
from scripts.run.simulate import clear, run_tests
from verif.replay import cli
from verif.replay.backend import BulkError, BulkModel, Outcome, SimulationJob

FILES = BUILD / "replay" / "runs"
_NAME = 150  # characters of a workspace's name: a capture may have any

EXAMPLES = """examples:
  nf replay captures/digits-resnet-8x        every step, by the default routes
  nf replay CAPTURE --steps 3 --route '*=G_TERNARY' --sim both --out out.safetensors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cli.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return cli.run(args, SimulatorBackend())


class SimulatorBackend:
    """The project's simulators, as verif.replay asks for them; `edits` break the RTL on purpose."""

    def __init__(self, edits: Sequence[Edit] = (), files: Path = FILES) -> None:
        self.edits = tuple(edits)
        self.files = files

    def simulators(self, wanted: str) -> tuple[Sequence[str], str | None]:
        """See verif.replay.backend."""
        sims, note = registry.choose(wanted)
        return [str(sim) for sim in sims], note

    def workspace(self, name: str) -> Path:
        """See verif.replay.backend."""
        folder = claims.folder(self.files / name[:_NAME])
        clear(folder)
        return folder

    def simulate(self, job: SimulationJob) -> Outcome:
        """See verif.replay.backend."""
        record = run_tests(
            job.simulator,
            job.module,
            job.test,
            seed=job.seed,
            parameters=job.parameters,
            timeout_s=job.timeout_s,
            env=job.env,
            waves=job.waves,
            edits=self.edits,
            rerun=job.rerun,
            runs=job.folder,
        )
        return Outcome(
            passed=record.passed,
            cause=f"{record.kind}: {record.cause}" if record.kind else "",
            log=record.log,
            waves=record.waves,
            seconds=record.seconds,
            build_seconds=record.build_seconds,
        )

    def bulk(self, simulator: str, parameters: Mapping[str, int]) -> BulkModel:
        """See verif.replay.backend."""
        try:
            with telling(f"nf replay: building the design for {simulator}"):
                return bulk_build.build(simulator, parameters, self.edits)
        except BuildError as error:
            raise BulkError(str(error)) from None
