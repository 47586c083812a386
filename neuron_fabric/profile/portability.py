# SPDX-License-Identifier: Apache-2.0
"""Assignment of a model's parameters to the regions of a profile, and the comparison of a profile
with a model and a training: accepted, unverified or refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import filter as matching
from typing import Any

from neuron_fabric.data import DataError
from neuron_fabric.errors import ProfileError
from neuron_fabric.profile.model_sketch import DEEP, Parameter, fingerprint, sketch
from neuron_fabric.profile.profile_types import Kind, Profile, Region, ValidFor
from neuron_fabric.profile.slices import Slice, parts, sliced

MOST_TIMES = 4
"""Greatest ratio between the elements of a region here and at its calibration."""


@dataclass(frozen=True)
class Binding:
    """Assignment of a model's trainable parameters to the regions of a profile.

    A region of a profile is a set of parameters with one decision on routes, not a region of the
    device. In place of a parameter of which regions name slices there are these slices and what
    they leave, each as a parameter with the slice in its name.

    Attributes:
        regions: Profile region by name of parameter, in the order of `named_parameters`; parameters
            without a region are left out.
        parameters: All trainable parameters, in the same order.
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
    head = {names[one] for glob in globs for one in matching(names, sliced(glob)[0])}
    return sketch(model, head) if head else found


def bind_parameters(profile: Profile, parameters: Sequence[Parameter]) -> Binding:
    """Assign parameters, as of `sketch_for`, to the regions of a profile.

    Globs are applied first, then the kinds of regions without globs.

    Raises:
        ProfileError: A glob matches nothing, a parameter is in two regions, or a slice is not
            within it.
    """
    where = f"profile {profile.name!r}"
    matched = _matched(profile, parameters, where)
    pieces: dict[Parameter, list[Region]] = {}
    for one in parameters:
        try:
            pieces |= _pieces(one, matched[one.name]) if one.trainable else {}
        except DataError as error:
            what = f"parameter {one.name}: {error}"
            raise ProfileError(where, what, "mend the slices in `match`") from None
    bound: dict[str, Region] = {}
    for one, named in pieces.items():
        found = named or _by_kind(profile, one)
        if len(found) > 1:
            what = f"parameter {one.name} is in regions {found[0].name!r} and {found[1].name!r}"
            raise ProfileError(where, what, "leave it to one of them")
        if found:
            bound[one.name] = found[0]
    extra = tuple(one.name for one in pieces if one.name not in bound)
    return Binding(bound, tuple(pieces), extra)


_Match = tuple[Slice | None, Region]


def _pieces(parameter: Parameter, matched: Sequence[_Match]) -> dict[Parameter, list[Region]]:
    """Return the slices of a parameter that regions name and what they leave, with their regions.

    A parameter without slices is the only piece. A region that matches the whole has all pieces.

    Raises:
        DataError: A slice is not within the parameter, or two overlap.
    """
    whole = [region for part, region in matched if part is None]
    named = defaultdict[Slice, list[Region]](list)
    for part, region in matched:
        if part is not None and region not in (own := named[part.of(parameter.shape)]):
            own.append(region)
    if not named:
        return {parameter: whole}
    return {
        replace(
            parameter,
            name=f"{parameter.name}{part}",
            shape=part.shape(parameter.shape),
            names=(),
        ): [*own, *(region for region in whole if region not in own)]
        for part in parts(parameter.shape, named)
        for own in [named.get(part, [])]
    }


def _matched(
    profile: Profile, parameters: Sequence[Parameter], where: str
) -> defaultdict[str, list[_Match]]:
    """Return the regions whose globs match a parameter, with their slices, by name of parameter.

    A glob is applied to all names at once, since a profile may have thousands of both.

    Raises:
        ProfileError: A glob matches no parameter.
    """
    names, matched = _names(parameters), defaultdict[str, list[_Match]](list)
    for region in profile.regions:
        own: set[tuple[str, Slice | None]] = set()
        for glob in dict.fromkeys(region.match):
            stem, part = sliced(glob)
            if not (hits := matching(names, stem)):
                what = f"match {glob!r} of region {region.name!r} matches no parameter of this"
                raise ProfileError(where, f"{what} model", "mend the name, or calibrate anew")
            own.update((names[one], part) for one in hits)
        for name, part in own:
            matched[name].append((part, region))
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


@dataclass(frozen=True)
class Conditions:
    """Conditions of a training, as in `ValidFor`; None means unknown and is not compared."""

    world_size: int | None = None
    batch_per_worker: int | None = None
    accumulation: int | None = None
    optimizer: str | None = None
    clipping: bool | None = None
    amp: str | None = None
    grad_scaler: bool | None = None


@dataclass(frozen=True)
class Fit:
    """Result of a comparison of a profile with a model and a training.

    If the profile counts as unverified, every region has to pass PROBE in parallel with FP32 first;
    otherwise it is used as it is.

    Attributes:
        binding: Assignment of the model's parameters to the profile's regions.
        reasons: Reasons why the profile counts as unverified here, one line each.
        notes: Facts that a user may not expect, one line each.
    """

    binding: Binding
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def unverified(self) -> bool:
        """Return whether there is a reason to probe every region first."""
        return bool(self.reasons)


