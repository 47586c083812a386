# SPDX-License-Identifier: Apache-2.0
"""State machines of the monitor, with the transitions met in random runs of it.

`state_machines.toml` says where each state stands on the page, and nothing else.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from neuron_fabric.capacity.profile_costs import Cost
from neuron_fabric.data import parse_toml, read_text
from neuron_fabric.monitor import states
from neuron_fabric.monitor.job_plan import Plan, RegionPlan
from neuron_fabric.monitor.signals import Reading, Reason, RegionReading
from neuron_fabric.monitor.thresholds import Thresholds
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.drawings.sheet import Box, Sheet, width_of

FILE = Path(__file__).with_suffix(".toml")
Edges = Mapping[tuple[str, str], Sequence[str]]
"""Labels of the transitions by source and target."""
_HIGH, _STEP_X, _STEP_Y = 40, 245, 110


# Thresholds that are small enough for every transition to be met within some thousand steps.
_LIMITS = Thresholds(
    cooldown=8,
    cooldown_most=32,
    band_count=5,
    lock_within=400,
    sample_every=10,
    capacity_every=20,
    loss_window=20,
    slope_window=16,
    mean_window=10,
    drift_count=8,
)
_PLAN = Plan(
    tuple(RegionPlan(f"r{n}", 1000, True, 0.2, 0.05, Cost(1e-3, 1 << 20)) for n in range(3)),
    warmup=10,
    limits=_LIMITS,
)
_SEED, _WALKS, _PHASES, _STEPS = 7, 20, 8, 40  # the seed meets many causes
_GOOD = RegionReading(cosine=0.6, norm=0.0, margin=0.2, saturation=0.05, agreement=0.5)
_ILL = {  # readings of a region, by the signal that is bad
    Reason.COSINE: {"cosine": 0.2},
    Reason.NORM: {"norm": 5.0},
    Reason.MARGIN: {"margin": 0.001},
    Reason.SATURATION: {"saturation": 0.9},
    Reason.AGREEMENT: {"agreement": -0.2, "worker": 0},
}

_JOB_ILL = (
    *(Reason.LOSS_SPIKE, Reason.LOSS_SLOPE, Reason.LOSS_DRIFT),
    *(Reason.NONFINITE, Reason.REDUCER, Reason.CAPACITY),
)


def _reading(
    draw: random.Random, step: int, sampled: Sequence[int], ill: Reason | None, regions: int
) -> Reading:
    """Return a reading in which one signal is bad at random: of the job, or of some regions."""
    bad = draw.random() < 0.6
    found = []
    for number in range(len(_PLAN.regions)):
        values = _ILL.get(ill, {}) if bad and number < regions else {}  # type: ignore[arg-type]
        one = replace(_GOOD, **values)  # type: ignore[arg-type]
        live = number in sampled
        cosine, reference = (one.cosine, 0.0) if live else (None, None)
        found.append(replace(one, cosine=cosine, reference=reference))
    rise = {
        Reason.LOSS_SPIKE: 9.0 * bad,
        Reason.LOSS_SLOPE: step % _STEPS / 50,
        Reason.LOSS_DRIFT: 0.35 * (step % _STEPS > 20),
    }
    return Reading(
        step,
        tuple(found),
        loss=2 + draw.gauss(0, 0.02) + rise.get(ill, 0.0),  # type: ignore[arg-type]
        nonfinite=float(ill is Reason.NONFINITE and bad),
        fallback=ill is Reason.REDUCER and draw.random() < 0.1,
        faults=float(ill is Reason.REDUCER and bad),
        link_latency=1e-4,
        link_mib=1e-6 if ill is Reason.CAPACITY else 1e-2,
    )


@cache
def observed() -> tuple[Edges, Edges]:
    """Return the transitions of the job and of its regions, met in random runs of the monitor,
    each with the signals that caused it."""
    draw = random.Random(_SEED)
    found: tuple[dict[tuple[str, str], set[str]], ...] = defaultdict(set), defaultdict(set)
    for _ in range(_WALKS):
        state, step = states.start(_PLAN), 0
        for _ in range(_PHASES):
            ill = draw.choice((None, None, *_ILL, *_JOB_ILL))
            regions = draw.randint(1, len(_PLAN.regions))
            for _ in range(_STEPS):
                got = _reading(draw, step, states.samples_due(_PLAN, state), ill, regions)
                state, decided = states.advance(_PLAN, state, got)
                step += 1
                for one in decided:
                    found[bool(one.region)][one.source, one.target].add(one.signal)
    job, region = ({key: sorted(why) for key, why in sorted(one.items())} for one in found)
    return job, {key: why for key, why in region.items() if key[0] in set(states.Status)}


MACHINES = {
    "job": ("Monitor: states of a job, with the signals of each transition", tuple(states.Mode)),
    "region": (
        "Monitor: states of a region, with the signals of each transition",
        tuple(states.Status),
    ),
}
"""Title and states of each machine, the first state first."""


def draw(name: str, file: Path = FILE) -> Sheet:
    """Return the drawing of a machine.

    Raises:
        NfError: a state of the machine has no place in the file, or a place has no state.
    """
    title, names = MACHINES[name]
    edges = observed()[[*MACHINES].index(name)]
    places = typed(dict[str, dict[str, tuple[float, float]]], parse_toml(read_text(file)))[name]
    if set(places) != set(names):
        wrong = ", ".join(sorted(set(places) ^ set(names)))
        raise NfError(f"{file.name}: {name} and its source have different states: {wrong}.")
    sheet = Sheet(f"State machine: {title}")
    sheet.text(30, 30, title, "title")
    boxes = {}
    for state, (column, row) in places.items():
        wide = max(100, width_of(state, "head") + 26)
        middle, top = 112 + _STEP_X * column, 90 + _STEP_Y * row
        boxes[state] = Box(middle - wide / 2, top, wide, _HIGH)
    for (source, target), labels in edges.items():
        bend = 26 if (target, source) in edges else 0
        sheet.curve(boxes[source], boxes[target], bend, _wrapped(labels))
    for state, box in boxes.items():
        sheet.box(box, state, fill="green" if state == names[0] else "blue", radius=20)
    sheet.height = max(box.y for box in boxes.values()) + _HIGH + 60
    return sheet


def _wrapped(labels: Sequence[str], most: int = 22) -> list[str]:
    """Return the labels joined by commas, in lines of at most `most` letters."""
    lines = [""]
    for label in labels:
        joined = f"{lines[-1]}, {label}" if lines[-1] else label
        lines[-1:] = [joined] if len(joined) <= most else [*filter(None, [lines[-1]]), label]
    return lines
