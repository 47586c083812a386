# SPDX-License-Identifier: Apache-2.0
"""What the states need to know of a profile: constant for a run, the same on every rank."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Protocol

from neuron_fabric.codec.routes import LINE, Route, lines_of
from neuron_fabric.data import DataError
from neuron_fabric.errors import ProfileError
from neuron_fabric.hook.capacity import Coefficients, low_seconds
from neuron_fabric.typed import typed

# Thresholds of the monitor: what `[monitor]` of a profile may set (spec: runtime section 4.1).
#
# Every threshold has two values, one to become bad (`_in`) and one to become good again (`_out`),
# and a count of readings in a row. Where the values are not the specification's, the comment says
# why.

SHARE_BITS = 24
"""Fraction bits of what the ranks agree on: shares, cosines, logarithms of norms."""


def on_grid(limit: float) -> float:
    """A limit as a reading of exactly that value arrives: rounded to `SHARE_BITS`. Beside the limit
    itself a share of exactly 10 % would be above 10 %, and a cosine of 0.7 below 0.7."""
    return round(limit * (1 << SHARE_BITS)) / (1 << SHARE_BITS)


class Signal(StrEnum):
    """What can make the monitor decide."""

    LOSS_SPIKE = "loss_spike"
    LOSS_SLOPE = "loss_slope"
    LOSS_DRIFT = "loss_drift"
    NORM = "norm"
    COSINE = "cosine"
    MARGIN = "margin"
    SATURATION = "saturation"
    AGREEMENT = "agreement"
    NONFINITE = "nonfinite"
    REDUCER = "reducer"
    CAPACITY = "capacity"
    SCHEDULE = "schedule"  # its turn or its time has come: no threshold


@dataclass(frozen=True)
class Limits:
    """All thresholds. Times are in steps. ValueError for values that make no sense together."""

    spike_in: float = 6.0  # times 1.4826 MAD above the median of `loss_window`
    spike_out: float = 4.0
    spike_count: int = 3
    loss_window: int = 100
    # The same of the last few: among 100 losses that fall to a tenth, 6 times as much is no spike.
    spike_window: int = 20
    loss_least: int = 20  # losses before the median is trusted

    drift_in: float = 0.10  # above the best mean of `mean_window`, relative
    drift_out: float = 0.05
    drift_sigma: float = 4.0  # and as many standard deviations of one loss
    drift_count: int = 40
    mean_window: int = 20

    # A line through the last losses. Chosen on losses of real trainings (`nf train check`'s, seeds
    # 1 to 4) and on flat noise: shorter windows see rises there too often.
    slope_window: int = 40
    slope_sigma: float = 4.0  # times the line's own standard error
    slope_in: float = 0.10  # what it rises by within the window, of the mean
    slope_out: float = 0.05
    slope_count: int = 3

    norm_in: float = 4.0  # decoded norm over FP32 norm, either way
    norm_out: float = 3.0
    # Every step is judged against the last sample's FP32 norm: two samples would take 50 steps.
    norm_count: int = 8

    drop: float = 0.30  # EMA(1/2) of the sampled cosine
    readmit: float = 0.05  # above `drop`: good again
    floor: float = 0.10  # one sample below is enough

    margin_in: float = 0.02
    margin_out: float = 0.04
    margin_share: float = 0.25  # of the profile's
    margin_count: int = 3

    saturation_in: float = 0.50
    saturation_out: float = 0.40
    saturation_times: float = 4.0  # the profile's
    saturation_count: int = 1  # the reading itself looks back 32 steps

    # How far the least agreement of a worker is below 0. Chosen by shadow votes beside real
    # trainings (`nf train check`'s, seeds 1 and 2, 2 to 8 workers), whose lowest was 0.03 below.
    against_in: float = 0.05
    against_out: float = 0.02
    against_count: int = 4  # the reading itself is a mean over some 12 steps

    nonfinite_count: int = 3  # steps of `event_window`; reducer faults by the same rule
    event_window: int = 100
    severe: float = 0.10  # share of answers with DevLoad severe

    hold: int = 5  # no transition within so many steps of the last
    sample_every: int = 50
    probe_every: int = 5
    probe_good: int = 2
    cooldown: int = 50
    cooldown_most: int = 1600
    band_count: int = 20  # steps with the loss in band before RECOVERY
    lock_fallbacks: int = 4
    lock_within: int = 2000
    lock_demotions: int = 4
    warmup_falls: float = 0.20  # a window: warm-up goes on, at most doubled

    capacity_admit: float = 0.80  # T_low / T_fp32
    capacity_drop: float = 0.95
    capacity_every: int = 200
    capacity_cooldown: int = 200
    # The network's time for a MiB since capacity was judged, either way: judged again at once. Less
    # than `capacity_drop` / `capacity_admit` is noise by definition.
    link_moved: float = 2.0
    link_count: int = 8

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            most = 1 if one.name in _SHARES else 1e9
            if not 0 < value <= most:
                what = f"must be above 0, and {most:,.0f} at most"
                raise ValueError(f"monitor.{one.name} is {value}, {what}")
        for less, more in _ORDER:
            if getattr(self, less) > getattr(self, more):
                raise ValueError(
                    f"monitor.{less} is {getattr(self, less)}, above {more}, "
                    f"which is {getattr(self, more)}"
                )

    @property
    def good(self) -> float:
        """The cosine from which a region may be low-bit again."""
        return self.drop + self.readmit


_SHARES = frozenset(
    ("drop", "readmit", "floor", "margin_in", "margin_out", "saturation_in")
    + ("saturation_out", "against_in", "against_out", "severe")
)
"""Shares and cosines: above 1 they would decide always, or never."""
_ORDER = (
    ("spike_out", "spike_in"),
    ("drift_out", "drift_in"),
    ("norm_out", "norm_in"),
    ("floor", "drop"),
    ("margin_in", "margin_out"),
    ("saturation_out", "saturation_in"),
    ("against_out", "against_in"),
    ("capacity_admit", "capacity_drop"),
    ("cooldown", "cooldown_most"),
    ("loss_least", "loss_window"),
    ("spike_window", "loss_window"),
    ("mean_window", "loss_window"),
    ("slope_window", "loss_window"),
    ("slope_out", "slope_in"),
)


def limits_of(values: Mapping[str, object], base: Limits | None = None) -> Limits:
    """``values``, `[monitor]` of a profile, over ``base`` (the defaults). DataError, in one line,
    for a key that is not known, a value of another type, and what makes no sense."""
    given = {one.name: getattr(base, one.name) for one in fields(Limits)} if base else {}
    try:
        return typed(Limits, {**given, **values}, "monitor")
    except ValueError as error:
        raise DataError(error) from None


class Phase(StrEnum):
    """What a region's routes are named by in a profile."""

    WARMUP = "warmup"
    STEADY = "steady"
    RECOVERY = "recovery"


