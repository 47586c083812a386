# SPDX-License-Identifier: Apache-2.0
"""Tests of rounds that are closed without late ranks: one result for all, whoever is stopped."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from neuron_fabric import codec
from neuron_fabric.codec import Route
from neuron_fabric.collectives import CollectiveTimeout, Pool, PoolError, rounds
from neuron_fabric.collectives.executor import PAGE
from neuron_fabric.collectives.test_pool import good, ranks, same
from neuron_fabric.reducers.shared_lines import AHEAD

WORLD, LATE = 3, 1
CLOSING: Any = {"close_after": 0.05, "min_workers": 2}
ROUTES = (Route.G_BINARY, Route.G_INT8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pool"


def lines_of(rank: int, call: int) -> Any:
    return np.random.default_rng([rank, call]).integers(0, 256, (50 + call, 64), np.uint8)


def check(pool: Pool, call: int, route: Route = Route.G_BINARY, **how: Any) -> tuple[int, ...]:
    """Make a call; compare the result with that of its contributors, and return the late ranks."""
    found = pool.all_reduce_lines(lines_of(pool.rank, call), route, **{**CLOSING, **how})
    every = np.stack([lines_of(rank, call) for rank in range(pool.world)])
    here = np.ones(every.shape[:2], np.bool_)
    here[list(found[-1])] = False
    wanted = (
        codec.count(every, route, present=here)
        if route.votes
        else (codec.add_codes(every, route, here),)
    )
    for one, other in zip(found, wanted, strict=False):
        same(one, other)
    late: tuple[int, ...] = found[-1]
    return late


def closed_calls(path: Path, calls: int = AHEAD) -> None:
    """Make calls without a rank, which makes them when the others have all results."""
    others = threading.Barrier(WORLD)

    def do(pool: Pool) -> None:
        assert check(pool, 0, close_after=19.0) == ()
        for turn in range(2):
            if pool.rank == LATE:
                others.wait()
            for call in range(calls):
                assert check(pool, 1 + call, ROUTES[turn]) == (LATE,)
            if pool.rank != LATE:
                others.wait()
            assert check(pool, 9, close_after=19.0) == ()
        x = np.ones(9, np.float32)
        pool.all_reduce(x)
        same(x, np.full(9, WORLD, np.float32))

    good(path, WORLD, do)


@pytest.mark.parametrize("native", ["1", "0"])
def test_closed_calls(path: Path, native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_NATIVE", native)
    closed_calls(path)
    assert not path.with_name("pool.rounds").exists()


def test_slots_that_are_too_few_are_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "ROUNDS", 4)  # round 1 is overwritten before the late rank reads it
    with pytest.raises(AssertionError):
        closed_calls(path)


def queued_rounds(path: Path, calls: int = 150) -> None:
    """Queue all rounds at once on ranks of which each is slow at times, and read them in order."""
    closing = rounds.Closing(0.002, 2)

    def one(rank: int) -> list[tuple[int, ...]]:
        draw, seen = random.Random(rank), []
        with contextlib.closing(rounds.Rounds(path, rank, WORLD, 64, 20.0)) as own:
            todo = [
                own.submit(np.full(64, (rank + WORLD * call) % 256, np.uint8), str(call), closing)
                for call in range(calls)
            ]
            for number, asked in enumerate(todo):
                inbox = np.empty((WORLD, 64), np.uint8)
                seen.append(late := own.wait(asked, inbox))
                for other in range(WORLD):
                    wanted = 0 if other in late else (other + WORLD * number) % 256
                    assert (inbox[other] == wanted).all(), (rank, number, other, late)
                time.sleep(draw.choice([0, 0, 0, 0.02]) * draw.random())
        return seen

    with ThreadPoolExecutor(WORLD) as threads:
        first, *others = threads.map(one, range(WORLD))
    assert all(one == first for one in others)
    assert sum(map(bool, first)) > calls / 10


Record = tuple[int, int, int, int]
HERE = [(0, 7, rank, rounds.HERE) for rank in range(WORLD)]
CLOSE = (0, 7, 0, rounds.CLOSE)
LOGS: dict[str, tuple[list[Record], tuple[int, ...] | None, int | None]] = {
    "open": (HERE[:2], None, None),
    "whole": (HERE, (), None),
    "whole, then closed": ([*HERE, CLOSE], (), None),
    "closed": ([*HERE[1:], CLOSE], (0,), None),
    "closed twice": ([*HERE[:2], CLOSE, CLOSE], (2,), None),
    "closed, then come, closed": ([*HERE[1:], CLOSE, HERE[0], CLOSE], (0,), None),
    "another call": ([HERE[0], (0, 8, 1, rounds.HERE), CLOSE], (2,), 1),
}


@pytest.mark.parametrize("log", LOGS)
def test_decisions(log: str) -> None:
    """Check that a round is decided once, by the records before its first CLOSE."""
    records, late, other = LOGS[log]
    found = rounds.Decisions(WORLD)
    for record in records:
        found.note(*record)
    made = found.made.get(0)
    assert late == (made and made.late)
    assert other == (made and made.other)
    assert len(found.here) == (late is None)


def test_a_message_that_is_too_long(path: Path) -> None:
    own = rounds.Rounds(path, 0, 1, 100, 5.0)
    with pytest.raises(PoolError, match="a message of 129 bytes; 128 at most"):
        own.submit(np.zeros(129, np.uint8), "x", rounds.Closing(1.0, 1))
    own.close()


def test_queued_rounds(path: Path) -> None:
    queued_rounds(path)


def test_too_many_unread_rounds_are_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "IN_TURN", rounds.ROUNDS)
    with pytest.raises((AssertionError, PoolError)):
        queued_rounds(path)


Absent = dict[str, tuple[int, int, str]]
ABSENT: Absent = {
    "left out too often": (AHEAD, 1, "rank 1 has not come within 0.5 s; is it stopped?"),
    "too few": (0, 2, "rank 1, 2 has not come within 0.5 s"),
}


@pytest.mark.parametrize("case", ABSENT)
def test_absent_ranks_are_named(path: Path, case: str) -> None:
    calls, absent, text = ABSENT[case]
    ended = threading.Event()

    def do(pool: Pool) -> None:
        check(pool, 0, close_after=19.0)
        if 1 <= pool.rank <= absent:
            ended.wait()
            return
        try:
            for call in range(1, calls + 2):
                assert check(pool, call, timeout=0.5) == (LATE,)
        finally:
            ended.set()

    found = [one for one in ranks(path, WORLD, do) if one is not None]
    assert len(found) == WORLD - absent
    assert all(text in str(one) for one in found), found
    assert any(isinstance(one, CollectiveTimeout) for one in found)


@pytest.mark.parametrize("late", [False, True])
def test_another_call(path: Path, late: bool) -> None:
    """Check that ranks which say different things all end, a late one too."""

    def do(pool: Pool) -> None:
        check(pool, 0, close_after=19.0)
        if pool.rank == LATE:
            time.sleep(0.5 * late)
        for _ in range(2 - late):
            route = ROUTES[pool.rank == LATE]
            pool.all_reduce_lines(lines_of(0, 0), route, **{**CLOSING, "min_workers": 3 - late})
            pool.barrier()

    found = ranks(path, WORLD, do)
    assert all("rank 1 makes another call than the other ranks" in str(one) for one in found), found


WRONG: dict[str, dict[str, Any]] = {
    "close_after is 0;": {"close_after": 0},
    "close_after is nan": {"close_after": float("nan")},
    "close_after is '1'": {"close_after": "1"},
    "close_after 20 is not below the time-out of 20 s": {"close_after": 20},
    "close_after 3 is not below the time-out of 2 s": {"close_after": 3, "timeout": 2},
    "min_workers is 0; give 1 to 3": {"close_after": 1, "min_workers": 0},
    "min_workers is 4; give 1 to 3": {"close_after": 1, "min_workers": 4},
    "min_workers without close_after": {"min_workers": 2},
    "1,048,640 bytes of lines": {"close_after": 1, "lines": np.zeros((16385, 64), np.uint8)},
}


def test_wrong_calls_change_nothing(path: Path) -> None:
    def do(pool: Pool) -> None:
        for what, words in WRONG.items():
            lines = words.get("lines", np.zeros((1, 64), np.uint8))
            more = {name: one for name, one in words.items() if name != "lines"}
            with pytest.raises(PoolError, match=what):
                pool.all_reduce_lines(lines, Route.G_BINARY, **more)
        assert check(pool, 0, close_after=19.0) == ()

    good(path, WORLD, do)


FIRST: dict[str, tuple[Any, str]] = {
    "ended": (lambda pool: None, "rank 1 .*: process [0-9]+ has ended or closed the pool"),
    "aborted": (lambda pool: pool.abort("enough"), "rank 1 has aborted: enough"),
    "another call": (lambda pool: pool.barrier(), "rank 1 (calls )?barrier"),
}


@pytest.mark.parametrize("case", FIRST)
def test_the_first_call_names_a_rank_that_does_not_make_it(path: Path, case: str) -> None:
    does, text = FIRST[case]
    start = time.monotonic()
    found = ranks(path, WORLD, lambda pool: does(pool) if pool.rank == LATE else check(pool, 0))
    assert time.monotonic() - start < 10
    assert all(re.search(text, str(one)) for one in (found[0], found[2])), found


def test_abort_and_configure(path: Path) -> None:
    def do(pool: Pool) -> None:
        check(pool, 0, close_after=19.0)
        if pool.rank == LATE:
            pool.abort("enough")
        for _ in range(2):
            with pytest.raises(PoolError, match="rank 1 has aborted: enough"):
                check(pool, 1, close_after=19.0)
        pool.configure([0, 2])
        if pool.world == 2:
            assert check(pool, 0, close_after=19.0) == ()

    found = ranks(path, WORLD, do)
    assert [one is None for one in found] == [True, False, True], found


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def do(pool: Pool) -> None:
        check(pool, 0, close_after=19.0)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
        check(pool, 1)

    text, _ = map(str, ranks(path, 2, do))
    assert "bytes more: No space left on device; make space" in text


def both(path: Path, do: Any) -> list[Any]:
    """Run ``do`` on the rounds of each of two ranks, in threads; return the results."""

    def one(rank: int) -> Any:
        with contextlib.closing(rounds.Rounds(path, rank, 2, 64, 20.0)) as own:
            return do(own)

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(one, range(2)))


def asked(own: rounds.Rounds) -> rounds.Round:
    return own.submit(np.zeros(64, np.uint8), "x", rounds.Closing(19.0, 2))


@pytest.mark.parametrize("queued", [False, True])
def test_a_rank_without_memory_aborts(path: Path, queued: bool) -> None:
    """Check that a rank which cannot write a message, a queued one too, tells all ranks at once."""
    told = threading.Barrier(2)

    def full(*_: object) -> None:
        raise PoolError("pool", "No space left on device", "make space")

    def do(own: rounds.Rounds) -> str:
        todo, inbox = [asked(own) for _ in range(3 * queued)], np.empty((2, 64), np.uint8)
        if own.rank:
            own._allocate = full  # type: ignore[method-assign,assignment]
        try:
            for one in todo or [asked(own)]:
                own.wait(one, inbox)
        except PoolError as error:
            told.wait(15)
            return str(error)
        return "nothing"

    assert all("No space left on device" in text for text in both(path, do))


def test_a_rank_that_was_stopped_for_longer_than_its_time_out(path: Path) -> None:
    """Check that it looks at the log once more, where the awaited rank has come meanwhile."""
    halted, come = threading.Event(), threading.Event()

    def do(own: rounds.Rounds) -> tuple[int, ...]:
        inbox, looks = np.empty((2, 64), np.uint8), own._decision
        if own.rank == 0:

            def look(one: rounds.Round) -> Any:
                found = looks(one)
                if not halted.is_set():
                    halted.set()
                    come.wait()
                    time.sleep(0.4)
                return found

            own._decision = look  # type: ignore[method-assign]
            return own.wait(asked(own), inbox, 0.4)
        halted.wait()
        other = asked(own)
        come.set()
        return own.wait(other, inbox)

    assert both(path, do) == [(), ()]


def test_the_log_does_not_grow(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_LOG", PAGE)  # the least that has whole pages
    blocks = []

    def do(pool: Pool) -> None:
        message, inbox = np.zeros(64, np.uint8), np.zeros((1, 64), np.uint8)
        one = rounds.Rounds(path.with_name("log"), 0, 1, 64, 5.0)
        for turn in range(3000):
            one.wait(one.submit(message, "x", rounds.Closing(1.0, 1)), inbox)
            if turn % 1000 == 999:
                blocks.append(os.fstat(one._log).st_blocks * 512)
        one.close()

    good(path, 1, do)
    assert blocks[-1] < 3000 * 16, blocks
    assert max(blocks) - min(blocks) <= 1 << 14, blocks


# Ranks in processes: stopped, slowed and killed.

RANK = """
    import sys, time
    import numpy as np
    from neuron_fabric import codec, collectives
    from neuron_fabric.codec import Route

    path, rank, calls, most = sys.argv[1], *map(int, sys.argv[2:])
    every = np.random.default_rng(1).integers(0, 256, (4, 300, 64), np.uint8)
    pool = collectives.open(path, rank, 4, timeout=60)  # a busy machine starts ranks slowly
    pool.all_reduce_lines(every[rank], Route.G_BINARY, close_after=50)
    print("open", flush=True)
    how = {"close_after": 0.02, "min_workers": 2, "timeout": most}
    seen = []
    for call in range(calls):
        start = time.monotonic()
        try:
            votes, planes, late = pool.all_reduce_lines(every[rank], Route.G_BINARY, **how)
        except collectives.PoolError as error:
            assert time.monotonic() - start < most + 2
            sys.exit(str(error))
        here = np.ones((4, 300), np.bool_)
        here[list(late)] = False
        wanted = codec.count(every, Route.G_BINARY, present=here)
        assert (votes == wanted[0]).all() and (planes == wanted[1]).all(), late
        seen.append((call, *late))
        time.sleep(0.002)
    pool.barrier(timeout=60)
    pool.close()
    print(*seen, sep="\\n")
