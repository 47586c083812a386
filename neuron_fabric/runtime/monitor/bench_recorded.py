# SPDX-License-Identifier: Apache-2.0
"""The bench over recorded trainings: false alarms, and faults put into their losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from neuron_fabric.runtime.monitor.bench import ALARMS, MOST_FALSE, soonest
from neuron_fabric.runtime.monitor.limits import Signal
from neuron_fabric.runtime.monitor.log import Segment
from neuron_fabric.runtime.monitor.recorded import decided, noise_of, readings, with_loss
from neuron_fabric.runtime.monitor.states import Decision
from neuron_fabric.runtime.monitor.traces import CREEP

SPACE = 60
"""Steps that a fault has until a recording ends, and those before it with a loss."""
_PLACES = 5
_BESIDE = 10  # losses either way that make a level


def _spike(levels: Sequence[float]) -> list[float]:
    """6 times as much for 10 steps."""
    return [6.0 if n < 10 else 1.0 for n in range(SPACE)]


def _divergence(levels: Sequence[float]) -> list[float]:
    """1 % more a step, from the level where it began: the noise alone is the training's."""
    return [CREEP ** (n + 1) * levels[0] / levels[n] for n in range(SPACE)]


_FAULTS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "loss_spike": _spike,
    "divergence": _divergence,
}


def alarms(found: Sequence[Decision]) -> list[Decision]:
    """What a healthy training must not see."""
    return [one for one in found if one.target in ALARMS]


def recorded_lines(
    runs: Mapping[str, Segment], off: Sequence[Signal] = ()
) -> tuple[list[str], bool]:
    """A line for each false alarm and for each training's faults; whether there are few enough
    false alarms. Faults are not judged: how late one is seen hangs on a training's noise."""
    out = [f"{len(runs)} recorded trainings, by the thresholds of now"]
    if off:
        out.append(f"without {', '.join(off)}")
    wrong: list[str] = []
    for name, segment in runs.items():
        wrong += [
            f"  false alarm: {name} step {one.step} {one.region or 'job'} {one.signal} "
            f"{one.value:.3g}, limit {one.limit:.3g}"
            for one in alarms(decided(segment, off))
        ]
    steps = sum(len(one.steps) for one in runs.values())
    out += [*wrong, f"  {len(runs)} healthy runs, {steps:,} steps: {len(wrong)} false alarms"]
    out.append("faults put into their losses: steps until one is found, least to most")
    for name, segment in runs.items():
        if words := _faults(segment, off):
            out.append(f"  {name:44} {words}")
    return out, len(wrong) <= max(1.0, MOST_FALSE * steps)


def _faults(segment: Segment, off: Sequence[Signal]) -> str:
    last = len(segment.steps) - SPACE
    first = min(segment.run.plan.warmup + SPACE, last)
    if first < SPACE // 2:
        return ""
    places = sorted({first + n * (last - first) // (_PLACES - 1) for n in range(_PLACES)})
    noise = noise_of(segment)
    words = [f"noise {noise:5.1%}"]
    levels = levels_of(segment)
    for fault, factors in _FAULTS.items():
        after = [
            _after(with_loss(segment, at, factors(levels[at : at + SPACE])), at, off)
            for at in places
        ]
        found = sorted(one for one in after if one is not None)
        said = f"{found[0]:3} {found[-1]:3}" if found else "  -   -"
        missed = f" ({len(after) - len(found)} of {len(after)} not)" * (len(found) < len(after))
        words.append(f"{fault} {said}{missed}")
    if noise:
        words.append(f"at the soonest {soonest(noise, lambda _: 1.0)}")
    return "  ".join(words)


def levels_of(segment: Segment) -> list[float]:
    """Of each step, the mean of the losses beside it."""
    known = [one.loss for one in readings(segment)]
    out = []
    for n in range(len(known)):
        near = [one for one in known[max(0, n - _BESIDE) : n + _BESIDE + 1] if one is not None]
        out.append(sum(near) / len(near) if near else 1.0)
    return out


def _after(segment: Segment, at: int, off: Sequence[Signal]) -> int | None:
    found = [one.step - at for one in alarms(decided(segment, off)) if one.step >= at]
    return found[0] if found else None
