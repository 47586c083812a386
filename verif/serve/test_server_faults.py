# SPDX-License-Identifier: Apache-2.0
"""Faults at the reducer server: one outcome for all ranks, and no hang (law L13).

Refusals, and ranks, servers and devices that end, stop or send wrong data. A server ends hostile
peers with one line and serves the next job; a rank refuses a hostile server; no gradient is sent to
another user.
"""

import fcntl
import itertools
import json
import os
import random
import re
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.parameters import DeviceParams
from neuron_fabric.codec import Route
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers import shared_lines
from neuron_fabric.reducers.interface import Part
from neuron_fabric.reducers.server_session import ServerSession
from neuron_fabric.reducers.server_wire import ServerError
from neuron_fabric.reducers.shared_lines import SharedLines, Word, bytes_of
from scripts.cli import serve
from scripts.cli.main import main as nf
from verif.serve import reducer_server
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
from verif.serve.job_session import JobSession
from verif.serve.reducer_server import Listener
from verif.serve.rtl_device import place
from verif.serve.served_bucket import Counts, ServedBucket
from verif.serve.served_device import DeviceError, DeviceLost, ModelDevice

BUCKET = drawn(3, 2)
CODES = (Route.G_INT4, Route.G_INT8)


def join(rank: ServerSession) -> None:
    try:
        rank.join()
        rank.joined()
    finally:
        rank.close()


def refusal(path: Path, *ranks: ServerSession) -> list[str]:
    """Let these ranks join; return the error of each, "welcome" for none."""

    def answer(number: int) -> str:
        try:
            join(ranks[number])
        except ServerError as error:
            return str(error)
        return "welcome"

    return list(on_every_rank(len(ranks), answer))


# -- joining --------------------------------------------------------------------------------------
def test_no_server(tmp_path: Path) -> None:
    path = tmp_path / "s"
    [line] = refusal(path, rank_of(path, 0, 2))
    assert line == f"{path}: no reducer server is there; start it: nf serve --socket {path}"
    dead = wire.new_socket()
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
        wire.check_path(long)
    with pytest.raises(ServerError, match="107 bytes at most"):
        wire.address(f"unix:{long}")
    with pytest.raises(ServerError, match="names no socket; write unix:PATH"):
        wire.address("unix:")
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
            (b'{"nf":1,"say":"HELLO"}', "version 1, this program speaks 3; use the same version"),
            (b"\xff", "malformed JSON"),
            (b'{"nf":3,"say":"HOWDY"}', "no message that is known here"),
            (b'{"nf":3,"say":"HELLO"}', "field 'job' is missing"),
            (b'{"nf":3,"say":"SUBMIT","seq":0}', "missing"),
            (b'{"nf":3,"say":"ASK","seq":0}', "ASK is out of place"),
            (b"[" * 5000, "a message of more than 4096 bytes"),
        ):
            with wire.connect(served.path) as sock:
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
        monkeypatch.setattr(wire, "VERSION", 4)
        with pytest.raises(ServerError, match="version 3, this program speaks 4; use the same"):
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
        wire.connect(served.path).close()
        rank, dead = rank_of(served.path, 0, 2), rank_of(served.path, 1, 2)
        dead.join()
        time.sleep(0.2)
        dead.close()
        with pytest.raises(ServerError, match=r"rank 1 (of 2 )?has (ended|not come)"):
            join(rank)
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
    wire.connect(path).close()
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


EMOJI = "\N{GRINNING FACE}"
HELLO = {"nf": 3, "say": "HELLO", "job": "j", "rank": 0, "world": 2, "fingerprint": "f", "lines": 9}
PART = {"route": "FP32", "net": False, "lines": 1, "tensors": 0}
_ZEROS = dict.fromkeys(("seq", "step", "bucket", "columns", "present", "poison"), 0)
SUBMIT = {"nf": 3, "say": "SUBMIT", **_ZEROS, "parts": [PART]}


def answer(sock: socket.socket, message: dict[str, Any]) -> dict[str, Any]:
    """Send a message as JSON; return the server's first answer, {"say": "nothing"} if it closes."""
    sock.send(json.dumps(message, ensure_ascii=False).encode())
    assert wire.readable(sock, 20), "the server does not answer"
    return dict(json.loads(sock.recv(4096) or b'{"say": "nothing"}'))


def serves(path: Path) -> None:
    """Check that a job of two honest ranks gets its bucket done."""
    with joined(path, 2, job="honest") as ranks:
        assert outcomes(ranks, BUCKET) == ["done"] * 2


