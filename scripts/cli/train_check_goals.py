# SPDX-License-Identifier: Apache-2.0
"""Goals of `nf train check`: the trainings of each check, their table, and the verdict on them.

Goals apply to the means of three seeds at full length, those of "auto" to paired differences of
five seeds or more; a shorter training is shown, not judged.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from neuron_fabric.calibration.verification import MOST_SEEDS, Bar, Better, Paired, spread

FP32 = "FP32"
GUIDED = "guided by the calibrator"
BINARY, TERNARY = "G_BINARY everywhere", "G_TERNARY everywhere"
BINARY_HEAD = "G_BINARY, head in FP32"
BAD, BAD_MONITOR = "bad profile", "bad profile, monitor"
AUTO, ADAPTIVE = "auto", "adaptive"
FED, LATE = "G_BINARY with feedback", "G_BINARY, late ranks"
"""Both with the head in FP32. In LATE a drawn rank is late in one step of eight, and the
rounds are closed without it."""
SINGLE = (BINARY, TERNARY, BINARY_HEAD, GUIDED, AUTO)
"""Variants whose routes stay: the best of them is compared with ADAPTIVE."""


@dataclass(frozen=True)
class CheckInfo:
    """Check: a workload with the trainings that are compared.

    Attributes:
        workers: number of workers.
        batch: batch size.
        steps: number of steps.
        metric: name of the metric.
        data: short description of the data.
        within: allowed distance of the calibrator's profile from FP32, passed to the calibrator.
        variants: trainings to compare.
    """

    workers: int
    batch: int
    steps: int
    metric: str
    data: str
    within: float
    variants: tuple[str, ...]

    @property
    def better(self) -> Better:
        """Return whether a higher or a lower metric is better."""
        return "higher" if self.metric.startswith("accuracy") else "lower"


_PAIRS = (
    *(FP32, BINARY, TERNARY, BINARY_HEAD, FED, LATE),
    *(GUIDED, AUTO, ADAPTIVE, BAD, BAD_MONITOR),
)
_SPIKED = "pairs100, learning rate x 4 for 10 steps"
CHECKS: Mapping[str, CheckInfo] = {
    name: CheckInfo(*info)
    for name, info in {
        "pairs100": (
            *(8, 16, 200, "accuracy, %", "two digits side by side, 100 classes", 2.0),
            _PAIRS,
        ),
        "digits": (
            *(4, 16, 96, "accuracy, %", "scikit-learn's digits", 1.5),
            (FP32, BINARY, GUIDED, AUTO, ADAPTIVE),
        ),
        "charlm": (
            *(8, 4, 250, "bits a character", "the help texts of Python", 0.03),
            (FP32, BINARY, TERNARY, GUIDED, AUTO, ADAPTIVE),
        ),
        "topics": (
            *(8, 8, 700, "accuracy, %", "which of 16 help texts a piece is from", 5.0),
            (FP32, BINARY, GUIDED, AUTO, ADAPTIVE),
        ),
        "gpt": (
            *(4, 2, 320, "bits a character", "the help texts of Python, 1.4 M parameters", 0.10),
            (FP32, AUTO, ADAPTIVE),
        ),
        "spike": (8, 16, 300, "accuracy, %", _SPIKED, 2.0, (FP32, GUIDED)),
    }.items()
}
SPIKE_AT, SPIKE_WITHIN = 0.4, 25
AUTO_SHARE, AUTO_SEEDS = 0.60, 5
"""Mean share of FP32's bytes that "auto" may send, and least number of seeds that judge it."""
_LOST = ("FALLBACK", "LOCKED_FP32")


@dataclass(frozen=True)
class TrainingRow:
    """One training, as written by a rank.

    ``tail``: steps and bytes of its last fifth. ``decisions``: transitions of the monitor, each
    (step, region, source, target, signal). ``closed``: rounds without late ranks.
    """

    variant: str
    seed: int
    reducer: str
    value: float
    weights: str
    ranks_differ: int
    seconds: float
    steps: int
    sent: Mapping[str, int]
    received: Mapping[str, int]
    tail: Mapping[str, Any]
    decisions: Sequence[Sequence[Any]]
    state: str
    closed: int = 0
    log: str | None = None
    signals_off: Sequence[str] = ()


