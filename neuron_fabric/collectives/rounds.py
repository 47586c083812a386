# SPDX-License-Identifier: Apache-2.0
"""Rounds of ranks that share memory, which are closed without the ranks that are late.

In a round each rank writes a message to its slot, and all ranks get the messages of the same
contributors. They agree by a log: records of 16 bytes that the ranks append to the file of the
shared memory (O_APPEND). The kernel orders the records, so that all ranks read one sequence, and
the state of a round is a function of that sequence: a round is decided by the record HERE of the
last rank, or by the first record CLOSE, and its contributors are the ranks whose HERE precedes.
There is no leader and no lock: a rank that stops at any instruction delays nobody, and a rank that
wakes up late reads the decision that the others have read.

Slots are used again without a handshake. A rank has at most IN_TURN rounds that it has not read,
and a rank is left out of at most AHEAD rounds in a row. So a rank that writes round n has read
n - IN_TURN, in which, or within AHEAD rounds before, every rank has contributed; and a rank that
has written round m has read m - IN_TURN. Hence all have read round n - ROUNDS.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from neuron_fabric.codec import LINE, U8
from neuron_fabric.collectives.executor import PAGE
from neuron_fabric.collectives.shared_memory import CollectiveTimeout, PoolError, SharedMemory
from neuron_fabric.reducers.shared_lines import AHEAD, IN_TURN

ROUNDS = AHEAD + 2 * IN_TURN
"""Rounds whose messages are kept."""
HERE, CLOSE = 1, 2
_RECORD = struct.Struct("<QIHH")
"""Number of the round, digest of what it is of, rank, and HERE or CLOSE."""
_LOG = 1 << 20
"""Bytes of the log that are kept; ranks are never so far apart."""
_PUNCH = 3
"""FALLOC_FL_PUNCH_HOLE and FALLOC_FL_KEEP_SIZE."""
_LOOK_S = 0.25
"""Seconds after which a waiting rank looks whether the awaited processes live."""
_PAUSE_S = 0.001


@dataclass(frozen=True)
class Closing:
    """Condition on which a round is closed.

    Attributes:
        close_after_s: Seconds since this rank has written its message.
        min_workers: Ranks whose messages the round has at least.
    """

    close_after_s: float
    min_workers: int


@dataclass
class Round:
    """Round of a rank.

    Attributes:
        number: Number of the round.
        message: Message of this rank, uint8[n].
        digest: Checksum of what all ranks must have in common.
        closing: When it may be closed.
        since: Time at which the message was written, in seconds.
    """

    number: int
    message: U8
    digest: int
    closing: Closing
    since: float = 0.0


@dataclass(frozen=True)
class _Decision:
    """Contributors' digest of a round, the late ranks, and the first contributor that differs."""

    digest: int
    late: tuple[int, ...]
    other: int | None


class Decisions:
    """State of the rounds as a function of the log.

    Attributes:
        here: Digests of the ranks that have come, by round that is not decided.
        made: Decisions of the last rounds.
    """

    def __init__(self, world: int) -> None:
        """Begin with an empty log of ``world`` ranks."""
        self._world, self._in_time = world, [-1] * world
        self.here: dict[int, dict[int, int]] = {}
        self.made: dict[int, _Decision] = {}

    def note(self, number: int, digest: int, rank: int, kind: int) -> None:
        """Take the next record of the log."""
        if number in self.made:
            return
        said = self.here.setdefault(number, {})
        if kind == HERE:
            said[rank] = digest
        if kind != CLOSE and len(said) < self._world:
            return
        del self.here[number]
        digest = said[min(said)]
        other = next((one for one, its in said.items() if its != digest), None)
        late = tuple(one for one in range(self._world) if one not in said)
        self.made[number] = _Decision(digest, late, other)
        self.made.pop(number - 2 * ROUNDS, None)
        for one in said:
            self._in_time[one] = number

    def absent(self, number: int) -> list[int]:
        """Return the ranks that have not come to a round."""
        return [rank for rank in range(self._world) if rank not in self.here.get(number, {})]

    def may_close(self, number: int, least: int) -> bool:
        """Return whether a round of at least ``least`` workers may be closed now."""
        absent = self.absent(number)
        enough = self._world - len(absent) >= max(1, least)
        return enough and all(self._in_time[rank] >= number - AHEAD for rank in absent)


