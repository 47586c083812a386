# SPDX-License-Identifier: Apache-2.0
"""Plan of a job: the thresholds, regions and costs that the monitor's state machine needs.

It is constant for a run and the same on every rank.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from neuron_fabric.capacity.cost_model import Coefficients, low_seconds
from neuron_fabric.codec.routes import LINE, Route, lines_of
from neuron_fabric.data import DataError
from neuron_fabric.errors import ProfileError
from neuron_fabric.profile.profile_types import FULL, PhaseRoute, Profile, Region
from neuron_fabric.typed import typed

# Thresholds of the monitor, which `[monitor]` of a profile may set (spec: runtime section 4.1).
#
# Every threshold has a value to become bad (`_in`), a value to become good again (`_out`), and a
# number of consecutive readings. Deviations from the specification are explained.

SHARE_BITS = 24
"""Fraction bits of agreed shares, cosines and logarithms of norms."""


def on_grid(limit: float) -> float:
    """Round a limit to `SHARE_BITS` fraction bits, as readings are.

    Without this a share of exactly 10 % would be above 10 %, and a cosine of 0.7 below 0.7.
    """
    return round(limit * (1 << SHARE_BITS)) / (1 << SHARE_BITS)


class Signal(StrEnum):
    """Signal of the monitor, which is the reason of a decision."""

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
    SCHEDULE = "schedule"  # a region's turn or the end of a period: no threshold


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the monitor, as in `[monitor]` of a profile; times are in steps.

    Raises:
        ValueError: A value is out of range, or two values contradict each other.
    """

    spike_in: float = 6.0  # times 1.4826 MAD above the median of `loss_window`
    spike_out: float = 4.0
    spike_count: int = 3
    loss_window: int = 100
    # The same of the last few losses: if 100 losses fall to a tenth, 6 times the last is no spike
    # among all of them.
    spike_window: int = 20
    loss_least: int = 20  # least number of losses for a median

    drift_in: float = 0.10  # relative rise above the best mean of `mean_window`
    drift_out: float = 0.05
    drift_sigma: float = 4.0  # and standard deviations of one loss
    drift_count: int = 40
    mean_window: int = 20

    # Trend line through the last losses. The window was chosen on losses of real trainings (`nf
    # train check`, seeds 1 to 4) and on constant noise: shorter windows find rises there too often.
    slope_window: int = 40
    slope_sigma: float = 4.0  # times the standard error of the slope
    slope_in: float = 0.10  # rise within the window, relative to the mean
    slope_out: float = 0.05
    slope_count: int = 3

    norm_in: float = 4.0  # decoded norm over FP32 norm, or its inverse
    norm_out: float = 3.0
    # Every step is compared with the FP32 norm of the last sample: two samples take 50 steps.
    norm_count: int = 8

    drop: float = 0.30  # EMA(1/2) of the sampled cosine
    readmit: float = 0.05  # above `drop`: good again
    floor: float = 0.10  # one sample below is enough

    margin_in: float = 0.02
    margin_out: float = 0.04
    margin_share: float = 0.25  # share of the calibrated margin
    margin_count: int = 3

    saturation_in: float = 0.50
    saturation_out: float = 0.40
    saturation_times: float = 4.0  # times the calibrated saturation
    saturation_count: int = 1  # the reading itself covers 32 steps

    # Least agreement of a worker, below 0. Chosen by shadow votes during real trainings (`nf
    # train check`, seeds 1 and 2, 2 to 8 workers), whose lowest was -0.03.
    against_in: float = 0.05
    against_out: float = 0.02
    against_count: int = 4  # the reading itself is a mean over about 12 steps

    nonfinite_count: int = 3  # events within `event_window`; also for reducer faults
    event_window: int = 100
    severe: float = 0.10  # share of answers with DevLoad severe

    hold: int = 5  # least distance of two transitions
    sample_every: int = 50
    probe_every: int = 5
    probe_good: int = 2
    cooldown: int = 50
    cooldown_most: int = 1600
    band_count: int = 20  # consecutive losses in the band before RECOVERY
    lock_fallbacks: int = 4
    lock_within: int = 2000
    lock_demotions: int = 4
    warmup_falls: float = 0.20  # fall from window to window that prolongs the warm-up

    capacity_admit: float = 0.80  # T_low / T_fp32
    capacity_drop: float = 0.95
    capacity_every: int = 200
    capacity_cooldown: int = 200
    # Factor by which the time of one MiB may change before capacity is judged at once. A change
    # below `capacity_drop` / `capacity_admit` is noise by definition.
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
        """Return the least cosine at which a region may become low-bit again."""
        return self.drop + self.readmit


