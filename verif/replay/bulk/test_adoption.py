# SPDX-License-Identifier: Apache-2.0
"""Pieces of a bulk replay that other processes drove: each is taken once and whole, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from neuron_fabric.errors import CaptureError
from verif.conftest import BulkModel
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.bulk.worker_process import LINES_FILE, RESULT_FILE, adopt, drive_apart, shipped
from verif.replay.job import Piece, Replay, make_replay
from verif.replay.journal import Journal
from verif.replay.options import ReplayOptions

ROUTES = ("a*=G_BINARY", "t*=G_TERNARY", "*=FP32")


class Adoption:
    """Two pieces that other processes have driven, and the replay that they are for."""

    def __init__(self, odd: Path, model: BulkModel, folder: Path) -> None:
        options = ReplayOptions(str(odd), routes=ROUTES, epoch_lines_log2=1)
        self.replay = make_replay(options)
        self.identity = self.replay.identity("verilator")
        self.model, self.folder = model, folder
        self.pieces = self.replay.pieces()[:2]
        self.done = self.transport(self.replay, folder / "done")
        self.done.kept = Journal.create(folder / "journal", self.identity)
        for piece in self.pieces:
            own = self.transport(shipped(self.replay, piece), self.place(piece))
            drive_apart(own, piece, self.identity)

    def transport(self, replay: Replay, folder: Path) -> BulkTransport:
        folder.mkdir()
        return BulkTransport(replay, "verilator", folder, self.model)

    def place(self, piece: Piece) -> Path:
        return self.folder / f"piece {piece.number}"

    def adopt(self, piece: Piece, folder: Path | None = None) -> None:
        adopt(self.done, piece, folder or self.place(piece), self.identity)


@pytest.fixture
def adoption(odd: Path, model: BulkModel, tmp_path: Path) -> Iterator[Adoption]:
    """Driven with lines that were sent, and not yet taken."""
    (tmp_path / "apart").mkdir()
    made = Adoption(odd, model, tmp_path / "apart")
    yield made
    assert isinstance(made.done.kept, Journal)
    made.done.kept.close()


def test_pieces_are_taken_in_any_order(adoption: Adoption) -> None:
    for piece in reversed(adoption.pieces):
        adoption.adopt(piece)
    assert adoption.done.kept is not None
    assert sorted(adoption.done.kept.records) == sorted(
        key for piece in adoption.pieces for key in piece.keys
    )
    assert adoption.done.writes == adoption.replay.writes(list(adoption.done.kept.records))
    assert adoption.done.lines * adoption.replay.source.workers == adoption.done.writes
    cycles = adoption.done.cycles
    assert sum(cycles.values()) == sum(one["cycles"] for one in adoption.done.figures.values())


def test_a_piece_that_comes_twice_is_refused(adoption: Adoption) -> None:
    first, second = adoption.pieces
    adoption.adopt(first)
    with pytest.raises(CaptureError, match="shard 1: came twice"):
        adoption.adopt(first)
    with pytest.raises(CaptureError, match=r"is of another replay \(piece 1, now 2\)"):
        adoption.adopt(second, adoption.place(first))
    assert adoption.done.writes == adoption.replay.writes(first.keys)
    adoption.adopt(second)


def test_a_round_that_is_lost_or_damaged_is_refused(adoption: Adoption) -> None:
    first, second = adoption.pieces
    path = adoption.place(first) / LINES_FILE
    data = path.read_bytes()
    identity = {**adoption.identity, "piece": first.number}
    with closing(Journal.open(path, identity)) as journal:
        last = journal.records[first.keys[-1]]
    path.write_bytes(data[: last.start])
    with pytest.raises(CaptureError, match="lacks 1 of its 2 rounds; replay it again"):
        adoption.adopt(first)
    flipped = bytearray(data)
    flipped[last.start + 40] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(CaptureError, match="is damaged, or of another replay"):
        adoption.adopt(replace(first, number=1))
    path.unlink()
    with pytest.raises(CaptureError, match="there is no journal"):
        adoption.adopt(first)
    (adoption.place(second) / RESULT_FILE).write_text("{", encoding="utf-8")
    with pytest.raises(CaptureError, match=RESULT_FILE):
        adoption.adopt(second)
    assert adoption.done.kept is not None
    assert not adoption.done.kept.records


def test_rounds_of_another_piece_are_refused(adoption: Adoption) -> None:
    first, second = adoption.pieces
    longer = replace(first, keys=(*first.keys, *second.keys))
    folder = adoption.folder / "longer"
    own = adoption.transport(shipped(adoption.replay, longer), folder)
    drive_apart(own, longer, adoption.identity)
    with pytest.raises(CaptureError, match="has 2 rounds of other shards"):
        adoption.adopt(first, folder)
