# SPDX-License-Identifier: Apache-2.0
"""`nf collectives show`: draws a schedule as lanes over time, or prints it as JSON.

examples:
  nf collectives show all_reduce --world 4 --devices 2       draw build/collectives/all_reduce.svg
  nf collectives show all_reduce --adder passive --route G_BINARY --lines 256
  nf collectives show gather --json          as JSON, which `nf collectives check FILE` takes
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_fabric.codec import Route
from neuron_fabric.collectives import schedule_file, shipped
from neuron_fabric.collectives.checker import check
from neuron_fabric.collectives.schedule import Adder, Collective, Op, Schedule, Signal, Wait
from neuron_fabric.errors import say
from neuron_fabric.output import NewFile, check_output
from scripts.common.arguments import positive, up_to
from scripts.common.paths import BUILD
from scripts.drawings.sheet import INK, PALE, TINTS, Box, Sheet

_LEFT, _LANE, _BAR, _WIDTH = 130.0, 24.0, 16.0, 960.0
_COLOURS = dict(
    zip(("write", "read", "contribute", "result", "add"), TINTS, strict=True),
    copy="#e4e8ee",
    close=PALE,
    commit=INK,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf collectives show`."""
    add = parser.add_argument
    add("collective", type=Collective, choices=list(Collective), metavar="COLLECTIVE", help="name")
    add("--world", type=up_to(64, first=1), default=4, metavar="W", help="ranks (4)")
    add("--devices", type=up_to(16, first=1), default=2, metavar="D", help="devices (2)")
    add("--lines", type=positive, default=128, metavar="N", help="lines of 64 bytes a rank (128)")
    add("--adder", type=Adder, choices=list(Adder), default=Adder.DEVICE, help="who adds (device)")
    add("--route", type=Route, choices=list(Route), default=Route.FP32, help="of sums (FP32)")
    add("--granule", type=positive, default=16, metavar="G", help="lines of a granule (16)")
    add("--json", action="store_true", help="print the schedule instead of drawing it")
    add("-o", "--out", type=Path, metavar="FILE", help="(build/collectives/COLLECTIVE.svg)")


def run(args: argparse.Namespace) -> int:
    """Check a shipped schedule, and draw it or print it."""
    shape = args.world, args.devices, args.lines
    how: dict[str, Any] = {"adder": args.adder, "route": args.route, "granule": args.granule}
    schedule = shipped.shipped_any(args.collective, *shape, **how)
    check(schedule)
    if args.json:
        say(*schedule_file.to_text(schedule).splitlines())
        return 0
    if args.out is None:
        args.out = BUILD / "collectives" / f"{args.collective}.svg"
        args.out.parent.mkdir(parents=True, exist_ok=True)
    check_output(args.out, "--out")
    lanes = timed(schedule)
    with NewFile(args.out) as file:
        file.put(drawing(schedule, lanes).svg().encode())
    end = max(bar.end for bars in lanes.values() for bar in bars)
    say(f"{args.out}: {len(lanes)} streams, {end} clocks if each device serves a line a clock")
    return 0


@dataclass(frozen=True)
class Bar:
    """Operation of a stream in time, in clocks."""

    op: Op
    start: int
    end: int


def timed(schedule: Schedule) -> dict[tuple[int, str], list[Bar]]:
    """Return when each operation runs, by rank and stream.

    A device serves one line a clock, first come, first served; signals take no time. Close and
    commit take one clock. This is a drawing aid, not a measurement.
    """
    lanes = {
        (rank, stream.name): (stream.ops, list[Bar]())
        for rank, streams in enumerate(schedule.streams)
        for stream in streams
    }
    signals: dict[tuple[int, int], int] = {}
    device_free = [0] * schedule.devices
    while True:
        able: list[tuple[int, int, str]] = []
        for (rank, name), (ops, bars) in lanes.items():
            if len(bars) == len(ops):
                continue
            op, now = ops[len(bars)], bars[-1].end if bars else 0
            if isinstance(op, Wait) and not op.back:
                times = [signals.get((other, op.number)) for other in op.ranks]
                if None in times:
                    continue
                now = max(now, *(time for time in times if time is not None))
            able.append((max(now, _free(op, device_free)), rank, name))
        if not able:
            return {key: bars for key, (_, bars) in lanes.items()}
        start, rank, name = min(able)
        ops, bars = lanes[rank, name]
        op = ops[len(bars)]
        end = start + (getattr(op, "count", 0) or hasattr(op, "device"))
        if hasattr(op, "device"):
            device_free[op.device] = end
        if isinstance(op, Signal):
            signals[rank, op.number] = end
        bars.append(Bar(op, start, end))


def _free(op: Op, device_free: Sequence[int]) -> int:
    return device_free[op.device] if hasattr(op, "device") else 0


def drawing(schedule: Schedule, lanes: dict[tuple[int, str], list[Bar]]) -> Sheet:
    """Draw a timed schedule: a lane for each stream, the device in each bar."""
    title = f"{schedule.collective}, {schedule.ranks} ranks, {schedule.devices} devices"
    title += f", {schedule.lines} lines" + (f", {schedule.adder} adds" if schedule.adder else "")
    sheet = Sheet(title, _WIDTH, 90 + _LANE * len(lanes))
    sheet.text(16, 26, title, "title")
    x = 16.0
    for name, colour in _COLOURS.items():
        sheet.rect(Box(x, 40, 12, 12), colour)
        sheet.text(x + 16, 50, name, "small")
        x += 95
    sheet.text(x, 50, "| signal", "small")
    end = max(1, *(bar.end for bars in lanes.values() for bar in bars))
    scale = (_WIDTH - _LEFT - 16) / end
    for row, ((rank, name), bars) in enumerate(lanes.items()):
        y = 66 + row * _LANE
        sheet.text(16, y + 12, f"rank {rank} {name}", "pale")
        sheet.line(_LEFT, y + _BAR, _WIDTH - 16, y + _BAR, 'stroke-width="0.3"')
        for bar in bars:
            left, wide = _LEFT + bar.start * scale, (bar.end - bar.start) * scale
            kind = type(bar.op).__name__.lower()
            if isinstance(bar.op, Signal):
                sheet.line(left, y - 3, left, y + _BAR, 'stroke-width="1.5"')
            elif kind in _COLOURS:
                sheet.rect(Box(left, y, wide, _BAR), _COLOURS[kind], 'stroke="#ffffff"')
                if hasattr(bar.op, "device") and wide > 10:
                    sheet.text(left + wide / 2, y + 12, str(bar.op.device), "small", "middle")
    return sheet


def example() -> Sheet:
    """Draw the schedule of docs/explain/collectives.md."""
    schedule = shipped.shipped(
        Collective.ALL_REDUCE, 3, 2, 128, adder=Adder.DEVICE, route=Route.FP32
    )
    return drawing(schedule, timed(schedule))
