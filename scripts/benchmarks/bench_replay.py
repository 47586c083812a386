# SPDX-License-Identifier: Apache-2.0
"""`nf bench replay`: bulk replay against the model alone, and against the signal-level replay."""

from __future__ import annotations

import argparse

from scripts.cli.replay import SimulatorBackend
from scripts.common.paths import BUILD
from verif.replay.bulk import bench

HELP = "bulk replay against the model alone and against signal level: speed, start, memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    bench.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print the table; 1 when a goal is missed."""
    return bench.run(args, SimulatorBackend(files=BUILD / "bench" / "replay"))