def fit(
    profile: Profile,
    model: Any,
    conditions: Conditions | None = None,
    *,
    strict: bool = False,
) -> Fit:
    """Compare a profile with a torch model on any device, wrapped or not.

    Args:
        profile: Operating profile.
        model: The model.
        conditions: Conditions of the training.
        strict: Refuse an unverified profile, and unknown conditions that it was calibrated for.

    Raises:
        ProfileError: The profile cannot be used.
    """
    parameters = sketch_for(profile, model)
    where = f"profile {profile.name!r}"
    here = conditions or Conditions()
    _check_scales(profile, here, where)
    binding = bind_parameters(profile, parameters)
    for region in profile.regions:
        _check_region(region, binding.members(region.name), where)
    reasons = [
        *_other_model(profile, parameters, binding),
        *outside(profile.valid_for, here),
        *(() if profile.verified else ("it was never verified",)),
    ]
    if reasons and strict:
        todo = "calibrate for this training, or leave out strict"
        raise ProfileError(where, reasons[0], todo)
    asked = dict(_asked(profile.valid_for))
    if strict and (untold := [name for name in asked if getattr(here, name) is None]):
        first = f"{untold[0]} {_shown(asked[untold[0]])}"
        what = f"it was calibrated for {first}, and this training's is not told"
        names = ", ".join(_TOLD_BY.get(name, name) for name in untold)
        raise ProfileError(where, what, f"tell {names}, or leave out strict")
    notes = []
    if binding.extra:
        shown = ", ".join(binding.extra[:5]) + (", ..." if len(binding.extra) > 5 else "")
        notes.append(f"{len(binding.extra)} parameters of no region go in FP32: {shown}")
    return Fit(binding, tuple(reasons), tuple(notes))


def _check_scales(profile: Profile, here: Conditions, where: str) -> None:
    for region in profile.regions:
        for phase, how in region.phases.items():
            if how.fixed is not None and here.grad_scaler:
                what = f"{phase} of region {region.name!r} has scale {how.scale}"
                what += ", which does not follow the loss scale of GradScaler"
                raise ProfileError(where, what, "use mean_abs")


def _check_region(region: Region, members: Sequence[Parameter], where: str) -> None:
    if not members:
        what = f"region {region.name!r} is missing: no trainable parameter of it"
        raise ProfileError(where, what, "calibrate for this model")
    kind = _main_kind(members)
    if kind != region.kind:
        what = f"region {region.name!r} is of kind {kind} here, {region.kind} was calibrated"
        raise ProfileError(where, what, "calibrate for this model")
    low, high = sorted((sum(one.elements for one in members), region.elements))
    if low and high > MOST_TIMES * low:
        what = f"{_other_size(region, members)}: more than {MOST_TIMES} times apart"
        raise ProfileError(where, what, "calibrate for this model")


def _other_size(region: Region, members: Sequence[Parameter]) -> str:
    """Return a text if a region has another size here than at its calibration, else ""."""
    elements = sum(one.elements for one in members)
    words = f"region {region.name!r} has {elements:,} elements, {region.elements:,} were calibrated"
    return words if elements != region.elements else ""


def _main_kind(members: Sequence[Parameter]) -> Kind:
    """Return the kind with most elements among the parameters of a region.

    Globs written by hand often include biases and norms.
    """
    sizes: Counter[Kind] = Counter()
    for one in members:
        sizes[one.kind] += one.elements
    return sizes.most_common(1)[0][0]


def _other_model(
    profile: Profile, parameters: Sequence[Parameter], binding: Binding
) -> Iterator[str]:
    if fingerprint(parameters) == profile.fingerprint:
        return
    for region in profile.regions:
        if words := _other_size(region, binding.members(region.name)):
            yield words
            return
    yield "the model's fingerprint is another: names, shapes, dtypes, ties or order have changed"


def outside(valid_for: ValidFor, here: Conditions) -> Iterator[str]:
    """Yield a line for each known condition of a training outside what a profile is valid for."""
    for name, wanted in _asked(valid_for):
        found = getattr(here, name)
        if found is None:
            continue
        if isinstance(wanted, tuple):
            if not wanted[0] <= found <= wanted[1]:
                yield f"{name} is {found}, calibrated for {_shown(wanted)}"
        elif wanted != found:
            yield f"{name} is {_shown(found)}, calibrated for {_shown(wanted)}"


_TOLD_BY = {"batch_per_worker": "batch", "world_size": "workers"}
"""Options for the conditions with another name."""


def _asked(valid_for: ValidFor) -> Iterator[tuple[str, object]]:
    for field in fields(valid_for):
        if (wanted := getattr(valid_for, field.name)) is not None:
            yield field.name, wanted


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{value[0]} to {value[1]}"
    return str(value).lower() if isinstance(value, bool) else str(value)
