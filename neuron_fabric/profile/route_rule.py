# SPDX-License-Identifier: Apache-2.0
"""Rule of a profile, which chooses the routes of its regions.

It takes the cheapest route whose cosine to the mean gradient is at least its floor in every window
of the steady phase; FP32 if there is none. Protected kinds get no votes. With an error budget
(`Assign`), L-GreCo chooses the routes of all regions together among those that pass.

Only the cosine decides. In a classifier's head, 0.67 of the signs may agree and the signal may
exceed the noise while the vote is orthogonal to the mean gradient: softmax gradients sum to 0 over
the classes, which a majority that always votes "+" does not express.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import filter as matching

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.bits import Layer, Option, lgreco
from neuron_fabric.codec.integer_codes import sum_kind
from neuron_fabric.codec.routes import Route
from neuron_fabric.codec.scale_groups import MOST_SHARE
from neuron_fabric.errors import ProfileError
from neuron_fabric.profile.profile_types import (
    FULL,
    LEAST_ELEMENTS,
    Phase,
    PhaseRoute,
    Profile,
    Range,
    Region,
)
from neuron_fabric.profile.samples import Samples, Way
from neuron_fabric.profile.slices import sliced

Cost = Callable[[Way, int], float]
"""Modelled cost of a route for a number of elements; only compared."""


def bits_both_ways(workers: int) -> Cost:
    """Return a cost function for an unknown network: bits sent and received by a worker.

    Votes return as votes, or as count planes for net; integer codes return as sums. Scales of rows
    or columns are counted as the most that they may add.
    """

    def cost(way: Way, elements: int) -> float:
        bits = Route(way.route).bits if way.route in Route.__members__ else int(way.route[1:])
        if way.route in (Route.G_INT4, Route.G_INT8):
            sums, _ = sum_kind(Route(way.route), workers)
            return elements * (bits + bits * sums)
        decode, granularity = way.decodes
        planes = workers.bit_length() if decode == "net" else 1
        scales = 0 if granularity == "tensor" else 2 * MOST_SHARE
        return elements * bits * (1 + planes + scales)

    return cost


def windows_of(profile: Profile, steps: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
    """Return a mask bool[n] of the samples in each window of the steady phase.

    Args:
        profile: Profile with the windows.
        steps: Step of each sample, int64[n].

    Windows without samples are left out; without windows all samples form one.
    """
    ends = [end * (int(steps.max(initial=0)) + 1) for end in profile.phases.steady.windows]
    if not ends:
        return [np.ones(steps.size, np.bool_)] if steps.size else []
    starts = [0.0, *ends[:-1]]
    found = [(steps >= a) & (steps < b) for a, b in zip(starts, ends, strict=True)]
    return [inside for inside in found if inside.any()]


def choose(
    profile: Profile, samples: Samples, region: Region, members: Sequence[int], cost: Cost
) -> Region:
    """Return a region with the routes that the rule chooses, and the statistics of all routes.

    Args:
        profile: Profile with the rule and the windows.
        samples: Measurements.
        region: The region.
        members: Numbers of its parameters in ``samples``.
        cost: Cost function.
    """
    elements = sum(samples.sizes[number] for number in members)
    windows = windows_of(profile, samples.steps.get(Phase.STEADY, np.zeros(0, np.int64)))
    measured: dict[str, dict[str, dict[str, Range]]] = {}
    admitted: list[tuple[Way, dict[str, Range]]] = []
    why = "nothing was measured" if members else f"no tensor of {LEAST_ELEMENTS:,} elements"
    best = (-2.0, True, why)
    for way in samples.ways(Phase.STEADY) if members and windows else ():
        found = samples.statistics(way, members, windows)
        measured.setdefault(way.route, {})[way.decode] = found
        floor = profile.rule.floor.of(way.route)
        least = found["cosine"][0]
        if way.route not in profile.rule.routes:
            continue
        why = f"{way.route} {way.decode}: cosine {least:.3f} < {floor:.2f}"
        if least >= floor:
            why = f"{region.kind} is protected; {way.route} {way.decode} would pass: {least:.3f}"
            if region.kind not in profile.rule.protect or not Route(way.route).votes:
                admitted.append((way, found))
        best = max(best, (least - floor, way.decodes[1] == "tensor", why))
    phases: dict[str, PhaseRoute] = {Phase.WARMUP: FULL, Phase.STEADY: replace(FULL, why=best[2])}
    if admitted:
        # Of the granularities of one route and decode, the one of most cosine per byte.
        worth: dict[tuple[str, str], tuple[Way, dict[str, Range]]] = {}
        for way, found in sorted(
            admitted, key=lambda one: one[1]["cosine"][0] / max(1.0, cost(one[0], elements))
        ):
            worth[way.route, way.decodes[0]] = way, found
        cheap = min(worth.values(), key=lambda one: (cost(one[0], elements), -one[1]["cosine"][0]))
        sure = max(admitted, key=lambda one: one[1]["cosine"][0])
        phases |= {Phase.STEADY: _route(profile, *cheap), Phase.RECOVERY: _route(profile, *sure)}
    return replace(region, phases=phases, measured={**region.measured, Phase.STEADY: measured})


def _route(profile: Profile, way: Way, found: Mapping[str, Range]) -> PhaseRoute:
    least, most = found["shrink"]
    decode, granularity = way.decodes
    vote = Route(way.route).votes and decode == "vote"
    fitted = profile.rule.shrink == "fit" and vote and least + most > 0
    shrink = round((least + most) / 2, 4) if fitted else 1.0
    why = f"cosine {found['cosine'][0]:.3f} >= {profile.rule.floor.of(way.route):.2f}"
    if found["zeros"][1] > profile.rule.zeros:
        why += f" with {found['zeros'][1]:.0%} zeros"
    return PhaseRoute(
        Route(way.route), decode, shrink=max(shrink, 1e-4), why=why, granularity=granularity
    )


def assigned(profile: Profile, regions: Sequence[Region], cost: Cost) -> list[Region]:
    """Return the regions with the steady routes that L-GreCo assigns to them together.

    Its options are the routes that pass their floor in a region, with the greatest error over the
    windows, and FP32. A region without a measured reference stays as it is.

    Args:
        profile: Profile with the rule.
        regions: Regions with the statistics of all routes and the routes of `choose`.
        cost: Cost function.
    """
    asked = profile.rule.assign
    assert asked is not None
    found: dict[str, dict[str, tuple[Way, Mapping[str, Range]]]] = {}
    layers, limit = [], 0.0
    for region in regions:
        measured = region.measured.get(Phase.STEADY, {})
        if asked.reference not in measured:
            continue
        size = region.elements
        limit += asked.budget * size * measured[asked.reference]["vote"]["error"][1]
        passing = {
            f"{route} {decode}": (Way(Phase.STEADY, route, decode), statistics)
            for route in profile.rule.candidates(region.kind)
            for decode, statistics in measured.get(route, {}).items()
            if statistics["cosine"][0] >= profile.rule.floor.of(route)
        }
        options = {
            name: Option(statistics["error"][1] * size, cost(way, size))
            for name, (way, statistics) in passing.items()
        }
        options["FP32"] = Option(0.0, cost(Way(Phase.STEADY, "FP32", "vote"), size))
        layers.append(Layer(region.name, options))
        found[region.name] = passing
    routes = lgreco(layers, limit)
    out = []
    for region in regions:
        name, passing = routes.get(region.name), found.get(region.name, {})
        if name in passing:
            how = _route(profile, *passing[name])
            how = replace(how, why=f"{how.why}, assigned")
            region = replace(region, phases={**region.phases, Phase.STEADY: how})
        elif passing:
            full = replace(FULL, why="the error budget leaves no route")
            region = replace(region, phases={Phase.WARMUP: FULL, Phase.STEADY: full})
        out.append(region)
    return out


def codes_that_pass(profile: Profile) -> list[str]:
    """Return a line of text for each FP32 region in which integer codes would pass their floor.

    Only codes that the rule does not consider are named.
    """
    lines = []
    for region in profile.regions:
        if region.phases[Phase.STEADY].route != Route.FP32:
            continue
        for name, decodes in region.measured.get(Phase.STEADY, {}).items():
            if name in profile.rule.routes or not Route(name).codes:
                continue
            least = min(found["cosine"][0] for found in decodes.values())
            if least >= profile.rule.floor.of(name):
                lines.append(f"{region.name}: {name} would pass, cosine {least:.3f}")
                break
    return lines


def members_of(profile: Profile, samples: Samples) -> dict[str, list[int]]:
    """Return the numbers in ``samples`` of the parameters of each region, by name of region.

    Parameters with fewer than `LEAST_ELEMENTS` elements are left out.

    Raises:
        ProfileError: A region has no parameter among the samples, or names slices.
    """
    members = {}
    for region in profile.regions:
        if any(sliced(glob)[1] for glob in region.match):
            what = f"region {region.name!r} names slices, and samples are of whole parameters"
            raise ProfileError(f"profile {profile.name!r}", what, "edit its routes in the file")
        names = {one for glob in region.match for one in matching(samples.parameters, glob)}
        found = [number for number, name in enumerate(samples.parameters) if name in names]
        if not found:
            what = f"region {region.name!r} has no samples"
            raise ProfileError(f"profile {profile.name!r}", what, "calibrate again")
        members[region.name] = [n for n in found if samples.sizes[n] >= LEAST_ELEMENTS]
    return members


def apply_rule(profile: Profile, samples: Samples) -> Profile:
    """Return the profile with the routes that its rule chooses; unverified if a route changes.

    Raises:
        ProfileError: Samples are missing.
    """
    cost = bits_both_ways(samples.workers)
    members = members_of(profile, samples)
    regions = [
        choose(profile, samples, region, members[region.name], cost) for region in profile.regions
    ]
    if profile.rule.assign is not None:
        regions = assigned(profile, regions, cost)
    same = all(
        _plain(old.phases[Phase.STEADY]) == _plain(new.phases[Phase.STEADY])
        for old, new in zip(profile.regions, regions, strict=True)
    )
    verified, reference = profile.verified and same, profile.reference
    if not verified and reference is not None:
        reference = replace(reference, verified=None, difference=None)
    return replace(profile, regions=tuple(regions), verified=verified, reference=reference)


def _plain(how: PhaseRoute) -> PhaseRoute:
    return replace(how, why="")
