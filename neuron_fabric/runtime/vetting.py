# SPDX-License-Identifier: Apache-2.0
"""What capacity says of a profile's regions before a training: hard limits, each in one line, and
the modelled times that the monitor holds against the network's (spec: runtime section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuron_fabric.codec.routes import Route
from neuron_fabric.runtime.capacity import place, refusals
from neuron_fabric.runtime.monitor.job_plan import Cost, Phase, ProfileLike, RegionLike
from neuron_fabric.runtime.monitor.plan_of import costs_of
from neuron_fabric.runtime.substrate import Substrate

NO_SUBSTRATE = (
    "capacity: no substrate file (NF_SUBSTRATE), so low-bit is used whether or not it pays"
)


@dataclass(frozen=True)
class Vetted:
    """``costs`` of the regions that can go through; why the others cannot, by region; and what a
    user should know."""

    costs: Mapping[str, Cost] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def vet(
    profile: ProfileLike,
    substrate: Substrate | None,
    workers: int,
    *,
    device: bool,
    buckets: Mapping[str, int] | None = None,
    waits: tuple[float, float] = (2.0, 0.0),
) -> Vetted:
    """``device``: the reducer is what the substrate describes; else packed gradients go by the same
    network, and of the substrate the host's rates count alone, no limit of the device.
    ``buckets``: how many hold each region; ``waits``: as of `costs_of`. Without a substrate nothing
    is vetoed; regions of integer codes are held against the hard limits alone, and a note says so.
    """
    if substrate is None:
        return Vetted(notes=(NO_SUBSTRATE,))
    counts = buckets or {}
    costs = costs_of(
        profile,
        substrate.coefficients,
        workers,
        device=device,
        buckets=counts,
        waits=waits,
    )
    notes = [
        f"capacity: region {one.name!r}: no time is modelled for packing {route}, so it is used "
        "whether or not it pays"
        for one in profile.regions
        if (route := _route(one, Phase.STEADY)).codes
    ]
    if not device:
        return Vetted(costs, notes=tuple(notes))
    refused: dict[str, str] = {}
    job = [Route.FP32]  # by which sidecars go
    for region in profile.regions:
        for phase in (Phase.STEADY, Phase.RECOVERY):
            route = _route(region, phase)
            if route == Route.FP32 or region.name in refused:
                continue
            elements = -(-region.elements // max(1, counts.get(region.name, 1)))
            reasons = refusals(substrate.device, route, elements, workers, job)
            if reasons:
                refused[region.name] = reasons[0]
                continue
            job.append(route)
            placed = place(substrate.device, route, elements, workers)
            if placed is not None and placed.rounds > 1:
                what = f"{elements:,} elements by {route} go in {placed.rounds} rounds"
                notes.append(f"capacity: region {region.name!r}: {what}")
    notes += [f"capacity: region {name!r} goes in FP32: {why}" for name, why in refused.items()]
    kept = {name: cost for name, cost in costs.items() if name not in refused}
    return Vetted(kept, refused, tuple(dict.fromkeys(notes)))


def _route(region: RegionLike, phase: Phase) -> Route:
    return Route(str(getattr(region.phases.get(phase), "route", Route.FP32)))
