# SPDX-License-Identifier: Apache-2.0
"""Tests of the messages, shared memory and client side of a reducer server.

The test plays the server, which may be silent, dead, or send wrong messages.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
from hypothesis import given
from hypothesis import strategies as st

from neuron_fabric.codec import Route
from neuron_fabric.reducers import server_session
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers.interface import BucketLost, Part
from neuron_fabric.reducers.server_session import ServerSession
from neuron_fabric.reducers.shared_lines import (
    BucketShape,
    SharedLines,
    Word,
    most_lines,
    put_row,
    row_of,
)

PARTS = [Part(Route.G_BINARY, False, np.full((2, 64), 7, np.uint8), (0,), (0,))]
SIDE = np.ones((2, 1), np.float32)


class Server:
    """Server side of a connection with one rank, played by the test."""

    def __init__(self, sock: socket.socket, shared: SharedLines) -> None:
        self.sock, self.shared = sock, shared

    def hear(self) -> object:
        came = receive_blocking(self.sock)
        return came[0] if came is not None else None


def receive_blocking(sock: socket.socket) -> tuple[object, list[int]] | None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            return wire.receive(sock)
        except BlockingIOError:
            time.sleep(0.01)
    raise TimeoutError


@contextmanager
def welcomed(
    tmp_path: Path, timeout_s: float = 0.3, routes: tuple[Route, ...] = (Route.G_BINARY,)
) -> Iterator[tuple[ServerSession, Server]]:
    path = tmp_path / "s"
    with wire.new_socket() as listener:
        listener.bind(os.fspath(path))
        listener.listen(5)
        hello = wire.Hello("job", 0, 1, "f", 20, routes)
        rank = ServerSession(path, hello, timeout_s)
        rank.join()
        sock, _ = listener.accept()
        with sock, closing(SharedLines.create(1, 20)) as shared, closing(rank):
            server = Server(sock, shared)
            assert isinstance(server.hear(), wire.Hello)
            welcome = wire.Welcome({"name": "test"}, (Route.FP32, Route.G_BINARY))
            wire.send(sock, welcome, [shared.file])
            assert rank.joined() == welcome
            yield rank, server


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_session, "SILENCE_S", 0.4)
    monkeypatch.setattr(server_session, "LOOK_S", 0.05)


def test_lines_and_results_lie_where_both_look(tmp_path: Path) -> None:
    with welcomed(tmp_path) as (rank, server):
        tickets = [rank.submit(3, n, PARTS, SIDE) for n in range(3)]
        for seq in range(2):  # the third has no room before the first is done
            said = server.hear()
            assert isinstance(said, wire.Submit)
            assert (said.seq, said.bucket, said.present, said.poison) == (seq, seq, 1, 0)
            assert (server.shared.sent[seq, 0, :2] == 7).all()
            server.shared.got[seq, 0, :4] = server.shared.sent[seq, 0, :4] + np.uint8(seq)
            server.shared.decide(seq, Word.DONE)
        with pytest.raises(BlockingIOError):
            wire.receive(server.sock)
        wire.send(server.sock, wire.Done(0, {"answers": 5}))
        for seq in range(2):
            outcome = rank.wait(tickets[seq])
            assert (outcome.parts[0] == 7 + seq).all()
        assert rank.counters == {"answers": 5}
        said = server.hear()
        assert isinstance(said, wire.Submit)
        assert said.seq == 2
        server.shared.decide(2, Word.LOST, "because")
        with pytest.raises(BucketLost, match=r"^because$"):
            rank.wait(tickets[2])


def test_a_device_that_lacks_a_route_is_refused(tmp_path: Path) -> None:
    """Check that a rank refuses a device that lacks one of its routes, which it names, at join."""
    sentence = r"the device lacks G_INT4: it has FP32, G_BINARY; choose other"
    routes = (Route.G_BINARY, Route.G_INT4)
    with pytest.raises(wire.ServerError, match=sentence), welcomed(tmp_path, routes=routes):
        pass


def test_a_silent_server_is_asked_and_given_up(tmp_path: Path) -> None:
    """Check that a rank asks a silent server, then gives the bucket up, which never gets DONE."""
    with welcomed(tmp_path) as (rank, server):
        ticket = rank.submit(0, 0, PARTS, SIDE)
        start = time.monotonic()
        with pytest.raises(BucketLost, match="the server does not answer"):
            rank.wait(ticket)
        assert time.monotonic() - start < 10
        assert isinstance(server.hear(), wire.Submit)
        assert isinstance(server.hear(), wire.Ask)
        assert server.shared.decide(0, Word.DONE) == Word.LOST


def test_who_answers_is_waited_for(tmp_path: Path) -> None:
    with welcomed(tmp_path) as (rank, server):
        ticket = rank.submit(0, 0, PARTS, SIDE)
        end = time.monotonic() + 1.5

        def look(session: server_session.Session, within_s: float) -> bool:
            if within_s:
                wire.send(server.sock, wire.Pending(0, "at work"))
                if time.monotonic() > end:
                    server.shared.decide(0, Word.DONE)
            return hears(session, within_s)

        hears = server_session.Session._hears
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server_session.Session, "_hears", look)
            assert rank.wait(ticket).present[0] == 0  # nothing was put there
        assert time.monotonic() >= end


@pytest.mark.parametrize("word", [Word.NONE, Word.DONE])
def test_a_dead_server_leaves_the_word_as_it_is(tmp_path: Path, word: Word) -> None:
    with welcomed(tmp_path) as (rank, server):
        ticket = rank.submit(0, 0, PARTS, SIDE)
        if word:
            server.shared.decide(0, word)
        server.sock.close()
        if word == Word.DONE:
            rank.wait(ticket)
        else:
            with pytest.raises(BucketLost, match="the server has ended"):
                rank.wait(ticket)
        with pytest.raises(BucketLost):  # nobody has welcomed it again
            rank.wait(rank.submit(1, 0, PARTS, SIDE))


@pytest.mark.parametrize(
    ("message", "line"),
    [(wire.Refused("go away"), r"^go away$"), (wire.Ask(1), "the server says Ask")],
)
def test_another_answer_ends_the_session(tmp_path: Path, message: object, line: str) -> None:
    with welcomed(tmp_path, timeout_s=5.0) as (rank, server):
        ticket = rank.submit(0, 0, PARTS, SIDE)
        wire.send(server.sock, message)  # type: ignore[arg-type]
        with pytest.raises(BucketLost, match=line):
            rank.wait(ticket)


SHAPES = (wire.PartShape(Route.G_BINARY, True, 3, 2), wire.PartShape(Route.FP32, False, 4, 0))


def test_messages_come_back() -> None:
    for message in (
        wire.Hello("job", 1, 4, "f" * 64, 1 << 40, (Route.G_INT4, Route.G_INT8)),
        wire.Welcome({"name": "rtl", "SLOTS": 64}, (Route.FP32, Route.G_BINARY)),
        wire.Submit(1 << 40, 7, 2, SHAPES, 2, 1, 0),
        wire.Done(3, {"cycles": 12}),
    ):
        data = wire.encode(message)
        assert len(data) < wire.MOST_BYTES
        assert wire.decode(data) == message
    with pytest.raises(ValueError, match=r"a message of \d+ bytes, 4095 at most"):
        wire.encode(wire.StatusReport(("x" * wire.MOST_BYTES,)))


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_anything_else_is_a_wire_error(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(data)


def test_another_version_is_told_whatever_it_says() -> None:
    with pytest.raises(wire.OtherVersion, match="version 1, this program speaks 3"):
        wire.decode(b'{"nf":1,"say":"SING","song":[1,2]}')


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(0, 9))
def test_a_bucket_has_room(sizes: list[int], more: int) -> None:
    """Check that a bucket of tensors of these sizes needs no more lines than most_lines says."""
    half = len(sizes) // 2
    parts = (
        wire.PartShape(Route.G_BINARY, False, sum(sizes[:half]), half),
        wire.PartShape(Route.G_TERNARY, True, sum(sizes[half:]), len(sizes) - half),
        wire.PartShape(Route.FP32, False, more, 0),
    )
    shape = BucketShape(parts, len(sizes))
    assert shape.lines <= most_lines(sizes, more)
    ends = [first + part.lines for first, part in zip(shape.firsts, parts, strict=True)]
    assert shape.firsts == [0, *ends[:-1]]
    assert shape.side[0] == ends[-1]


def test_rows_of_floats() -> None:
    lines = np.full((2, 5, 64), 0xFF, np.uint8)
    row = np.arange(20, dtype=np.float32)
    put_row(lines[1], 2, row)
    assert (row_of(lines, 2, 20)[1] == row).all()
    assert (lines[1, 3, 16:] == 0).all()
    assert (lines[1, 4] == 0xFF).all()


def test_an_outcome_is_written_once() -> None:
    server = SharedLines.create(2, 8)
    rank = SharedLines(os.dup(server.file), 2, 8)
    assert server.decide(5, Word.LOST, "why") == Word.LOST
    assert server.decide(5, Word.DONE) == Word.LOST
    assert (rank.outcome(5), rank.reason(5)) == (Word.LOST, "why")
    assert rank.give_up(6) == Word.LOST
    assert server.decide(6, Word.DONE) == Word.LOST
    assert server.decide(7, Word.DONE) == Word.DONE
    assert rank.give_up(7) == Word.DONE
    assert rank.outcome(7 + 64) == Word.NONE
    server.close()
    rank.close()


GIVES_UP = """
import sys
from neuron_fabric.reducers.shared_lines import SharedLines, Word
rank = SharedLines(int(sys.argv[1]), 1, 1)
print(flush=True)
given = [rank.give_up(seq) for seq in range(60)]
sys.exit(any(rank.outcome(seq) not in (Word.NONE, given[seq]) for seq in range(60)))
"""


def test_a_race_has_one_outcome() -> None:
    """Check that server and rank agree on each outcome if one decides while the other gives up."""
    server = SharedLines.create(1, 1)
    command = [sys.executable, "-c", GIVES_UP, str(server.file)]
    with subprocess.Popen(command, pass_fds=[server.file], stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        rank.stdout.read(1)
        decided = [server.decide(seq, Word.DONE) for seq in range(60)]
        rank.stdout.read()
    assert rank.returncode == 0
    assert [server.outcome(seq) for seq in range(60)] == decided
    server.close()