_SHARES = frozenset(
    ("drop", "readmit", "floor", "margin_in", "margin_out", "saturation_in")
    + ("saturation_out", "against_in", "against_out", "severe")
)
"""Shares and cosines, which are at most 1."""
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


def thresholds_of(values: Mapping[str, object], base: Thresholds | None = None) -> Thresholds:
    """Return the thresholds of ``base`` with those in ``values`` replaced.

    Args:
        values: Thresholds by name, as in `[monitor]` of a profile.
        base: Values of the other thresholds; by default those of the specification.

    Raises:
        DataError: An unknown name, a value of a wrong type, or values that contradict each other.
    """
    given = {one.name: getattr(base, one.name) for one in fields(Thresholds)} if base else {}
    try:
        return typed(Thresholds, {**given, **values}, "monitor")
    except ValueError as error:
        raise DataError(error) from None


class Phase(StrEnum):
    """Phase of a profile region, by which the profile names its routes."""

    WARMUP = "warmup"
    STEADY = "steady"
    RECOVERY = "recovery"


@dataclass(frozen=True)
class Cost:
    """Modelled cost of one region and step, by which capacity is judged (`capacity.cost_model`).

    Attributes:
        seconds: Time of the low-bit reducer, without the network.
        fp32_bytes: Bytes of the region in FP32.
        low_bytes: Packed bytes on the network that FP32 uses, counted for a ring, in two
            collectives a bucket; 0 for a reducer with a separate link, for which ``seconds`` is
            all.
        buckets: Buckets that hold the region.
        latencies: Latency of both collectives in units of an all-reduce's latency. It may be less
            than 2: an exchange has fewer rounds than a ring (`OwnGroup.latencies`).
        wait: Measured time of both collectives in seconds, a lower bound: the line fit through
            all-reduces underestimates small ones.
    """

    seconds: float
    fp32_bytes: int
    low_bytes: int = 0
    buckets: int = 1
    latencies: float = 2.0
    wait: float = 0.0

    def network(self, latency: float, mib: float) -> float:
        """Return T_fp32, the time of the region's FP32 all-reduces, in seconds.

        Args:
            latency: Latency of an all-reduce on the network, in seconds.
            mib: Time that the network takes for a MiB, in seconds.
        """
        return self.buckets * latency + mib * self.fp32_bytes / (1 << 20)

    def low(self, latency: float, mib: float) -> float:
        """Return T_low, the time of the low-bit path, in seconds; arguments as of `network`."""
        if not self.low_bytes:
            return self.seconds
        waits = self.buckets * max(self.latencies * latency, self.wait)
        return self.seconds + waits + mib * self.low_bytes / (1 << 20)

    def ratio(self, latency: float, mib: float) -> float:
        """Return T_low / T_fp32, or 1e9 if the latter is 0; arguments as of `network`."""
        network = self.network(latency, mib)
        return self.low(latency, mib) / network if network > 0 else 1e9


@dataclass(frozen=True)
class RegionPlan:
    """Plan of one profile region.

    Attributes:
        name: Name of the region.
        elements: Number of its elements.
        eligible: Whether the profile has a low-bit route for it, and the reducer can serve it.
        margin: Least margin of the calibration, None if not measured.
        saturation: Greatest saturation of the calibration, None if not measured.
        cost: Modelled cost, None if there is none.
    """

    name: str
    elements: int
    eligible: bool
    margin: float | None = None
    saturation: float | None = None
    cost: Cost | None = None


@dataclass(frozen=True)
class Plan:
    """Plan of a job.

    Attributes:
        regions: Plans of the profile's regions, in its order.
        warmup: Steps of the warm-up.
        limits: Thresholds.
        unverified: Whether every region has to pass PROBE first.
        off: Signals that are ignored.
    """

    regions: tuple[RegionPlan, ...]
    warmup: int
    limits: Thresholds = field(default_factory=Thresholds)
    unverified: bool = False
    off: tuple[Signal, ...] = ()

    @property
    def eligible(self) -> tuple[int, ...]:
        """Return the numbers (positions in ``regions``) of the regions that may be low-bit."""
        return tuple(n for n, region in enumerate(self.regions) if region.eligible)


