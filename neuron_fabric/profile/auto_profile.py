# SPDX-License-Identifier: Apache-2.0
"""Profile of `attach(model, "auto")`, drafted without calibration (spec: runtime section 2.5).

Every region gets integer codes, and the monitor has to admit it by probes. Codes and no votes,
since a vote may harm a training although its cosine passes the floor of the rule, and nothing
verifies this profile. The sum of codes is exact, so that head and embedding need no protection.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neuron_fabric.codec.routes import Route
from neuron_fabric.profile.draft_profile import draft
from neuron_fabric.profile.model_sketch import sketch
from neuron_fabric.profile.profile_types import (
    FULL,
    LEAST_ELEMENTS,
    STEADY,
    WARMUP,
    Kind,
    PhaseRoute,
    Phases,
    Profile,
    Rule,
    Warmup,
)

AUTO = "auto"
"""Name of the profile, which `attach` and NF_PROFILE take instead of a file."""
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


def auto_profile(model: Any) -> Profile:
    """Return the profile of "auto" for a torch model, wrapped or not.

    Regions without a tensor of `LEAST_ELEMENTS` elements stay in FP32.
    """
    parameters = sketch(model)
    made = draft(AUTO, parameters)
    large = {one.region for one in parameters if one.trainable and one.elements >= LEAST_ELEMENTS}
    low = {
        kind: {WARMUP: FULL, STEADY: PhaseRoute(ROUTES.get(kind, OTHER), why="candidate of auto")}
        for kind in Kind
    }
    return replace(
        made,
        regions=tuple(
            replace(one, phases=low[one.kind]) if one.name in large else one for one in made.regions
        ),
        phases=Phases(Warmup(WARMUP_STEPS)),
        rule=Rule(drop=DROP, routes=(Route.G_INT4, Route.G_INT8)),
        monitor={"capacity_every": CAPACITY_EVERY},
    )
