# SPDX-License-Identifier: Apache-2.0
"""`nf monitor`: what happened in a low-bit training, and why."""

from __future__ import annotations

import argparse

from neuron_fabric.monitor import monitor_command

EXAMPLES = monitor_command.EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    monitor_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return monitor_command.run(args)
