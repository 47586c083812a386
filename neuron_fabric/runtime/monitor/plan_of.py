# SPDX-License-Identifier: Apache-2.0
"""The plan of a job, from its profile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from neuron_fabric.codec.routes import LINE, Route, lines_of
from neuron_fabric.data import DataError
from neuron_fabric.errors import ProfileError
from neuron_fabric.runtime.capacity import Coefficients, low_seconds
from neuron_fabric.runtime.monitor.job_plan import Cost, Phase, Plan, ProfileLike, RegionPlan
from neuron_fabric.runtime.monitor.limits import Limits, Signal, limits_of
from neuron_fabric.typed import typed

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
