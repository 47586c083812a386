# SPDX-License-Identifier: Apache-2.0
"""Tests of bulk replay in several processes: equal files for any number of them, each piece
once.
"""

import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from cocotbext.cxl.wire.messages import M2SRwD
from neuron_fabric.capture import Capture, write_capture
from neuron_fabric.errors import CaptureError
from verif.conftest import STEPS, BulkModel
from verif.replay.bulk.bulk_transport import METRICS_FILE, BulkTransport
from verif.replay.bulk.piece_result import LINES_FILE, RESULT_FILE, adopt, drive_piece, shipped
from verif.replay.conftest import Command, check_files, inverted
from verif.replay.job import Piece, Replay, Shard, make_replay
from verif.replay.journal import MAGIC, Journal
from verif.replay.options import ReplayOptions

ROUTES = ("a*=G_BINARY", "t*=G_TERNARY", "*=FP32")
Bulk = Command[BulkModel]


@pytest.fixture
def pieces(bulk: Bulk, odd: Path) -> Bulk:
    """Return the command in bulk for the capture `odd`, which has 13 pieces."""
    return bulk.of(odd, "--route", *ROUTES)


@pytest.fixture
def whole(pieces: Bulk) -> list[bytes]:
    """Return the contents of the result files of a replay in one process."""
    out = out_of(pieces, "whole")
    pieces.passes("--out", out)
    return pieces.files(out)


def out_of(command: Bulk, name: str) -> Path:
    """Return a name for --out in a new folder."""
    (command.folder / name).mkdir()
    return command.folder / name / "out.safetensors"


def test_results_do_not_depend_on_the_jobs(pieces: Bulk, odd: Path) -> None:
    """Check that tensors, metadata, coverage and printed cycles are equal for any number of
    jobs.
    """
    found = []
    for jobs in (1, 2, 3, 99):
        out = out_of(pieces, f"{jobs} jobs")
        last = pieces.passes("--out", out, "-j", jobs).last
        printed = re.match(r"^.* cycles at .*, 13 shards of at most [\d,]+ cycles, ", last)
        assert printed is not None
        metrics = next(pieces.device.files.rglob(METRICS_FILE)).read_text(encoding="utf-8")
        found.append((pieces.files(out), json.loads(metrics), printed[0]))
        assert len(list(out.parent.iterdir())) == len(STEPS)
    check_files(out, odd)
    assert found[1:] == found[:1] * 3


def test_integer_codes_by_two_jobs(bulk: Bulk) -> None:
    """Check integer codes with two jobs: scales belong to no piece, but sums and means need
    them.
    """
    rng, few = np.random.default_rng(8), bulk.folder / "few"
    shapes = {"a": (7, 100), "t": (77,), "s": ()}
    drawn = {name: rng.standard_normal((3, *shape)).astype("f4") for name, shape in shapes.items()}
    write_capture(few, "few", dict.fromkeys(STEPS, drawn))
    found = []
    for jobs in (1, 2):
        out = out_of(bulk, f"{jobs} jobs")
        words = ("--route", "a=G_INT8", "*=G_INT4", "--out", out, "-j", jobs)
        assert re.search(r" [3-9] shards of at most ", bulk.of(few).passes(*words).out)
        found.append(bulk.files(out))
    assert found[0] == found[1]


@pytest.mark.nightly("8 s: 14 shards; results with any number of jobs are compared in every change")
def test_both_simulators_and_shards_by_hand(pieces: Bulk, odd: Path, whole: list[bytes]) -> None:
    """Check that shards driven one by one and merged give the files of one replay, as do two
    simulators.

    There are more shards than pieces, so some are empty.
    """
    out, shards = pieces.out, 14
    assert len(pieces_of(odd)) < shards
    for shard in range(1, shards + 1):
        pieces.passes("--shard", f"{shard}/{shards}", "--out", out, "-j", 1 + shard % 2)
    pieces.passes("--merge", shards, "--out", out)
    assert pieces.files() == whole
    pieces.passes("--sim", "both", "-j", 2, "--out", out)
    assert b'"simulator":"verilator,icarus"' in pieces.files()[0].replace(b" ", b"")


def test_one_piece_is_driven_in_this_process(bulk: Bulk) -> None:
    tiny = bulk.folder / "tiny"
    write_capture(tiny, "tiny", {3: {"t": np.ones((2, 9), np.float32)}})
    bulk.of(tiny).passes("--steps", 3, "--route", "*=G_TERNARY", "-j", 4)
    assert bulk.device.epochs == 1


class Marks:
    """Damage that runs ``do`` in the process that drives one piece, at most ``times`` times.

    The piece is the one with the line of tensor ``s`` of worker 0 in the first step. Every process
    that drives a piece leaves a file in the folder.
    """

    def __init__(self, folder: Path, capture: Path, do: Callable[[], None], times: int = 1) -> None:
        self.line = Capture.open(capture).load(STEPS[0])["s"][0].tobytes()
        self.folder, self.do, self.times = folder, do, times
        folder.mkdir()

    def __call__(self, count: int, message: M2SRwD) -> M2SRwD:
        if count == 0:
            os.close(tempfile.mkstemp(prefix="piece ", dir=self.folder)[0])
        if message.data[: len(self.line)] == self.line and self.done < self.times:
            (self.folder / f"done {self.done}").touch()
            self.do()
        return message

    @property
    def done(self) -> int:
        """Return how many times ``do`` was run."""
        return len(list(self.folder.glob("done*")))

    @property
    def pieces(self) -> int:
        """Return the number of pieces that were begun."""
        return len(list(self.folder.glob("piece*")))


