# SPDX-License-Identifier: Apache-2.0
"""Faults at the reducer server: one outcome for all ranks, and no hang (law L13).

Refusals, and ranks, servers and devices that end, stop or send wrong data.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.parameters import DeviceParams
from neuron_fabric.codec import Route
from neuron_fabric.reducers import server_wire
from neuron_fabric.reducers.interface import Part
from neuron_fabric.reducers.server_session import ServerSession
from neuron_fabric.reducers.server_wire import (
    ServerError,
    address,
    check_path,
    connect,
    new_socket,
)
from scripts.cli import serve
from scripts.cli.main import main as nf
from verif.serve.conftest import (
    LINES,
    drawn,
    joined,
    on_every_rank,
    outcome,
    outcomes,
    rank_of,
    serving,
    submitted,
)
from verif.serve.reducer_server import Listener
from verif.serve.rtl_device import place
from verif.serve.served_bucket import Counts, ServedBucket
from verif.serve.served_device import DeviceError, DeviceLost, ModelDevice

BUCKET = drawn(3, 2)
CODES = (Route.G_INT4, Route.G_INT8)


def refusal(path: Path, *ranks: ServerSession) -> list[str]:
    """Let these ranks join; return the error of each, "welcome" for none."""

    def join(number: int) -> str:
        try:
            ranks[number].join()
            ranks[number].joined()
        except ServerError as error:
            return str(error)
        finally:
            ranks[number].close()
        return "welcome"

    return list(on_every_rank(len(ranks), join))


# -- joining --------------------------------------------------------------------------------------
def test_no_server(tmp_path: Path) -> None:
    path = tmp_path / "s"
    [line] = refusal(path, rank_of(path, 0, 2))
    assert line == f"{path}: no reducer server is there; start it: nf serve --socket {path}"
    dead = new_socket()
    dead.bind(str(path))
    dead.close()
    [line] = refusal(path, rank_of(path, 0, 2))
    assert "the server of this socket has ended; start it" in line
    path.unlink()
    path.write_text("a file", encoding="utf-8")
    [line] = refusal(path, rank_of(path, 0, 2))
    assert "start it" in line


def test_a_path_that_is_none(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    with pytest.raises(ServerError, match=r"has 107 bytes at most, this one \d+; choose a shorter"):
        check_path(long)
    with pytest.raises(ServerError, match="107 bytes at most"):
        address(f"unix:{long}")
    with pytest.raises(ServerError, match="names no socket; write unix:PATH"):
        address("unix:")
    assert nf(["serve", "--device", "model", "--workers", "2", "--socket", str(long)]) == 2


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"fingerprint": "g"}, "fingerprint: rank 0 says f, rank 1 says g; start all ranks alike"),
        ({"lines": 7}, f"lines: rank 0 says {LINES}, rank 1 says 7; start all ranks alike"),
        ({"routes": CODES}, "routes: rank 0 says G_BINARY, G_TERNARY, rank 1 says G_INT4, G_INT8;"),
    ],
)
def test_what_ranks_say_differently_is_refused_to_all(other: dict[str, object], line: str) -> None:
    with serving(2) as served:
        first, second = rank_of(served.path, 0, 2), rank_of(served.path, 1, 2, **other)
        first.join()
        time.sleep(0.3)  # the first to come is the one whose values are compared
        second.join()
        for rank in (first, second):
            with pytest.raises(ServerError, match=line):
                rank.joined()
            rank.close()


def test_who_does_not_fit() -> None:
    """Check that a wrong world, rank, job, size or number of routes is refused with the reason.

    Ranks of the job that runs are not disturbed.
    """
    with serving(2) as served, joined(served.path, 2) as ranks:
        others = [
            rank_of(served.path, 0, 3),
            rank_of(served.path, 1, 2),
            rank_of(served.path, 0, 2, job="other"),
        ]
        lines = refusal(served.path, *others)
        assert "3 workers, and the server was started with --workers 2" in lines[0]
        assert "rank 1 is here already; start each rank once" in lines[1]
        assert "a job of 2 workers already (job); start a server of your own" in lines[2]
        assert outcomes(ranks, BUCKET) == ["done"] * 2
    with serving(2) as served:
        assert "rank 5 of 2 workers" in refusal(served.path, rank_of(served.path, 5, 2))[0]
        none = [rank_of(served.path, n, 2, lines=0, job="none") for n in range(2)]
        assert "0 lines a worker" in refusal(served.path, *none)[0]
        four = [rank_of(served.path, n, 2, routes=tuple(Route), job="four") for n in range(2)]
        lines = refusal(served.path, *four)
        assert lines[0] == lines[1]
        assert "5 routes (G_BINARY, G_TERNARY, G_INT4, G_INT8, FP32): a job has 3 at a" in lines[0]
        for size in (1 << 30, 1 << 60):
            many = [rank_of(served.path, n, 2, lines=size, job=f"{size}") for n in range(2)]
            [line, same] = refusal(served.path, *many)
            assert line == same
            assert re.search(f"no memory for {size:,} lines .* GiB, this", line)


def test_another_version() -> None:
    with serving(2) as served:
        for data, line in (
            (b'{"nf":1,"say":"HELLO"}', "version 1, this program speaks 2; use the same version"),
            (b"\xff", "malformed JSON"),
            (b'{"nf":2,"say":"HOWDY"}', "no message that is known here"),
            (b'{"nf":2,"say":"HELLO"}', "field 'job' is missing"),
            (b'{"nf":2,"say":"SUBMIT","seq":0}', "missing"),
            (b'{"nf":2,"say":"ASK","seq":0}', "ASK is out of place"),
            (b"[" * 5000, "a message of more than 4096 bytes"),
        ):
            with connect(served.path) as sock:
                sock.setblocking(True)
                sock.send(data)
                came = sock.recv(4096).decode()
                assert line in came
                assert '"say":"REFUSED"' in came


def test_a_server_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(1) as served:
        rank = rank_of(served.path, 0, 1)
        rank.join()
        time.sleep(0.5)
        monkeypatch.setattr(server_wire, "VERSION", 3)
        with pytest.raises(ServerError, match="version 2, this program speaks 3; use the same"):
            rank.joined()
        rank.close()


def test_a_rank_that_never_comes() -> None:
    with serving(3, timeout_s=0.5) as served:
        lines = refusal(served.path, *(rank_of(served.path, n, 3) for n in (0, 2)))
    assert [line.split("refused; ")[1] for line in lines] == [
        "rank 1 of 3 has not come within 0.5 s"
    ] * 2


def test_killed_before_hello_and_before_welcome() -> None:
    """Check that a rank that ends before HELLO disturbs nobody, and one after HELLO ends the job.

    Another job may follow.
    """
    with serving(2, timeout_s=1.0) as served:
        connect(served.path).close()
        rank, dead = rank_of(served.path, 0, 2), rank_of(served.path, 1, 2)
        dead.join()
        time.sleep(0.2)
        dead.close()
        rank.join()
        with pytest.raises(ServerError, match=r"rank 1 (of 2 )?has (ended|not come)"):
            rank.joined()
        rank.close()
        with joined(served.path, 2) as ranks:
            assert outcomes(ranks, BUCKET) == ["done"] * 2


# -- buckets --------------------------------------------------------------------------------------
def test_other_parts_are_refused_to_all_with_both_values() -> None:
    other = drawn(4, 2)
    with serving(2) as served, joined(served.path, 2) as ranks:
        tickets = [
            ranks[0].submit(0, 0, BUCKET.parts[0], BUCKET.sides[0]),
            ranks[1].submit(0, 0, other.parts[1], other.sides[1]),
        ]
        lines = [outcome(*one) for one in zip(ranks, tickets)]
    assert lines[0] == lines[1]
    assert "refused: " in lines[0]
    assert "of bucket 0: rank 0 says " in lines[0]
    assert "rank 1 says " in lines[0]


def another(_: int, parts: list[Part]) -> None:
    parts.append(Part(Route.G_INT8, False, np.zeros((1, 64), np.uint8)))


def elsewhere(rank: int, parts: list[Part]) -> None:
    if rank == 1:
        one = parts[0]
        starts = tuple(n + 1 for n in one.starts)
        parts[0] = Part(one.route, one.net, one.lines, starts, one.columns)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (another, "G_INT8: the routes of this job on the device are G_BINARY, G_TERNARY, FP32"),
        (elsewhere, "rank 1 has its tensors at other lines than rank 0"),
    ],
)
def test_parts_that_break_the_agreement(
    change: Callable[[int, list[Part]], None], line: str
) -> None:
    bucket = drawn(6, 2)
    for number, parts in enumerate(bucket.parts):
        change(number, parts)  # type: ignore[arg-type]
    with serving(2) as served, joined(served.path, 2) as ranks:
        lines = outcomes(ranks, bucket)
    assert lines[0] == lines[1]
    assert line in lines[0]
    assert lines[0].startswith("refused: ")


def test_a_rank_that_is_late_costs_the_bucket_and_no_more() -> None:
    """Check that a bucket is LOST if a rank exceeds the time-out, and the next one is DONE."""
    with serving(2, timeout_s=0.5) as served, joined(served.path, 2) as ranks:
        first = ranks[0].submit(0, 0, BUCKET.parts[0], BUCKET.sides[0])
        assert outcome(ranks[0], first) == "lost: rank 1 has not come within 0.5 s"
        late = ranks[1].submit(0, 0, BUCKET.parts[1], BUCKET.sides[1])
        assert outcome(ranks[1], late) == "lost: rank 1 has not come within 0.5 s"
        assert outcomes(ranks, BUCKET) == ["done"] * 2


def test_a_rank_that_ends_in_submit_or_after_done() -> None:
    with serving(2) as served, joined(served.path, 2) as ranks:
        tickets = submitted(ranks, BUCKET)
        assert outcome(ranks[0], tickets[0]) == "done"
        alone = ranks[0].submit(0, 1, BUCKET.parts[0], BUCKET.sides[0])
        session = ranks[1]._session
        assert session is not None
        session.sock.shutdown(socket.SHUT_RDWR)  # as the death of its process
        assert outcome(ranks[0], alone) == "lost: rank 1 has ended"
        assert outcome(ranks[1], tickets[1]) == "done"  # a word stays what it is


def test_ranks_come_back() -> None:
    """Check that ranks open another session after the connection of one of them ended.

    No bucket is DONE for one rank and LOST for another, and none waits for a rank that skipped it.
    """
    with serving(3, timeout_s=10.0) as served, joined(served.path, 3) as ranks:
        session = ranks[1]._session
        assert session is not None
        session.sock.shutdown(socket.SHUT_RDWR)
        bucket, start = drawn(3, 3), time.monotonic()

        def train(rank: int) -> list[str]:
            out = []
            for step in range(40):
                ticket = ranks[rank].submit(step, 0, bucket.parts[rank], bucket.sides[rank])
                out.append(outcome(ranks[rank], ticket).split(":")[0])
                barrier.wait(30)  # as the gradients that are reduced in FP32
            return out

        barrier = threading.Barrier(3)
        outcomes = list(on_every_rank(3, train))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][-1] == "done"
    assert "lost" in outcomes[0]
    assert time.monotonic() - start < 9  # nobody was waited for


class Faulty(ModelDevice):
    """Device that raises an exception for its first bucket, and then reduces as the models do."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error: Exception | None = error

    def reduce(self, bucket: ServedBucket) -> Counts:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return super().reduce(bucket)


