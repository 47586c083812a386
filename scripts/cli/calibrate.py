# SPDX-License-Identifier: Apache-2.0
"""`nf train calibrate`: measures a training script of the user and writes an operating profile."""

from __future__ import annotations

import argparse

from neuron_fabric.calibration import calibrate_command
from scripts.ranks.launch import run_workers

EXAMPLES = calibrate_command.EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    calibrate_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrate with worker processes that do not outlive this process."""
    return calibrate_command.run(args, run_workers)
