# SPDX-License-Identifier: Apache-2.0
"""State machines: of the link from the RTL, of the monitor from random runs of it.

`state_machines.toml` says where each state stands on the page, and nothing else.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from neuron_fabric.capacity.profile_costs import Cost
from neuron_fabric.data import parse_toml, read_text
from neuron_fabric.monitor import states
from neuron_fabric.monitor.job_plan import Plan, RegionPlan
from neuron_fabric.monitor.signals import Reading, Reason, RegionReading
from neuron_fabric.monitor.thresholds import Thresholds
from neuron_fabric.typed import typed
from scripts.build import slang
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.drawings.sheet import Box, Sheet, width_of

FILE = Path(__file__).with_suffix(".toml")
Edges = Mapping[tuple[str, str], Sequence[str]]
"""Labels of the transitions by source and target."""
_HIGH, _STEP_X, _STEP_Y = 40, 245, 110


@dataclass(frozen=True)
class Machine:
    """States, the first of them, and the labels of each transition."""

    names: tuple[str, ...]
    first: str
    edges: Edges = field(default_factory=dict)


def _rtl(file: str) -> str:
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.sub(r"//.*", "", text)


def _members(package: str, enum: str) -> tuple[str, ...]:
    """Return the members of an enum of a package."""
    return tuple(member.name for member in slang.package_type(package, enum))


def case_machine(text: str, names: tuple[str, ...]) -> Machine:
    """Return the machine of RTL whose next state is chosen by one `case (state_q)`.

    Raises:
        NfError: an assignment of the next state has another form than
            ``STATE: if (CONDITION) state_d = STATE; else if ..``.
    """
    found = re.search(r"case \(state_q\)(.*?)endcase", text, re.DOTALL)
    reset = re.search(r"state_q +<= (\w+);", text)
    if found is None or reset is None:
        raise NfError("the RTL has no case (state_q), or no reset of state_q.")
    edges: dict[tuple[str, str], list[str]] = defaultdict(list)
    for source, body in re.findall(r"(\w+): +((?:(?:else )?\s*if [^;]+;\s*)+)", found[1]):
        for condition, target in re.findall(r"if \((.+?)\)\s+state_d = (\w+);", body):
            edges[source, target].append(" ".join(condition.split()))
    parsed = sum(map(len, edges.values()))
    if parsed != found[1].count("state_d =") - found[1].count("default:"):
        raise NfError("a transition of case (state_q) has a form that cannot be read.")
    return Machine(names, reset[1], edges)


def link_init() -> Machine:
    """Return the machine of link initialisation."""
    names = _members("nf_link_pkg", "init_state_e")
    return case_machine(_rtl("hdl/link/nf_link_init.sv"), names)


def lrsm() -> Machine:
    """Return the local retry state machine: it asks for a replay."""
    return case_machine(_rtl("hdl/link/nf_link_lrsm.sv"), _members("nf_pkg", "lrsm_e"))


def rrsm() -> Machine:
    """Return the remote retry state machine, whose state is one bit: it answers a request.

    Raises:
        NfError: the bit is not set and cleared by a chain of conditions.
    """
    normal, owed = _members("nf_pkg", "rrsm_e")
    found = re.findall(
        r"else if \((.+?)\) +pending_q <= 1'b([01]);", _rtl("hdl/link/nf_link_lrsm.sv")
    )
    if not found:
        raise NfError("nf_link_lrsm.sv does not set pending_q by conditions.")
    edges: dict[tuple[str, str], list[str]] = defaultdict(list)
    for condition, value in found:
        edges[(normal, owed) if value == "1" else (owed, normal)].append(condition)
    return Machine((normal, owed), normal, edges)


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


def job() -> Machine:
    """Return the machine of a training job."""
    return Machine(tuple(states.Mode), states.Mode.FP32_WARMUP, observed()[0])


def region() -> Machine:
    """Return the machine of a region."""
    return Machine(tuple(states.Status), states.Status.FP32, observed()[1])


MACHINES: dict[str, tuple[str, Callable[[], Machine]]] = {
    "link_init": ("Link initialisation (nf_link_init)", link_init),
    "lrsm": ("Local retry state machine (nf_link_lrsm)", lrsm),
    "rrsm": ("Remote retry state machine (nf_link_lrsm)", rrsm),
    "job": ("Monitor: states of a job, with the signals of each transition", job),
    "region": ("Monitor: states of a region, with the signals of each transition", region),
}


def draw(name: str, file: Path = FILE) -> Sheet:
    """Return the drawing of a machine.

    Raises:
        NfError: a state of the machine has no place in the file, or a place has no state.
    """
    title, make = MACHINES[name]
    machine = make()
    places = typed(dict[str, dict[str, tuple[float, float]]], parse_toml(read_text(file)))[name]
    if set(places) != set(machine.names):
        wrong = ", ".join(sorted(set(places) ^ set(machine.names)))
        raise NfError(f"{file.name}: {name} and its source have different states: {wrong}.")
    sheet = Sheet(f"State machine: {title}")
    sheet.text(30, 30, title, "title")
    boxes = {}
    for state, (column, row) in places.items():
        wide = max(100, width_of(state, "head") + 26)
        middle, top = 112 + _STEP_X * column, 90 + _STEP_Y * row
        boxes[state] = Box(middle - wide / 2, top, wide, _HIGH)
    for (source, target), labels in machine.edges.items():
        bend = 26 if (target, source) in machine.edges else 0
        sheet.curve(boxes[source], boxes[target], bend, _wrapped(labels))
    for state, box in boxes.items():
        sheet.box(box, state, fill="green" if state == machine.first else "blue", radius=20)
    sheet.height = max(box.y for box in boxes.values()) + _HIGH + 60
    return sheet


def _wrapped(labels: Sequence[str], most: int = 22) -> list[str]:
    """Return the labels joined by commas, in lines of at most `most` letters."""
    lines = [""]
    for label in labels:
        joined = f"{lines[-1]}, {label}" if lines[-1] else label
        lines[-1:] = [joined] if len(joined) <= most else [*filter(None, [lines[-1]]), label]
    return lines
