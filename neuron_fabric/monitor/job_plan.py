# SPDX-License-Identifier: Apache-2.0
"""Plan of a job: the thresholds, regions and costs that the monitor's state machine needs.

It is constant for a run and the same on every rank.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from neuron_fabric.capacity.cost_model import Coefficients, low_seconds
from neuron_fabric.codec.routes import LINE, Route, lines_of
from neuron_fabric.data import DataError
from neuron_fabric.errors import ProfileError
from neuron_fabric.monitor.signals import Signal
from neuron_fabric.monitor.thresholds import Thresholds, thresholds_of
from neuron_fabric.profile.profile_types import FULL, Phase, PhaseRoute, Profile, Region
from neuron_fabric.typed import typed


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
