# SPDX-License-Identifier: Apache-2.0
"""Costs of a profile's regions on a reducer, and the check whether it can serve them.

The check precedes a training (spec: runtime section 5); `cost_model` has the times of one bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuron_fabric.capacity.cost_model import Coefficients, low_seconds, place, refusals
from neuron_fabric.capacity.substrate import Substrate
from neuron_fabric.codec.integer_codes import sum_kind
from neuron_fabric.codec.routes import LINE, Route, lines_of
from neuron_fabric.profile.profile_types import FULL, Phase, Profile, steady_route

NO_SUBSTRATE = (
    "capacity: no substrate file (NF_SUBSTRATE), so low-bit is used whether or not it pays"
)


@dataclass(frozen=True)
class Cost:
    """Modelled cost of one region and step, by which capacity is judged (`capacity.cost_model`).

    Attributes:
        seconds: Time of the low-bit reducer, without the network.
        fp32_bytes: Bytes of the region in FP32.
        low_bytes: Packed bytes on the network that FP32 uses, counted for a ring, in two
            collectives a bucket; 0 for a reducer with a separate link, for which ``seconds`` is
            all.
        buckets: Buckets that hold the region; 0 if ``mib`` of `network` includes the latencies.
        latencies: Latency of both collectives in units of an all-reduce's latency. It may be less
            than 2: an exchange has fewer rounds than a ring (`OwnGroup.latencies`).
        wait: Measured time of both collectives in seconds, a lower bound: the line fit through
            all-reduces underestimates small ones.
        measured: Whether the host's work is measured during the training, see ``host`` of `low`.
    """

    seconds: float
    fp32_bytes: int
    low_bytes: int = 0
    buckets: int = 1
    latencies: float = 2.0
    wait: float = 0.0
    measured: bool = False

    def network(self, latency: float, mib: float) -> float:
        """Return T_fp32, the time of the region's FP32 all-reduces, in seconds.

        Args:
            latency: Latency of an all-reduce on the network, in seconds.
            mib: Time that the network takes for a MiB, in seconds.
        """
        return self.buckets * latency + mib * self.fp32_bytes / (1 << 20)

    def low(self, latency: float, mib: float, host: float = 0.0) -> float:
        """Return T_low, the time of the low-bit path, in seconds.

        Args:
            latency: As of `network`.
            mib: As of `network`.
            host: Measured time of the host's work for a MiB of FP32 gradients, in seconds.
        """
        seconds = self.seconds + host * self.fp32_bytes / (1 << 20)
        if not self.low_bytes:
            return seconds
        waits = self.buckets * max(self.latencies * latency, self.wait)
        return seconds + waits + mib * self.low_bytes / (1 << 20)

    def ratio(self, latency: float, mib: float, host: float = 0.0) -> float:
        """Return T_low / T_fp32, or 1e9 if the latter is 0; arguments as of `low`."""
        network = self.network(latency, mib)
        return self.low(latency, mib, host) / network if network > 0 else 1e9


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


def measured_costs(profile: Profile, workers: int) -> dict[str, Cost]:
    """Return the costs of regions with integer codes by times of the training, by name of region.

    Bytes alone count, at one rate: the latencies of the low-bit collectives run in parallel with
    the all-reduce of the FP32 parameters (spec: runtime section 2.5).

    Args:
        profile: Operating profile.
        workers: Number of workers.
    """
    costs = {}
    for region in profile.regions:
        if (route := steady_route(region).route).codes:
            lines, _ = sum_kind(route, workers)
            low_bytes = LINE * lines_of(region.elements, route) * (1 + lines) // 2
            costs[region.name] = Cost(0.0, 4 * region.elements, low_bytes, buckets=0, measured=True)
    return costs


@dataclass(frozen=True)
class Vetted:
    """Result of the capacity check of a profile.

    Attributes:
        costs: modelled cost of each admitted region.
        refused: reason for each region that exceeds a hard limit.
        notes: lines to print.
    """

    costs: Mapping[str, Cost] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def vet(
    profile: Profile,
    substrate: Substrate | None,
    workers: int,
    *,
    device: bool,
    buckets: Mapping[str, int] | None = None,
    waits: tuple[float, float] = (2.0, 0.0),
) -> Vetted:
    """Check a profile's regions against a reducer before a training (spec: runtime section 5).

    Args:
        profile: profile to check.
        substrate: measured reducer and host; None: every region is admitted.
        workers: number of workers.
        device: the reducer is the device of the substrate. Otherwise packed gradients use the same
            network as FP32, so only the rates of the host count, and no limit of the device.
        buckets: number of buckets that hold each region.
        waits: waiting times, as in `costs_of`.
    """
    if substrate is None:
        return Vetted(notes=(NO_SUBSTRATE,))
    counts = buckets or {}
    costs = costs_of(
        profile, substrate.coefficients, workers, device=device, buckets=counts, waits=waits
    )
    notes = [
        f"capacity: region {one.name!r}: no time is modelled for packing {route}, so it is used "
        "whether or not it pays"
        for one in profile.regions
        if (route := steady_route(one).route).codes
    ]
    if not device:
        return Vetted(costs, notes=tuple(notes))
    refused: dict[str, str] = {}
    job = [Route.FP32]  # sidecars are FP32 lines
    for region in profile.regions:
        for phase in (Phase.STEADY, Phase.RECOVERY):
            route = region.phases.get(phase, FULL).route
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
