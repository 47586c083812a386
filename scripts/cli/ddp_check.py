# SPDX-License-Identifier: Apache-2.0
"""`nf ddp-check`: FP32 gradients under the hooks of this project are those of DDP."""

from __future__ import annotations

import argparse

from neuron_fabric.hook import ddp_check_command

EXAMPLES = ddp_check_command.EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ddp_check_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return ddp_check_command.run(args)
