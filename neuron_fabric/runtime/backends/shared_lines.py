# SPDX-License-Identifier: Apache-2.0
"""The memory that the ranks of a job and the reducer server share: lines, results, outcomes.

    words   int64[WORDS]                  outcome of bucket seq at seq % WORDS; the server writes it
    given   int64[WORDS]                  seq + 1 where a rank has given up waiting for that bucket
    reasons uint8[WORDS, REASON]          why a bucket is lost or refused, UTF-8
    sent    uint8[2, W, lines, 64]        what a worker sends of buckets with even, odd seq
    got     uint8[2, 1 + P, lines, 64]    votes or FP32 sums, then P = W.bit_length() count planes;
                                          sums of integer codes from the first on

A bucket has **one outcome**, the same for all: a word that the server alone writes, once. A rank
that gives up waiting says so in ``given``, and the server looks there before it writes DONE; both
do that under a lock, so that a bucket which somebody has given up is never DONE, even when the
server was stopped for a while. The server never waits for that lock: while a rank holds it, a
bucket is LOST, for which it needs none. When the server dies, words that it has not written stay 0
for all.

The memory is sealed: its size is for good. Both sides look at its seals and size before they map
it, since a file that is made smaller later ends who reads it by SIGBUS.

The lines of a worker: the parts of the bucket one after the other; the sidecar, its scales and its
presence in lines of 16; then, as int32 pairs, the first line and the sidecar's column of every
tensor that is voted on.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import LINE, U8
from neuron_fabric.runtime.backends.server_wire import PartShape, ServerError, cut

WORDS = 64
"""Ranks are never so far apart: they wait for each other in every step."""
REASON = 256
LOCK_S = 5.0
"""A rank waits for the lock so long; nobody needs it for more than a moment."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
IN_TURN = 2
_HEAD = WORDS * (8 + 8 + REASON)
_PER_LINE = LINE // 4


class Word(IntEnum):
    """The outcome of a bucket."""

    NONE = 0
    DONE = 1
    LOST = 2
    """It is reduced in FP32 by the ranks."""
    REFUSED = 3
    """The training ends: the ranks differ, or the device is wrong."""


