# SPDX-License-Identifier: Apache-2.0
"""Payload of a bucket in torch operations, on the device of the gradients: the twin of `payload`.

Lines have the bits of `payload`, and so have scales, but two: the root mean square and the scales
of groups are summed in another order, and may differ in the last place of float32. The ranks
exchange scales, so they decode alike.
"""

# No postponed annotations here, as in the hook's own module.

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuron_fabric.codec import BUCKET, LINE, Route, lines_of, sum_kind, torch_engine
from neuron_fabric.codec.packing import TERNARY_RATIO
from neuron_fabric.codec.scale_groups import ScaleGroups
from neuron_fabric.hook import payload
from neuron_fabric.hook.error_feedback import LocalSignal, floats_of
from neuron_fabric.hook.payload import MEAN_ABS, Vote, key_of, places
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.interface import Outcome, Part


def number(value: float, like: Tensor) -> Tensor:
    """Return a number as a tensor for divisions, see `torch_engine`."""
    return torch.full((), value, dtype=like.dtype, device=like.device)


parts_of = partial(payload.parts_of, join=torch.cat, full=torch_engine.fp32_lines)
"""Function `payload.parts_of` of tensors."""


def sidecar(columns: Sequence[Tensor]) -> Tensor:
    """Return the sidecar of a bucket, float32[2, T]."""
    return torch.stack(list(columns), 1) if columns else torch.empty(2, 0)


def _column(scale: Tensor, finite: Tensor, abstains: Tensor) -> Tensor:
    """Return the entry of the sidecar for a tensor, as `payload.column`."""
    abstains = abstains & finite
    own = torch.where(finite, torch.where(abstains, 0.0, scale.float()), torch.nan)
    return torch.stack([own, (~abstains).float()])


# -- groups, as `ScaleGroups` ---------------------------------------------------------------------
def _group_sums(groups: ScaleGroups, wide: Tensor) -> Tensor:
    of_lines = wide.view(groups.outer, groups.size, groups.inner).sum((0, 2))
    missing = groups.count * groups.block - groups.size
    return torch.nn.functional.pad(of_lines, (0, missing)).view(-1, groups.block).sum(1)


def _group_means(groups: ScaleGroups, wide: Tensor, counted: Tensor) -> Tensor:
    """Return the mean of float64[n] over the ``counted`` elements of each group, float64."""
    return _group_sums(groups, wide * counted) / _group_sums(groups, counted.double()).clamp(min=1)


def of_each(groups: ScaleGroups, scales: Tensor) -> Tensor:
    """Return the scale of each element of a tensor, float32[n]."""
    lines = scales.repeat_interleave(groups.block)[: groups.size].view(1, groups.size, 1)
    return lines.expand(groups.outer, groups.size, groups.inner).reshape(-1)


# -- packing --------------------------------------------------------------------------------------
def packed_votes(ones: Sequence[LocalSignal]) -> list[Vote]:
    """Pack the values of parameters as votes."""
    return [packed_vote(one) for one in ones]


def packed_vote(one: LocalSignal) -> Vote:
    """Pack the values of a parameter as votes."""
    x, how, groups = one.values, one.how, one.groups
    added = torch_engine.total(x)
    finite, elements = added.isfinite(), number(x.numel(), added)
    sizes, gate = x.abs().double(), torch.ones_like(x, dtype=torch.bool)
    if how.route == Route.G_BINARY:
        lines, opened, voted = torch_engine.pack_binary(x), elements, added
    else:
        ratio = float(np.float32(TERNARY_RATIO))
        if groups is None:
            limit = ratio * (added / elements).float()
        else:
            limit = of_each(groups, ratio * _group_means(groups, sizes, gate).float())
        lines, gate = torch_engine.pack_ternary(x, limit)
        opened, voted = gate.sum().double(), torch_engine.total(x * gate)
    scales = None
    if how.fixed is not None:
        scale = number(1, added)
    elif how.scale == MEAN_ABS:
        scale = voted / opened.clamp(min=1)
    else:
        scale = (sizes.square().sum() / elements).sqrt()
    if groups is not None:
        rms = how.scale != MEAN_ABS
        every = torch.ones_like(gate)
        scales = _group_means(groups, sizes.square() if rms else sizes, every if rms else gate)
        scales = torch.where(finite, scales.sqrt() if rms else scales, torch.nan).float()
    entry = _column(scale, finite, (added == 0) | (opened == 0))
    return Vote(**_kept(one), lines=lines * finite, column=entry, scales=scales)


def largest_of(ones: Sequence[LocalSignal]) -> Tensor:
    """Return the largest abs(x) of each bucket; infinity for a tensor that is not finite."""
    every = [torch_engine.maxima(one.values) for one in ones]
    return torch.cat([torch.where(one.isfinite().all(), one, torch.inf) for one in every])


