# SPDX-License-Identifier: Apache-2.0
"""`nf profile`: operating profiles of low-bit trainings."""

from __future__ import annotations

import argparse

from neuron_fabric.profile import profile_command

EXAMPLES = profile_command.EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    profile_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return profile_command.run(args)
