# SPDX-License-Identifier: Apache-2.0
"""Command-line options for the timing of the simulated device memory."""

from __future__ import annotations

import argparse
import re
from typing import Any

from scripts.common.arguments import up_to
from verif.mem.memory_timing import MAX_BEAT, MAX_LATENCY, MAX_STALL, MemoryTiming


def add_memory(parser: argparse.ArgumentParser, usual: str, nargs: str | None = None) -> None:
    """Add the options `--memory-latency`, `--memory-beat` and `--memory-stall`.

    Args:
        parser: Parser of the command.
        usual: Default latency in cycles, as text; several with spaces in between with ``nargs``.
        nargs: ``nargs`` of the latency: "+" for a command that measures several.
    """
    add = parser.add_argument_group("device memory").add_argument
    latency: Any = [int(one) for one in usual.split()] if nargs else int(usual)
    add(
        "--memory-latency",
        type=up_to(MAX_LATENCY),
        nargs=nargs,
        default=latency,
        metavar="N",
        help=f"cycles from a request to its response ({usual})",
    )
    add("--memory-beat", type=up_to(MAX_BEAT), default=1, metavar="N", help="cycles a beat (1)")
    add("--memory-stall", type=_percent, default=0, metavar="P", help="%% of cycles without READY")


def memory_of(args: argparse.Namespace, latency: int) -> MemoryTiming:
    """Return the memory timing of the parsed options, with ``latency`` (cycles) as the latency.

    The latency is a separate argument, since a command may have several.
    """
    return MemoryTiming(latency, args.memory_beat, args.memory_stall)


def _percent(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", text) or int(text) > MAX_STALL:
        raise argparse.ArgumentTypeError(f"{text!r} is not 0 to {MAX_STALL}")
    return int(text)
