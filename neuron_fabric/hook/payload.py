# SPDX-License-Identifier: Apache-2.0
"""Payload of a bucket: its low-bit parameters as lines for a reducer, and decoding; needs torch."""

# No postponed annotations here, as in the hook's own module.

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch

from neuron_fabric.codec import (
    BUCKET,
    LINE,
    Packed,
    Route,
    lines_of,
    pack,
    units,
    unpack,
    unpack_codes,
    unpack_net,
)
from neuron_fabric.codec.draws import Key
from neuron_fabric.codec.integer_codes import maxima_all, pack_all_codes, unpack_all_sums
from neuron_fabric.codec.numpy_engine import parts
from neuron_fabric.codec.packing import pack_all, unpack_all
from neuron_fabric.codec.scale_groups import ScaleGroups, pack_groups
from neuron_fabric.hook.error_feedback import LocalSignal, values_of
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.interface import F32, U8, Outcome, Part

Scale = TypeVar("Scale", np.float32, F32)

# -- sidecar --------------------------------------------------------------------------------------
# Two rows of float32, a column per tensor: the scale of the worker and 1.0, or 0.0 and 0.0 if it
# abstains. A plain worker-ordered sum gives the two numbers that decoding needs, so that any adder
# of FP32 lines can carry the sidecar: 16 tensors take a line of scales and a line of presence. A
# tensor that is not finite has the scale NaN, which every sum keeps.


def column(packed: Packed, elements: int, scale: np.float32) -> tuple[float, float]:
    """Return the entry of the sidecar for a tensor: (scale, 1.0); (0.0, 0.0) for an abstention.

    The scale is NaN if the tensor is not finite. A worker abstains if all elements are 0 or no gate
    is open.
    """
    if not packed.finite:
        return np.nan, 1.0
    if packed.zeros == elements or not packed.open_gates:
        return 0.0, 0.0
    return float(scale), 1.0


def sidecar(columns: Sequence[tuple[float, float]]) -> F32:
    """Return the sidecar of a bucket, float32[2, T]: a row of scales and a row of presence."""
    return np.array(columns, np.float32).reshape(-1, 2).T.copy()


# -- decoding -------------------------------------------------------------------------------------
# In float32 and in a fixed order, so that every rank gets the same bits. With a_w the scale of
# worker w, m the workers present, v the vote and c = plus - minus:
#
#     A = (a_0 + a_1 + ... in the order of workers) / m;  s = float32(A * shrink)
#     vote: s * v        net: s * float32(c) / m
#
# Integer codes have no s: their units u are common already, and with c the sum of codes the
# gradient is float32(u * c / m).
#
# The scale of a tensor follows its gradients, so loss scaling and accumulation need no setting. A
# fixed scale (``fixed:0.01``) takes the place of A.

MEAN_ABS = "mean_abs"


# Groups of elements with a scale each (`codec.scale_groups`) send their scales as one more part of
# FP32 lines, added in the order of workers; the entry of the sidecar stays that of the tensor. With
# s_g in place of s: s_g * v, and (s_g * float32(c)) / m.


def own_scale(values: F32, packed: Packed, how: PhaseRoute) -> np.float32:
    """Return this worker's scale of a tensor for the sidecar, a_w; NaN if it is not finite.

    It is the mean of abs(x), or the root mean square, as the route says; 1 with a fixed scale.
    """
    if how.fixed is not None:
        return np.float32(1)
    if how.scale == MEAN_ABS or not packed.finite:
        return packed.scale
    wide = values.astype(np.float64)
    return np.float32(np.sqrt(np.dot(wide, wide) / max(1, values.size)))


def own_scales(values: F32, scales: F32, groups: ScaleGroups, how: PhaseRoute) -> F32:
    """Return this worker's scales of the groups of a tensor: ``scales``, or root mean squares."""
    rms = how.scale != MEAN_ABS and bool(np.isfinite(scales).all())
    return groups.squares(values) if rms else scales


