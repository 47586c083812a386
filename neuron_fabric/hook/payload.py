# SPDX-License-Identifier: Apache-2.0
"""The low-bit parameters of a bucket as what is submitted to a reducer; needs torch."""

# No postponed annotations here, as in the hook's own module.

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from neuron_fabric.codec import (
    LINE,
    Packed,
    Route,
    lines_of,
    pack,
    pack_codes,
    unpack,
    unpack_codes,
    unpack_net,
    unpack_sums,
)
from neuron_fabric.codec.draws import Key, draws
from neuron_fabric.hook.sampling import Index
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.interface import F32, Part, Reduced

# What a worker keeps of a parameter between steps: the error of its votes, and its momentum.
#
# Error feedback: a worker votes on gradient + residual, and keeps as the new residual what its
# vote did not say: ``signal - s * vote``, with the scale s that all ranks decode with. Sent +
# residual is thus what came in (within the rounding of two float32 operations). A parameter that
# goes back to FP32 gets its residual with its next gradient.
#
# Momentum as the signal (Signum, 1-bit Adam): m = beta * m + (1 - beta) * gradient, and the
# worker votes with m. It takes the place of the optimizer's own momentum.


class Memory:
    """Residuals and momenta, float32[elements] by the name of the parameter, in the parameter's
    memory order. They are in units of the scaled loss."""

    def __init__(self) -> None:
        self.residuals: dict[str, F32] = {}
        self.momenta: dict[str, F32] = {}

    def corrected(self, name: str, gradient: F32) -> F32:
        """gradient + residual, in an array of its own."""
        held = self.residuals.get(name)
        return gradient.copy() if held is None else gradient + held

    def keep(self, name: str, signal: F32, sent: F32) -> None:
        """The residual after ``signal`` was voted on and ``sent`` came of it."""
        self.residuals[name] = signal - sent

    def flushed(self, name: str) -> F32 | None:
        """The residual, for a gradient that goes in FP32; it is kept no longer."""
        return self.residuals.pop(name, None)

    def momentum(self, name: str, gradient: F32, beta: float) -> F32:
        """The momentum with ``gradient`` in it, in an array of its own."""
        b = np.float32(beta)
        held = self.momenta.get(name)
        own = (np.float32(1) - b) * gradient
        moved: F32 = own if held is None else b * held + own
        if np.isfinite(moved).all():  # else the step is lost, not the memory
            self.momenta[name] = moved
        return moved.copy()

    def rescale(self, factor: float) -> None:
        """The loss scale has been multiplied by ``factor``, and so all gradients."""
        for held in (self.residuals, self.momenta):
            for name in held:
                held[name] = held[name] * np.float32(factor)


# What each worker says of its tensors beside their lines: scale, presence, and "not finite".
#
# Two rows of float32, a column a tensor: the worker's scale and 1.0, or 0.0 and 0.0 where it
# abstains. A plain worker-ordered sum then gives the two numbers that decoding asks for, so that
# anything that adds FP32 lines can carry it: 16 tensors take a line of scales and a line of
# presence. A tensor that is not finite has the scale NaN, which no sum loses.


def column(packed: Packed, elements: int, scale: np.float32) -> tuple[float, float]:
    """A tensor of ``elements``, packed, with the ``scale`` that this worker gives it."""
    if not packed.finite:
        return np.nan, 1.0
    if packed.zeros == elements or not packed.open_gates:
        return 0.0, 0.0
    return float(scale), 1.0


def sidecar(columns: Sequence[tuple[float, float]]) -> F32:
    """float32[2, T]: scales, presence."""
    return np.array(columns, np.float32).reshape(-1, 2).T.copy()


def ordered_sum(rows: F32) -> F32:
    """float32[W, ...] added in the order of workers, float32[...]; what is no number has the bits
    that the device gives it, 7FC00000h."""
    total = rows[0].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for row in rows[1:]:
            total += row
    total[np.isnan(total)] = np.nan
    return total


