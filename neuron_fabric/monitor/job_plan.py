# SPDX-License-Identifier: Apache-2.0
"""Plan of a job: the thresholds, regions and costs that the monitor's state machine needs.

It is constant for a run and the same on every rank.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from neuron_fabric.capacity.profile_costs import Cost
from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError
from neuron_fabric.errors import ProfileError
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.monitor.thresholds import Thresholds, thresholds_of
from neuron_fabric.profile.profile_types import Assign, Phase, Profile, Region, steady_route
from neuron_fabric.profile.route_rule import bits_both_ways
from neuron_fabric.profile.samples import Way
from neuron_fabric.typed import typed


@dataclass(frozen=True)
class RegionPlan:
    """Plan of one profile region.

    Attributes:
        name: Name of the region.
        elements: Number of its elements.
        eligible: Whether the profile has a low-bit route for it, and the reducer can serve it.
        factored: Whether it is sent in FP32, as factors of low rank.
        margin: Least margin of the calibration, None if not measured.
        saturation: Greatest saturation of the calibration, None if not measured.
        cost: Modelled cost, None if there is none.
        route: Steady route of the profile.
        candidates: Low-bit routes that an assignment may choose.
    """

    name: str
    elements: int
    eligible: bool
    margin: float | None = None
    saturation: float | None = None
    cost: Cost | None = None
    route: str = ""
    candidates: tuple[str, ...] = ()
    factored: bool = False


@dataclass(frozen=True)
class Plan:
    """Plan of a job.

    Attributes:
        regions: Plans of the profile's regions, in its order.
        warmup: Steps of the warm-up.
        limits: Thresholds.
        unverified: Whether every region has to pass PROBE first.
        off: Signals that are ignored.
        assign: Settings of the assignments of routes while training; None for none.
        bits: Low-bit candidates of any region, and FP32, with the bits of an element, sent and
            received.
    """

    regions: tuple[RegionPlan, ...]
    warmup: int
    limits: Thresholds = field(default_factory=Thresholds)
    unverified: bool = False
    off: tuple[Reason, ...] = ()
    assign: Assign | None = None
    bits: tuple[tuple[str, float], ...] = ()

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """Return the low-bit routes whose errors are measured for an assignment; () for none."""
        return tuple(name for name, _ in self.bits if name != Route.FP32) if self.assign else ()

    @cached_property
    def eligible(self) -> tuple[int, ...]:
        """Return the numbers (positions in ``regions``) of the regions that may be low-bit."""
        return tuple(n for n, region in enumerate(self.regions) if region.eligible)

    @cached_property
    def measured(self) -> bool:
        """Return whether costs need the host's time for a MiB, `host_mib` of a reading."""
        return any(one.cost is not None and one.cost.measured for one in self.regions)


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
    world: int = 1,
) -> Plan:
    """Return the plan of a job with a profile.

    Args:
        profile: Operating profile.
        warmup: Steps of the warm-up.
        unverified: Whether every region has to pass PROBE first.
        costs: Modelled costs by region.
        refused: Regions that stay in FP32 because the reducer cannot serve them.
        world: Number of ranks, on which the bytes of an assignment depend.

    Raises:
        DataError: `[monitor]` has wrong values.
    """
    values = _with_drop(dict(profile.monitor), profile.rule.drop)
    named = typed(tuple[str, ...], values.pop("off", ()), "monitor.off")
    try:
        off = tuple(Reason(one) for one in named)
    except ValueError as error:
        names = ", ".join(Reason)
        raise DataError(f"monitor.off: {error}: one of {names}") from None
    assign = profile.rule.assign
    if assign is not None and (not assign.every or Reason.ERROR in off):
        assign = None
    price = bits_both_ways(world)
    routes = [Route.FP32, *profile.rule.routes] if assign else []
    bits = tuple((one.value, price(Way(Phase.STEADY, one, "vote"), 1)) for one in routes)
    regions = tuple(
        RegionPlan(
            region.name,
            region.elements,
            steady_route(region).route != Route.FP32 and region.name not in refused,
            _measured(region, "margin", 0),
            _measured(region, "saturation", 1),
            (costs or {}).get(region.name),
            steady_route(region).route.value if assign else "",
            tuple(map(str, profile.rule.candidates(region.kind))) if assign else (),
            steady_route(region).low_rank > 0,
        )
        for region in profile.regions
    )
    return Plan(regions, warmup, thresholds_of(values), unverified, off, assign, bits)


def check_monitor(profile: Profile, where: object) -> None:
    """Check `[monitor]` of a profile. Raise ProfileError, whose text begins with ``where``."""
    try:
        plan_of(profile)
    except DataError as error:
        raise ProfileError(where, error, "mend [monitor]") from None


def _with_drop(values: dict[str, object], drop: float) -> dict[str, object]:
    """Add the threshold `drop` from `[rule]` of the profile, unless ``values`` has one.

    ``floor`` is lowered to it if necessary. Returns the changed ``values``.
    """
    if "drop" not in values:
        values["drop"] = max(drop, _NEVER)
        values.setdefault("floor", min(Thresholds().floor, max(drop, _NEVER)))
    return values


def _measured(region: Region, name: str, end: int) -> float | None:
    """Return the least (``end`` 0) or greatest (1) value of a statistic of the steady route.

    It was measured in the calibration; None if not.
    """
    steady = steady_route(region)
    routes = region.measured.get(Phase.STEADY, {})
    found = routes.get(steady.route, {}).get(steady.measured_as, {}).get(name)
    return None if found is None else found[end]
