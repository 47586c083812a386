# SPDX-License-Identifier: Apache-2.0
"""`nf train calibrate`: measures a training script of the user and writes an operating profile."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from neuron_fabric.calibration import calibrate_command
from scripts.common.paths import ROOT
from scripts.ranks.launch import run_workers

EXAMPLES = calibrate_command.EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    calibrate_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return calibrate_command.run(args, _start)


def _start(command: Sequence[str], workers: int, env: Mapping[str, str]) -> str | None:
    """Start worker processes of a training that do not outlive this process; see `run_workers`."""
    # After the folder of the script, so that neuron_fabric is found where nothing is installed.
    path = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(ROOT)]))
    return run_workers(command, workers, {**env, "PYTHONPATH": path})
