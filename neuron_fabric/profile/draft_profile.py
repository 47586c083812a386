# SPDX-License-Identifier: Apache-2.0
"""Draft profile of a model: regions by kind and depth, all in FP32."""

from __future__ import annotations

import glob
from collections.abc import Sequence

from neuron_fabric.profile.binding import fingerprint
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.profile_types import FULL, Kind, ModelId, Profile, Region, ValidFor


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
            {"warmup": FULL, "steady": FULL},
        )
        for region, those in members.items()
    )
    model = ModelId(fingerprint(parameters), sum(one.elements for one in parameters))
    return Profile(name, model, regions, valid_for=valid_for or ValidFor())
