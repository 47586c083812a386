# SPDX-License-Identifier: Apache-2.0
"""One epoch of a replay: contributions of every worker, lines that the device returned, and the
order of its traffic for both transports.

Lines are sent in chunks of which two fit into the slot pool. While the contributions of one chunk
are sent, the previous chunk is read. Within a line the workers follow each other (slot hits), in
random order: no result may depend on it. The lines of several regions are interleaved evenly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES, U8
from models.regions import RegionConfig
from verif.host.c_interface import Kind, operations
from verif.replay.gradient_source import LineSource
from verif.replay.plan import Extent, Lines, Plan, RegionUse

Key = tuple[int, int]
"""(step, epoch counted from 0 within the step)"""


@dataclass(frozen=True)
class EpochLines:
    """Epoch with the lines that are sent and returned.

    Attributes:
        step: Training step.
        number: Number of the epoch in the step, from 0.
        epoch: Value of EPOCH with which it is committed.
        plan: Plan of the step.
        uses: Uses of regions.
        sent: Contributions uint8[W, n, 64] of each use.
        returned: Lines uint8[m, 64], filled by the transport: for each use, and each of its
            selectors, the lines that it reads.
    """

    step: int
    number: int
    epoch: int
    plan: Plan
    uses: tuple[RegionUse, ...]
    sent: tuple[U8, ...]
    returned: U8

    @staticmethod
    def read(source: LineSource, plan: Plan, key: Key, epoch: int) -> EpochLines:
        """Read the lines of an epoch from a source.

        Args:
            source: Source of the lines.
            plan: Plan of the step.
            key: (step, number of the epoch in the step).
            epoch: Value of EPOCH with which it is committed.
        """
        step, number = key
        uses = plan.epoch(number)
        sent = []
        for use in uses:
            parts = [source.lines(step, extent, use.route) for extent in use.extents]
            sent.append(np.ascontiguousarray(np.concatenate(parts, axis=1)))
        size = sum(use.lines * len(use.selectors) for use in uses)
        room = np.zeros((size, LINE_BYTES), np.uint8)
        return EpochLines(step, number, epoch, plan, uses, tuple(sent), room)

    @property
    def key(self) -> Key:
        """Return (step, number of the epoch in the step)."""
        return self.step, self.number

    @property
    def lines(self) -> int:
        """Return the number of lines per worker."""
        return sum(use.lines for use in self.uses)

    @property
    def writes(self) -> int:
        """Return the number of contributions of all workers."""
        return self.lines * self.plan.workers

    @property
    def got(self) -> tuple[Lines, ...]:
        """Return the returned lines of each use, as views of ``returned``."""
        return views(self.uses, self.returned)

    def extents(self) -> Iterator[tuple[Extent, RegionUse, Lines]]:
        """Yield each extent with its use of a region and its returned lines, as views of
        ``returned``.
        """
        return extents(self.uses, self.returned)


def views(uses: tuple[RegionUse, ...], returned: U8) -> tuple[Lines, ...]:
    """Split the returned lines uint8[m, 64] of an epoch by use of a region; the results are
    views.
    """
    out, at = [], 0
    for use in uses:
        count = len(use.selectors)
        own = returned[at : at + count * use.lines].reshape(count, use.lines, LINE_BYTES)
        out.append(Lines(use.selectors, own))
        at += count * use.lines
    return tuple(out)


def extents(uses: tuple[RegionUse, ...], returned: U8) -> Iterator[tuple[Extent, RegionUse, Lines]]:
    """Yield each extent of an epoch with its use of a region and its returned lines, as views.

    Args:
        uses: Uses of regions in the epoch.
        returned: Returned lines uint8[m, 64].
    """
    for use, got in zip(uses, views(uses, returned)):
        at = 0
        for extent in use.extents:
            yield extent, use, got.part(slice(at, at + extent.lines))
            at += extent.lines


LDIDS = 16
Ints = NDArray[np.int64]


def shuffled_workers(work: EpochLines, chunk: int, rng: random.Random) -> list[NDArray[Any]]:
    """Draw the order of the workers in each line, line by line in the interleaved order.

    The order of a line is a shuffle of that of the line before it; each chunk starts from 0..W-1.

    Returns:
        int64[n, W] per use.
    """
    count = work.plan.workers
    order = np.empty((work.lines, count), np.int64)
    workers: list[int] = []
    for at in range(work.lines):
        if at % chunk == 0:
            workers = list(range(count))
        rng.shuffle(workers)
        order[at] = workers
    return [order[place] for place in mixed(work.uses)]


def permuted_workers(work: EpochLines, rng: np.random.Generator) -> list[NDArray[Any]]:
    """Draw the order of the workers in each line, use by use, int64[n, W] per use.

    One call of numpy draws all lines of a use: `shuffled_workers` is too slow for millions of them.
    """
    rows = np.arange(work.plan.workers)
    return [rng.permuted(np.tile(rows, (use.lines, 1)), axis=1) for use in work.uses]


def mixed(uses: Sequence[RegionUse]) -> list[Ints]:
    """Return the position of every line of each use in the interleaved order, counted from 0.

    The lines of each region are spread evenly from first to last.
    """
    keys = np.concatenate([(np.arange(use.lines) + 0.5) / use.lines for use in uses])
    place = np.empty(len(keys), np.int64)
    place[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return np.split(place, np.cumsum([use.lines for use in uses])[:-1])


def traffic(
    work: EpochLines, chunk: int, workers: Sequence[NDArray[Any]], apart: bool = False
) -> tuple[NDArray[Any], Ints]:
    """Return the operations of an epoch: contributions and reads, in order.

    Args:
        work: Epoch.
        chunk: Number of lines that are written before the previous chunk is read.
        workers: int[n, W] per use: order of the workers in each line.
        apart: The first worker of that order writes all lines of a chunk before the second begins.

    Returns:
        Operations OP[n]: a write carries line ``line`` of the concatenated ``sent``; a read fills
        line ``line`` of ``EpochLines.returned`` and waits for the first ``after`` operations. And
        their batches, int64[n]: numbers of groups that are issued together, the contributions of a
        chunk or the reads of a line.
    """
    writes, reads, order, turns = [], [], [], []
    sent = got = 0
    for use, place, who in zip(work.uses, mixed(work.uses), workers, strict=True):
        w, r = _writes(use, who, sent), _reads(use, got)
        writes.append(w)
        reads.append(r)
        order.append((np.repeat(place, w.shape[1]), np.repeat(place, r.shape[1])))
        turns.append(np.tile(np.arange(w.shape[1]), w.shape[0]))
        sent += w.size
        got += r.size
    ops = np.concatenate([*(w.reshape(-1) for w in writes), *(r.reshape(-1) for r in reads)])
    line = np.concatenate([*(w for w, _ in order), *(r for _, r in order)])
    is_read = ops["kind"] == Kind.READ
    # Chunk c is written at time 2c and read at 2c + 3, after the writes of chunk c + 1.
    slot = 2 * (line // chunk) + 3 * is_read
    turn = np.zeros(len(ops), np.int64)
    if apart:
        turn[~is_read] = np.concatenate(turns)
    by_time = np.lexsort((line, turn, slot))
    ops, line, slot = ops[by_time], line[by_time], slot[by_time]
    is_read = is_read[by_time]
    # A read waits for the last contribution of its chunk.
    ends = np.zeros(int(line.max(initial=0)) // chunk + 1, np.int64)
    at = np.flatnonzero(~is_read)
    ends[line[at] // chunk] = at + 1  # the last write of a chunk wins
    ops["after"][is_read] = ends[line[is_read] // chunk]
    new = (np.diff(slot, prepend=-1) != 0) | is_read & (np.diff(line, prepend=-1) != 0)
    return ops, np.cumsum(new)


def _writes(use: RegionUse, who: NDArray[Any], first_sent: int) -> NDArray[Any]:
    """Return the contributions to each line of a use, OP[n, W].

    Args:
        use: Use of a region.
        who: int[n, W], order of the workers in each line.
        first_sent: Number of lines before those of this use in the lines to send.
    """
    lines, workers = who.shape
    ops = operations(lines * workers, Kind.WRITE).reshape(lines, workers)
    index = np.arange(lines)[:, None]
    ops["address"] = _addresses(use.config, who, index)
    ops["line"] = first_sent + who * lines + index
    ops["ldid"] = who % LDIDS
    return ops


def _reads(use: RegionUse, first_got: int) -> NDArray[Any]:
    """Return the reads of each line of a use, OP[n, selectors].

    Args:
        use: Use of a region.
        first_got: Number of lines before those of this use in the returned lines.
    """
    lines, count = use.lines, len(use.selectors)
    ops = operations(lines * count, Kind.READ).reshape(lines, count)
    index = np.arange(lines)[:, None]
    ops["address"] = _addresses(use.config, np.array([use.selectors]), index)
    ops["line"] = first_got + np.arange(count)[None, :] * lines + index
    ops["ldid"] = index % min(LDIDS, use.config.workers)
    return ops


def _addresses(
    config: RegionConfig, selector: NDArray[Any], line: NDArray[Any]
) -> NDArray[np.uint64]:
    """Return the byte addresses in the window of a region for selectors and line indices
    (broadcast).
    """
    offset = (selector.astype(np.uint64) << np.uint64(config.lines_log2)) + line.astype(np.uint64)
    return np.uint64(config.base) + offset * np.uint64(LINE_BYTES)
