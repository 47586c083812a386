# SPDX-License-Identifier: Apache-2.0
"""The low-bit parameters of a bucket as what is submitted to a reducer; needs torch."""

# No postponed annotations here, as in the hook's own module.

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from neuron_fabric.codec import LINE, Packed, Route, lines_of, pack, pack_codes
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.runtime.backends.interface import F32, Part
from neuron_fabric.runtime.bits.draws import Key, draws
from neuron_fabric.runtime.decode import MEAN_ABS, own_scale
from neuron_fabric.runtime.feedback import Memory
from neuron_fabric.runtime.sampling import Index
from neuron_fabric.runtime.sidecar import column

SEED = 2606
"""Of the rounding of integer codes: draws depend on it, step, rank and parameter alone."""


@dataclass(frozen=True)
class Signal:
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
) -> Signal:
    """The signal of this worker on a parameter. ``memory`` is None for a shadow, which leaves no
    trace; ``more``: fields of the signal."""
    values = values_of(view)
    if memory is not None and how.signal == "momentum":
        values = memory.momentum(name, values, how.beta)
    if memory is not None and how.feedback:
        values = memory.corrected(name, values)
    kept = memory is not None and how.feedback
    return Signal(name, region, view, how, values, kept, **more)


def packed_vote(one: Signal) -> Vote:
    """The vote of this worker on a parameter."""
    return _vote(one, pack(one.values, one.how.route, scale=one.how.scale == MEAN_ABS))


def packed_codes(one: Signal, units: F32, step: int, rank: int) -> Vote:
    """The codes of this worker for a parameter, by the ``units`` that all have agreed on; rounded
    by draws of its own."""
    uniform = None
    if one.how.rounding != "nearest":
        uniform = partial(_draws, Key(SEED, step, rank, one.name))
    return _vote(one, pack_codes(one.values, one.how.route, units, uniform), units)


def _draws(key: Key, first: int, count: int) -> Any:
    return draws(key, count, first)


def _vote(one: Signal, packed: Packed, units: F32 | None = None) -> Vote:
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
