# SPDX-License-Identifier: Apache-2.0
"""`nf scale`: what a profile does to a model of a billion parameters, by its shapes alone."""

from __future__ import annotations

import argparse

from neuron_fabric.runtime import scale_command

EXAMPLES = scale_command.EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    scale_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return scale_command.run(args)