# Votes and counts to gradients, in float32 and in a fixed order: the same bits on every rank.
#
# With a_w the scale of worker w, m the workers present, v the vote and c = plus - minus:
#
#     A = (a_0 + a_1 + ... in the order of workers) / m;  s = float32(A * shrink)
#     vote: s * v        net: s * float32(c) / m
#
# Integer codes have no s: their units u are common already, and with c the sum of codes the
# gradient is float32(u * c / m).
#
# The scale of a tensor follows its gradients, so loss scaling and accumulation come out right
# without being told. A fixed scale (``fixed:0.01``) takes the place of A.

MEAN_ABS = "mean_abs"


def own_scale(values: F32, packed: Packed, how: PhaseRoute) -> np.float32:
    """a_w: what this worker says of its tensor ``values``, packed; NaN where it is not finite."""
    if how.fixed is not None:
        return np.float32(1)
    if how.scale == MEAN_ABS or not packed.finite:
        return packed.scale
    wide = values.astype(np.float64)
    return np.float32(np.sqrt(np.dot(wide, wide) / max(1, values.size)))


def common_scale(total: np.float32, present: np.float32, how: PhaseRoute) -> np.float32:
    """s, from the sidecar's sums: 0 where nobody has a vote, NaN where a worker is not finite."""
    if present == 0:
        return np.float32(0)
    if not np.isfinite(total):
        return np.float32(np.nan)
    size = total / present if how.fixed is None else np.float32(how.fixed)
    return np.float32(size * np.float32(how.shrink))


def decode(
    reduced: Reduced,
    route: Route,
    net: bool,
    first: int,
    out: F32,
    s: np.float32,
    present: np.float32,
    u: F32 | None = None,
    workers: int = 0,
) -> None:
    """The tensor that begins at line ``first``, scaled by ``s``, into ``out`` float32[elements].
    ``u``: the units of integer codes, which ``workers`` have agreed on."""
    if not np.isfinite(s) or present == 0:
        out[:] = np.nan if present else 0  # 0 where all abstain
        return
    lines = slice(first, first + lines_of(out.size, route))
    if u is not None:
        unpack_sums(reduced.planes[:, lines], route, u, workers, int(present), out)
    elif net:
        planes = reduced.planes[:, lines]
        unpack_net(planes, route, out.size, int(present), scale=float(s), out=out)
    else:
        unpack(reduced.lines[lines], route, out.size, scale=float(s), out=out)


def own_votes(packed: Packed, route: Route, elements: int, u: F32 | None = None) -> F32:
    """What this worker has voted: +1.0, -1.0, and 0.0 in G_TERNARY; with the units ``u`` of its
    codes, what these stand for."""
    if u is not None:
        return unpack_codes(packed.lines, route, u, elements)
    return unpack(packed.lines, route, elements)


SEED = 2606
"""Of the rounding of integer codes: draws depend on it, step, rank and parameter alone."""


@dataclass(frozen=True)
class LocalSignal:
    """What this worker has to say on a parameter: ``values``, which are to be packed; the rest is
    as in `Vote`. ``kept``: a residual is kept of it."""

    name: str
    region: str
    view: torch.Tensor
    how: PhaseRoute
    values: F32
    kept: bool = False
    shadow: bool = False
    sample: torch.Tensor | None = None
    index: Index | None = None


@dataclass(frozen=True)
class Vote:
    """A parameter of which this worker sends votes, or integer codes.

    ``view``: its elements in the bucket's buffer, flat. ``shadow``: it goes in FP32, and the votes
    are only looked at. ``signal``: what was voted on, where a residual is kept of it. ``sample``:
    the FP32 mean of sampled elements, once it is there; ``index``: which ones, None: all.
    ``units``: of the codes, the same on every rank; None: these are votes.
    """

    name: str
    region: str
    view: torch.Tensor
    how: PhaseRoute
    packed: Packed
    column: tuple[float, float]
    shadow: bool = False
    signal: F32 | None = None
    sample: torch.Tensor | None = None
    index: Index | None = None
    units: F32 | None = None

    @property
    def net(self) -> bool:
        """Whether the counts come back."""
        return self.how.decode == "net"