"""


def started(path: Path, calls: int, most_s: int, native: str) -> list[subprocess.Popen[str]]:
    """Start four ranks that make calls; return them when all are open."""
    script, words = textwrap.dedent(RANK), (str(calls), str(most_s))
    every = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path), str(rank), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "NF_NATIVE": native},
        )
        for rank in range(4)
    ]
    for one in every:
        assert one.stdout is not None
        assert one.stdout.readline() == "open\n"
    return every


def ended(every: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Return exit code, output and errors of each rank."""
    try:
        both = [one.communicate(timeout=90) for one in every]
        return [(one.returncode, *texts) for one, texts in zip(every, both, strict=True)]
    finally:
        for one in every:
            one.kill()
            one.communicate()


def stopped(path: Path, seed: int, moments: int, calls: int, native: str = "1") -> None:
    """Stop or slow ranks at random moments: all get equal results, and none waits for ever."""
    draw, every = random.Random(seed), started(path, calls, 30, native)
    for _ in range(moments):
        victim, slow = draw.choice(every), draw.random() < 0.5
        for _ in range(20 if slow else 1):
            victim.send_signal(signal.SIGSTOP)
            time.sleep(draw.uniform(0, 0.02 if slow else 0.5))
            victim.send_signal(signal.SIGCONT)
            time.sleep(draw.uniform(0, 0.02))
    found = ended(every)
    assert all(code == 0 for code, *_ in found), (seed, found)
    assert len({out for _, out, _ in found}) == 1, seed
    late = sum(line.count(", ") > 0 for line in found[0][1].splitlines())
    assert late >= moments / 2, (seed, late)


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yield the path of a pool in a new folder of /dev/shm, where nothing may be left."""
    with TemporaryDirectory(prefix="nf-rounds-", dir="/dev/shm") as folder:
        yield Path(folder, "pool")
        assert not os.listdir(folder)


@pytest.mark.parametrize("native", ["1", "0"])
def test_stopped_ranks(shared: Path, native: str) -> None:
    stopped(shared, 1, 3, 120, native)


@pytest.mark.nightly("50 moments take a minute; test_stopped_ranks has four")
@pytest.mark.parametrize("native", ["1", "0"])
def test_ranks_stopped_fifty_times(shared: Path, native: str) -> None:
    stopped(shared, 2, 50, 3000, native)


@pytest.mark.parametrize("victim", [0, 3])
def test_a_killed_rank(shared: Path, victim: int) -> None:
    """Check that all other ranks name a killed rank, whichever it is, within a second or two."""
    every = started(shared, 100_000, 30, "1")
    time.sleep(0.3)
    every[victim].kill()
    start = time.monotonic()
    found = ended(every)
    assert time.monotonic() - start < 5
    for rank, (code, _, error) in enumerate(found):
        if rank != victim:
            assert code == 1, error
            assert f"rank {victim}: process {every[victim].pid} has ended" in error, error
            assert error.count("\n") == 1, error
