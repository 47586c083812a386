# SPDX-License-Identifier: Apache-2.0
"""Shared memory of a pool: a file that the ranks find by its name, and lose the name of.

The first rank creates the file, the last to come removes its name: all have it mapped then, so
nothing is left when they end, however they end. Each rank holds a lock on a byte of the file, which
the kernel releases when its process dies: so a rank knows which others live, two processes cannot
have one rank, and a file that a crash left while ranks were coming is taken over by the next open.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import struct
import time
import weakref
from contextlib import suppress
from pathlib import Path

import numpy as np

from neuron_fabric.codec import U8
from neuron_fabric.collectives.executor import ABORT, MAX_RANKS, PAGE, TEXT, TEXTS, Words
from neuron_fabric.errors import InputError

MAGIC = b"nf pool\0"
FORMAT = 1
"""Version of the layout."""
LEAST_ROOM = 1 << 16
_HEAD = struct.Struct("<8sIIQQ16s")
_JOINED = 2048
"""First byte of the header's table: process id of each rank that has come, uint32."""
_OPENING = MAX_RANKS
"""Byte of the lock under which a rank comes or goes; byte r is that of rank r."""
_POLL_S = 0.002
_FORKED: weakref.WeakSet[SharedMemory] = weakref.WeakSet()


class PoolError(InputError):
    """A pool cannot be opened or used; one line says what, where, and what to do."""


class CollectiveTimeout(PoolError):
    """A rank has waited too long for another; the line names both and where all ranks are."""


def _close_copies() -> None:
    """Close the descriptors that a forked process has inherited; the locks stay its parent's."""
    for one in tuple(_FORKED):
        one.close_file()


os.register_at_fork(after_in_child=_close_copies)


