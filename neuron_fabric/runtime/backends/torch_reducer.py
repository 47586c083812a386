# SPDX-License-Identifier: Apache-2.0
"""Reduces packed gradients by torch's own collectives: every rank counts a share of the lines.

A bucket takes two: an all_to_all, by which each rank gets its share of the lines of all workers
with their sidecars, and an all_gather of what was counted. At any W that is 1/32 (G_BINARY) of the
bytes of an FP32 ring; gathering all lines everywhere would grow with W. FP32 lines go the same
way, added in the order of workers, and integer codes, whose sums have no order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from neuron_fabric.codec import LINE, Route, add_codes, count
from neuron_fabric.runtime.backends.interface import (
    F32,
    U8,
    Counters,
    Limits,
    Outcome,
    Part,
    Reduced,
)
from neuron_fabric.runtime.backends.own_group import OwnGroup
from neuron_fabric.runtime.sidecar import ordered_sum

MAX_WORKERS = 255
"""A count is a byte; sums of codes have room for as many."""


@dataclass(frozen=True)
class _Share:
    """A part, as its shares travel: ``size`` lines for each rank, from byte ``at`` of a message."""

    part: Part
    size: int
    at: int


@dataclass(frozen=True)
class _Handle:
    """A bucket under way."""

    bucket: int
    shares: Sequence[_Share]
    tensors: int
    sent: torch.Tensor  # kept until it has gone
    inbox: torch.Tensor
    work: Any


class TorchReducer:
    """See `Reducer`. Lines are on the host, so its groups are of gloo, whatever DDP's is."""

    def __init__(self, timeout_s: float = 60.0) -> None:
        """``timeout_s``: a rank that others wait for so long ends the training."""
        self.counters = Counters()
        self.limits = Limits(MAX_WORKERS, frozenset(Route))
        self._timeout_s = timeout_s

    def open(self, group: Any) -> None:
        """See `Reducer`. Two groups: `submit` and `wait` are called by two threads."""
        self._scatter, self._gather = (OwnGroup(group, self._timeout_s) for _ in range(2))
        self._workers, self._rank = self._scatter.size, self._scatter.rank

    @property
    def first_group(self) -> OwnGroup:
        """The group of the thread that submits, for what ranks agree on before they pack."""
        return self._scatter

    @property
    def second_group(self) -> OwnGroup:
        """The group of the thread that waits, for what else it has to reduce."""
        return self._gather

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: F32) -> _Handle:
        """See `Reducer`."""
        start = time.perf_counter()
        shares, at = [], sidecar.nbytes
        for part in parts:
            size = -(-len(part.lines) // self._workers)
            shares.append(_Share(part, size, at))
            at += size * LINE
        message = np.zeros((self._workers, at), np.uint8)
        message[:, : sidecar.nbytes] = sidecar.reshape(-1).view(np.uint8)
        for share in shares:
            _put(message, share, share.part.lines)
        sent = torch.from_numpy(message)
        inbox = torch.empty_like(sent)
        work = self._scatter.exchange(inbox, sent)
        for share in shares:
            foreign = share.size * LINE * (self._workers - 1)
            self.counters.moved(share.part.route, foreign, foreign)
        foreign = sidecar.nbytes * (self._workers - 1)
        self.counters.moved(Route.FP32, foreign, foreign)
        self.counters.seconds["submit"] += time.perf_counter() - start
        return _Handle(bucket, shares, sidecar.shape[1], sent, inbox, work)

    def wait(self, handle: _Handle) -> Outcome:
        """See `Reducer`."""
        handle.work.wait()
        start = time.perf_counter()
        inbox = handle.inbox.numpy()
        side = inbox[:, : 8 * handle.tensors].copy().view(np.float32)
        rows = side.reshape(self._workers, 2, handle.tensors)
        here = rows[:, 1] > 0
        counted = [self._count(inbox, share, here) for share in handle.shares]
        own = torch.from_numpy(np.concatenate([one.reshape(-1) for one in counted]))
        self.counters.seconds["count"] += time.perf_counter() - start
        gathered = self._gather.gather(own).numpy()
        total, parts, at = ordered_sum(rows), [], 0
        for share, one in zip(handle.shares, counted, strict=True):
            parts.append(_whole(gathered[:, at : at + one.size], share, one.shape[0]))
            at += one.size
            foreign = one.size * (self._workers - 1)
            self.counters.moved(share.part.route, foreign, foreign)
        self.counters.buckets += 1
        return Outcome(parts, total[0], total[1])

    def close(self) -> None:
        """See `Reducer`."""
        del self._scatter, self._gather

    def _count(self, inbox: U8, share: _Share, here: Any) -> U8:
        """This rank's share of a part: uint8[P, v or 1, size, 64]."""
        part = share.part
        shape = (self._workers, share.size, LINE)
        lines = inbox[:, share.at : share.at + share.size * LINE].reshape(shape)
        if part.route == Route.FP32:
            words = np.ascontiguousarray(lines).view("<f4").astype(np.float32, copy=False)
            return ordered_sum(words).astype("<f4", copy=False).view(np.uint8)[None]
        present = None
        if not here[:, list(part.columns)].all():
            first = self._rank * share.size
            tensor = np.searchsorted(part.starts, first + np.arange(share.size), "right") - 1
            present = here[:, np.array(part.columns)[tensor]]
        if part.route.codes:
            return add_codes(lines, part.route, present)
        votes, planes = count(
            lines, part.route, present=present, planes=part.net, vote=not part.net
        )
        return planes if part.net else votes[None]


def _put(message: U8, share: _Share, lines: U8) -> None:
    """The lines of a part into the messages [rank, bytes] to all ranks, a share each."""
    size = share.size * LINE
    whole, rest = divmod(lines.nbytes, size) if size else (0, 0)
    flat = lines.reshape(-1)
    message[:whole, share.at : share.at + size] = flat[: whole * size].reshape(whole, size)
    if rest:
        message[whole, share.at : share.at + rest] = flat[whole * size :]


def _whole(gathered: U8, share: _Share, layers: int) -> Reduced:
    """A part from the shares of all ranks, uint8[W, bytes of one]."""
    shape = (len(gathered), layers, share.size, LINE)
    layered = gathered.reshape(shape).transpose(1, 0, 2, 3).reshape(layers, -1, LINE)
    layered = layered[:, : len(share.part.lines)]
    if share.part.net or share.part.route.codes:
        return Reduced(np.empty((0, LINE), np.uint8), layered)
    return Reduced(layered[0], np.empty((0, 0, LINE), np.uint8))