def is_finite(scale: np.float32 | F32) -> bool:
    """Return whether a scale, or all scales of groups, are finite."""
    # A test of numpy takes 15 times as long for one number.
    return bool(np.isfinite(scale).all()) if isinstance(scale, np.ndarray) else math.isfinite(scale)


def common_scale(total: Scale, present: np.float32, how: PhaseRoute) -> Scale:
    """Return the scale s for decoding, from the sums in the sidecar.

    Args:
        total: Sum of the workers' scales, or float32[groups].
        present: Number of workers that have not abstained.
        how: Route, with a fixed scale or shrink.

    Returns:
        s; 0 if all workers abstain, NaN if the total is not finite.
    """
    if present == 0:
        return total * np.float32(0)
    if not is_finite(total):
        return total * np.float32(np.nan)
    size = total / present if how.fixed is None else total * 0 + np.float32(how.fixed)
    scale: Scale = size * np.float32(how.shrink)
    return scale


@np.errstate(invalid="ignore")  # of a scale that is not finite
def decode(
    reduced: U8,
    route: Route,
    net: bool,
    outs: Sequence[F32],
    s: Sequence[np.float32],
    present: Sequence[np.float32],
    u: F32 | None = None,
    workers: int = 0,
) -> None:
    """Decode the tensors of a part; NaN if s is not finite, 0 if all workers abstain.

    Args:
        reduced: result of the part.
        route: route of the part.
        net: decode the counts, not the vote.
        outs: float32[elements] of each tensor, written.
        s: common scale of each.
        present: workers that have not abstained, of each.
        u: units of integer codes.
        workers: workers that share the units.
    """
    if u is not None:
        unpack_all_sums(reduced, route, u, workers, list(map(int, present)), outs)
    elif net:
        first = 0
        for out, one, many in zip(outs, s, present, strict=True):
            end = first + lines_of(out.size, route)
            planes = reduced[:, first:end]
            unpack_net(planes, route, out.size, int(many), scale=float(one), out=out)
            first = end
    else:
        unpack_all(reduced[0], route, s, outs)
    for out, one, many in zip(outs, s, present, strict=True):
        if many == 0 or not is_finite(one):
            out[:] = np.nan if many else 0  # 0 where all abstain


def own_votes(packed: Packed, route: Route, elements: int, u: F32 | None = None) -> F32:
    """Return what this worker sent, decoded, float32[elements].

    Votes are +1.0, -1.0, and 0.0 in G_TERNARY; with the units ``u`` of integer codes, the values of
    the codes.
    """
    if u is not None:
        return unpack_codes(packed.lines, route, u, elements)
    return unpack(packed.lines, route, elements)


SEED = 2606
"""Seed of the rounding of integer codes: draws depend on it, step, rank and parameter alone."""


@dataclass(eq=False, kw_only=True)
class Vote(LocalSignal):
    """Packed contribution of this worker for one parameter: votes or integer codes.

    Attributes:
        values: Values that were packed, if a residual is stored; else empty.
        lines: Packed lines, uint8[n, 64]: an array, or a tensor of `tensor_payload`.
        column: Entry of the sidecar.
        packed: Result of packing an array.
        units: Units of the codes, the same on every rank; None for votes.
        scales: Scales of this worker for each group, float32[groups]; None for one scale.
    """

    lines: Any
    column: Any
    packed: Any = None
    units: Any = None
    scales: Any = None


def packed_votes(ones: Sequence[LocalSignal]) -> list[Vote]:
    """Pack the values of parameters as votes, those of a route by one call of the engine."""
    found = {n: _grouped(one, one.groups) for n, one in enumerate(ones) if one.groups is not None}
    for route in dict.fromkeys(one.how.route for one in ones):
        some = [n for n, one in enumerate(ones) if one.how.route == route and n not in found]
        scale = any(ones[n].how.scale == MEAN_ABS for n in some)
        every = pack_all([ones[n].values.numpy() for n in some], route, scale=scale)
        found |= {n: _vote(ones[n], one) for n, one in zip(some, every, strict=True)}
    return [found[n] for n in range(len(ones))]