class Rounds:
    """Rounds of one rank; one thread may call `submit`, another one `wait`, in one order.

    After a PoolError the rounds are unusable, on all ranks.
    """

    def __init__(
        self, path: Path, rank: int, world: int, size: int, timeout_s: float, key: int = 0
    ) -> None:
        """Open the shared memory with the other ranks.

        Args:
            path: Its name.
            rank: This rank.
            world: Number of ranks.
            size: Bytes of a message, at most. Memory is allocated for what is written.
            timeout_s: Seconds to wait for another rank, here and in a round.
            key: See `SharedMemory`.

        Raises:
            PoolError: The ranks do not come together.
        """
        self.rank, self.world, self._timeout_s = rank, world, timeout_s
        self.size = -(-size // LINE) * LINE
        room = ROUNDS // 2 * world * self.size
        self.memory = SharedMemory(path, rank, world, room, timeout_s, key, whole=False)
        self._slots = self.memory.rooms.reshape(ROUNDS, world, self.size)
        self._log = self.memory.another(os.O_RDWR | os.O_APPEND)
        self._at = self.memory.size
        self._kept = -(-self._at // PAGE) * PAGE  # a part of a page is cleared, not freed
        self._lock, self._error = threading.Lock(), ""
        self._todo: deque[Round] = deque()
        self._next = self._unread = 0
        self._allocated = [0] * ROUNDS
        self._decisions = Decisions(world)

    def submit(self, message: U8, what: str, closing: Closing) -> Round:
        """Write the message of the next round, or queue it while two are unread; no wait.

        Args:
            message: Message, uint8[n], which must stay as it is until `wait`.
            what: Text that must be the same on all ranks.
            closing: When the round may be closed, the same on all ranks.

        Raises:
            PoolError: The rounds are unusable, the message is too long, or there is no memory.
        """
        if message.size > self.size:
            where, most = f"pool {self.memory.path}", f"{self.size:,} at most"
            raise PoolError(where, f"a message of {message.size:,} bytes", most)
        digest = zlib.crc32(f"{what}, {message.size} bytes, {closing}".encode())
        with self._lock:
            one = Round(self._next, message, digest, closing)
            self._next += 1
            self._todo.append(one)
            self._write()
        return one

    def wait(self, one: Round, inbox: U8, timeout_s: float | None = None) -> tuple[int, ...]:
        """Wait for a round, and copy its messages.

        Args:
            one: The round; rounds are awaited in the order of `submit`.
            inbox: Row r gets the message of rank r, zeros if it is late: uint8[W, n].
            timeout_s: Seconds to wait for another rank; by default those of the constructor.

        Returns:
            The late ranks, the same on all ranks.

        Raises:
            PoolError: Another rank has ended, aborted, or says something else.
            CollectiveTimeout: Another rank has not come in time.
        """
        try:
            found = self._await(one, timeout_s or self._timeout_s)
        except BaseException as error:
            self.abort(str(error) or type(error).__name__)
            raise
        for rank in range(self.world):
            late = rank in found.late
            inbox[rank] = 0 if late else self._slots[one.number % ROUNDS, rank, : inbox.shape[1]]
        with self._lock:
            self._unread -= 1
            self._write()
        return found.late

    def abort(self, why: str) -> None:
        """Make the rounds fail on all ranks, with the first reason.

        Ranks that come to the current round at the same time may still get its result.
        """
        if self.memory.aborted() is None:
            self.memory.abort(why)
        self._error = self._error or why

    def close(self) -> None:
        """Leave the shared memory."""
        self.memory.close()
        log, self._log = self._log, -1
        if log >= 0:
            os.close(log)
        self._error = self._error or "it is closed"

    def _write(self) -> None:
        """Write the messages of queued rounds while fewer than IN_TURN are unread."""
        while self._todo and self._unread < IN_TURN:
            if self._error:
                where, what = self._where(self._todo[0]), f"the pool is unusable: {self._error}"
                raise PoolError(where, what, "open a new one")
            one = self._todo.popleft()
            self._unread += 1
            slot, size = one.number % ROUNDS, one.message.size
            try:
                self._allocate(slot, size)
                self._slots[slot, self.rank, :size] = one.message
                one.since = time.monotonic()
                self._append(one, HERE)
            except PoolError as error:
                self.abort(str(error))
                raise

    def _allocate(self, slot: int, size: int) -> None:
        """Allocate the first bytes of a slot: a full /dev/shm is an error here, no SIGBUS."""
        if size <= self._allocated[slot]:
            return
        first = PAGE * (1 + self.world) + (slot * self.world + self.rank) * self.size
        try:
            os.posix_fallocate(self._log, first, size)
        except OSError as error:
            what = f"{size:,} bytes more: {error.strerror}"
            raise PoolError(f"pool {self.memory.path}", what, "make space") from None
        self._allocated[slot] = size

    # The log

    def _append(self, one: Round, kind: int) -> None:
        try:
            os.write(self._log, _RECORD.pack(one.number, one.digest, self.rank, kind))
        except OSError as error:
            what = f"its log: {error.strerror}"
            raise PoolError(f"pool {self.memory.path}", what, "make space") from None

    def _replay(self) -> None:
        """Read the new records of the log."""
        while data := os.pread(self._log, PAGE, self._at):
            data = data[: len(data) // _RECORD.size * _RECORD.size]
            self._at += len(data)
            for record in _RECORD.iter_unpack(data):
                self._decisions.note(*record)
        if self._at - self._kept >= 2 * _LOG:  # a file system that cannot do it keeps all
            size = (self._at - self._kept - _LOG) // PAGE * PAGE
            number = ctypes.c_int64
            ctypes.CDLL(None).fallocate(self._log, _PUNCH, number(self._kept), number(size))
            self._kept += size

    # Waits

    def _await(self, one: Round, timeout_s: float) -> _Decision:
        start, look, polls = time.monotonic(), 0.0, 0
        while (found := self._decision(one)) is None:
            now, absent = time.monotonic(), self._decisions.absent(one.number)
            if (rank := self.memory.aborted()) is not None:
                raise PoolError(self._where(one), self.memory.told(rank, 2), "open a new pool")
            may = self._decisions.may_close(one.number, one.closing.min_workers)
            due = may and now - one.since >= one.closing.close_after_s
            if due or now >= look:
                look = now + _LOOK_S
                self._check_alive(one, absent)
            if due:
                self._append(one, CLOSE)
            # A process that was stopped for so long looks once more: they may have come since.
            elif now - start >= timeout_s and self._decision(one) is None:
                names = ", ".join(map(str, self._decisions.absent(one.number)))
                what = f"rank {names} has not come within {timeout_s:g} s"
                raise CollectiveTimeout(self._where(one), what, "is it stopped?")
            else:
                polls += 1
                time.sleep(0 if polls < 20 else _PAUSE_S)
        if found.other is not None or found.digest != one.digest:
            other = found.other if found.other is not None else self.rank
            what = f"rank {other} makes another call than the other ranks"
            raise PoolError(self._where(one), what, "start all ranks alike")
        return found

    def _decision(self, one: Round) -> _Decision | None:
        self._replay()
        return self._decisions.made.get(one.number)

    def _check_alive(self, one: Round, absent: Collection[int]) -> None:
        """Raise CollectiveTimeout if an absent rank has ended; it may have come, or aborted."""
        gone = [rank for rank in absent if not self.memory.alive(rank)]
        if gone and self._decision(one) is None and self.memory.aborted() is None:
            for rank in set(gone).intersection(self._decisions.absent(one.number)):
                process = self.memory.process(rank)
                what = f"rank {rank}: process {process} has ended or closed the pool"
                raise CollectiveTimeout(self._where(one), what, "open a new pool")

    def _where(self, one: Round) -> str:
        return f"round {one.number} of pool {self.memory.path}"