@contextmanager
def welcomed(path: Path) -> Iterator[list[socket.socket]]:
    """Yield two raw connections that have joined as ranks 0 and 1 of one job."""
    socks = [wire.connect(path) for _ in range(2)]
    try:
        for rank, sock in enumerate(socks):
            sock.send(json.dumps({**HELLO, "rank": rank}).encode())
        for sock in socks:
            assert wire.readable(sock, 20)
            data, [(_, _, file)], *_ = sock.recvmsg(4096, socket.CMSG_SPACE(4))
            assert json.loads(data)["say"] == "WELCOME"
            os.close(int.from_bytes(file[:4], sys.byteorder))
        yield socks
    finally:
        for sock in socks:
            sock.close()


# -- messages -------------------------------------------------------------------------------------
BAD_HELLO: list[tuple[dict[str, Any], str]] = [
    ({"job": EMOJI * 700}, "job has 2800 bytes, 1 to 64"),
    ({"job": ""}, "job has 0 bytes, 1 to 64"),
    ({"fingerprint": "\N{LATIN SMALL LETTER E WITH ACUTE}" * 700}, "fingerprint has 1400 bytes, 1"),
    ({"rank": -1}, "rank -1 is not 0 to 65536"),
    ({"rank": 1 << 70}, "rank 1180591620717411303424 is not 0 to 65536"),
    ({"world": -2}, "world -2 is not 0 to 65536"),
    ({"lines": -5}, "lines -5 is not 0 to"),
    ({"lines": 1 << 63}, "lines 9223372036854775808 is not 0 to"),
]
BAD_SUBMIT: list[tuple[dict[str, Any], str]] = [
    ({"seq": 1 << 62}, "seq 4611686018427387904 is not 0 to 281474976710656"),
    ({"seq": -1}, "seq -1 is not"),
    ({"step": 1 << 80}, "step 1208925819614629174706176 is not"),
    ({"columns": -16}, "columns -16 is not"),
    ({"poison": -1}, "poison -1 is not"),
    ({"parts": [{**PART, "tensors": -3}]}, "tensors -3 is not"),
    (
        {"parts": [{**PART, "lines": 10**9}, {**PART, "lines": -(10**9)}]},
        "lines -1000000000 is not",
    ),
]


def test_numbers_and_texts_out_of_range() -> None:
    """Check that numbers and texts out of range end the rank with a reason, and its session."""
    with serving(2) as served:
        for change, line in BAD_HELLO:
            with wire.connect(served.path) as sock:
                assert line in answer(sock, {**HELLO, **change})["why"]
        for change, line in BAD_SUBMIT:
            with welcomed(served.path) as socks:
                assert line in answer(socks[0], {**SUBMIT, **change})["why"]
            wait_for(lambda: serve.status(served.path)[1] == "no job")
        serves(served.path)


def test_parts_of_more_lines_than_agreed_make_nothing_of_their_size() -> None:
    """Check that parts of more lines than HELLO agreed are refused without memory of their size.

    Regression: 10^9 and -10^9 lines had a sum of 0, and a list of 10^9 places was made.
    """
    parts = [{**PART, "lines": 10**9}]
    with serving(2) as served:
        with welcomed(served.path) as socks:
            start = time.monotonic()
            for sock in socks:
                sock.send(json.dumps({**SUBMIT, "parts": parts}).encode())
            assert wire.readable(socks[0], 20)
            assert b'"DONE"' in socks[0].recv(4096)
            assert wire.readable(socks[0], 20)
            assert b"lines of a worker, 9 were agreed at HELLO" in socks[0].recv(4096)
            assert time.monotonic() - start < 5
        serves(served.path)


def test_a_job_named_by_emoji_is_told() -> None:
    """Check that a job name of emoji is shown in the status, and that long lines are cut by bytes.

    Regression: a status with 400 emoji ended the server.
    """
    with serving(2) as served, wire.connect(served.path) as sock:
        sock.send(json.dumps({**HELLO, "job": EMOJI * 16}).encode())
        assert any(EMOJI * 16 in line for line in serve.status(served.path))
    long = wire.cut(EMOJI * 400, 300)
    assert len(long.encode()) <= 300
    assert len(wire.encode(wire.StatusReport((long,) * 6))) < wire.MOST_BYTES


