# SPDX-License-Identifier: Apache-2.0
"""Tests of pools between ranks: results by bits, refusals on all ranks, lost and stopped ranks."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from neuron_fabric import codec, collectives
from neuron_fabric.codec import Route
from neuron_fabric.codec.reduction import ordered_sum
from neuron_fabric.collectives import CollectiveTimeout, Pool, PoolError, shared_memory
from neuron_fabric.collectives.executor import KINDS, reduced
from neuron_fabric.collectives.schedule import Collective
from neuron_fabric.collectives.shared_memory import SharedMemory
from neuron_fabric.collectives.shipped import shipped

SIZES = (0, 1, 16, 1_003, 8_193, 300_001)
Do = Callable[[Pool], Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pool"


def ranks(path: Path, world: int, do: Do, timeout: float = 20, room: int = 1 << 20) -> list[Any]:
    """Run ``do`` on each rank, in threads; return the results, or the errors of the pool."""

    def one(rank: int) -> Any:
        pool = None
        try:
            pool = collectives.open(path, rank, world, timeout=timeout, room=room)
            return do(pool)
        except PoolError as error:
            return error
        finally:
            if pool is not None:
                pool.close()

    with ThreadPoolExecutor(world) as threads:
        found = list(threads.map(one, range(world)))
    assert not path.exists()
    return found


def good(path: Path, world: int, do: Do) -> None:
    for one in ranks(path, world, do):
        if isinstance(one, PoolError):
            raise one


def texts(found: list[Any]) -> list[str]:
    assert all(isinstance(one, PoolError) for one in found), found
    return [str(one) for one in found]


def drawn(rank: int, size: int, dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng([rank, size])
    x = (rng.standard_normal(size) * 1000).astype(dtype)
    if x.dtype.kind == "f" and size > 9:
        x[rng.integers(0, size, 4)] = [np.nan, np.inf, -np.inf, -0.0]
    return x


def same(found: Any, wanted: Any) -> None:
    assert found.tobytes() == np.asarray(wanted).tobytes()


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_reductions(path: Path, world: int, native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_NATIVE", native)

    def check(pool: Pool) -> None:
        for size in SIZES[: None if native == "1" else -1]:
            for dtype, join in KINDS:
                every = [drawn(rank, size, dtype) for rank in range(world)]
                x = every[pool.rank].copy()
                pool.all_reduce(x, join)
                same(x, reduced(every, join))
            every = [drawn(rank, size * world) for rank in range(world)]
            total = ordered_sum(np.stack(every))
            out = np.empty(size, np.float32)
            pool.reduce_scatter(out, every[pool.rank])
            same(out, total[pool.rank * size :][:size])
            x = every[pool.rank].copy()
            pool.reduce(x, world - 1)
            same(x, total if pool.rank == world - 1 else every[pool.rank])

    good(path, world, check)


@pytest.mark.parametrize("world", [1, 3, 4])
def test_moves(path: Path, world: int) -> None:
    def check(pool: Pool) -> None:
        rank, root = pool.rank, world - 1
        for size in SIZES:
            every = [drawn(other, size, np.int16) for other in range(world)]
            together = np.concatenate(every)
            out = np.zeros(world * size, np.int16)
            pool.all_gather(out, every[rank])
            same(out, together)
            out[:] = 0
            out[rank * size :][:size] = every[rank]
            pool.all_gather(out, out[rank * size :][:size])  # in place
            same(out, together)
            x = every[rank].copy()
            pool.broadcast(x, root)
            same(x, every[root])
            x[:] = 0
            pool.scatter(x, together if rank == root else None, root)
            same(x, every[rank])
            out[:] = 0
            pool.gather(out if rank == root else None, x, root)
            same(out, together if rank == root else np.zeros_like(out))
            rows = np.stack([drawn(rank * world + to, size) for to in range(world)])
            got = np.empty_like(rows)
            pool.exchange(got, rows)
            same(got, np.stack([drawn(q * world + rank, size) for q in range(world)]))

    good(path, world, check)


@pytest.mark.parametrize("route", [Route.G_BINARY, Route.G_TERNARY, Route.G_INT4, Route.G_INT8])
def test_lines(path: Path, route: Route) -> None:
    def check(pool: Pool) -> None:
        for size in (1, 600, 9_000):
            rng = np.random.default_rng(size)
            every = rng.integers(0, 256, (3, size, 64), np.uint8)
            found = pool.all_reduce_lines(every[pool.rank], route)
            if route.votes:
                votes, planes = codec.count(every, route)
                same(found[0], votes)
                same(found[1], planes)
            else:
                same(found, codec.add_codes(every, route))

    good(path, 3, check)


def test_async(path: Path) -> None:
    def check(pool: Pool) -> None:
        every = [np.full(9, pool.rank, np.float32) for _ in range(20)]
        works = [pool.all_reduce(x, async_op=True) for x in every]
        lines = pool.all_reduce_lines(np.zeros((1, 64), np.uint8), Route.G_INT8, async_op=True)
        pool.barrier()  # after all of them
        assert all(work is not None and work.done() for work in works)
        assert all((x == 3).all() for x in every)
        assert lines.wait().shape == (2, 1, 64)

    good(path, 3, check)


def schedule_of(granule: int) -> Do:
    """Return a call of a gather of four lines, with a granule."""
    plan = shipped(Collective.ALL_GATHER, 3, 2, 4, granule=granule)
    return lambda pool: pool.run_schedule(plan, np.zeros((4, 64), np.uint8))


CALLS: dict[str, tuple[Do, Do]] = {
    "schedule": (schedule_of(4), schedule_of(8)),
    "call": (lambda p: p.barrier(), lambda p: p.all_reduce(np.ones(3))),
    "size": (lambda p: p.all_reduce(np.ones(4)), lambda p: p.all_reduce(np.ones(5))),
    "type": (lambda p: p.broadcast(np.ones(4), 0), lambda p: p.broadcast(np.ones(4, "f4"), 0)),
    "root": (lambda p: p.broadcast(np.ones(4), 0), lambda p: p.broadcast(np.ones(4), 1)),
    "op": (lambda p: p.all_reduce(np.ones(4)), lambda p: p.all_reduce(np.ones(4), "max")),
}


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("what", CALLS)
def test_different_calls(
    path: Path, what: str, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_NATIVE", native)

    def check(pool: Pool) -> None:
        CALLS[what][pool.rank == 2](pool)
        pool.barrier()  # the root of a broadcast waits for nobody

    for text in texts(ranks(path, 3, check)):
        assert re.search("rank [01] calls .*, rank 2 .*; make the same calls", text), text


def test_roots_that_differ_are_found_in_the_next_call(path: Path) -> None:
    def check(pool: Pool) -> None:
        pool.broadcast(np.ones(4), pool.rank)  # as root, no rank waits for another
        pool.barrier()

    for text in texts(ranks(path, 2, check)):
        assert "rank 0 calls broadcast of 4 x float64, root 0, rank 1 broadcast" in text, text


def wrong_calls(pool: Pool) -> dict[str, Callable[[], Any]]:
    ones = np.ones(4, np.float32)
    return {
        "root is 2": lambda: pool.broadcast(ones, 2),
        "'sum' of float16": lambda: pool.all_reduce(ones.astype(np.float16)),
        "'product' of float32": lambda: pool.all_reduce(ones, "product"),
        "not contiguous": lambda: pool.all_reduce(ones[::2]),
        "cannot be written": lambda: pool.all_reduce(np.broadcast_to(np.float32(1), (1,))),
        "list is not a numpy array": lambda: pool.all_reduce([1.0]),  # type: ignore[arg-type]
        "has Python objects": lambda: pool.broadcast(np.array([None]), 0),
        "in and out overlap": lambda: pool.all_gather(ones, ones[1:3]),
        "arrays of 4 x float32 and 3": lambda: pool.all_gather(ones, np.ones(3, np.float32)),
        "give two arrays": lambda: pool.exchange(ones, ones),
        "lines are float32": lambda: pool.all_reduce_lines(ones, Route.G_BINARY),  # type: ignore
        "no votes or codes": lambda: pool.all_reduce_lines(np.ones((1, 64), "u1"), Route.FP32),
        "name each live rank once": lambda: pool.configure([0, 0]),
        "is not live": lambda: pool.configure([1 - pool.rank]),
    }


def test_wrong_calls_change_nothing(path: Path) -> None:
    def check(pool: Pool) -> None:
        for what, call in wrong_calls(pool).items():
            with pytest.raises(PoolError, match=what):
                call()
        x = np.ones(4)
        pool.all_reduce(x)
        same(x, np.full(4, 2.0))

    good(path, 2, check)


@pytest.mark.parametrize(
    ("rank", "world", "more", "what"),
    [
        (4, 4, {}, "rank is 4; use 0 to 3"),
        (-1, 4, {}, "rank is -1"),
        (0, 65, {}, "world is 65; use 1 to 64"),
        (0, 2, {"room": 4096}, "a room of 4,096 bytes"),
        (0, 2, {"timeout": 0}, "timeout is 0"),
    ],
)
def test_wrong_arguments(path: Path, rank: int, world: int, more: Any, what: str) -> None:
    with pytest.raises(PoolError, match=what):
        collectives.open(path, rank, world, **more)


def test_paths_that_are_no_pool(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a user's file")
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o666)
    for name, what in {
        "unix:/x": "a reducer server has no collectives",
        "/dev/null": "not a regular file .DAX devices are not supported.",
        "/sys/nf-pool": "Permission denied",
        str(tmp_path): "Is a directory",
        str(tmp_path / "none/pool"): "No such file",
        str(tmp_path / "text"): "not a pool",
        str(tmp_path / "open"): "other users can change it",
    }.items():
        with pytest.raises(PoolError, match=what):
            collectives.open(name, 0, 1)
    assert (tmp_path / "text").read_bytes() == b"a user's file"


class Store(dict[str, bytes]):
    """Store of the ranks in this process, with the methods of torch's."""

    lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def get(self, key: str, default: object = None) -> bytes:
        return self[key]

    def add(self, key: str, number: int) -> int:
        with self.lock:
            self.set(key, str(total := int(dict.get(self, key, b"0")) + number))
            return total

    def wait(self, keys: Sequence[str], limit: timedelta) -> None:
        end = time.monotonic() + limit.total_seconds()
        while not all(key in self for key in keys):
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.01)