def _grouped(one: LocalSignal, groups: ScaleGroups) -> Vote:
    values = one.values.numpy()
    packed, scales = pack_groups(values, one.how.route, groups)
    return replace(_vote(one, packed), scales=own_scales(values, scales, groups, one.how))


def largest_of(ones: Sequence[LocalSignal]) -> torch.Tensor:
    """Return the largest abs(x) of each bucket of parameters, see `codec.maxima`."""
    return torch.from_numpy(maxima_all([one.values.numpy() for one in ones]))


def packed_codes(
    ones: Sequence[LocalSignal], largest: torch.Tensor, step: int, rank: int
) -> list[Vote]:
    """Pack the values of parameters as integer codes, with the units that all ranks share.

    Args:
        ones: Values of this worker.
        largest: Largest abs(x) of each of their buckets over all ranks.
        step: Training step; stochastic rounding uses draws that depend on rank, step and parameter.
        rank: Rank of this worker.
    """
    xs, found = [one.values.numpy() for one in ones], {}
    every = list(parts(xs, largest.numpy(), BUCKET))
    for route in dict.fromkeys(one.how.route for one in ones):
        some = [n for n, one in enumerate(ones) if one.how.route == route]
        own = [xs[n] for n in some]
        u = units(np.concatenate([every[n] for n in some]), route)
        packed = pack_all_codes(own, route, u, [key_of(ones[n], step, rank) for n in some])
        for n, *one in zip(some, packed, parts(own, u, BUCKET), strict=True):
            found[n] = _vote(ones[n], *one)
    return [found[n] for n in range(len(ones))]


def key_of(one: LocalSignal, step: int, rank: int) -> Key | None:
    """Return the key of the draws that round a parameter; None for the nearest code."""
    return None if one.how.rounding == "nearest" else Key(SEED, step, rank, one.name)


_NO_VALUES = torch.empty(0)


def _vote(one: LocalSignal, packed: Packed, units: F32 | None = None) -> Vote:
    values = one.values.numpy()
    entry = column(packed, values.size, own_scale(values, packed, one.how))
    its = vars(one) if one.kept else {**vars(one), "values": _NO_VALUES}
    return Vote(**its, lines=packed.lines, column=entry, packed=packed, units=units)


def places(votes: Sequence[Any]) -> list[tuple[Any, int, int]]:
    """Return each vote with the number of its part and its first line in the part.

    There is a part for each pair of route and decoding, in order of appearance.
    """
    keys = list(dict.fromkeys((vote.how.route, vote.net) for vote in votes))
    filled = [0] * len(keys)
    out = []
    for vote in votes:
        part = keys.index((vote.how.route, vote.net))
        out.append((vote, part, filled[part]))
        filled[part] += len(vote.lines)
    return out


def joined(lines: Sequence[U8]) -> U8:
    """Return lines one after the other; without a copy if they are so in one array."""
    base, shape = lines[0].base, (sum(map(len, lines)), LINE)
    whole = getattr(base, "shape", ()) == shape and all(one.base is base for one in lines)
    if whole and all(a.ctypes.data + a.nbytes == b.ctypes.data for a, b in pairwise(lines)):
        return np.asarray(base)
    return np.concatenate(lines)


def fp32_lines(values: F32) -> U8:
    """Return float32[n] as FP32 lines."""
    return pack(values, Route.FP32).lines