def test_buckets_that_wait_are_few() -> None:
    with serving(2) as served:
        with welcomed(served.path) as socks:
            for seq in range(64):
                socks[0].send(json.dumps({**SUBMIT, "seq": seq}).encode())
                time.sleep(0.002)
            assert "more than 64 buckets wait" in answer(socks[0], {**SUBMIT, "seq": 64})["why"]
        serves(served.path)


def test_files_that_nobody_asked_for_are_closed() -> None:
    with serving(2) as served:
        before = len(os.listdir("/proc/self/fd"))
        for data in (b"", b"x", wire.encode(wire.StatusRequest())):
            with wire.connect(served.path) as sock, open(os.devnull, "rb") as file:
                socket.send_fds(sock, [data], [file.fileno()] * 4)
                assert wire.readable(sock, 20)
        wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before)


# -- what a peer does -----------------------------------------------------------------------------
HOLDER = """
import fcntl, os, sys, time
fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX)
print(flush=True)
time.sleep(60)
"""


@contextmanager
def held(file: int) -> Iterator[None]:
    """Hold the lock of the shared memory (`file`) in another process for a `with` block."""
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, pass_fds=[file], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            yield
        finally:
            holder.kill()


def test_a_rank_that_holds_the_lock() -> None:
    """Check that buckets are LOST, and a status is answered, while a rank holds the lock."""
    with serving(2) as served, joined(served.path, 2) as ranks:
        session = ranks[0]._session
        assert session is not None
        with held(session.shared.file):
            for line in outcomes(ranks, BUCKET):
                assert line.startswith("lost: ")
                assert "holds the lock" in line
            assert "1 lost" in " ".join(serve.status(served.path))
        assert outcomes(ranks, BUCKET, step=1) == ["done"] * 2


def test_a_rank_does_not_wait_for_the_lock_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_lines, "LOCK_S", 0.2)
    with closing(SharedLines.create(1, 1)) as shared:
        with held(shared.file):
            with pytest.raises(ServerError, match=r"another process has held its lock for 0\.2 s"):
                shared.give_up(0)
            assert shared.decide(1, Word.REFUSED, "wrong") == Word.REFUSED
        assert shared.give_up(0) == Word.LOST