def test_a_device_that_dies_is_lost_and_one_that_is_wrong_ends_it() -> None:
    with serving(2, Faulty(DeviceLost("killed"))) as served, joined(served.path, 2) as ranks:
        for line in ("lost: killed", "done"):
            assert outcomes(ranks, BUCKET) == [line] * 2
    for error in (DeviceError("line 3 differs"), ZeroDivisionError("a fault")):
        with serving(2, Faulty(error)) as served, joined(served.path, 2) as ranks:
            for line in outcomes(ranks, BUCKET):
                assert line.startswith("refused: ")
                assert str(error) in line


class Stuck(ModelDevice):
    """Device that does not end its bucket until the event `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.interrupted = threading.Event(), False

    def reduce(self, bucket: ServedBucket) -> Counts:
        assert self.go.wait(30)
        return super().reduce(bucket)

    def interrupt(self) -> None:
        self.interrupted = True


def test_a_device_that_is_stuck() -> None:
    """Check that buckets at a stuck device are LOST, and new ones, until it is free again."""
    device = Stuck()
    with serving(2, device, timeout_s=0.4) as served, joined(served.path, 2) as ranks:
        for _ in range(3):
            lines = outcomes(ranks, BUCKET)
            assert lines == ["lost: the device takes too long"] * 2
        assert device.interrupted
        device.go.set()
        time.sleep(0.3)
        assert outcomes(ranks, BUCKET) == ["done"] * 2


# -- the server itself ----------------------------------------------------------------------------
def test_one_server_a_socket_and_a_stale_one_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = Listener(path)
    with pytest.raises(ServerError, match=r"another server is there, in use by .*; choose another"):
        Listener(path)
    first.sock.close()  # as the death of its process: the name stays
    first._lock.release()
    assert path.is_socket()
    second = Listener(path)
    connect(path).close()
    second.close()
    assert not path.exists()
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(ServerError, match="something else than a socket is there; choose another"):
        Listener(path)
    assert path.read_text(encoding="utf-8") == "mine"
    with pytest.raises(ServerError, match=r"cannot be made \(No such file or directory\)"):
        Listener(tmp_path / "no" / "s")


def test_a_device_without_room() -> None:
    for params, workers, line in (
        (DeviceParams(mem_lines_log2=7), 64, "no room: a line of each route takes 162 lines"),
        (DeviceParams(regions=4), 2, "3 routes take 6 regions, the device has 4; use one with"),
        (DeviceParams(cnt_w=2), 4, "4 workers: the device has counters of 2 bits"),
    ):
        with pytest.raises(DeviceError, match=line):
            place(params, workers)
    words = ["serve", "--workers", "64", "--socket", "s", "--param", "REGIONS=4"]
    assert nf(words) == 2


def test_status() -> None:
    with serving(2) as served:
        assert serve.status(served.path)[1] == "no job"
        with joined(served.path, 2) as ranks:
            assert outcomes(ranks, BUCKET) == ["done"] * 2
            ranks[0].submit(0, 1, BUCKET.parts[0], BUCKET.sides[0])
            time.sleep(0.2)
            first, job, buckets, lines, *odd = serve.status(served.path)
        ended = serve.status(served.path)[1:]
    assert "model for 2 workers at " in first
    assert job.startswith("job job: rank 0, 1 of 2, 400 lines a worker, model f")
    assert buckets.startswith("buckets: 1 done, 0 lost, 0 refused, 1 wait for a rank")
    assert "contributions" in lines
    assert odd == ["odd: 1 poison"]
    assert ended[0] == "no job"
    assert ended[1].startswith("jobs that have ended: 1 buckets done, 1 lost, ")