class SharedMemory:
    """Mapped file of a pool, in which this process is one rank.

      header  uint8[4096]          `_HEAD`: magic, format, world, room, key of the group, creator
      pages   uint64[W, 512]       page of bells of each rank, see `executor`
      rooms   uint8[2, room]       data of collectives with an even, an odd number

    Attributes:
        path: The file.
        pages: Pages of bells.
        rooms: Data.
        creator: 16 random bytes, the same for all ranks.
    """

    def __init__(
        self,
        path: Path,
        rank: int,
        world: int,
        room: int,
        timeout_s: float,
        key: int = 0,
        *,
        whole: bool = True,
    ) -> None:
        """Open the file, or create it, and wait until all ranks have.

        Args:
            path: The file.
            rank: This rank.
            world: Number of ranks.
            room: Bytes of data of one collective.
            timeout_s: Seconds to wait for the others.
            key: Number that all ranks of this group give.
            whole: Whether to allocate the rooms now; if not, the caller allocates what it writes.

        Raises:
            PoolError: The file is none of this job's, a rank is taken or does not come, or there is
                no space.
        """
        self.path, self.rank, self.world, self.room, self.key = path, rank, world, room, key
        self.size, self._whole = PAGE * (1 + world) + 2 * room, whole
        self._texts = [""] * 3
        end = time.monotonic() + timeout_s
        self._file = -1
        while (why := self._enter(end)) and time.monotonic() < end:
            time.sleep(10 * _POLL_S)
        if why:
            raise PoolError(path, why, "end that process, or use another path")
        _FORKED.add(self)
        try:
            self._wait(end, timeout_s)
        except BaseException:
            self.close()
            raise

    def alive(self, rank: int) -> bool:
        """Return whether the process of a rank lives and has not closed the pool."""
        return self._locked_by_other(rank) or rank == self.rank

    def process(self, rank: int) -> int:
        """Return the process id of a rank, as its own namespace has it."""
        return int(self._joined[rank])

    def aborted(self) -> int | None:
        """Return a rank that has aborted the pool, or None."""
        found = np.flatnonzero(self.pages[:, ABORT])
        return int(found[0]) if len(found) else None

    def abort(self, why: str) -> None:
        """Make this rank's reason known to all ranks, and the pool unusable for them."""
        self.tell(2, why)
        self.pages[self.rank, ABORT] = 1

    def tell(self, slot: int, text: str) -> None:
        """Write a text into the page: those of two calls, and of the abort."""
        if self._texts[slot] == text:
            return
        self._texts[slot] = text
        page = self.pages[self.rank].view(np.uint8)
        first = TEXT + slot * TEXTS
        data = text.encode()[: TEXTS - 1] + b"\0"
        page[first : first + len(data)] = np.frombuffer(data, np.uint8)

    def told(self, rank: int, slot: int) -> str:
        """Return a text that a rank has told."""
        first = TEXT + slot * TEXTS
        page = self.pages[rank].view(np.uint8)[first : first + TEXTS].tobytes()
        text: bytes = page.split(b"\0")[0]
        return text.decode(errors="replace")

    def another(self, flags: int) -> int:
        """Return another descriptor of the file, which holds no locks; the caller closes it."""
        return os.open(f"/proc/self/fd/{self._file}", flags | os.O_CLOEXEC)

    def close(self) -> None:
        """Leave the file; the last rank that is there removes its name, if it still has one."""
        if self._file < 0:
            return
        with suppress(OSError):
            self._lock_opening(time.monotonic() + 1)
            self._lock(self.rank, kind=fcntl.F_UNLCK)
            if not any(self._locked_by_other(rank) for rank in range(self.world)):
                self._remove_name()
        self.close_file()

    def close_file(self) -> None:
        """Close the descriptor, which releases the locks if no other process has it."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    # Coming: each step returns why it is to be tried again, "" if not.

    def _enter(self, end: float) -> str:
        """Open the file, and become this rank in it; return who is in the way, "" if nobody."""
        self._file = _open(self.path)
        try:
            self._lock_opening(end)
            why = self._join() if self._named() else "it is another file now"
            if why:
                self.close_file()
            else:
                self._lock(_OPENING, kind=fcntl.F_UNLCK)
        except BlockingIOError:
            self.close_file()
            return "another process is opening it, perhaps stopped"
        except BaseException:
            self.close_file()
            raise
        return why

    def _join(self) -> str:
        size = os.fstat(self._file).st_size
        head = os.pread(self._file, _HEAD.size, 0)
        if size and head[: len(MAGIC)] != MAGIC:
            raise PoolError(self.path, "not a pool", "use another path, or remove the file")
        ranks = range(MAX_RANKS)
        live = [rank for rank in ranks if self._locked_by_other(rank)]
        if not live:
            self._create()
        elif why := self._stranger(head, size):
            raise PoolError(self.path, why, "start all ranks alike, or use another path")
        self._map()
        if self.process(self.rank):
            return self._taken(live)
        self._lock(self.rank)
        self._joined[self.rank] = os.getpid()
        return ""

    def _taken(self, live: list[int]) -> str:
        """Return who has this rank, or lives in a file that a rank has died in."""
        holder = self.rank if self.rank in live else live[0]
        here = f"rank {holder} is process {self.process(holder)}, which lives"
        return here if holder == self.rank else f"rank {self.rank} has ended, and {here}"

    def _stranger(self, head: bytes, size: int) -> str:
        """Return how the file of living ranks differs from this rank's, "" if it does not."""
        _, version, world, room, key, _ = _HEAD.unpack(head)
        if version != FORMAT:
            return f"other ranks have version {version} of the pool, this one {FORMAT}"
        if world != self.world:
            return f"other ranks have a world of {world}, this one of {self.world}"
        if room != self.room:
            return f"other ranks have a room of {room:,} bytes, this one of {self.room:,}"
        if key != self.key:
            return "other ranks have other live ranks"
        return "" if size == self.size else f"it has {size:,} bytes, not {self.size:,}"

    def _create(self) -> None:
        os.ftruncate(self._file, 0)
        try:
            # A full disk is an error now, no SIGBUS.
            os.posix_fallocate(
                self._file, 0, self.size if self._whole else self.size - 2 * self.room
            )
            os.ftruncate(self._file, self.size)
        except OSError as error:
            os.ftruncate(self._file, 0)
            self._remove_name()
            what = f"{self.size:,} bytes: {error.strerror}"
            raise PoolError(self.path, what, "make space, or use a smaller room") from None
        creator = os.urandom(16)
        head = _HEAD.pack(MAGIC, FORMAT, self.world, self.room, self.key, creator)
        os.pwrite(self._file, head, 0)

    def _map(self) -> None:
        # mmap keeps a copy of its descriptor: of another open file, or locks would outlive a close.
        other = self.another(os.O_RDWR)
        try:
            memory = np.frombuffer(mmap.mmap(other, self.size), np.uint8)
        except OSError as error:
            what = f"{self.size:,} bytes: {error.strerror}"
            raise PoolError(self.path, what, "use a smaller room") from None
        finally:
            os.close(other)
        self.creator = _HEAD.unpack(memory[: _HEAD.size].tobytes())[-1]
        self._joined = memory[_JOINED : _JOINED + 4 * MAX_RANKS].view(np.uint32)
        first = PAGE * (1 + self.world)
        self.pages: Words = memory[PAGE:first].view(np.uint64).reshape(self.world, -1)
        self.rooms: U8 = memory[first:].reshape(2, self.room)

    def _wait(self, end: float, timeout_s: float) -> None:
        """Wait until all ranks have come, then remove the name of the file."""
        while not self._joined[: self.world].all():
            if time.monotonic() > end:
                absent = ", ".join(map(str, np.flatnonzero(self._joined[: self.world] == 0)))
                what = f"rank {absent} has not opened it within {timeout_s:g} s"
                raise PoolError(self.path, what, f"start {self.world} ranks, all on this machine")
            time.sleep(_POLL_S)
        self._lock_opening(max(end, time.monotonic() + 1))
        self._remove_name()
        self._lock(_OPENING, kind=fcntl.F_UNLCK)

    # Locks of an open file: unlike those of a process, two in one process exclude each other.

    def _lock(self, byte: int, *, kind: int = fcntl.F_WRLCK) -> None:
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _flock(kind, byte))

    def _lock_opening(self, end: float) -> None:
        """Lock coming and going until `end`; raise BlockingIOError if another process does not."""
        while True:
            try:
                return self._lock(_OPENING)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
            time.sleep(_POLL_S)

    def _locked_by_other(self, byte: int) -> bool:
        found = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, byte))
        return bool(struct.unpack_from("h", found)[0] != fcntl.F_UNLCK)

    def _named(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _remove_name(self) -> None:
        if self._named():
            self.path.unlink()


def _flock(kind: int, byte: int) -> bytes:
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0)


def _open(path: Path) -> int:
    """Open or create a file that only this user can read and write."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise PoolError(path, why, "use a path in /dev/shm that you may write") from None
    about = os.fstat(file)
    why = ""
    if not stat.S_ISREG(about.st_mode):
        why = "not a regular file (DAX devices are not supported)"
    elif about.st_uid != os.getuid() or about.st_mode & 0o022:
        why = "other users can change it"
    if why:
        os.close(file)
        raise PoolError(path, why, "use another path")
    return file
