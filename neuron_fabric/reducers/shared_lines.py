# SPDX-License-Identifier: Apache-2.0
"""Memory that the ranks of a job share with the reducer server, and the outcomes in it."""

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
from neuron_fabric.reducers import server_wire as wire

WORDS = 64
"""Outcomes kept; ranks wait for each other in every step, so they are never so far apart."""
REASON = 256
LOCK_S = 5.0
"""Time-out of a rank for the lock, which is held for a moment only."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
IN_TURN = 2
KEPT = 8
"""Buckets whose results are kept if rounds may be closed: a late rank still reads them."""
AHEAD = KEPT - IN_TURN
"""Rounds in a row that may be closed without one rank. A rank that has submitted bucket n has read
all up to n - IN_TURN, so that the result of round n + AHEAD overwrites none that it has to read.
"""
_PER_LINE = LINE // 4


class Word(IntEnum):
    """Outcome of a bucket at the reducer server, the same for all ranks."""

    NONE = 0
    DONE = 1
    LOST = 2
    """It is reduced in FP32 by the ranks."""
    REFUSED = 3
    """The training ends: the ranks differ, or the device is wrong."""


@dataclass(frozen=True)
class BucketShape:
    """Layout of the lines that a worker sends for a bucket: parts, sidecar, table of tensors."""

    parts: tuple[wire.PartShape, ...]
    columns: int

    @property
    def firsts(self) -> list[int]:
        """Return the first line of each part."""
        return [sum(part.lines for part in self.parts[:n]) for n in range(len(self.parts))]

    @property
    def side(self) -> tuple[int, int]:
        """Return the first line of the sidecar, and the number of lines of each of its two rows."""
        return sum(part.lines for part in self.parts), -(-self.columns // _PER_LINE)

    @property
    def table(self) -> tuple[int, int]:
        """Return the first line of the table of tensors, and the number of its entries."""
        first, row = self.side
        return first + 2 * row, sum(part.tensors for part in self.parts)

    @property
    def lines(self) -> int:
        """Return the total number of lines."""
        first, entries = self.table
        return first + -(-8 * entries // LINE)


def most_lines(sizes: Sequence[int], more: int = 0) -> int:
    """Return the most lines that a bucket can have.

    Args:
        sizes: Lines of each tensor, all of which may be in one bucket.
        more: Further lines.
    """
    shape = BucketShape((), len(sizes))
    return sum(sizes) + more + 2 * shape.side[1] + -(-8 * len(sizes) // LINE)


def results_kept(hello: wire.Hello) -> int:
    """Return the number of buckets whose results the memory of a job keeps."""
    return KEPT if hello.close_after_s > 0 else IN_TURN


def row_of(lines: U8, first: int, columns: int) -> NDArray[np.float32]:
    """Read a row of numbers float32[..., columns] from lines [..., n, 64], from line ``first``."""
    flat = np.ascontiguousarray(lines[..., first : first - (-columns // _PER_LINE), :])
    return flat.reshape(*lines.shape[:-2], -1).view("<f4")[..., :columns].astype(np.float32)


def put_row(lines: U8, first: int, row: NDArray[np.float32]) -> None:
    """Write a row of numbers to lines [n, 64] from line ``first`` on; inverts `row_of`."""
    flat = lines[first : first - (-len(row) // _PER_LINE)].reshape(-1)
    flat[: row.nbytes] = row.astype("<f4").view(np.uint8)
    flat[row.nbytes :] = 0


class SharedLines:
    """Memory that the ranks of a job share with the reducer server: lines, results and outcomes.

      words   int64[WORDS]                  outcome of bucket seq at seq % WORDS, by the server
      given   int64[WORDS]                  seq + 1 where a rank has given up that bucket
      sums    int64[WORDS]                  checksum of the submissions of a DONE bucket
      reasons uint8[WORDS, REASON]          why a bucket is lost or refused, UTF-8
      late    uint8[WORDS, W]               1 for a worker without which the round was closed
      sent    uint8[2, W, lines, 64]        what a worker sends of buckets with even, odd seq
      got     uint8[K, 1 + P, lines, 64]    of seq % K: votes or FP32 sums, W.bit_length() planes;
                                            sums of integer codes from the first on

    A bucket has **one outcome**, the same for all: a word that the server alone writes, once. A
    rank that gives up waiting records this in ``given``, and the server checks it before it writes
    DONE; both do that under a lock, so that a bucket which a rank has given up is never DONE,
    even when the server was stopped for a while. The server never waits for that lock: while a rank
    holds it, a bucket is LOST, for which it needs none. When the server dies, words that it has not
    written stay 0 for all.

    The memory is sealed: its size cannot change. Both sides check its seals and size before they
    map it, since a file that is made smaller later ends its readers by SIGBUS.

    The lines of a worker: the parts of the bucket one after the other; the sidecar, its scales and
    its presence in lines of 16; then, as int32 pairs, the first line and the sidecar's column of
    every tensor that is voted on.
    """

    def __init__(self, file: int, workers: int, lines: int, kept: int = IN_TURN) -> None:
        """Map the memory of a descriptor, which this object will close.

        Args:
            file: Descriptor.
            workers: Number of ranks.
            lines: Lines of a bucket, at most.
            kept: Buckets whose results are kept, see `results_kept`.

        Raises:
            ServerError: It is not sealed, or has not the size for ``workers`` and ``lines``.
            OSError: It cannot be mapped; also ValueError.
        """
        self.file, self.workers, self.lines, self.kept = file, workers, lines, kept
        self.planes = workers.bit_length()
        self._close = weakref.finalize(self, os.close, file)
        size = bytes_of(workers, lines, kept)
        _check_sealed(file, size)
        self._map = mmap.mmap(file, size)
        self._words = self._array(np.int64, 0, (WORDS,))
        self._given = self._array(np.int64, 8 * WORDS, (WORDS,))
        self._sums = self._array(np.int64, 16 * WORDS, (WORDS,))
        self._reasons = self._array(np.uint8, 24 * WORDS, (WORDS, REASON))
        self._late = self._array(np.uint8, (24 + REASON) * WORDS, (WORDS, workers))
        at = _pages(_head(workers))
        self.sent: U8 = self._array(np.uint8, at, (IN_TURN, workers, lines, LINE))
        self.got: U8 = self._array(
            np.uint8, at + self.sent.nbytes, (kept, 1 + self.planes, lines, LINE)
        )

    @staticmethod
    def create(workers: int, lines: int, kept: int = IN_TURN) -> SharedLines:
        """Create sealed memory of zeros; pages are allocated when written. Raise OSError."""
        file = os.memfd_create("nf-serve", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(file, bytes_of(workers, lines, kept))
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
        except BaseException:
            os.close(file)
            raise
        return SharedLines(file, workers, lines, kept)

    def outcome(self, seq: int) -> Word:
        """Return the outcome of bucket ``seq``; NONE while it has none."""
        word = int(self._words[seq % WORDS])
        return Word(word & 3) if word >> 2 == seq + 1 else Word.NONE

    def reason(self, seq: int) -> str:
        """Return why bucket ``seq`` is lost or refused, as text."""
        return bytes(self._reasons[seq % WORDS]).rstrip(b"\0").decode(errors="replace")

    def late(self, seq: int) -> tuple[int, ...]:
        """Return the ranks without which the round of bucket ``seq`` was closed."""
        return tuple(np.flatnonzero(self._late[seq % WORDS]).tolist())

    def checksum(self, seq: int) -> int:
        """Return `Submit.checksum` of the submissions of bucket ``seq``."""
        return int(self._sums[seq % WORDS])

    def decide(
        self, seq: int, word: Word, why: str = "", late: Sequence[int] = (), checksum: int = 0
    ) -> Word:
        """Write the outcome of a bucket, unless it has one, and return its outcome; for the server.

        A bucket that a rank has given up, or is giving up, becomes LOST instead of DONE.

        Args:
            seq: Number of the bucket.
            word: Outcome.
            why: Reason if it is not DONE.
            late: Ranks without which its round was closed.
            checksum: `Submit.checksum` of its submissions.
        """
        locked = self._try_lock()
        try:
            if (there := self.outcome(seq)) != Word.NONE:
                return there
            given = self._given[seq % WORDS] == seq + 1
            if word == Word.DONE and (given or not locked):
                word, why = Word.LOST, "a rank has given up waiting for it"
                why = why if given else "another process holds the lock of the shared memory"
            self._reasons[seq % WORDS] = 0
            text = np.frombuffer(wire.cut(why, REASON - 1).encode(), np.uint8)
            self._reasons[seq % WORDS, : len(text)] = text
            self._late[seq % WORDS] = 0
            self._late[seq % WORDS, list(late)] = 1
            self._sums[seq % WORDS] = checksum
            self._words[seq % WORDS] = (seq + 1) << 2 | word  # last: ranks read the rest after it
        finally:
            if locked:
                fcntl.lockf(self.file, fcntl.LOCK_UN)
        return word

    def give_up(self, seq: int) -> Word:
        """Give up a bucket, for a rank; return its outcome, which is LOST if it had none.

        Raises:
            ServerError: Another process does not release the lock.
        """
        end = time.monotonic() + LOCK_S
        while not self._try_lock():
            if time.monotonic() > end:
                what = f"another process has held its lock for {LOCK_S:g} s"
                raise wire.ServerError("the memory of the server", what, "is a rank stopped?")
            time.sleep(0.001)
        try:
            if (there := self.outcome(seq)) != Word.NONE:
                return there
            self._given[seq % WORDS] = seq + 1
        finally:
            fcntl.lockf(self.file, fcntl.LOCK_UN)
        return Word.LOST

    def close(self) -> None:
        """Close the descriptor, which releases the lock; the memory is freed with the last view."""
        self._close()

    def _array(self, kind: Any, at: int, shape: tuple[int, ...]) -> NDArray[Any]:
        count = int(np.prod(shape))
        return np.frombuffer(self._map, kind, count, at).reshape(shape)

    def _try_lock(self) -> bool:
        """Acquire the lock between processes; return False if another process holds it.

        The death of its holder releases it.
        """
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        raise wire.ServerError("the memory of the server", what, "use the server of `nf serve`")
    if (found := os.fstat(file).st_size) != size:
        what = f"it has {found:,} bytes, not {size:,}"
        raise wire.ServerError(
            "the memory of the server", what, "use the same version on both sides"
        )


def bytes_of(workers: int, lines: int, kept: int = IN_TURN) -> int:
    """Return the size in bytes of the shared memory for a job."""
    views = IN_TURN * workers + kept * (1 + workers.bit_length())
    return _pages(_head(workers)) + views * lines * LINE


def _head(workers: int) -> int:
    return WORDS * (8 + 8 + 8 + REASON + workers)


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
