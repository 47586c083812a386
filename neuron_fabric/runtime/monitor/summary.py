# SPDX-License-Identifier: Apache-2.0
"""What a log says, in numbers and words: for the terminal and for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from neuron_fabric.runtime.monitor.limits import Signal
from neuron_fabric.runtime.monitor.log import Segment, Step
from neuron_fabric.runtime.monitor.states import Decision

_MOST_SHOWN = 40


def last_run(segments: Sequence[Segment]) -> list[Segment]:
    """The segments of the last training in a log, each up to where the next one goes on."""
    first = max(n for n, one in enumerate(segments) if n == 0 or one.run.state is None)
    parts = list(segments[first:])
    for part, following in pairwise(parts):
        end = following.run.step
        part.steps = [one for one in part.steps if one.step < end]
        part.decisions = [one for one in part.decisions if one.step < end]
        part.samples = [one for one in part.samples if one[0] < end]
    return parts


def lines(segments: Sequence[Segment]) -> list[str]:
    """A log on the terminal."""
    out: list[str] = []
    for segment in segments:
        run, steps = segment.run, segment.steps
        out.append(
            f"{run.profile or 'a run'}: {run.world} ranks, {len(run.plan.regions)} regions "
            f"({len(run.plan.eligible)} may be low-bit), {len(steps)} steps from {run.step}"
        )
        if off := [*map(str, run.plan.off), *loss_off(segment)]:
            out.append(f"  off: {', '.join(off)}")
        modes = Counter(one.mode for one in steps)
        out += [f"  {mode:12} {count:7} steps" for mode, count in modes.items()]
        for route, (up, down) in bytes_by_route(steps).items():
            out.append(f"  {route:12} {up:,} bytes sent, {down:,} received")
        out += [f"  {decision_line(one)}" for one in segment.decisions[:_MOST_SHOWN]]
        if (more := len(segment.decisions) - _MOST_SHOWN) > 0:
            out.append(f"  ... and {more} more decisions: --html shows all")
        out.append(f"  ended: {segment.end}" if segment.end else "  not ended, or cut")
    return out


def loss_off(segment: Segment) -> list[str]:
    """The signals of the loss when none was ever given to `observe`."""
    if any(one.loss is not None for one in segment.steps):
        return []
    names = f"{Signal.LOSS_SPIKE}, {Signal.LOSS_SLOPE} and {Signal.LOSS_DRIFT}"
    return [f"{names} (no loss was observed)"]


def bytes_by_route(steps: Iterable[Step]) -> dict[str, tuple[int, int]]:
    """Bytes sent and received in all steps, by route."""
    total: dict[str, tuple[int, int]] = {}
    for one in steps:
        for route, (up, down) in one.bytes.items():
            before = total.get(route, (0, 0))
            total[route] = before[0] + up, before[1] + down
    return total


def decision_line(one: Decision) -> str:
    """A decision and its reason."""
    return f"step {one.step:6} {one.region or 'job':12} {one.source} -> {one.target}: {reason(one)}"


def reason(one: Decision) -> str:
    """Why, in words: the signal, its value and the limit."""
    if one.signal == Signal.SCHEDULE:
        return f"{one.value:g} steps, {one.limit:g} were to pass" if one.limit else "its turn"
    if one.signal == Signal.NORM:
        return f"norm {_ratio(one.value)} of FP32's, limit {_ratio(one.limit)}"
    whose = f" of worker {one.worker}" if one.worker >= 0 else ""
    return f"{one.signal} {one.value:.4g}{whose}, limit {one.limit:.4g}"


def _ratio(log2: float) -> str:
    """A ratio of norms; a power of 2 where it would not fit a float."""
    return f"{2**log2:.3g}" if abs(log2) < 500 else f"2^{log2:.0f}"