@dataclass(frozen=True)
class Calibrated:
    """Calibrator's profile, with its regions in short.

    ``verified`` is None if it was not tried; ``table`` holds the results of trainings in FP32 and
    with the profile of each round.
    """

    seed: int
    seconds: float
    regions: Sequence[Mapping[str, Any]]
    verified: bool | None = None
    table: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def full(self) -> list[str]:
        """Return the kinds of regions with a measured route that stay in FP32."""
        too_small = "no tensor of"
        return sorted(
            {
                str(one["kind"])
                for one in self.regions
                if one["route"] == FP32 and not str(one["why"]).startswith(too_small)
            }
        )


@dataclass
class CheckFindings:
    """Results of a check so far."""

    check: str
    seeds: Sequence[int]
    rows: list[TrainingRow] = field(default_factory=list)
    calibrated: Calibrated | None = None

    def of(self, variant: str, seeds: Iterable[int], reducer: str = "") -> list[TrainingRow]:
        """Return the trainings of a variant with the requested reducer, the first of each seed."""
        first: dict[int, TrainingRow] = {}
        for row in self.rows:
            if row.variant == variant and row.seed in seeds and reducer in ("", row.reducer):
                first.setdefault(row.seed, row)
        return list(first.values())

    def mean(self, variant: str, seeds: Iterable[int]) -> float | None:
        """Return the mean, or None if nothing was trained."""
        values = [row.value for row in self.of(variant, tuple(seeds))]
        return statistics.fmean(values) if values else None


class TrainingGoal(NamedTuple):
    """Goal as a sentence with its numbers; ``reached`` is None if there is nothing to judge.
    ``exact``: it holds for a training of any length.
    """

    text: str
    reached: bool | None
    exact: bool = False


def lines_of(found: CheckFindings, steps: int) -> list[str]:
    """Return all printed lines of a check."""
    info = CHECKS[found.check]
    head = f"{found.check}: {info.data}; {info.workers} gloo workers x {info.batch}, {steps} steps"
    lines = [head, *_calibration(found), "", *_table(found), "", *_bytes(found), ""]
    for goal in goals(found):
        word = {None: "not run", True: "ok", False: "missed"}[goal.reached]
        if not goal.exact and steps != info.steps:
            word = f"not judged, {steps} of {info.steps} steps"
        lines.append(f"  [{word}] {goal.text}")
    return [*lines, "", *(f"  {one}" for one in remarks(found))]


def missed(found: CheckFindings, steps: int) -> bool:
    """Return whether a training of ``steps`` steps missed a goal that applies to it."""
    short = steps != CHECKS[found.check].steps
    return any(one.reached is False for one in goals(found) if one.exact or not short)


def _calibration(found: CheckFindings) -> Iterator[str]:
    """Yield the lines of the calibrator: results of its trainings, and the route of each
    region."""
    if found.calibrated is None:
        return
    done = "verified" if found.calibrated.verified else "not verified"
    yield f"  the calibrator's profile, of seed {found.calibrated.seed}, {done}:"
    for name, values in found.calibrated.table.items():
        cells = "".join(f"{_number(one):>10}" for one in (*values, statistics.fmean(values)))
        yield f"    {name:14}{cells}"
    for one in found.calibrated.regions:
        way = one["route"] + f" {one['decode']}" * (one["route"] != FP32)
        yield f"    {one['name']:14}{one['elements']:10,}  {way:16} {one['why']}"