@dataclass(frozen=True)
class BucketShape:
    """Where things lie in the lines that a worker sends of a bucket."""

    parts: tuple[PartShape, ...]
    columns: int

    @property
    def firsts(self) -> list[int]:
        """First line of each part."""
        return [sum(part.lines for part in self.parts[:n]) for n in range(len(self.parts))]

    @property
    def side(self) -> tuple[int, int]:
        """First line of the sidecar, and the lines of one of its two rows."""
        return sum(part.lines for part in self.parts), -(-self.columns // _PER_LINE)

    @property
    def table(self) -> tuple[int, int]:
        """First line of the table of tensors, and its entries."""
        first, row = self.side
        return first + 2 * row, sum(part.tensors for part in self.parts)

    @property
    def lines(self) -> int:
        """All of them."""
        first, entries = self.table
        return first + -(-8 * entries // LINE)


def most_lines(sizes: Sequence[int], more: int = 0) -> int:
    """The most lines that a bucket can have: tensors of so many lines, ``more`` beside them."""
    shape = BucketShape((), len(sizes))
    return sum(sizes) + more + 2 * shape.side[1] + -(-8 * len(sizes) // LINE)


def row_of(lines: U8, first: int, columns: int) -> NDArray[np.float32]:
    """float32[..., columns] that lie in lines [..., n, 64] from ``first`` on."""
    flat = np.ascontiguousarray(lines[..., first : first - (-columns // _PER_LINE), :])
    return flat.reshape(*lines.shape[:-2], -1).view("<f4")[..., :columns].astype(np.float32)


def put_row(lines: U8, first: int, row: NDArray[np.float32]) -> None:
    """The inverse of `row_of`, in lines [n, 64]."""
    flat = lines[first : first - (-len(row) // _PER_LINE)].reshape(-1)
    flat[: row.nbytes] = row.astype("<f4").view(np.uint8)
    flat[row.nbytes :] = 0


class SharedLines:
    """One side's view of it."""

    def __init__(self, file: int, workers: int, lines: int) -> None:
        """``file``: a descriptor, which this object closes. ServerError where it is not sealed, or
        not of the size that ``workers`` and ``lines`` need; OSError, ValueError."""
        self._file, self.workers, self.lines = file, workers, lines
        self.planes = workers.bit_length()
        self._close = weakref.finalize(self, os.close, file)
        size = bytes_of(workers, lines)
        _check_sealed(file, size)
        self._map = mmap.mmap(file, size)
        self._words = self._array(np.int64, 0, (WORDS,))
        self._given = self._array(np.int64, 8 * WORDS, (WORDS,))
        self._reasons = self._array(np.uint8, 16 * WORDS, (WORDS, REASON))
        at = _pages(_HEAD)
        self.sent: U8 = self._array(np.uint8, at, (IN_TURN, workers, lines, LINE))
        self.got: U8 = self._array(
            np.uint8, at + self.sent.nbytes, (IN_TURN, 1 + self.planes, lines, LINE)
        )

    @staticmethod
    def create(workers: int, lines: int) -> SharedLines:
        """New memory, all 0, of a size for good; it takes room where it is written. OSError."""
        file = os.memfd_create("nf-serve", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(file, bytes_of(workers, lines))
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
        except BaseException:
            os.close(file)
            raise
        return SharedLines(file, workers, lines)

    @property
    def file(self) -> int:
        """Its descriptor."""
        return self._file

    def outcome(self, seq: int) -> Word:
        """The outcome of a bucket, as far as it has one."""
        word = int(self._words[seq % WORDS])
        return Word(word & 3) if word >> 2 == seq + 1 else Word.NONE

    def reason(self, seq: int) -> str:
        """Why it is lost or refused."""
        return bytes(self._reasons[seq % WORDS]).rstrip(b"\0").decode(errors="replace")

    def decide(self, seq: int, word: Word, why: str = "") -> Word:
        """For the server: write the outcome, unless it is there; the outcome. What a rank has given
        up, or gives up at this moment, is LOST."""
        locked = self._try_lock()
        try:
            if (there := self.outcome(seq)) != Word.NONE:
                return there
            given = self._given[seq % WORDS] == seq + 1
            if word == Word.DONE and (given or not locked):
                word, why = Word.LOST, "a rank has given up waiting for it"
                why = why if given else "another process holds the lock of the shared memory"
            self._reasons[seq % WORDS] = 0
            text = np.frombuffer(cut(why, REASON - 1).encode(), np.uint8)
            self._reasons[seq % WORDS, : len(text)] = text
            self._words[seq % WORDS] = (seq + 1) << 2 | word
        finally:
            if locked:
                fcntl.lockf(self._file, fcntl.LOCK_UN)
        return word

    def give_up(self, seq: int) -> Word:
        """For a rank: the bucket is DONE now or never. ServerError where another process does not
        let go of the lock."""
        end = time.monotonic() + LOCK_S
        while not self._try_lock():
            if time.monotonic() > end:
                what = f"another process has held its lock for {LOCK_S:g} s"
                raise ServerError("the memory of the server", what, "is a rank stopped?")
            time.sleep(0.001)
        try:
            if (there := self.outcome(seq)) != Word.NONE:
                return there
            self._given[seq % WORDS] = seq + 1
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        return Word.LOST

    def close(self) -> None:
        """Let go of its descriptor, and so of the lock; the memory goes with the last view."""
        self._close()

    def _array(self, kind: Any, at: int, shape: tuple[int, ...]) -> NDArray[Any]:
        count = int(np.prod(shape))
        return np.frombuffer(self._map, kind, count, at).reshape(shape)

    def _try_lock(self) -> bool:
        """Take the lock between processes, unless another one has it; the death of one gives it
        back."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _check_sealed(file: int, size: int) -> None:
    try:
        seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    except OSError:  # a file of another kind
        seals = 0
    if seals & _SEALS != _SEALS:
        what = "it is not sealed: its sender could make it smaller"
        raise ServerError("the memory of the server", what, "use the server of `nf serve`")
    if (found := os.fstat(file).st_size) != size:
        what = f"it has {found:,} bytes, not {size:,}"
        raise ServerError("the memory of the server", what, "use the same version on both sides")


def bytes_of(workers: int, lines: int) -> int:
    """Return the size of the memory for a job."""
    views = workers + 1 + workers.bit_length()
    return _pages(_HEAD) + IN_TURN * views * lines * LINE


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
