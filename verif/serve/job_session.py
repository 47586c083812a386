# SPDX-License-Identifier: Apache-2.0
"""State of one job at the server: ranks, submitted buckets and their outcomes.

It uses no sockets and no clock: callers pass a function that sends messages to a rank, and the time
in seconds.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from models.modes import Mode
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers.shared_lines import (
    AHEAD,
    IN_TURN,
    WORDS,
    SharedLines,
    Word,
    bytes_of,
    results_kept,
)
from verif.serve.served_bucket import (
    OF_VOTES,
    Refusal,
    ServedBucket,
    bucket_of,
    check_alike,
    modes_of,
)

MOST_LINES = 1 << 28
"""Maximum number of lines of 64 bytes per worker in a bucket: 16 GiB."""
Tell = Callable[[int, wire.Message, Sequence[int]], None]
"""Function of (rank, message, file descriptors) that sends the message if the rank is connected."""


class RefusedOne(Exception):
    """Request of one rank that is refused, which other ranks do not notice; a text of one line."""


@dataclass
class _Open:
    """Bucket that some ranks have not submitted yet.

    Attributes:
        since: Time of the first submission, in seconds.
        said: Submissions by rank.
    """

    since: float
    said: dict[int, wire.Submit] = field(default_factory=dict)


@dataclass(frozen=True)
class _AtWork:
    """Bucket at the device.

    Attributes:
        late: Ranks without which its round was closed.
        checksum: `Submit.checksum` of the others.
    """

    late: tuple[int, ...] = ()
    checksum: int = 0


class JobSession:
    """Job of a training: its ranks, from HELLO to BYE, and its buckets.

    Each bucket gets one outcome (DONE, LOST or REFUSED) in the shared memory; the protocol is in
    `server_wire`.
    """

    def __init__(
        self, first: wire.Hello, welcome: wire.Welcome, timeout_s: float, now: float
    ) -> None:
        """Open a job for the first rank, which must still `join`.

        Args:
            first: HELLO of this rank, with which all ranks must agree.
            welcome: Message to all ranks once all have joined.
            timeout_s: Seconds that ranks wait for a late rank, to join or to submit a bucket.
            now: Present time in seconds.
        """
        self.first, self.timeout_s = first, timeout_s
        self.ended = ""
        """Reason why the job has ended; empty before."""
        self.tally: Counter[str] = Counter()
        self._welcome, self._since = welcome, now
        self._shared: SharedLines | None = None
        self._modes: tuple[Mode, ...] = OF_VOTES
        self._ranks: dict[int, Tell] = {}
        self._last: dict[int, int] = {}
        self._gone: set[int] = set()
        self._open: dict[int, _Open] = {}
        self._at_work: dict[int, _AtWork] = {}
        self._in_time: dict[int, int] = {}

    # -- who is there -----------------------------------------------------------------------------
    @property
    def whole(self) -> bool:
        """True once all ranks have joined."""
        return self._shared is not None

    @property
    def idle(self) -> bool:
        """True if the device has no bucket of this job."""
        return not self._at_work

    @property
    def missing(self) -> list[int]:
        """Ranks that have not joined."""
        return [rank for rank in range(self.first.world) if rank not in self._ranks]

    def join(self, hello: wire.Hello, tell: Tell) -> None:
        """Add a rank; when it is the last one, create the shared memory and send WELCOME to all.

        Raises:
            RefusedOne: The rank has joined already.
            Refusal: For all ranks: it differs from the first rank, or there is no memory.
        """
        if hello.rank in self._ranks:
            raise RefusedOne(f"rank {hello.rank} is here already; start each rank once")
        for name in ("world", "fingerprint", "lines", "routes", "close_after_s", "min_workers"):
            values = [_shown(getattr(one, name)) for one in (self.first, hello)]
            if values[0] != values[1]:
                raise Refusal(
                    f"{name}: rank {self.first.rank} says {values[0]}, rank {hello.rank} says "
                    f"{values[1]}; start all ranks alike"
                )
        self._ranks[hello.rank] = tell
        self._last[hello.rank] = self._in_time[hello.rank] = -1
        if not self.missing:
            self._start()

    def _start(self) -> None:
        world, lines = self.first.world, self.first.lines
        if lines < 1:
            raise Refusal(f"{lines} lines a worker")
        self._modes = modes_of(self.first.routes)
        # Pages are allocated when written, and buckets are rarely full: allow twice the memory.
        kept = results_kept(self.first)
        size, there = bytes_of(world, lines, kept), _memory()
        if lines > MOST_LINES or size > 2 * there:
            what = f"they take {size >> 30:,} GiB, this machine has {there >> 30:,}"
            raise Refusal(f"no memory for {lines:,} lines of {world} workers ({what})")
        try:
            self._shared = SharedLines.create(world, lines, kept)
        except (OSError, OverflowError, ValueError) as error:
            raise Refusal(f"no memory for {lines:,} lines of {world} workers ({error})") from None
        for rank in range(world):
            self._tell(rank, self._welcome, [self._shared.file])

    def leave(self, rank: int, *, bye: bool) -> None:
        """Remove a rank.

        Args:
            rank: Rank that leaves; buckets that wait for it are LOST.
            bye: It said BYE, which ends the session with the last rank; else its connection ended,
                which ends the session at once.
        """
        self._gone.add(rank)
        who = f"rank {rank} has {'said BYE' if bye else 'ended'}"
        if not bye or len(self._gone) == self.first.world:
            self.end(who)
        for seq, one in list(self._open.items()):
            if rank not in one.said:
                self._decide(seq, Word.LOST, who)

    def end(self, why: str) -> None:
        """End the job with a reason: open buckets are LOST; those at the device are completed."""
        self.ended = self.ended or why
        for seq in list(self._open):
            self._decide(seq, Word.LOST, why)

    def close(self) -> None:
        """Release the shared memory."""
        if self._shared is not None:
            self._shared.close()

    # -- buckets ----------------------------------------------------------------------------------
    def submit(self, rank: int, said: wire.Submit, now: float) -> ServedBucket | None:
        """Store a rank's submission of a bucket; return the bucket if it was the last one missing.

        Buckets that the rank skips, and one that another rank has skipped, are LOST; a submission
        of a bucket at or before the rank's last is ignored.

        Args:
            rank: Rank that submits.
            said: Its message.
            now: Present time in seconds.

        Returns:
            The bucket for the device, or None.

        Raises:
            RefusedOne: Not all ranks have joined, or too many buckets are open.
        """
        if self._shared is None:
            raise RefusedOne("SUBMIT before WELCOME")
        if said.seq <= self._last[rank]:
            self.tally["duplicates"] += 1
            return None
        self.skip(rank, said.seq - 1)
        self._last[rank] = said.seq
        if self._shared.outcome(said.seq) != Word.NONE:
            self.tally["late"] += 1
            self._tell(rank, wire.Done(said.seq))
            return None
        if said.seq in self._at_work:  # its round was closed
            self.tally["late"] += 1
            return None
        if said.seq not in self._open and len(self._open) >= WORDS:
            raise RefusedOne(f"more than {WORDS} buckets wait for other ranks")
        one = self._open.setdefault(said.seq, _Open(now))
        one.said[rank] = said
        without = [r for r, last in self._last.items() if last >= said.seq and r not in one.said]
        if self.ended or self._gone or without:
            why = self.ended or f"rank {min(without or self._gone)} goes on without it"
            self._decide(said.seq, Word.LOST, why)
        elif len(one.said) == self.first.world:
            return self._whole(one, said.seq)
        return None

    def close_rounds(self, now: float) -> list[ServedBucket]:
        """Close the rounds that have waited long enough, and return their buckets for the device.

        Args:
            now: Present time in seconds.
        """
        out = []
        for seq, one in sorted(self._open.items()):
            # A bucket that is refused ends the job, and with it the other rounds.
            if seq in self._open and now >= one.since + self._patience_s(seq, one):
                bucket = self._whole(one, seq) if self._may_close(seq, one) else None
                out += [bucket] if bucket is not None else []
        return out

    def _may_close(self, seq: int, one: _Open) -> bool:
        """Return True if a round may be closed without the ranks that have not come."""
        if self.first.close_after_s <= 0 or len(one.said) < max(1, self.first.min_workers):
            return False
        return all(last >= seq - AHEAD for r, last in self._in_time.items() if r not in one.said)

    def _patience_s(self, seq: int, one: _Open) -> float:
        """Return the seconds that a round waits for more ranks before it is closed or LOST."""
        return self.first.close_after_s if self._may_close(seq, one) else self.timeout_s

    def skip(self, rank: int, upto: int) -> None:
        """Note that a rank skips buckets up to number `upto`; those that wait for it are LOST."""
        self._last[rank] = max(self._last[rank], upto)
        for seq, one in list(self._open.items()):
            if seq <= upto and rank not in one.said:
                self._decide(seq, Word.LOST, f"rank {rank} goes on without it")

    def _whole(self, one: _Open, seq: int) -> ServedBucket | None:
        assert self._shared is not None
        late = tuple(rank for rank in range(self.first.world) if rank not in one.said)
        said = next(iter(one.said.values()))
        try:
            check_alike(one.said)
            lines = self._shared.sent[seq % IN_TURN], self._shared.got[seq % self._shared.kept]
            bucket = bucket_of(said, *lines, self._modes, late)
        except Refusal as refusal:
            self._decide(seq, Word.REFUSED, str(refusal))
            self.end(str(refusal))
            return None
        del self._open[seq]
        self._at_work[seq] = _AtWork(late, said.checksum)
        self._in_time |= dict.fromkeys(one.said, seq)
        self.tally["closed"] += bool(late)
        self.tally["poison"] += max(said.poison for said in one.said.values())
        return bucket

    def finished(
        self, seq: int, word: Word, why: str = "", counters: Mapping[str, int] | None = None
    ) -> None:
        """Store the outcome of a bucket from the device; REFUSED ends the job.

        Args:
            seq: Number of the bucket.
            word: Outcome.
            why: Reason in one line, "" for DONE.
            counters: Counters of the device for this bucket.
        """
        decided = self._decide(seq, word, why, counters or {})
        self._at_work.pop(seq, None)
        if decided == Word.REFUSED:
            self.end(why)

    def overdue(self, why: str) -> None:
        """Declare all buckets at the device LOST with a reason."""
        for seq in self._at_work:
            self._decide(seq, Word.LOST, why)

    def ask(self, rank: int, asked: wire.Ask) -> None:
        """Answer a rank that has waited long for a bucket: DONE, or PENDING with the reason."""
        if self._shared is None or self._shared.outcome(asked.seq) != Word.NONE:
            self._tell(rank, wire.Done(asked.seq))
        elif asked.seq in self._at_work:
            self._tell(rank, wire.Pending(asked.seq, "the device is at work on it"))
        else:
            came = self._open[asked.seq].said if asked.seq in self._open else {}
            absent = [str(r) for r in range(self.first.world) if r not in came]
            self._tell(rank, wire.Pending(asked.seq, f"rank {', '.join(absent)} has not come"))

    # -- time -------------------------------------------------------------------------------------
    def deadline(self) -> float:
        """Return the time, in seconds, at which `expire` must be called; infinity for never."""
        if not self.whole:
            return self._since + self.timeout_s
        waits = [one.since + self._patience_s(seq, one) for seq, one in self._open.items()]
        return min(waits, default=math.inf)

    def expire(self, now: float) -> None:
        """Declare buckets LOST that waited too long for a rank; `close_rounds` comes first.

        Raises:
            Refusal: Ranks did not join in time.
        """
        if not self.whole:
            if now >= self._since + self.timeout_s:
                ranks = ", ".join(map(str, self.missing))
                raise Refusal(
                    f"rank {ranks} of {self.first.world} has not come within {self.timeout_s:g} s"
                )
            return
        for seq, one in list(self._open.items()):
            if now >= one.since + self.timeout_s:
                absent = [str(r) for r in range(self.first.world) if r not in one.said]
                what = f"rank {', '.join(absent)} has not come within {self.timeout_s:g} s"
                self._decide(seq, Word.LOST, what)

    # -- for people -------------------------------------------------------------------------------
    def told(self) -> list[str]:
        """Return lines of text with the state of the job, for `nf serve --status`."""
        first, tally = self.first, self.tally
        came = [str(rank) for rank in sorted(self._ranks)]
        lines = [
            f"job {first.job}: rank {', '.join(came)} of {first.world}, "
            f"{first.lines:,} lines a worker, model {first.fingerprint[:12]}",
            f"buckets: {tally['DONE']} done, {tally['LOST']} lost, {tally['REFUSED']} refused, "
            f"{len(self._open)} wait for a rank, {len(self._at_work)} at the device",
            f"lines: {tally['lines']:,} a worker, {tally['contributions']:,} contributions, "
            f"{tally['rounds']:,} rounds, {tally['cycles']:,} cycles of the device",
        ]
        names = "closed", "duplicates", "late", "poison"
        odd = [f"{tally[name]} {name}" for name in names if tally[name]]
        return [*lines, *([f"odd: {', '.join(odd)}"] if odd else [])]

    def _decide(
        self, seq: int, word: Word, why: str, counters: Mapping[str, int] | None = None
    ) -> Word:
        assert self._shared is not None
        self._open.pop(seq, None)
        if (before := self._shared.outcome(seq)) != Word.NONE:
            return before
        work = self._at_work.get(seq, _AtWork())
        decided = self._shared.decide(seq, word, why, work.late, work.checksum)
        self.tally[decided.name] += 1
        self.tally.update(counters or {})
        for rank in self._ranks:
            self._tell(rank, wire.Done(seq, counters or {}))
        return decided

    def _tell(self, rank: int, message: wire.Message, files: Sequence[int] = ()) -> None:
        if rank not in self._gone:
            self._ranks[rank](rank, message, files)


def _memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