def die() -> None:
    """Kill this process by SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def pieces_of(capture: Path) -> list[Piece]:
    """Return the pieces of a bulk replay of a whole capture."""
    options = ReplayOptions(str(capture), routes=ROUTES, epoch_lines_log2=1)
    return make_replay(options).pieces()


@pytest.mark.parametrize("times", [1, 2])
def test_a_piece_whose_process_dies_is_repeated_once(
    pieces: Bulk, odd: Path, whole: list[bytes], times: int
) -> None:
    pieces.device.damage = marks = Marks(pieces.folder / "marks", odd, die, times)
    count = len(pieces_of(odd))
    pieces = pieces.of(odd, "--out", pieces.out, "-j", 2)
    shown = pieces.run()
    first, *rest = shown.err.splitlines()
    assert re.fullmatch(r"nf replay: shard \d+ once more: its process ended with SIGKILL", first)
    assert marks.done == times
    if times == 1:
        assert (shown.code, rest) == (0, [])
        assert marks.pieces == count + 1
    else:
        assert shown.code == 1
        assert re.fullmatch(
            r"nf replay: verilator: shard \d+: its process ended with SIGKILL; log: .+/run\.log",
            rest[0],
        )
        pieces.passes("--resume")
        assert marks.pieces == count + times
    assert pieces.files() == whole


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_and_resume(pieces: Bulk, odd: Path, whole: list[bytes], jobs: int) -> None:
    """Check that Ctrl-C leaves no process, and that --resume drives only the pieces without
    results.
    """
    parent = os.getpid()

    def interrupt() -> None:
        os.kill(parent, signal.SIGINT)
        time.sleep(0.0 if os.getpid() == parent else 600.0)

    pieces.device.damage = marks = Marks(pieces.folder / "marks", odd, interrupt)
    every = pieces_of(odd)
    pieces = pieces.of(odd, "--out", pieces.out, "-j", jobs)
    others = set(psutil.Process().children(recursive=True))  # of earlier tests
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pieces.run()
    assert time.monotonic() - start < 300  # nothing waited for the sleeping process
    running = set(psutil.Process().children(recursive=True)) - others
    assert len(running) <= 1  # the orphan guard
    assert not pieces.out.exists()
    kept, begun = journal_keys(pieces.out), marks.pieces
    left = [piece for piece in every if not kept.issuperset(piece.keys)]
    assert 0 < len(left) < len(every)
    assert "kept; go on with the same command and --resume" in pieces.capsys.readouterr().err
    rounds = sum(len(piece.keys) for piece in left)
    assert f" rounds are there, {rounds} to go" in pieces.passes("--resume").out
    assert marks.pieces == begun + len(left)
    assert pieces.files() == whole


def journal_keys(out: Path) -> set[tuple[int, int]]:
    """Return (step, number) of each epoch in the journal of --out."""
    path = out.with_name(f"{out.name}.verilator.journal")
    header = path.read_bytes()[len(MAGIC) + 4 :]
    identity, _ = json.JSONDecoder().raw_decode(header.decode("latin-1"))
    with closing(Journal.open(path, identity)) as journal:
        return set(journal.records)


# -- negative twins -------------------------------------------------------------------------------
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_the_first_of_several_wrong_lines_is_reported(pieces: Bulk, jobs: int) -> None:
    """Check that only the first wrong line is reported, with its worker, for any number of jobs.

    Bit 3 of the contributions of worker 1 is inverted.
    """
    pieces.device.damage = inverted(1, 3)
    shown = pieces.fails("-j", jobs)
    assert "step 3 tensor a G_BINARY line 0 element 3 " in shown.err
    assert "; worker 1, line 0 of region 0, element 3: after its contribution" in shown.err
    assert len(shown.err.splitlines()) == 1
    assert pieces.stimulus(shown.out).note.startswith("worker 1")


def test_a_capture_that_changes_meanwhile_is_refused(pieces: Bulk, odd: Path) -> None:
    path = max(odd.rglob("*.safetensors"))

    def flip() -> None:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    pieces.device.damage = Marks(pieces.folder / "marks", odd, flip)
    error = pieces.refuses("--out", pieces.out, "-j", 2)
    assert "has changed since this replay began to read it; replay it again" in error
    assert not pieces.out.exists()


def test_every_round_is_in_one_piece(odd: Path) -> None:
    """Check that each epoch is in one piece and each piece in one shard.

    Pieces are in order, and have bounded and nearly equal sizes.
    """
    for log2, size in ((0, 4), (1, 4), (9, 4)):
        replay = make_replay(ReplayOptions(str(odd), epoch_lines_log2=log2))
        pieces = replay.all_pieces()
        assert [key for piece in pieces for key in piece.keys] == replay.all_keys()
        sizes = {len(piece.keys) for piece in pieces}
        assert max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1
        parts = [replace(replay, shard=Shard(number, 3)).pieces() for number in (1, 2, 3)]
        found = [piece.number for part in parts for piece in part]
        assert sorted(found) == [piece.number for piece in pieces]
    signal_level = make_replay(ReplayOptions(str(odd)))
    assert len(signal_level.pieces()) == 1


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
    writes = adoption.replay.writes(list(adoption.journal.records))
    assert done.lines * adoption.replay.source.workers == writes
    assert sum(done.cycles.values()) == sum(one["cycles"] for one in done.figures.values())


def test_a_second_result_of_a_piece_is_refused(adoption: Adoption) -> None:
    first, second = adoption.first, adoption.second
    adoption.adopt(first)
    adoption.refuses(first, "shard 1: came twice")
    another = r"is of another replay \(piece 1, now 2\)"
    adoption.refuses(second, another, adoption.place(first))
    lines = adoption.replay.writes(first.keys) // adoption.replay.source.workers
    assert adoption.done.lines == lines
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