@dataclass(frozen=True)
class Cost:
    """What capacity is judged by (`runtime.capacity`): modelled seconds of one region's step by the
    low-bit reducer, its FP32 bytes, and the buckets that hold it.

    ``low_bytes``: packed bytes that go by the same network as FP32, counted as of a ring, in two
    collectives a bucket; 0: the reducer has a link of its own, and ``seconds`` is all.
    ``latencies``: of an all-reduce, that both collectives take together: an exchange has fewer
    rounds than a ring (`OwnGroup.latencies`); ``wait``: the seconds that they took when that was
    measured: they take no less, whatever the line through all-reduces says of small ones.
    """

    seconds: float
    fp32_bytes: int
    low_bytes: int = 0
    buckets: int = 1
    latencies: float = 2.0
    wait: float = 0.0

    def network(self, latency: float, mib: float) -> float:
        """T_fp32 on a link with that latency (s) and seconds a MiB."""
        return self.buckets * latency + mib * self.fp32_bytes / (1 << 20)

    def low(self, latency: float, mib: float) -> float:
        """T_low on that link."""
        if not self.low_bytes:
            return self.seconds
        waits = self.buckets * max(self.latencies * latency, self.wait)
        return self.seconds + waits + mib * self.low_bytes / (1 << 20)

    def ratio(self, latency: float, mib: float) -> float:
        """T_low / T_fp32."""
        network = self.network(latency, mib)
        return self.low(latency, mib) / network if network > 0 else 1e9


@dataclass(frozen=True)
class RegionPlan:
    """One region: ``eligible`` when the profile has a low-bit route for it; ``margin`` and
    ``saturation`` are the least margin and the most saturation that calibration has seen."""

    name: str
    elements: int
    eligible: bool
    margin: float | None = None
    saturation: float | None = None
    cost: Cost | None = None


@dataclass(frozen=True)
class Plan:
    """A job. ``warmup`` in steps; ``unverified``: every region has to pass PROBE first; ``off``
    names signals that decide nothing."""

    regions: tuple[RegionPlan, ...]
    warmup: int
    limits: Limits = field(default_factory=Limits)
    unverified: bool = False
    off: tuple[Signal, ...] = ()

    @property
    def eligible(self) -> tuple[int, ...]:
        """Numbers of the regions that may be low-bit."""
        return tuple(n for n, region in enumerate(self.regions) if region.eligible)