def parts_of(
    votes: Sequence[Any], join: Callable[..., Any] = joined, full: Any = fp32_lines
) -> list[Part]:
    """Return a bucket's parts to submit, see `places`; column n of the sidecar is of vote n.

    If there are groups, the last part has their scales as FP32 lines, each tensor on a new line.

    Args:
        votes: Contributions of this worker.
        join: Joins their lines.
        full: Returns float32[n] as FP32 lines.
    """
    placed = list(enumerate(places(votes)))
    parts = []
    for part in range(1 + max((place[1] for _, place in placed), default=-1)):
        own = [(n, vote, first) for n, (vote, at, first) in placed if at == part]
        lines = join([vote.lines for _, vote, _ in own])
        one = own[0][1]
        firsts, columns = tuple(first for _, _, first in own), tuple(n for n, _, _ in own)
        parts.append(Part(one.how.route, one.net, lines, firsts, columns))
    scales = [full(vote.scales) for vote in votes if vote.scales is not None]
    if scales:
        parts.append(Part(Route.FP32, False, join(scales)))
    return parts


def common_scales(votes: Sequence[Vote], outcome: Outcome) -> list[Any]:
    """Return the common scale of each vote, or of its groups, float32[groups]."""
    found: list[Any] = []
    grouped = any(vote.scales is not None for vote in votes)
    part = 1 + max(part for _, part, _ in places(votes)) if grouped else 0
    first = 0
    for vote, total, present in zip(votes, outcome.scales, outcome.present, strict=True):
        if vote.scales is not None:
            size = lines_of(vote.scales.size, Route.FP32)
            lines = np.ascontiguousarray(outcome.parts[part][0, first : first + size])
            total = lines.reshape(-1).view("<f4")[: vote.scales.size].astype(np.float32)
            first += size
        found.append(common_scale(total, present, vote.how))
    return found


def decode_all(
    votes: Sequence[Any],
    outcome: Outcome,
    scales: Sequence[Any],
    workers: int,
    outs: Sequence[F32],
) -> None:
    """Decode a bucket, each part by one call of the engine.

    Args:
        votes: Contributions of this worker.
        outcome: Their reduction.
        scales: Common scale of each, as of `common_scales`.
        workers: Workers that share the units of integer codes.
        outs: float32[elements] of each, written.
    """
    of_part: dict[int, list[int]] = {}
    for n, (_, part, _) in enumerate(places(votes)):
        of_part.setdefault(part, []).append(n)
    s, present = list(scales), list(outcome.present)
    grouped = [n for n, vote in enumerate(votes) if vote.groups is not None]
    for n in grouped:  # the counts or votes themselves
        one = present[n] if votes[n].net else 1
        s[n] = np.float32(one if is_finite(scales[n]) else np.nan)
    for part, own in of_part.items():
        how, u = votes[own[0]].how, [one for n in own if (one := votes[n].units) is not None]
        to, of_each, many = ([one[n] for n in own] for one in (outs, s, present))
        more: Any = to, of_each, many, np.concatenate(u) if u else None, workers
        decode(outcome.parts[part], how.route, how.decode == "net", *more)
    for n in grouped:
        if present[n]:
            votes[n].groups.multiply(outs[n], scales[n])
            if votes[n].net:
                outs[n] /= present[n]


def fp32_part(gradients: Sequence[torch.Tensor]) -> Part:
    """Return the part of FP32 gradients that the reducer adds in the order of workers.

    Each gradient starts on a new line.
    """
    return Part(Route.FP32, False, np.concatenate([fp32_lines(values_of(g)) for g in gradients]))


def put_means(gradients: Sequence[torch.Tensor], sums: Any, workers: int) -> None:
    """Write the mean to each gradient, from sum lines uint8[n, 64] in the order of `fp32_part`."""
    first = 0
    for one in gradients:
        size = lines_of(one.numel(), Route.FP32)
        words = sums[first : first + size].reshape(-1, LINE).view("<f4").reshape(-1)
        mean = words[: one.numel()].astype(np.float32) / np.float32(workers)
        one.copy_(torch.from_numpy(mean))
        first += size