def _table(found: CheckFindings) -> Iterator[str]:
    """Yield a line for each variant: its value for each seed, and their mean."""
    titles = [*(f"seed {one}" for one in found.seeds), "mean"]
    yield f"  {CHECKS[found.check].metric:26}" + "".join(f"{one:>10}" for one in titles)
    for variant in dict.fromkeys(row.variant for row in found.rows):
        cells = [
            found.mean(variant, seeds) for seeds in (*([one] for one in found.seeds), found.seeds)
        ]
        yield f"  {variant:26}" + "".join(f"{_number(one):>10}" for one in cells)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _bytes(found: CheckFindings) -> Iterator[str]:
    """Yield the bytes sent and received by rank 0 of the first seed, by route, with planes and
    sidecars, in the last fifth of the steps and in the whole run.
    """
    full = next(iter(found.of(FP32, found.seeds)), None)
    yield f"  {'bytes a worker and step':26}{'route':>12}{'sent':>12}{'received':>12}"
    for variant in dict.fromkeys(row.variant for row in found.rows):
        row = next(iter(found.of(variant, found.seeds)), None)
        if row is None:
            continue
        count = row.tail["steps"]
        for route, sent in sorted(row.tail["sent"].items()):
            got = row.tail["received"].get(route, 0)
            if sent or got:
                yield f"  {variant:26}{route:>12}{sent / count:12,.0f}{got / count:12,.0f}"
        if full is not None and row.variant != FP32:
            steady = _total(row.tail) / _total(full.tail)
            whole = _total(vars(row)) / _total(vars(full))
            yield f"  {'':26}{'of FP32':>12}{steady:11.1%} {whole:11.1%} with warm-up and samples"


def _total(of: Mapping[str, Any]) -> int:
    """Return the bytes of a worker in both directions, at least 1: it is a divisor."""
    both: list[int] = [*of["sent"].values(), *of["received"].values()]
    return max(1, sum(both))


# Goals of the mean of a variant by check: at least or at most a number, or at most (near) or at
# least (far) a distance below FP32.
_LIMITS: Mapping[str, Sequence[tuple[str, str, float]]] = {
    "pairs100": (
        (FP32, "at least", 95.0),
        (GUIDED, "near", 2.0),
        (BINARY, "at most", 40.0),
        (BAD_MONITOR, "near", 4.0),
        (BAD, "at most", 60.0),
    ),
    "spike": ((GUIDED, "near", 2.0),),
    "digits": ((GUIDED, "near", 1.5),),
    "topics": ((BINARY, "far", 10.0), (GUIDED, "near", 5.0)),
    "charlm": (),
    "gpt": (),
}
# Kinds of regions that the calibrator has to leave in FP32, and whether no other may be.
_IN_FP32 = {"pairs100": (["head"], True), "charlm": (["embedding", "head"], False)}


def goals(found: CheckFindings) -> list[TrainingGoal]:
    """Return the goals of this check with their results."""
    differ = sum(row.ranks_differ for row in found.rows)
    alike = f"weights equal on all ranks: {differ} trainings differ"
    tried = found.calibrated.verified if found.calibrated else None
    out = [
        TrainingGoal(alike, differ == 0, exact=True),
        TrainingGoal("the calibrator's profile is verified", tried),
    ]
    out += [_limit(found, *one) for one in _LIMITS[found.check]]
    out += _charlm(found) if found.check == "charlm" else []
    out += _spike(found) if found.check == "spike" else []
    out += [_kinds(found, *_IN_FP32[found.check])] if found.check in _IN_FP32 else []
    out += _late(found) if found.of(LATE, found.seeds) else []
    out += _auto(found) if found.of(AUTO, found.seeds) else []
    out += _adaptive(found) if found.of(ADAPTIVE, found.seeds) else []
    return [*out, *_reducers(found)]


def _limit(found: CheckFindings, name: str, how: str, limit: float) -> TrainingGoal:
    """Compare the mean of a variant with a goal of `_LIMITS`."""
    value, full = (found.mean(one, found.seeds) for one in (name, FP32))
    if how in ("at least", "at most"):
        text = f"{name} {_number(value)} {how} {limit:g}"
        known = None if value is None else value >= limit if how == "at least" else value <= limit
        return TrainingGoal(text, known)
    word = "at most" if how == "near" else "at least"
    text = f"{name} {_number(value)} {word} {limit:g} below FP32 {_number(full)}"
    if value is None or full is None:
        return TrainingGoal(text, None)
    return TrainingGoal(text, value >= full - limit if how == "near" else value <= full - limit)


