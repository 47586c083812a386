# SPDX-License-Identifier: Apache-2.0
"""The traffic of a round as one block: commits, contributions, reads of results and planes.

The order is that of the signal-level sequence: lines go in chunks that fit the slot pool together
with the chunk before; while the contributions of one chunk are on their way, the chunk before is
read. Within a line the workers come one after the other, in an order drawn from the seed. Where
several regions take part their lines are mixed evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.formats import LINE_BYTES, U8
from models.nf_regs import REG_MAP
from models.regions import PLANE_SELECTOR, RegionConfig
from verif.replay.bulk.block import Block, Kind, operations, register_ops
from verif.replay.counters import USED, ZERO

LDIDS = 16
COUNTERS = (*ZERO, *USED)
_ADDRESS = {name: register.address for name, register in REG_MAP.expand().items()}


@dataclass(frozen=True)
class Share:
    """What a round sends to one region: ``sent`` uint8[W, n, 64] goes to lines 0 .. n - 1.

    ``planes``: count planes to read back besides the result.
    """

    region: int
    config: RegionConfig
    sent: U8
    planes: int

    @property
    def lines(self) -> int:
        """Lines a worker."""
        return int(self.sent.shape[1])


@dataclass(frozen=True)
class RoundBlock:
    """A round's block, and where in it the answers stand."""

    shares: tuple[Share, ...]
    block: Block
    got: tuple[U8, ...]
    """A view of ``block.got`` for each share, uint8[1 + planes, n, 64]: results, then planes."""
    codes: tuple[int, ...]
    """Index of the STATUS read after each share's commit."""
    complete: tuple[int, ...]
    """Index of the COMPLETE_LINES read of each share, after everything."""
    done: int
    """Index of the DONE read."""
    counters: tuple[int, ...]
    """Index of the read of each of COUNTERS, which the block has cleared at its begin."""


def region_address(region: int, leaf: str) -> int:
    """Byte address of a register of a region."""
    return _ADDRESS[f"REGION[{region}].{leaf}"]


def register_address(name: str) -> int:
    """Byte address of a register."""
    return _ADDRESS[name]


def commit_ops(region: int, config: RegionConfig, epoch: int) -> NDArray[Any]:
    """Writes of a descriptor and its EPOCH."""
    values = {**config.register_values(), "EPOCH": epoch & 0xFFFF_FFFF}
    return register_ops(
        Kind.REG_WRITE, [(region_address(region, leaf), value) for leaf, value in values.items()]
    )


def read_ops(addresses: Sequence[int]) -> NDArray[Any]:
    """Register reads."""
    return register_ops(Kind.REG_READ, [(address, 0) for address in addresses])


def round_block(
    shares: Sequence[Share], epoch: int, chunk: int, rng: np.random.Generator
) -> RoundBlock:
    """The block of a round; ``chunk`` lines are written before the ones before them are read."""
    clear = [(register_address("CTRL"), 1)]
    parts: list[NDArray[Any]] = [register_ops(Kind.REG_WRITE, clear)]
    codes = []
    at = len(parts[0])
    for share in shares:
        commit = commit_ops(share.region, share.config, epoch)
        status = read_ops([region_address(share.region, "STATUS")])
        parts += [commit, status]
        at += len(commit) + 1
        codes.append(at - 1)
    parts.append(_traffic(shares, chunk, at, rng))
    at += len(parts[-1])
    tail = [region_address(share.region, "COMPLETE_LINES") for share in shares]
    tail += [register_address(name) for name in ("DONE", *COUNTERS)]
    parts.append(read_ops(tail))
    complete = tuple(range(at, at + len(shares)))
    at += len(shares)
    block = Block.of(
        np.concatenate(parts),
        np.concatenate([share.sent.reshape(-1, LINE_BYTES) for share in shares]),
        sum(share.lines * (1 + share.planes) for share in shares),
    )
    got, first = [], 0
    for share in shares:
        size = share.lines * (1 + share.planes)
        view = block.got[first : first + size]
        got.append(view.reshape(1 + share.planes, share.lines, LINE_BYTES))
        first += size
    counters = tuple(range(at + 1, at + 1 + len(COUNTERS)))
    return RoundBlock(tuple(shares), block, tuple(got), tuple(codes), complete, at, counters)


def _traffic(
    shares: Sequence[Share], chunk: int, base: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Writes and reads of every line, `after` counted from the block's begin (``base`` before)."""
    # Regions of any size run from begin to end side by side: a line's place in the mix.
    keys = np.concatenate([(np.arange(s.lines) + 0.5) / s.lines for s in shares])
    place = np.empty(len(keys), np.int64)
    place[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    writes, reads, order = [], [], []
    first = sent = got = 0
    for share in shares:
        mine = place[first : first + share.lines]
        w, r = _writes(share, sent, rng), _reads(share, got)
        writes.append(w)
        reads.append(r)
        order.append((np.repeat(mine, w.shape[1]), np.repeat(mine, r.shape[1])))
        first += share.lines
        sent += share.sent.shape[0] * share.lines
        got += share.lines * (1 + share.planes)
    ops = np.concatenate([*(w.reshape(-1) for w in writes), *(r.reshape(-1) for r in reads)])
    line = np.concatenate([*(w for w, _ in order), *(r for _, r in order)])
    is_read = ops["kind"] == Kind.READ
    # Chunk c is written at 2c and read at 2c + 3: behind the writes of chunk c + 1.
    slot = 2 * (line // chunk) + 3 * is_read
    by_time = np.lexsort((line, slot))
    ops, line, is_read = ops[by_time], line[by_time], is_read[by_time]
    # A read waits for the last contribution of its chunk.
    ends = np.zeros(int(line.max(initial=0)) // chunk + 1, np.int64)
    at = np.flatnonzero(~is_read)
    ends[line[at] // chunk] = at + 1  # the last assignment of a chunk stays
    ops["after"][is_read] = base + ends[line[is_read] // chunk]
    return ops


def _writes(share: Share, first_sent: int, rng: np.random.Generator) -> NDArray[Any]:
    """OP[n, W]: a line's contributions, its workers shuffled."""
    workers, lines = share.sent.shape[:2]
    ops = operations(lines * workers, Kind.WRITE).reshape(lines, workers)
    who = rng.permuted(np.tile(np.arange(workers), (lines, 1)), axis=1)
    index = np.arange(lines)[:, None]
    ops["address"] = _addresses(share.config, who, index)
    ops["line"] = first_sent + who * lines + index
    ops["ldid"] = who % LDIDS
    return ops


def _reads(share: Share, first_got: int) -> NDArray[Any]:
    """OP[n, 1 + planes]: result, then planes."""
    lines, count = share.lines, 1 + share.planes
    ops = operations(lines * count, Kind.READ).reshape(lines, count)
    selector = np.array([0, *range(PLANE_SELECTOR, PLANE_SELECTOR + share.planes)])[None, :]
    index = np.arange(lines)[:, None]
    ops["address"] = _addresses(share.config, selector, index)
    ops["line"] = first_got + np.arange(count)[None, :] * lines + index
    ops["ldid"] = index % min(LDIDS, share.config.workers)
    return ops


def _addresses(
    config: RegionConfig, selector: NDArray[Any], line: NDArray[Any]
) -> NDArray[np.uint64]:
    """Byte addresses of (selector, line) pairs in the window of a region."""
    offset = (selector.astype(np.uint64) << np.uint64(config.lines_log2)) + line.astype(np.uint64)
    return np.uint64(config.base) + offset * np.uint64(LINE_BYTES)
