# SPDX-License-Identifier: Apache-2.0
"""The plan of a job, from its profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuron_fabric.runtime.monitor.job_plan import Cost, Phase, Plan, ProfileLike, RegionPlan
from neuron_fabric.runtime.monitor.limits import Signal, limits_of

FP32 = "FP32"
WARMUP = 100
"""Steps of warm-up where a profile gives a share and nobody says how long the training is."""


def plan_of(
    profile: ProfileLike,
    *,
    warmup: int = WARMUP,
    unverified: bool = False,
    costs: Mapping[str, Cost] | None = None,
) -> Plan:
    """What the states need of ``profile``. DataError for values of `[monitor]` that are none."""
    values = dict(profile.monitor)
    off = tuple(Signal(str(one)) for one in _texts(values.pop("off", ())))
    regions = tuple(
        RegionPlan(
            region.name,
            region.elements,
            _route(region.phases.get(Phase.STEADY)) != FP32,
            _measured(region, "margin", 0),
            _measured(region, "saturation", 1),
            (costs or {}).get(region.name),
        )
        for region in profile.regions
    )
    return Plan(regions, warmup, limits_of(values), unverified, off)


def _texts(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _route(phase: object) -> str:
    return str(getattr(phase, "route", FP32))


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