def packed_codes(ones: Sequence[LocalSignal], largest: Tensor, step: int, rank: int) -> list[Vote]:
    """Pack the values of parameters as integer codes, as `payload.packed_codes`."""
    own = largest.split([-(-one.values.numel() // BUCKET) for one in ones])
    return [
        packed_code(one, torch_engine.units(most, one.how.route), step, rank)
        for one, most in zip(ones, own, strict=True)
    ]


def packed_code(one: LocalSignal, u: Tensor, step: int, rank: int) -> Vote:
    """Pack the values of a parameter as integer codes with the units ``u``."""
    x, route, key = one.values, one.how.route, key_of(one, step, rank)
    drawn = 0.5 if key is None else torch_engine.draws_of(key, x.numel(), x.device)
    codes, _ = torch_engine.codes_of(x, route, u, drawn)
    entry = _column(number(1, x), u.isfinite().all(), ~x.any())
    lines = torch_engine.code_lines(codes, route)
    return Vote(**_kept(one), lines=lines, column=entry, units=u)


def _kept(one: LocalSignal) -> dict[str, Any]:
    return vars(one if one.kept else replace(one, values=one.values[:0].clone()))


# -- FP32 -----------------------------------------------------------------------------------------
def fp32_part(gradients: Sequence[Tensor]) -> Part:
    """Return the part of FP32 gradients, as `payload.fp32_part`."""
    lines = [torch_engine.fp32_lines(floats_of(one)) for one in gradients]
    return Part(Route.FP32, False, torch.cat(lines))


def _words(lines: Tensor, elements: int) -> Tensor:
    """Return the float32 in FP32 lines uint8[n, 64]."""
    return lines.reshape(-1, LINE).contiguous().view(torch.float32).view(-1)[:elements]


def put_means(gradients: Sequence[Tensor], sums: Tensor, workers: int) -> None:
    """Write the mean to each gradient, as `payload.put_means`."""
    first = 0
    for one in gradients:
        size = lines_of(one.numel(), Route.FP32)
        words = _words(sums[first : first + size], one.numel())
        one.copy_(words / number(workers, words))
        first += size


# -- decoding -------------------------------------------------------------------------------------
def common_scales(votes: Sequence[Vote], outcome: Outcome) -> list[Tensor]:
    """Return the common scale of each vote, or of its groups, as `payload.common_scales`."""
    found = list[Tensor]()
    part, first = 1 + max((part for _, part, _ in places(votes)), default=-1), 0
    for vote, added, present in zip(votes, outcome.scales, outcome.present, strict=True):
        if vote.scales is not None:
            size = lines_of(vote.scales.numel(), Route.FP32)
            added = _words(outcome.parts[part][0, first : first + size], vote.scales.numel())
            first += size
        found.append(common_scale(added, present, vote.how))
    return found


def common_scale(added: Tensor, present: Tensor, how: PhaseRoute) -> Tensor:
    """Return the scale s for decoding, as `payload.common_scale`."""
    size = added / present.clamp(min=1)
    if how.fixed is not None:
        size = torch.full_like(size, how.fixed)
    s = torch.where(added.isfinite().all(), size * float(np.float32(how.shrink)), torch.nan)
    return torch.where(present == 0, 0.0, s)


def decode(
    vote: Vote, reduced: Tensor, first: int, s: Tensor, present: Tensor, workers: int
) -> tuple[Tensor, Tensor]:
    """Decode one tensor of a part, as `payload.decode`.

    Args:
        vote: Contribution of this worker.
        reduced: Result of its part.
        first: First line of the tensor.
        s: Common scale, or common scales of its groups, float32[groups].
        present: Workers that have not abstained.
        workers: Workers that share the units of integer codes.

    Returns:
        The gradient, float32[elements], and the sums or votes that it was decoded from, integers.
    """
    n, route, one = vote.view.numel(), vote.how.route, present.clamp(min=1)
    lines = reduced[:, first : first + len(vote.lines)]
    if vote.units is not None:
        width = int(sum_kind(route, workers)[1][-1])
        c = torch_engine.sums_in(lines, width).view(-1)[:n]
        value = torch_engine.unpack_sums(c, vote.units, one, n)
    else:
        if vote.net:
            c = torch_engine.net_of(lines, route, present.to(torch.int16)).view(-1)[:n]
        else:
            c = torch_engine.votes_of(lines[0], route).view(-1)[:n]
        value = (s if vote.groups is None else of_each(vote.groups, s)) * c.float()
        if vote.net:
            value = value / one
    value = torch.where(s.isfinite().all(), value, torch.nan)
    return torch.where(present == 0, 0.0, value), c


def own_values(vote: Vote, s: Tensor) -> Tensor:
    """Return what this worker sent, decoded with the common scale, float32[elements].

    It is 0 if this worker abstains.
    """
    n, route = vote.view.numel(), vote.how.route
    if vote.units is not None:
        codes = torch_engine.codes_in(vote.lines, route)
        value = torch_engine.unpack_sums(codes, vote.units, number(1, s), n)
    else:
        votes = torch_engine.votes_of(vote.lines, route).view(-1)[:n].float()
        value = votes * (s if vote.groups is None else of_each(vote.groups, s))
    return torch.where(vote.column[1] > 0, value, 0.0)
