# SPDX-License-Identifier: Apache-2.0
"""Tests of pieces that other processes drove: each is adopted once and whole, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from neuron_fabric.errors import CaptureError
from verif.conftest import BulkModel
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.bulk.piece_result import LINES_FILE, RESULT_FILE, adopt, drive_piece, shipped
from verif.replay.job import Piece, Replay, make_replay
from verif.replay.journal import Journal
from verif.replay.options import ReplayOptions

ROUTES = ("a*=G_BINARY", "t*=G_TERNARY", "*=FP32")


class Adoption:
    """Replay whose first two pieces were driven by other transports, and are not adopted yet."""

    def __init__(self, odd: Path, model: BulkModel, folder: Path) -> None:
        self.replay = make_replay(ReplayOptions(str(odd), routes=ROUTES, epoch_lines_log2=1))
        self.identity = self.replay.identity("verilator")
        self.model, self.folder = model, folder
        self.first, self.second = self.replay.pieces()[:2]
        self.done = self.transport(self.replay, folder / "done")
        self.journal = self.done.kept = Journal.create(folder / "journal", self.identity)
        for piece in (self.first, self.second):
            self.drive(piece, self.place(piece))

    def transport(self, replay: Replay, folder: Path) -> BulkTransport:
        folder.mkdir()
        return BulkTransport(replay, "verilator", folder, self.model)

    def drive(self, piece: Piece, folder: Path) -> None:
        own = self.transport(shipped(self.replay, piece), folder)
        drive_piece(own, piece, self.identity)

    def place(self, piece: Piece) -> Path:
        return self.folder / f"piece {piece.number}"

    def adopt(self, piece: Piece, folder: Path | None = None) -> None:
        adopt(self.done, piece, folder or self.place(piece), self.identity)

    def refuses(self, piece: Piece, text: str, folder: Path | None = None) -> None:
        with pytest.raises(CaptureError, match=text):
            self.adopt(piece, folder)


@pytest.fixture
def adoption(odd: Path, model: BulkModel, tmp_path: Path) -> Iterator[Adoption]:
    (tmp_path / "adoption").mkdir()
    made = Adoption(odd, model, tmp_path / "adoption")
    with closing(made.journal):
        yield made


def test_pieces_are_adopted_in_any_order(adoption: Adoption) -> None:
    done = adoption.done
    for piece in (adoption.second, adoption.first):
        adoption.adopt(piece)
    assert sorted(adoption.journal.records) == [*adoption.first.keys, *adoption.second.keys]
    assert done.writes == adoption.replay.writes(list(adoption.journal.records))
    assert done.lines * adoption.replay.source.workers == done.writes
    assert sum(done.cycles.values()) == sum(one["cycles"] for one in done.figures.values())


def test_a_second_result_of_a_piece_is_refused(adoption: Adoption) -> None:
    first, second = adoption.first, adoption.second
    adoption.adopt(first)
    adoption.refuses(first, "shard 1: came twice")
    another = r"is of another replay \(piece 1, now 2\)"
    adoption.refuses(second, another, adoption.place(first))
    assert adoption.done.writes == adoption.replay.writes(first.keys)
    adoption.adopt(second)


def test_lost_or_damaged_rounds_are_refused(adoption: Adoption) -> None:
    first, second = adoption.first, adoption.second
    path = adoption.place(first) / LINES_FILE
    data = path.read_bytes()
    identity = {**adoption.identity, "piece": first.number}
    with closing(Journal.open(path, identity)) as journal:
        last = journal.records[first.keys[-1]]
    flipped = bytearray(data)
    flipped[last.start + 40] ^= 1
    for content, text in (
        (data[: last.start], "lacks 1 of its 2 rounds; replay it again"),
        (flipped, "is damaged, or of another replay"),
    ):
        path.write_bytes(content)
        adoption.refuses(first, text)
    path.unlink()
    adoption.refuses(first, "there is no journal")
    (adoption.place(second) / RESULT_FILE).write_text("{", encoding="utf-8")
    adoption.refuses(second, RESULT_FILE)
    assert not adoption.journal.records


def test_rounds_of_another_piece_are_refused(adoption: Adoption) -> None:
    first, folder = adoption.first, adoption.folder / "longer"
    adoption.drive(replace(first, keys=(*first.keys, *adoption.second.keys)), folder)
    adoption.refuses(first, "has 2 rounds of other shards", folder)
