# SPDX-License-Identifier: Apache-2.0
"""Law L13 of `JobSession` by random walks through a job.

In any order of events of ranks, device and clock a bucket has one outcome, every rank gets it, and
a bucket that a rank gave up is never DONE.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from neuron_fabric.codec import Route
from neuron_fabric.reducers.server_wire import Ask, Done, Hello, PartShape, Submit, Welcome
from neuron_fabric.reducers.shared_lines import IN_TURN, KEPT, WORDS, Word
from verif.serve.job_session import JobSession
from verif.serve.served_bucket import ServedBucket

TIMEOUT_S = 5.0
PARTS = (PartShape(Route.FP32, False, 1, 0),)
HARM = ("skip", "give up", "leave", "overdue", "lose")
"""Events of a walk after which a bucket need not be DONE."""


class Walk:
    """Random walk through a job of 1 to 5 ranks: session under test, and outcomes seen so far.

    `events` are the names of events to draw from; see `event`.
    """

    def __init__(
        self,
        seed: int,
        events: Iterable[str],
        kind: type[JobSession] = JobSession,
        closing: bool = False,
    ) -> None:
        self.draw, self.events = random.Random(seed), list(events)
        self.world, self.now = self.draw.randint(1, 5), 0.0
        hello = Hello("job", 0, self.world, "f", 4)
        if closing:
            least = self.draw.randint(1, self.world)
            hello = replace(hello, close_after_s=TIMEOUT_S / 4, min_workers=least)
        self.closing = closing
        self.session = kind(hello, Welcome({}, ()), TIMEOUT_S, self.now)
        self.seen: dict[int, Word] = {}
        self.told: set[tuple[int, int]] = set()
        self.submitted: set[tuple[int, int]] = set()
        self.spoilt: set[int] = set()  # buckets that must not be DONE
        self.next = [0] * self.world
        self.gone: set[int] = set()
        self.at_work: list[ServedBucket] = []
        for rank in self.draw.sample(range(self.world), self.world):
            self.session.join(replace(hello, rank=rank), self.tell)
        assert self.session._shared is not None
        self.shared = self.session._shared

    def tell(self, rank: int, message: object, files: object) -> None:
        if isinstance(message, Done):
            assert self.shared.outcome(message.seq) != Word.NONE
            self.told.add((rank, message.seq))

    def run(self, steps: int) -> None:
        """Draw and execute `steps` events, then complete all buckets and check the law."""
        for _ in range(steps):
            self.event(self.draw.choice(self.events))
            self.look()
        for _ in range(2):
            while self.at_work:
                self.finish(Word.DONE)
            self.now += 2 * TIMEOUT_S
            self.pass_time()
        self.look()
        for rank, seq in self.submitted:
            assert seq in self.seen, "a rank waits for ever"
            assert rank in self.gone or (rank, seq) in self.told
        if not set(self.events) & {*HARM, "wait"}:
            for seq, word in self.seen.items():
                all_here = all((one, seq) in self.submitted for one in self.ranks)
                assert word == Word.DONE or not all_here
        self.session.close()

    @property
    def ranks(self) -> range:
        return range(self.world)

    def event(self, what: str) -> None:
        rank = self.drawn_rank()
        seq, session = self.next[rank], self.session
        if what == "wait":
            self.now += self.draw.random() * TIMEOUT_S
            self.pass_time()
        elif what in ("finish", "lose") and self.at_work:
            self.finish(Word.DONE if what == "finish" else Word.LOST)
        elif what == "overdue":
            session.overdue("too long")
        elif rank in self.gone or seq >= WORDS:
            return
        elif what == "submit" and self.may_submit(seq):
            self.next[rank] += 1
            self.submitted.add((rank, seq))
            self.submit(rank, seq)
        elif what == "again" and seq:
            self.submit(rank, self.draw.randrange(seq))
        elif what == "skip":
            self.next[rank] += 1
            session.skip(rank, seq)
            self.spoilt |= {seq} - {one.seq for one in self.at_work} - {*self.seen}
        elif what == "give up" and (rank, seq - 1) in self.submitted:
            if self.shared.give_up(seq - 1) == Word.LOST:
                self.spoilt.add(seq - 1)
        elif what == "ask" and seq:
            session.ask(rank, Ask(seq - 1))
        elif what == "leave" and self.draw.random() < 0.1:
            self.gone.add(rank)
            session.leave(rank, bye=self.draw.random() < 0.5)

    def drawn_rank(self) -> int:
        """Return a rank; rank 0 is slow if rounds may be closed."""
        if not self.closing:
            return self.draw.choice(self.ranks)
        return self.draw.choices(self.ranks, [1] + [12] * (self.world - 1))[0]

    def may_submit(self, seq: int) -> bool:
        """Return whether a rank, which waits for a bucket before it sends the next but one, may."""
        if not self.closing:
            return seq <= min(self.next) + 1
        return seq < IN_TURN or self.shared.outcome(seq - IN_TURN) != Word.NONE

    def pass_time(self) -> None:
        """Close the rounds that are due, then lose those that have waited too long."""
        self.look()
        for bucket in self.session.close_rounds(self.now):
            assert self.closing, "a round is closed, and nobody has asked for it"
            here = [rank for rank in self.ranks if (rank, bucket.seq) in self.submitted]
            assert sorted({*self.ranks} - {*here}) == list(bucket.late), "others are late"
            assert len(here) >= self.session.first.min_workers, "too few for a closed round"
            for rank in {*self.ranks} - self.gone:
                read = self.next[rank] - 1 - IN_TURN
                assert read >= bucket.seq - KEPT, "a result that is still to be read is overwritten"
            self.at_work.append(bucket)
        self.session.expire(self.now)

    def submit(self, rank: int, seq: int) -> None:
        said = Submit(seq, seq, 0, PARTS, 0, 0, 0)
        bucket = self.session.submit(rank, said, self.now)
        if bucket is not None:
            assert all((one, seq) in self.submitted for one in self.ranks)
            self.at_work.append(bucket)

    def finish(self, word: Word) -> None:
        seq = self.at_work.pop(0).seq
        self.spoilt |= {seq} if word == Word.LOST and seq not in self.seen else set()
        self.session.finished(seq, word)

    def look(self) -> None:
        """Check that no outcome changed, and that no bucket is DONE without all ranks on time."""
        for seq in range(max(self.next, default=0)):
            word = self.shared.outcome(seq)
            if word != Word.NONE:
                assert self.seen.setdefault(seq, word) == word, "two outcomes"
        for seq in self.spoilt:
            assert self.seen.get(seq) != Word.DONE, "DONE, and somebody has gone on without it"
        for seq, word in self.seen.items():
            if word == Word.DONE:
                on_time = {*self.ranks} - {*self.shared.late(seq)}
                assert all((rank, seq) in self.submitted for rank in on_time)


GOOD = ("submit",) * 8 + ("again", "finish", "finish", "ask")
ALL = (*GOOD, "wait", *HARM)


def walked(kind: type[JobSession]) -> None:
    for seed in range(200):
        Walk(seed, ALL, kind).run(60)


def test_one_outcome() -> None:
    walked(JobSession)


def closing_walks(kind: type[JobSession]) -> None:
    """Run walks in which rounds are closed; ranks are often far apart."""
    for seed in range(200):
        events = (ALL, (*GOOD, "wait"), (*GOOD, "wait", "leave"))[seed % 3]
        Walk(seed, events, kind, closing=True).run(160)


def test_closed_rounds() -> None:
    """Check that closed rounds have one outcome for all, and overwrite nothing unread."""
    closing_walks(JobSession)


class FarAhead(JobSession):
    """Negative twin: session that closes any number of rounds in a row without a rank."""

    def _may_close(self, seq: int, one: Any) -> bool:
        self._in_time = dict.fromkeys(self._in_time, seq)
        return super()._may_close(seq, one)


class TooFew(JobSession):
    """Negative twin: session that closes rounds with one contribution less than the least."""

    def _may_close(self, seq: int, one: Any) -> bool:
        least = self.first.min_workers
        self.first = replace(self.first, min_workers=least - 1)
        found = super()._may_close(seq, one)
        self.first = replace(self.first, min_workers=least)
        return found


@pytest.mark.parametrize(
    ("twin", "what"), [(FarAhead, "is overwritten"), (TooFew, "too few for a closed round")]
)
def test_the_twins_of_closed_rounds_fail(twin: type[JobSession], what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        closing_walks(twin)


def test_order_and_duplicates_change_nothing() -> None:
    """Check law L6: without harm, all buckets that all ranks have submitted are DONE."""
    for seed in range(100):
        Walk(seed, GOOD).run(60)


@pytest.mark.nightly("4,000 walks; test_one_outcome has 200")
def test_one_outcome_at_length() -> None:
    for seed in range(4_000):
        Walk(1000 + seed, ALL if seed % 4 else GOOD).run(100)


class Twice(JobSession):
    """Negative twin: session in which a later outcome of a bucket replaces the first one."""

    def _decide(self, seq: int, *word: Any) -> Word:
        assert self._shared is not None
        self._shared._words[seq % WORDS] = 0
        return super()._decide(seq, *word)


class NotHeard(JobSession):
    """Negative twin: session in which a bucket that a rank has given up may be DONE."""

    def _decide(self, seq: int, *word: Any) -> Word:
        assert self._shared is not None
        self._shared._given[seq % WORDS] = 0
        return super()._decide(seq, *word)


@pytest.mark.parametrize(
    ("twin", "what"), [(Twice, "two outcomes"), (NotHeard, "has gone on without it")]
)
def test_its_twins_fail(twin: type[JobSession], what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        walked(twin)