class RegionLike(Protocol):
    """What is used of a profile's region; `PhaseRoute.route` compares as its name."""

    @property
    def name(self) -> str: ...
    @property
    def elements(self) -> int: ...
    @property
    def phases(self) -> Mapping[str, object]: ...


class ProfileLike(Protocol):
    """What is used of a profile."""

    @property
    def regions(self) -> Sequence[RegionLike]: ...
    @property
    def monitor(self) -> Mapping[str, object]: ...


# The plan of a job, from its profile.


_NEVER = 1e-9  # a drop of 0 gives up what points backwards alone
WARMUP = 100
"""Steps of warm-up where a profile gives a share and nobody says how long the training is."""


def plan_of(
    profile: ProfileLike,
    *,
    warmup: int = WARMUP,
    unverified: bool = False,
    costs: Mapping[str, Cost] | None = None,
    refused: Collection[str] = (),
) -> Plan:
    """What the states need of ``profile``; regions that a reducer has ``refused`` stay in FP32.
    DataError for values of `[monitor]` that are none."""
    values = _with_drop(dict(profile.monitor), getattr(profile, "rule", None))
    named = typed(tuple[str, ...], values.pop("off", ()), "monitor.off")
    try:
        off = tuple(Signal(one) for one in named)
    except ValueError as error:
        names = ", ".join(Signal)
        raise DataError(f"monitor.off: {error}: one of {names}") from None
    regions = tuple(
        RegionPlan(
            region.name,
            region.elements,
            _route(region.phases.get(Phase.STEADY)) != Route.FP32 and region.name not in refused,
            _measured(region, "margin", 0),
            _measured(region, "saturation", 1),
            (costs or {}).get(region.name),
        )
        for region in profile.regions
    )
    return Plan(regions, warmup, limits_of(values), unverified, off)


def check_monitor(profile: ProfileLike, where: object) -> None:
    """ProfileError, with ``where`` in front, for values of `[monitor]` that are none."""
    try:
        plan_of(profile)
    except DataError as error:
        raise ProfileError(where, error, "mend [monitor]") from None


def costs_of(
    profile: ProfileLike,
    known: Coefficients,
    workers: int,
    *,
    device: bool = True,
    buckets: Mapping[str, int] | None = None,
    waits: tuple[float, float] = (2.0, 0.0),
) -> dict[str, Cost]:
    """Modelled cost of every region's steady route. On a ``device`` the vote comes back to all
    workers, with decode net the count planes too, and each of the ``buckets`` that hold the region
    is a commit; else packed lines are exchanged and gathered by the network that FP32 takes, with
    net the planes instead of the vote; ``waits``: for how many latencies of its all-reduces, and
    seconds. Integer codes are left out: the host's rates are those of votes."""
    costs = {}
    for region in profile.regions:
        steady = region.phases.get(Phase.STEADY)
        route = Route(_route(steady))
        if not route.votes:
            continue
        planes = workers.bit_length() if getattr(steady, "decode", "vote") == "net" else 0
        low = low_seconds(known, route, region.elements, workers, planes=planes)
        count = max(1, (buckets or {}).get(region.name, 1))
        if device:
            seconds, low_bytes = low.total + (count - 1) * low.commit, 0
        else:
            # An exchange and a gather move what a ring does: half of it each.
            lines = LINE * lines_of(region.elements, route)
            seconds, low_bytes = low.pack + low.unpack, lines * (1 + (planes or 1)) // 2
        costs[region.name] = Cost(seconds, 4 * region.elements, low_bytes, count, *waits)
    return costs


def _with_drop(values: dict[str, object], rule: object) -> dict[str, object]:
    """`[rule] drop` is where a region is given up, unless `[monitor]` has its own."""
    drop = getattr(rule, "drop", None)
    if drop is not None and "drop" not in values:
        values["drop"] = max(float(drop), _NEVER)
        values.setdefault("floor", min(Limits().floor, max(float(drop), _NEVER)))
    return values


def _route(phase: object) -> str:
    return str(getattr(phase, "route", Route.FP32))


def _measured(region: object, name: str, end: int) -> float | None:
    """The least (0) or the most (1) of a statistic of the steady route, if it was measured."""
    phases = getattr(region, "phases", {})
    steady = phases.get(Phase.STEADY)
    found: Any = getattr(region, "measured", None)
    for key in (Phase.STEADY, _route(steady), str(getattr(steady, "decode", "")), name):
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return float(found[end]) if isinstance(found, list | tuple) and len(found) == 2 else None