_NEVER = 1e-9  # a drop of 0 demotes regions with a negative cosine only
WARMUP = 100
"""Steps of warm-up if the profile gives a share and the length of the training is unknown."""


def plan_of(
    profile: Profile,
    *,
    warmup: int = WARMUP,
    unverified: bool = False,
    costs: Mapping[str, Cost] | None = None,
    refused: Collection[str] = (),
) -> Plan:
    """Return the plan of a job with a profile.

    Args:
        profile: Operating profile.
        warmup: Steps of the warm-up.
        unverified: Whether every region has to pass PROBE first.
        costs: Modelled costs by region.
        refused: Regions that stay in FP32 because the reducer cannot serve them.

    Raises:
        DataError: `[monitor]` has wrong values.
    """
    values = _with_drop(dict(profile.monitor), profile.rule.drop)
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
            steady_route(region).route != Route.FP32 and region.name not in refused,
            _measured(region, "margin", 0),
            _measured(region, "saturation", 1),
            (costs or {}).get(region.name),
        )
        for region in profile.regions
    )
    return Plan(regions, warmup, thresholds_of(values), unverified, off)


def check_monitor(profile: Profile, where: object) -> None:
    """Check `[monitor]` of a profile. Raise ProfileError, whose text begins with ``where``."""
    try:
        plan_of(profile)
    except DataError as error:
        raise ProfileError(where, error, "mend [monitor]") from None


def costs_of(
    profile: Profile,
    known: Coefficients,
    workers: int,
    *,
    device: bool = True,
    buckets: Mapping[str, int] | None = None,
    waits: tuple[float, float] = (2.0, 0.0),
) -> dict[str, Cost]:
    """Return the modelled cost of every region with votes in its steady phase, by name.

    On a device the vote returns to all workers (the count planes if decoded from net votes), and
    each bucket of the region is a commit. Otherwise packed lines are exchanged and gathered on the
    network that FP32 uses. Integer codes are left out, since the host's rates are those of votes.

    Args:
        profile: Operating profile.
        known: Coefficients of the capacity model.
        workers: Number of workers.
        device: Whether the reducer is a device with a separate link.
        buckets: Buckets that hold each region.
        waits: Latencies and seconds of both collectives, see `Cost`.
    """
    costs = {}
    for region in profile.regions:
        steady = steady_route(region)
        route = steady.route
        if not route.votes:
            continue
        planes = workers.bit_length() if steady.decode == "net" else 0
        low = low_seconds(known, route, region.elements, workers, planes=planes)
        count = max(1, (buckets or {}).get(region.name, 1))
        if device:
            seconds, low_bytes = low.total + (count - 1) * low.commit, 0
        else:
            # An exchange and a gather move half of the bytes of a ring each.
            lines = LINE * lines_of(region.elements, route)
            seconds, low_bytes = low.pack + low.unpack, lines * (1 + (planes or 1)) // 2
        costs[region.name] = Cost(seconds, 4 * region.elements, low_bytes, count, *waits)
    return costs


def _with_drop(values: dict[str, object], drop: float) -> dict[str, object]:
    """Add the threshold `drop` from `[rule]` of the profile, unless ``values`` has one.

    ``floor`` is lowered to it if necessary. Returns the changed ``values``.
    """
    if "drop" not in values:
        values["drop"] = max(drop, _NEVER)
        values.setdefault("floor", min(Thresholds().floor, max(drop, _NEVER)))
    return values


def steady_route(region: Region) -> PhaseRoute:
    """Return the route of a profile region in the steady phase; FP32 if the profile gives none."""
    return region.phases.get(Phase.STEADY, FULL)


def _measured(region: Region, name: str, end: int) -> float | None:
    """Return the least (``end`` 0) or greatest (1) value of a statistic of the steady route.

    It was measured in the calibration; None if not.
    """
    steady = steady_route(region)
    routes = region.measured.get(Phase.STEADY, {})
    found = routes.get(steady.route, {}).get(steady.decode, {}).get(name)
    return None if found is None else found[end]