STORES: dict[str, tuple[str, dict[str, str]]] = {
    "a path": ("", {}),
    "a drawn name": ("", {"path": ""}),
    "another path": (
        r"rank [01] opens .*/(pool|b\\nc); open one path on all ranks",
        {"path": "b\nc"},
    ),
    "another machine": (
        "rank 1 .node7. does not share .* with rank 0; run all",
        {"boot": "another-boot 1\nnode7\n"},
    ),
    "no other rank": ("rank 1 has not come to the store within 0.5 s; start 2", {"boot": "none"}),
}


@pytest.mark.parametrize("case", STORES)
def test_ranks_meet_in_a_store(path: Path, case: str) -> None:
    """Check that ranks exchange one path of one machine, twice in one store, or are refused."""
    error, change = STORES[case]
    store, world = Store(), 1 if "boot" in change else 2
    if change.get("boot", "none") != "none":
        store["pool/0/1"] = change["boot"].encode()

    def one(rank: int) -> None:
        own = path.with_name(change["path"]) if rank and change.get("path") else path
        for _ in range(2):
            known = None if change.get("path") == "" else own
            with collectives.open(
                known, rank, 2, store=store, timeout=0.5 if error else 20
            ) as all_:
                x = np.ones(4)
                all_.all_reduce(x)
                same(x, np.full(4, 2.0))

    with ThreadPoolExecutor(2) as threads:
        every = [threads.submit(one, rank).exception for rank in range(world)]
        found = [str(exception() or "") for exception in every]
    assert all(re.search(error, text) if error else not text for text in found), found


