# SPDX-License-Identifier: Apache-2.0
"""`nf capacity`: whether a reducer can take a bucket, and whether that pays."""

from __future__ import annotations

import argparse

from neuron_fabric.runtime import capacity_command

EXAMPLES = capacity_command.EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    capacity_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return capacity_command.run(args)
