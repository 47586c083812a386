# SPDX-License-Identifier: Apache-2.0
"""Assignment of a model's parameters to the regions of a profile, and a model's fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import filter as matching
from typing import Any

from neuron_fabric.errors import ProfileError
from neuron_fabric.profile.model_sketch import DEEP, Parameter, sketch
from neuron_fabric.profile.profile_types import Kind, Profile, Region


@dataclass(frozen=True)
class Binding:
    """Assignment of a model's trainable parameters to the regions of a profile.

    A region of a profile is a set of parameters with one decision on routes, not a region of the
    device.

    Attributes:
        regions: Profile region by name of parameter, in the order of `named_parameters`; parameters
            without a region are left out.
        parameters: All trainable parameters.
        extra: Names of trainable parameters without a region; their gradients use route FP32.
    """

    regions: Mapping[str, Region]
    parameters: tuple[Parameter, ...]
    extra: tuple[str, ...]

    def members(self, region: str) -> list[Parameter]:
        """Return the parameters of this model in the profile region called ``region``."""
        return [
            one
            for one in self.parameters
            if one.name in self.regions and self.regions[one.name].name == region
        ]


def sketch_for(profile: Profile, model: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a torch model, wrapped or not, with those of the head marked.

    The head is what the globs of the profile's regions of kind head match.
    """
    found = sketch(model)
    globs = [one for region in profile.regions if region.kind == Kind.HEAD for one in region.match]
    names = _names(found)
    head = {names[one] for glob in globs for one in matching(names, glob)}
    return sketch(model, head) if head else found


def bind_parameters(profile: Profile, parameters: Sequence[Parameter]) -> Binding:
    """Assign parameters, as of `sketch_for`, to the regions of a profile.

    Globs are applied first, then the kinds of regions without globs.

    Raises:
        ProfileError: A glob matches nothing, or a parameter is in two regions.
    """
    where = f"profile {profile.name!r}"
    trainable = [one for one in parameters if one.trainable]
    matched = _matched(profile, parameters, where)
    bound: dict[str, Region] = {}
    for one in trainable:
        found = matched[one.name] or _by_kind(profile, one)
        if len(found) > 1:
            what = f"parameter {one.name} is in regions {found[0].name!r} and {found[1].name!r}"
            raise ProfileError(where, what, "leave it to one of them")
        if found:
            bound[one.name] = found[0]
    extra = tuple(one.name for one in trainable if one.name not in bound)
    return Binding(bound, tuple(trainable), extra)


def _matched(
    profile: Profile, parameters: Sequence[Parameter], where: str
) -> defaultdict[str, list[Region]]:
    """Return the regions whose globs match a parameter, by name of parameter.

    A glob is applied to all names at once, since a profile may have thousands of both.

    Raises:
        ProfileError: A glob matches no parameter.
    """
    names, matched = _names(parameters), defaultdict[str, list[Region]](list)
    for region in profile.regions:
        own: set[str] = set()
        for glob in dict.fromkeys(region.match):
            if not (hits := matching(names, glob)):
                what = f"match {glob!r} of region {region.name!r} matches no parameter of this"
                raise ProfileError(where, f"{what} model", "mend the name, or calibrate anew")
            own.update(names[one] for one in hits)
        for name in own:
            matched[name].append(region)
    return matched


def _names(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Return the main (first) name of a parameter by each of its names; tied ones have several."""
    return {name: one.name for one in parameters for name in one.names or (one.name,)}


def _by_kind(profile: Profile, parameter: Parameter) -> list[Region]:
    named = [parameter.region, parameter.kind.value] if parameter.kind in DEEP else None
    return [
        region
        for region in profile.regions
        if not region.match
        and region.kind == parameter.kind
        and (named is None or region.name in named or not _numbered(region.name))
    ]


def _numbered(name: str) -> bool:
    return name.rpartition(".")[2].isdecimal()


# Fingerprint of a model: properties of its parameters, not their values.


def fingerprint(parameters: Sequence[Parameter]) -> str:
    """Return the fingerprint of a model, "sha256:" and hex digits.

    It covers name, shape, dtype, trainable, kind and tied names of each parameter, in order.
    """
    digest = hashlib.sha256()
    for one in parameters:
        row = [one.name, list(one.shape), one.dtype, one.trainable, one.kind, list(one.names)]
        digest.update(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return f"sha256:{digest.hexdigest()}"