def values_of(view: torch.Tensor) -> F32:
    """float32[n] on the host: the same memory where it is that already."""
    values: F32 = view.detach().cpu().float().numpy()
    return values


def signal_of(
    name: str, region: str, view: torch.Tensor, how: PhaseRoute, memory: Memory | None, **more: Any
) -> LocalSignal:
    """The signal of this worker on a parameter. ``memory`` is None for a shadow, which leaves no
    trace; ``more``: fields of the signal."""
    values = values_of(view)
    if memory is not None and how.signal == "momentum":
        values = memory.momentum(name, values, how.beta)
    if memory is not None and how.feedback:
        values = memory.corrected(name, values)
    kept = memory is not None and how.feedback
    return LocalSignal(name, region, view, how, values, kept, **more)


def packed_vote(one: LocalSignal) -> Vote:
    """The vote of this worker on a parameter."""
    return _vote(one, pack(one.values, one.how.route, scale=one.how.scale == MEAN_ABS))


def packed_codes(one: LocalSignal, units: F32, step: int, rank: int) -> Vote:
    """The codes of this worker for a parameter, by the ``units`` that all have agreed on; rounded
    by draws of its own."""
    uniform = None
    if one.how.rounding != "nearest":
        uniform = partial(_draws, Key(SEED, step, rank, one.name))
    return _vote(one, pack_codes(one.values, one.how.route, units, uniform), units)


def _draws(key: Key, first: int, count: int) -> Any:
    return draws(key, count, first)


def _vote(one: LocalSignal, packed: Packed, units: F32 | None = None) -> Vote:
    entry = column(packed, one.values.size, own_scale(one.values, packed, one.how))
    what = (one.name, one.region, one.view, one.how, packed, entry, one.shadow)
    signal = one.values if one.kept else None
    return Vote(*what, signal=signal, sample=one.sample, index=one.index, units=units)


def places(votes: Sequence[Vote]) -> list[tuple[Vote, int, int]]:
    """Of each vote its part, by route and decoding in the order of their first parameter, and its
    first line there."""
    keys = list(dict.fromkeys((vote.how.route, vote.net) for vote in votes))
    filled = [0] * len(keys)
    out = []
    for vote in votes:
        part = keys.index((vote.how.route, vote.net))
        out.append((vote, part, filled[part]))
        filled[part] += len(vote.packed.lines)
    return out


def parts_of(votes: Sequence[Vote]) -> list[Part]:
    """What is submitted of the low-bit parameters of a bucket: column n is that of vote n."""
    placed = list(enumerate(places(votes)))
    parts = []
    for part in range(1 + max((place[1] for _, place in placed), default=-1)):
        own = [(n, vote, first) for n, (vote, at, first) in placed if at == part]
        lines = np.concatenate([vote.packed.lines for _, vote, _ in own])
        one = own[0][1]
        firsts, columns = tuple(first for _, _, first in own), tuple(n for n, _, _ in own)
        parts.append(Part(one.how.route, one.net, lines, firsts, columns))
    return parts


def fp32_part(gradients: Sequence[torch.Tensor]) -> Part:
    """Gradients that are to be added in the order of workers, each from a new line."""
    lines = [pack(values_of(one), Route.FP32).lines for one in gradients]
    return Part(Route.FP32, False, np.concatenate(lines))


def put_means(gradients: Sequence[torch.Tensor], sums: Any, workers: int) -> None:
    """The mean of each from the lines of sums, uint8[n, 64], to where it came from."""
    first = 0
    for one in gradients:
        size = lines_of(one.numel(), Route.FP32)
        words = sums[first : first + size].reshape(-1, LINE).view("<f4").reshape(-1)
        mean = words[: one.numel()].astype(np.float32) / np.float32(workers)
        one.copy_(torch.from_numpy(mean))
        first += size
