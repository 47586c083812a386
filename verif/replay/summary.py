# SPDX-License-Identifier: Apache-2.0
"""What `nf replay` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from models.formats import LINE_BYTES, Mode
from verif.replay.prepare import Replay, StepWork
from verif.replay.result import Figures


def opening(replay: Replay) -> Iterator[str]:
    """What will be driven."""
    capture, steps = replay.capture, replay.steps
    yield (
        f"replay of {capture.path} ({capture.model}): {capture.world_size} workers, "
        f"{len(steps)} step(s), {len(capture.tensors)} tensors"
    )
    first = steps[0]
    for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
        own = [t for t in first.tensors.values() if t.mode == mode]
        if own:
            elements = sum(t.spec.elements for t in own)
            lines = sum(t.lines for t in own)
            yield f"  {mode.name:9} {len(own):4} tensors {elements:10,} elements {lines:8,} lines"
    for work in steps[1:]:
        moved = [n for n, t in work.tensors.items() if t.mode != first.tensors[n].mode]
        if moved:
            yield f"  step {work.step} takes other routes for {len(moved)}: {', '.join(moved[:4])}"


def of_step(simulator: str, work: StepWork, wrong: int, figures: Figures) -> str:
    """One step on one simulator."""
    lookups = max(1, figures.slot_hits + figures.slot_misses)
    return (
        f"{simulator:9} step {work.step}: {work.lines:,} lines x {work.plan.workers} workers, "
        f"{figures.reads:,} lines read back, {wrong} mismatches, {figures.cycles:,} cycles, "
        f"slot hits {figures.slot_hits / lookups:.1%}, flits {figures.rx_flits:,} in "
        f"{figures.tx_flits:,} out"
    )


def traffic(steps: Sequence[StepWork]) -> Iterator[str]:
    """Bytes carried against what FP32 would have carried; 64-byte lines, all steps."""
    to = sum(work.writes for work in steps) * LINE_BYTES
    back = sum(work.lines for work in steps) * LINE_BYTES
    counts = sum(work.reads for work in steps) * LINE_BYTES - back
    fp32_to = sum(work.fp32_lines * work.plan.workers for work in steps) * LINE_BYTES
    fp32_back = sum(work.fp32_lines for work in steps) * LINE_BYTES
    yield (
        f"traffic to the device {to:,} bytes, FP32 takes {fp32_to:,} "
        f"({fp32_to / max(1, to):.2f} times as many)"
    )
    yield (
        f"traffic from the device {back:,} bytes of results, FP32 takes {fp32_back:,} "
        f"({fp32_back / max(1, back):.2f} times as many); count planes read besides: {counts:,}"
    )
