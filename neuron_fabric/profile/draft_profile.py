# SPDX-License-Identifier: Apache-2.0
"""Profiles that are drafted from a model without a calibration (spec: runtime section 2.5).

`draft` makes regions by kind and depth, all in FP32. `auto_profile` is the profile of
`attach(model, "auto")`: every region gets integer codes, and the monitor has to admit it by probes.
Codes and no votes, since a vote may harm a training although its cosine passes the floor of the
rule, and nothing verifies this profile. The sum of codes is exact, so that head and embedding need
no protection.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from neuron_fabric.codec.routes import Route
from neuron_fabric.profile.model_sketch import Parameter, fingerprint, sketch
from neuron_fabric.profile.profile_types import (
    FULL,
    LEAST_ELEMENTS,
    Assign,
    Kind,
    ModelId,
    Phase,
    PhaseRoute,
    Phases,
    Profile,
    Region,
    Rule,
    ValidFor,
    Warmup,
)

AUTO, ADAPTIVE = "auto", "adaptive"
"""Names of the profiles that `attach` and NF_PROFILE take instead of a file."""
ASSIGN = Assign()
"""Error budget of "adaptive": a quarter of what G_INT4 everywhere loses."""
ASSIGN_CONV = Assign(budget=1.01)
"""Budget where convolutions hold most elements: all of it, as they bear G_INT4. The last hundredth
is for `lgreco`, which rounds errors up."""
ROUTES = {Kind.CONV: Route.G_INT4}
"""Candidates by kind."""
OTHER = Route.G_INT8
"""Candidate of all other kinds: G_INT4 costs Transformers 1 to 2 % of the metric, convolutions 0.3
% (spec: runtime section 2.5)."""
DROP = 0.75
"""Cosine below which a region is demoted. The monitor admits 0.05 above it, at the rule's floor."""
WARMUP_STEPS = 20
CAPACITY_EVERY = 50
"""Steps between judgements of the times, of which a warm-up has few."""


def draft(name: str, parameters: Sequence[Parameter], valid_for: ValidFor | None = None) -> Profile:
    """Return an unverified profile with all regions in FP32, to be changed by the caller.

    There is a region for each kind and depth group of ``parameters``, in their order, which lists
    its trainable parameters by name; those of kind `rest` are in no region.
    """
    members: dict[str, list[Parameter]] = {}
    for one in parameters:
        if one.trainable and one.kind != Kind.REST:
            members.setdefault(one.region, []).append(one)
    regions = tuple(
        Region(
            region,
            those[0].kind,
            tuple(glob.escape(one.name) for one in those),
            sum(one.elements for one in those),
            {Phase.WARMUP: FULL, Phase.STEADY: FULL},
        )
        for region, those in members.items()
    )
    model = ModelId(fingerprint(parameters), sum(one.elements for one in parameters))
    return Profile(name, model, regions, valid_for=valid_for or ValidFor())


def with_routes(
    profile: Profile,
    choose: Callable[[Region], PhaseRoute | None],
    phases: Sequence[Phase] = (Phase.STEADY,),
) -> Profile:
    """Return the profile with other routes in some phases.

    Args:
        profile: A profile.
        choose: Function that returns the route of a region, None to keep its route.
        phases: Phases in which the region gets it.
    """
    regions = tuple(
        replace(one, phases={**one.phases, **dict.fromkeys(phases, how)})
        if (how := choose(one))
        else one
        for one in profile.regions
    )
    return replace(profile, regions=regions)


def auto_profile(model: Any, adaptive: bool = False) -> Profile:
    """Return the profile of "auto" for a torch model, wrapped or not; or that of "adaptive".

    Regions without a tensor of `LEAST_ELEMENTS` elements stay in FP32.
    """
    parameters = sketch(model)
    low = [one for one in parameters if one.trainable and one.elements >= LEAST_ELEMENTS]
    large = {one.region for one in low}
    conv = sum(one.elements for one in low if one.kind == Kind.CONV)
    assign = ASSIGN_CONV if 2 * conv > sum(one.elements for one in low) else ASSIGN

    def candidate(region: Region) -> PhaseRoute | None:
        how = PhaseRoute(ROUTES.get(region.kind, OTHER), why="candidate of auto")
        return how if region.name in large else None

    return replace(
        with_routes(draft(ADAPTIVE if adaptive else AUTO, parameters), candidate),
        phases=Phases(Warmup(WARMUP_STEPS)),
        rule=Rule(
            drop=DROP,
            routes=(Route.G_INT4, Route.G_INT8),
            assign=assign if adaptive else None,
        ),
        monitor={"capacity_every": CAPACITY_EVERY},
    )