def _charlm(found: CheckFindings) -> Iterator[TrainingGoal]:
    """Yield the goals of the language model: the share of the gap between G_BINARY and FP32 that
    the profile closes, and its distance to FP32."""
    full, binary, guided = (found.mean(one, found.seeds) for one in (FP32, BINARY, GUIDED))
    if full is None or binary is None or guided is None:
        yield TrainingGoal(f"{GUIDED} against {FP32} and {BINARY}", None)
        return
    gap = binary - full
    closed = (binary - guided) / gap if gap > 0 else 0.0
    text = f"{GUIDED} closes {closed:.0%} of the gap of {gap:.3f} bits, at least 75 %"
    yield TrainingGoal(text, closed >= 0.75)
    within = CHECKS["charlm"].within
    text = f"{GUIDED} {guided:.3f} at most {within:g} above FP32 {full:.3f}"
    yield TrainingGoal(text, guided <= full + within)


def _kinds(found: CheckFindings, kinds: list[str], exact: bool) -> TrainingGoal:
    """Compare the regions that the calibrator leaves in FP32 with the expected kinds; `exact`:
    no other may be there."""
    word = "is" if exact else "holds"
    if found.calibrated is None:
        return TrainingGoal(f"the calibrator's FP32 set {word} {', '.join(kinds)}", None)
    full = found.calibrated.full()
    known = full == kinds if exact else set(kinds) <= set(full)
    text = (
        f"the calibrator's FP32 set {word} {', '.join(kinds)}: it is {', '.join(full) or 'empty'}"
    )
    return TrainingGoal(text, known)


def _spike(found: CheckFindings) -> Iterator[TrainingGoal]:
    """Yield two goals for each seed: the monitor falls back soon after the spike, and the
    training recovers."""
    for row in found.of(GUIDED, found.seeds):
        first = round(SPIKE_AT * row.steps)
        fell = [
            (step - first, signal)
            for step, region, _, target, signal in row.decisions
            if not region and target == "FALLBACK" and step >= first
        ]
        after, signal = fell[0] if fell else (SPIKE_WITHIN + 1, "")
        at = f"after {after} steps" if fell else "never"
        text = f"seed {row.seed}: FALLBACK {at}, within {SPIKE_WITHIN}, by the loss"
        yield TrainingGoal(text, after <= SPIKE_WITHIN and signal.startswith("loss"))
        back = row.state in ("LOWBIT", "PARTIAL")
        yield TrainingGoal(f"seed {row.seed}: ends in {row.state}, LOWBIT or PARTIAL", back)


def _late(found: CheckFindings) -> Iterator[TrainingGoal]:
    """Yield the goals of LATE: each training closes rounds, and is near one without late ranks."""
    closed = [row.closed for row in found.of(LATE, found.seeds)]
    text = f"{LATE}: {min(closed):,} to {max(closed):,} rounds closed in a training"
    yield TrainingGoal(text, min(closed) > 0, exact=True)
    yield _near(found, LATE, FED)


def _auto(found: CheckFindings) -> Iterator[TrainingGoal]:
    """Yield the goals of "auto": not inferior to FP32 seed by seed, less traffic, no run lost."""
    full = {row.seed: row for row in found.of(FP32, found.seeds)}
    rows = [row for row in found.of(AUTO, found.seeds) if row.seed in full]
    lost = [row for row in rows if not math.isfinite(row.value) or row.state in _LOST]
    text = f"{AUTO}: {len(lost)} of {len(rows)} trainings are lost or end in FP32"
    yield TrainingGoal(text, not lost if rows else None)
    pairs = [(full[row.seed], row) for row in rows]
    shares = [_total(row.tail) / _total(one.tail) for one, row in pairs]
    mean = statistics.fmean(shares or [1.0])
    text = f"{AUTO} sends {mean:.1%} of FP32's bytes in the last fifth, at most {AUTO_SHARE:.0%}"
    yield TrainingGoal(text, mean <= AUTO_SHARE if rows else None)
    yield _near(found, AUTO, FP32)