def test_no_path() -> None:
    with pytest.raises(PoolError, match="no path; give a path in /dev/shm, or a store"):
        collectives.open(None, 0, 1)


def test_a_missing_rank_is_named(path: Path) -> None:
    with pytest.raises(PoolError, match=r"rank 1, 2 has not opened it within 0\.1 s"):
        collectives.open(path, 0, 3, timeout=0.1)
    assert not path.exists()


@pytest.mark.parametrize(
    ("rank", "world", "more", "what"),
    [
        (0, 2, {}, "rank 0 is process [0-9]+, which lives"),
        (1, 3, {}, "other ranks have a world of 2, this one of 3"),
        (1, 2, {"room": 1 << 20}, "other ranks have a room of 8,388,608 bytes"),
        (1, 2, {"FORMAT": 2}, "other ranks have version 1 of the pool, this one 2"),
    ],
)
def test_ranks_that_do_not_fit(
    path: Path, rank: int, world: int, more: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(collectives.open, path, 0, 2, timeout=5)
        while not path.exists() or not path.stat().st_size:
            time.sleep(0.01)
        time.sleep(0.1)
        if "FORMAT" in more:
            monkeypatch.setattr(shared_memory, "FORMAT", more.pop("FORMAT"))
        with pytest.raises(PoolError, match=what):
            collectives.open(path, rank, world, timeout=0.3, **more)
        monkeypatch.undo()
        with collectives.open(path, 1, 2, timeout=5):
            first.result().close()


def test_a_file_that_a_crash_left_is_taken_over(path: Path) -> None:
    script = f"from neuron_fabric import collectives; collectives.open({str(path)!r}, 0, 2)"
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        while not path.exists() or path.stat().st_size < 1 << 20:
            time.sleep(0.01)
        time.sleep(0.3)
        process.kill()
    assert path.exists()
    good(path, 2, lambda pool: pool.barrier())


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(PoolError, match="bytes: No space left on device"):
        collectives.open(path, 0, 1)
    assert not path.exists()


def test_time_out_names_rank_and_signal(path: Path) -> None:
    def check(pool: Pool) -> None:
        pool.barrier()
        if pool.rank == 1:
            time.sleep(1)
            pool.barrier()
        else:
            pool.all_reduce(np.ones(4), timeout=0.3)

    found = ranks(path, 3, check)
    text = next(str(one) for one in found if isinstance(one, CollectiveTimeout))
    assert text.startswith("all_reduce 2 (sum of 4 x float64), waiting for rank 1 to")
    assert re.search("at 1/end; rank.* 2/1", text), text
    assert all("waiting for rank 1 to call it" in one for one in texts(found))


def test_abort_and_configure(path: Path) -> None:
    def check(pool: Pool) -> None:
        if pool.rank == 1:
            pool.abort("bad\nnews")
        for _ in range(2):
            with pytest.raises(PoolError, match=r"rank 1 has aborted: bad\\nnews"):
                pool.barrier()
        pool.configure()
        x = np.ones(4)
        pool.all_reduce(x)
        same(x, np.full(4, 3.0))

    good(path, 3, check)


def test_a_closed_pool_and_a_forked_process(path: Path) -> None:
    pool = collectives.open(path, 0, 1)
    child = os.fork()
    if not child:
        try:
            pool.barrier()
        except PoolError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert pool._memory.alive(0)
    pool.close()
    with pytest.raises(PoolError, match="it is closed"):
        pool.barrier()


def test_two_pools_of_the_same_ranks(path: Path) -> None:
    def check(pool: Pool) -> None:
        with collectives.open(f"{path}.2", pool.rank, pool.world) as other:
            for number in range(50):
                x, y = np.full(40, number), np.full(40, -number)
                works = pool.all_reduce(x, async_op=True), other.all_reduce(y, async_op=True)
                assert all(work and not work.wait() for work in works)
                assert (x - 2 * number == y + 2 * number).all(), (x, y)

    good(path, 2, check)


RANK = """
    import os, signal, sys, time
    import numpy as np
    from neuron_fabric import collectives

    path, rank, victim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pool = collectives.open(path, rank, 4, timeout=60)  # a busy machine starts ranks slowly
    print("open", flush=True)
    calls = 0
    while True:
        x = np.full(50_000, pool.rank + calls, np.float32)
        out, start = np.empty(4 * len(x), np.float32), time.monotonic()
        try:
            pool.all_reduce(x, timeout=3)
            pool.all_gather(out, x, timeout=3)
        except collectives.PoolError as error:
            took, what = time.monotonic() - start, str(error)
            break
        assert (x == 6 + 4 * calls).all() and (out == x[0]).all()
        calls += 1
    assert rank == victim or took < 3 + 2, took
    if rank == victim:
        sys.exit(3 if f"rank {rank}" in what or "opened anew" in what else what)
    pool.configure([r for r in range(4) if r != victim])
    for n in range(20):
        x = np.full(1000, pool.rank, np.float32)
        pool.all_reduce(x)
        assert (x == 3).all()
    pool.close()
"""


def broken(path: Path, how: signal.Signals, seed: int) -> None:
    """Kill or stop one of four ranks at a drawn moment; the others go on without it."""
    draw = random.Random(seed)
    victim, script = draw.randrange(4), textwrap.dedent(RANK)
    every = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path), str(rank), str(victim)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for rank in range(4)
    ]
    try:
        for one in every:
            assert one.stdout is not None
            assert one.stdout.readline() == "open\n"
        time.sleep(draw.uniform(0, 0.5))
        every[victim].send_signal(how)
        for rank in set(range(4)) - {victim}:
            _, error = every[rank].communicate(timeout=60)
            assert every[rank].returncode == 0, (seed, error)
        every[victim].send_signal(signal.SIGCONT)
        _, error = every[victim].communicate(timeout=60)
        assert every[victim].returncode == (-9 if how == signal.SIGKILL else 3), (seed, error)
    finally:
        for one in every:
            one.kill()
            one.communicate()


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yield the path of a pool in a new folder of /dev/shm, where nothing may be left."""
    with TemporaryDirectory(prefix="nf-pool-", dir="/dev/shm") as folder:
        yield Path(folder, "pool")
        assert not os.listdir(folder)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank(shared: Path, how: signal.Signals) -> None:
    broken(shared, how, 1)


@pytest.mark.nightly("fifty losses of a rank take minutes")
@pytest.mark.parametrize("seed", range(50))
def test_lost_ranks(shared: Path, seed: int) -> None:
    broken(shared, signal.SIGKILL if seed % 2 else signal.SIGSTOP, seed)


def test_what_an_outlived_rank_writes_is_seen_by_nobody(path: Path) -> None:
    """A stopped rank that goes on writes to a file that the others have left."""
    held: list[SharedMemory] = []

    def check(pool: Pool) -> None:
        held.append(pool._memory)
        pool.barrier()
        if pool.rank == 2:
            return
        pool.configure([0, 1])
        old = next(one for one in held if one.world == 3)
        old.rooms[:], x = 77, np.ones(100_000)
        pool.all_reduce(x)
        same(x, np.full(100_000, 2.0))

    good(path, 3, check)
