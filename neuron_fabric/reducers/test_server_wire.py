# SPDX-License-Identifier: Apache-2.0
"""Messages and shared memory of a reducer server, without a server."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
from hypothesis import given
from hypothesis import strategies as st

from neuron_fabric.codec import Route
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers.server_session import (
    BucketShape,
    SharedLines,
    Word,
    most_lines,
    put_row,
    row_of,
)

PARTS = (
    wire.PartShape(Route.G_BINARY, True, 3, 2),
    wire.PartShape(Route.FP32, False, 4, 0),
)


def test_messages_come_back() -> None:
    for message in (
        wire.Hello("job", 1, 4, "f" * 64, 1 << 40, (Route.G_INT4, Route.G_INT8)),
        wire.Welcome({"name": "rtl", "SLOTS": 64}, (Route.FP32, Route.G_BINARY)),
        wire.Submit(1 << 40, 7, 2, PARTS, 2, 1, 0),
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
    with pytest.raises(wire.OtherVersion, match="version 1, this program speaks 2"):
        wire.decode(b'{"nf":1,"say":"SING","song":[1,2]}')


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(0, 9))
def test_a_bucket_has_room(sizes: list[int], more: int) -> None:
    """Tensors of these lines in any parts take no more than was said at HELLO."""
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
from neuron_fabric.reducers.server_session import SharedLines, Word
rank = SharedLines(int(sys.argv[1]), 1, 1)
print(flush=True)
given = [rank.give_up(seq) for seq in range(60)]
sys.exit(any(rank.outcome(seq) not in (Word.NONE, given[seq]) for seq in range(60)))
"""


def test_a_race_has_one_outcome() -> None:
    """A rank in another process gives up while the server decides: both say the same."""
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
