# SPDX-License-Identifier: Apache-2.0
"""The order of the traffic of an epoch: every worker's lines in, results and count planes out.

Lines go in chunks that fit the slot pool together with the chunk before: while the contributions of
one chunk are on their way, the chunk before is read. Within a line the workers come one after the
other (slot hits), in an order that the transport draws: no result may depend on it. Where several
regions take part their lines are mixed evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES
from models.regions import RegionConfig
from verif.host.c_interface import Kind, operations
from verif.replay.epoch import EpochLines
from verif.replay.plan import RegionUse

LDIDS = 16
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Traffic:
    """Operations OP[n] in order: a write carries line ``line`` of ``sent`` uint8[k, 64], a read
    fills a line of ``EpochLines.returned`` and waits for the first ``after`` operations.

    ``batch`` int64[n] numbers what is handed over together: the contributions of a chunk, or the
    result and planes of a line.
    """

    ops: NDArray[Any]
    batch: Ints


def mixed(uses: Sequence[RegionUse]) -> list[Ints]:
    """The place of every line of each use in the mix, counted from 0: regions of any size run from
    begin to end side by side."""
    keys = np.concatenate([(np.arange(use.lines) + 0.5) / use.lines for use in uses])
    place = np.empty(len(keys), np.int64)
    place[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return np.split(place, np.cumsum([use.lines for use in uses])[:-1])


def traffic(
    work: EpochLines, chunk: int, workers: Sequence[NDArray[Any]], apart: bool = False
) -> Traffic:
    """The traffic of an epoch, ``chunk`` lines written before the ones before them are read.

    ``workers`` int[n, W] for each use: the order of the workers in each of its lines. ``apart``:
    who is first in that order writes all lines of a chunk before the second writes any.
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
    # Chunk c is written at 2c and read at 2c + 3: behind the writes of chunk c + 1.
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
    ends[line[at] // chunk] = at + 1  # the last assignment of a chunk stays
    ops["after"][is_read] = ends[line[is_read] // chunk]
    new = (np.diff(slot, prepend=-1) != 0) | is_read & (np.diff(line, prepend=-1) != 0)
    return Traffic(ops, np.cumsum(new))


def _writes(use: RegionUse, who: NDArray[Any], first_sent: int) -> NDArray[Any]:
    """OP[n, W]: a line's contributions."""
    lines, workers = who.shape
    ops = operations(lines * workers, Kind.WRITE).reshape(lines, workers)
    index = np.arange(lines)[:, None]
    ops["address"] = _addresses(use.config, who, index)
    ops["line"] = first_sent + who * lines + index
    ops["ldid"] = who % LDIDS
    return ops


def _reads(use: RegionUse, first_got: int) -> NDArray[Any]:
    """OP[n, selectors]: what is read of each line."""
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
    """Byte addresses of (selector, line) pairs in the window of a region."""
    offset = (selector.astype(np.uint64) << np.uint64(config.lines_log2)) + line.astype(np.uint64)
    return np.uint64(config.base) + offset * np.uint64(LINE_BYTES)