def _near(found: CheckFindings, name: str, base: str) -> TrainingGoal:
    """Compare a variant with another one seed by seed: at most 1 % worse, by the 95 % interval."""
    info = CHECKS[found.check]
    rows, others = ({row.seed: row for row in found.of(one, found.seeds)} for one in (name, base))
    seeds = [seed for seed in found.seeds if seed in rows and seed in others]
    if not AUTO_SEEDS <= len(seeds) <= MOST_SEEDS:
        text = f"{name} near {base}: {AUTO_SEEDS} to {MOST_SEEDS} seeds judge it"
        return TrainingGoal(text, None)
    by = [others[seed].value for seed in seeds]
    paired, bar = Paired.of(by, [rows[seed].value for seed in seeds]), Bar(better=info.better)
    low, high = paired.interval
    text = (
        f"{name} - {base}: mean {paired.mean:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}, "
        f"at most {bar.band(spread(by)):.3f} worse"
    )
    return TrainingGoal(text, bar.passed(spread(by), paired))


def _adaptive(found: CheckFindings) -> Iterator[TrainingGoal]:
    """Yield the goals of "adaptive": fewer bytes than the best single assignment, and near it.

    The best one sends the fewest bytes of "auto" and of those that were trained and are near FP32.
    """
    sums = {
        name: statistics.fmean(_total(vars(row)) for row in found.of(name, found.seeds))
        for name in (FP32, *SINGLE, ADAPTIVE)
        if found.of(name, found.seeds)
    }
    near = [one for one in SINGLE if one == AUTO or _near(found, one, FP32).reached]
    best = min((one for one in near if one in sums), key=lambda one: sums[one], default=FP32)
    share = sums[ADAPTIVE] / sums[best]
    yield TrainingGoal(f"{ADAPTIVE} sends {share:.1%} of the bytes of {best}, fewer", share < 1)
    yield _near(found, ADAPTIVE, best)


def _reducers(found: CheckFindings) -> Iterator[TrainingGoal]:
    """Check that another reducer gives the same weights as torch's collectives, for trainings that
    have used it.
    """
    by: dict[tuple[str, int], list[TrainingRow]] = {}
    for row in found.rows:
        by.setdefault((row.variant, row.seed), []).append(row)
    for (variant, seed), rows in by.items():
        if len({row.reducer for row in rows}) > 1:
            names = " and ".join(row.reducer for row in rows)
            low = sum(n for route, n in rows[0].sent.items() if route != FP32)
            text = f"{variant}, seed {seed}: the same weights, bit for bit, by {names}"
            same = len({row.weights for row in rows}) == 1
            known = same if low else None
            yield TrainingGoal(f"{text}; {low:,} bytes low-bit by a worker", known, exact=True)


def remarks(found: CheckFindings) -> list[str]:
    """Return conclusions that the table does not support."""
    out = [
        "FP32 here is DDP with a profile that leaves all in FP32: `nf train exact` compares both."
    ]
    took = [
        statistics.fmean(row.seconds for row in rows)
        for rows in (found.of(FP32, found.seeds), found.of(AUTO, found.seeds))
        if rows
    ]
    if len(took) > 1:
        out.append(
            f"FP32 takes {took[0]:.0f} s a training, {AUTO} {took[1]:.0f} s: it weighs bytes, not "
            "the latencies of a loopback."
        )
    if found.check == "pairs100":
        ternary, binary = (found.mean(one, found.seeds) for one in (TERNARY, BINARY))
        if ternary is not None and binary is not None and ternary > binary:
            out.append(
                f"G_TERNARY everywhere reaches {_number(ternary)}, G_BINARY {_number(binary)}: "
                "what fails at 100 classes is a route, not low-bit as such."
            )
        out.append("Signs agree and signal to noise is high in the head too: cosine decides.")
    if found.check == "charlm":
        out.append("With SGD G_BINARY is better than FP32 on such a net: so AdamW is the check.")
    if found.check != "digits":
        out.append(  # of 11,227,812 parameters 51,300 are those of the head
            "These nets are tiny, and their heads large: a ResNet-18 of 100 classes with its head "
            "in FP32 would send 3.57% (1 bit) or 6.68% (2 bits), by its shapes."
        )
    return out