def test_no_files_are_left(tmp_path: Path) -> None:
    """Check that a server without free file descriptors pauses, and serves again later."""
    path = tmp_path / "s"
    command = [sys.executable, "-m", "scripts.cli.main", "serve", "--device", "model"]
    with (tmp_path / "said").open("wb") as said:
        server = subprocess.Popen(
            [*command, "--workers", "2", "--socket", str(path)],
            stdout=said,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)),
        )
    try:
        wait_for(path.is_socket)
        crowd = []
        for _ in range(40):
            sock = wire.new_socket()
            sock.settimeout(0.1)
            try:
                sock.connect(os.fspath(path))
            except OSError:
                sock.close()
                break
            crowd.append(sock)
        full = b"no connection can be taken"
        wait_for(lambda: full in (tmp_path / "said").read_bytes())
        time.sleep(1.5)
        said_full = (tmp_path / "said").read_bytes().count(full)
        assert said_full < 20  # once a second, not in a busy loop
        for sock in crowd:
            sock.close()
        serves(path)
    finally:
        server.terminate()
        server.wait(30)


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("where", ["submit", "leave", "expire"])
def test_a_fault_of_the_server_ends_the_session_alone(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    with serving(2) as served:
        with monkeypatch.context() as patch, welcomed(served.path) as socks:
            patch.setattr(JobSession, where, fault)
            if where == "submit":
                said = answer(socks[0], SUBMIT)
            else:  # `expire` is called soon, whatever comes: a late message would be reset
                if where == "leave":
                    socks[1].close()
                assert wire.readable(socks[0], 20)
                said = json.loads(socks[0].recv(4096))
            assert "the server has a fault (ZeroDivisionError: a fault)" in said["why"]
        serves(served.path)


# -- other users ----------------------------------------------------------------------------------
@pytest.fixture
def _of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the peer of every connection of this process appear to be of user 4711."""
    monkeypatch.setattr(wire, "peer_of", lambda _: (1, 4711))


@pytest.mark.usefixtures("_of_another_user")
def test_a_server_of_another_user_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NF_ALLOW_UID", raising=False)
    with wire.new_socket() as listener:
        listener.bind(os.fspath(tmp_path / "s"))
        listener.listen(5)
        with pytest.raises(ServerError, match=r"server is of user 4711, and you are \d+; start"):
            join(rank_of(tmp_path / "s", 0, 2))
        with pytest.raises(ServerError, match="its server is of user 4711"):
            serve.status(tmp_path / "s")
        sock, _ = listener.accept()
        with sock:
            assert sock.recv(4096) == b""  # not even HELLO
        wire.connect(tmp_path / "s", [4711]).close()
        monkeypatch.setenv("NF_ALLOW_UID", "1, 4711")
        wire.connect(tmp_path / "s").close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_real_server_of_another_user() -> None:
    """Check that a server of another user is recognised by the kernel's word, not by file modes."""
    with serving(2) as served:
        served.path.chmod(0o666)
        served.path.parent.chmod(0o755)
        code = (
            "import os, sys\n"
            "from pathlib import Path\n"
            "from neuron_fabric.errors import InputError\n"
            "from neuron_fabric.reducers.server_wire import connect\n"
            "os.setgroups([]); os.setuid(4711)\n"
            "try: connect(Path(sys.argv[1]))\n"
            "except InputError as error: print(error)\n"
        )
        command = [sys.executable, "-c", code, str(served.path)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert "its server is of user 0, and you are 4711; start one" in done.stdout, done.stderr


def test_users_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that only this user and those of `allowed` (`--allow-uid`) may join.

    Lists of users that are no numbers are refused, and so is the default socket with `--allow-uid`.
    """
    monkeypatch.setattr(reducer_server, "peer_of", lambda _: (1, 4711))
    with serving(2) as served:
        assert served.path.stat().st_mode & 0o777 == 0o600
        for _ in range(10):  # whether HELLO is sent before the end or after it
            rank = rank_of(served.path, 0, 2)
            with pytest.raises(ServerError, match=r"you are 4711; start .* serve --allow-uid 4711"):
                join(rank)
    with serving(2, allowed=[4711]) as served:
        assert served.path.stat().st_mode & 0o777 == 0o666
        serves(served.path)
    for text in ("x", "1,", "-1", "1" * 12):
        monkeypatch.setenv("NF_ALLOW_UID", text)
        with pytest.raises(ServerError, match=r"NF_ALLOW_UID: .* is no list of user numbers"):
            wire.allowed_users()
    words = ["serve", "--device", "model", "--workers", "2", "--allow-uid", "4711"]
    assert nf(words) == 2  # nobody else can enter the default folder


def test_the_default_socket_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert wire.default_socket() == wire.address("unix") == runtime / "neuron-fabric" / "serve"
    assert (runtime / "neuron-fabric").stat().st_mode & 0o777 == 0o700
    private = tmp_path / f"neuron-fabric-{os.getuid()}"
    runtime.chmod(0o777)  # of others, and of nobody
    assert wire.default_socket() == private / "serve"
    for text in ("", "run", str(tmp_path / "no")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", text)
        assert wire.default_socket() == private / "serve"
    assert private.stat().st_mode & 0o777 == 0o700
    private.chmod(0o755)
    with pytest.raises(ServerError, match=r"only this user can enter; .*name one: --socket PATH"):
        wire.default_socket()


@pytest.mark.parametrize("what", ["a file", "no seals", "another size"])
def test_memory_that_its_sender_could_change_is_not_mapped(tmp_path: Path, what: str) -> None:
    """Check that a rank maps no memory that is a file, unsealed or of another size than agreed.

    A server that truncated the memory would end the training by SIGBUS.
    """
    with wire.new_socket() as listener:
        listener.bind(os.fspath(tmp_path / "s"))
        listener.listen(5)
        rank = ServerSession(tmp_path / "s", wire.Hello("job", 0, 1, "f", 20, (Route.FP32,)), 5.0)
        rank.join()
        sock, _ = listener.accept()
        with sock, closing(rank):
            size = bytes_of(1, 20)
            if what == "a file":
                file = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
                os.ftruncate(file, size)
            else:
                file = os.memfd_create("x", os.MFD_ALLOW_SEALING)
                os.ftruncate(file, size - 4096 * (what == "another size"))
                if what == "another size":
                    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
                    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
            wire.send(sock, wire.Welcome({"name": "rogue"}, (Route.FP32,)), [file])
            os.close(file)
            line = r"it has [\d,]+ bytes, not" if what == "another size" else "it is not sealed"
            with pytest.raises(ServerError, match=line):
                rank.joined()


# -- any messages ---------------------------------------------------------------------------------
_EDGES = st.sampled_from([-1, 0, 1, 2, 9, 63, 64, 65, 10**9, -(10**9), 1 << 31, 1 << 48, 1 << 62])
_NUMBERS = _EDGES | st.integers(-3, 70) | st.sampled_from([1 << 70, 10**39, True, None, 1.5, "1"])
_TEXTS = st.sampled_from(
    ["j", "k", "f", "", EMOJI * 16, EMOJI * 400, "\x1b[2J\n", "x" * 3000, '"' * 60]
)
_ROUTES = st.lists(st.sampled_from([*map(str, Route), "FP64"]), max_size=4)
_PARTS = st.fixed_dictionaries(
    {
        "route": st.sampled_from([*map(str, Route)]),
        "net": st.booleans(),
        "lines": st.integers(0, 3) | _NUMBERS,
        "tensors": st.integers(0, 2) | _NUMBERS,
    }
)
_OTHER: dict[type, st.SearchStrategy[Any]] = {
    int: _NUMBERS,
    str: _TEXTS,
    list: _ROUTES | st.lists(_PARTS, max_size=4),
}
"""Hypothesis strategies of a field of each type: values in range, and any others."""
_USUAL: dict[str, dict[str, Any]] = {
    "HELLO": {**HELLO, "routes": ["FP32"]},
    "SUBMIT": SUBMIT,
    "SKIP": {"seq": 0},
    "ASK": {"seq": 0},
    "STATUS": {},
    "BYE": {},
    "WELCOME": {"routes": ["FP32"]},
}


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a message: JSON with fields in range, or one out of range, or any bytes."""
    if draw(st.integers(0, 19)) == 19:
        return draw(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
    say = draw(st.sampled_from(["SUBMIT"] * 9 + ["SKIP", "ASK", *_USUAL]))
    words = dict(_USUAL[say])
    for name, most in (("rank", 1), ("seq", 5), ("columns", 20)):
        if name in words:
            words[name] = draw(st.integers(0, most))
    fields = [name for name in words if name not in ("nf", "say")]
    if draw(st.booleans()) and fields:
        name = draw(st.sampled_from(fields))
        words[name] = draw(_OTHER[type(words[name])])
    words |= {"nf": 3, "say": say}
    return json.dumps(words, ensure_ascii=draw(st.booleans())).encode()[:4096]


def flood(examples: int, each: int) -> None:
    """Send random messages of three peers to a server, two of which may share a job.

    They also write to the shared memory. The server must answer after each example, and serve at
    the end.

    Args:
        examples: Number of examples of hypothesis.
        each: Messages of an example.
    """
    number = itertools.count()
    with serving(2, timeout_s=0.2) as served:
        peer_and_message = st.tuples(st.sampled_from([0, 0, 1, 1, 2]), messages())
        some = st.lists(peer_and_message, min_size=each, max_size=each)

        checks = list(HealthCheck)

        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=checks)
        @given(some, st.integers(0, 99), st.booleans())
        def run(sent: list[tuple[int, bytes]], seed: int, join: bool) -> None:
            noise, peers = random.Random(seed), [wire.new_socket() for _ in range(3)]
            job = f"j{next(number)}"  # a refused job is refused to all that come later
            for sock in peers:
                sock.connect(os.fspath(served.path))
            if join:
                for rank in range(2):
                    peers[rank].send(json.dumps({**HELLO, "rank": rank, "job": job}).encode())
            for who, data in sent:
                try:
                    own = data.replace(b'"j"', f'"{job}"'.encode())
                    peers[who].send(own or b" ", socket.MSG_DONTWAIT)
                except OSError:  # it was refused
                    peers[who].close()
                    peers[who] = wire.new_socket()
                    peers[who].connect(os.fspath(served.path))
                scribble(peers[who], noise)
            for sock in peers:
                sock.close()
            assert serve.status(served.path)

        run()
        wait_for(lambda: serve.status(served.path)[1] == "no job")
        serves(served.path)
        assert not [line for line in served.said if "has a fault" in line]


def scribble(sock: socket.socket, noise: random.Random) -> None:
    """Read all that the server sent, and write random bytes to the memory that comes with it."""
    while select.select([sock], [], [], 0)[0]:
        try:
            data, files, *_ = socket.recv_fds(sock, 4096, 4)
        except OSError:
            return
        for file in files:
            size = os.fstat(file).st_size
            os.pwrite(file, noise.randbytes(min(size, 1 << 15)), 0)
            os.close(file)
        if not data:
            return


def test_any_messages() -> None:
    flood(80, 12)


@pytest.mark.nightly("10,000 messages; test_any_messages has 960")
def test_any_messages_at_length() -> None:
    flood(500, 20)
