# SPDX-License-Identifier: Apache-2.0
"""Bulk replay in many processes: the same files whatever drives them, and each piece once."""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from cocotbext.cxl.wire.messages import M2SRwD
from neuron_fabric.capture import Capture, write_capture
from scripts.common.paths import ROOT
from verif.conftest import STEPS, BulkModel, nf_replay
from verif.replay.bulk.bulk_transport import METRICS_FILE
from verif.replay.job import Piece, Shard, make_replay
from verif.replay.journal import MAGIC, Journal
from verif.replay.options import ReplayOptions
from verif.replay.stimulus import Stimulus
from verif.replay.test_signal_replay import check_file

BULK = ("--transport", "bulk", "--route", "a*=G_BINARY", "t*=G_TERNARY", "*=FP32")


def files(out: Path) -> list[bytes]:
    """The result files of both steps."""
    return [out.with_name(f"{out.stem}.step-{step:06d}.safetensors").read_bytes() for step in STEPS]


def metrics(model: BulkModel) -> object:
    """Functional coverage that the last replay has left."""
    return json.loads(next(model.files.rglob(METRICS_FILE)).read_text(encoding="utf-8"))


@pytest.fixture
def whole(odd: Path, model: BulkModel, tmp_path: Path) -> list[bytes]:
    """What one process makes of it."""
    out = tmp_path / "whole" / "out.safetensors"
    out.parent.mkdir()
    assert nf_replay(model, odd, *BULK, "--out", out) == 0
    return files(out)


def test_the_same_whatever_the_jobs(
    odd: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tensors, metadata, coverage, and what is said of clocks."""
    found = []
    for jobs in (1, 2, 3, 99):
        out = tmp_path / f"{jobs} jobs" / "out.safetensors"
        out.parent.mkdir()
        assert nf_replay(model, odd, *BULK, "--out", out, "-j", jobs) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        said = re.match(r"^.* cycles at .*, 13 shards of at most [\d,]+ cycles, ", last)
        assert said is not None
        found.append((files(out), metrics(model), said[0]))
        assert len(list(out.parent.iterdir())) == len(STEPS)
    for step in STEPS:
        check_file(out.with_name(f"out.step-{step:06d}.safetensors"), odd, step)
    assert found[1:] == found[:1] * 3


def test_integer_codes_by_two_jobs(
    model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums, means and scales, which belong to no piece."""
    rng, few = np.random.default_rng(8), tmp_path / "few"
    shapes = {"a": (7, 100), "t": (77,), "s": ()}
    drawn = {name: rng.standard_normal((3, *shape)).astype("f4") for name, shape in shapes.items()}
    write_capture(few, "few", dict.fromkeys(STEPS, drawn))
    found = []
    for jobs in (1, 2):
        out = tmp_path / f"{jobs} jobs" / "out.safetensors"
        out.parent.mkdir()
        words = (*BULK[:2], "--route", "a=G_INT8", "*=G_INT4", "--out", out, "-j", jobs)
        assert nf_replay(model, few, *words) == 0, capsys.readouterr().err
        assert re.search(r" [3-9] shards of at most ", capsys.readouterr().out)
        found.append(files(out))
    assert found[0] == found[1]


def test_both_simulators_and_parts_by_hand(
    odd: Path, model: BulkModel, whole: list[bytes], tmp_path: Path
) -> None:
    """More parts than pieces: some have nothing to do."""
    out, parts = tmp_path / "out.safetensors", 14
    assert len(pieces_of(odd)) < parts
    for part in range(1, parts + 1):
        words = ("--shard", f"{part}/{parts}", "--out", out, "-j", 1 + part % 2)
        assert nf_replay(model, odd, *BULK, *words) == 0
    assert nf_replay(model, odd, *BULK, "--merge", parts, "--out", out) == 0
    assert files(out) == whole
    assert nf_replay(model, odd, *BULK, "--sim", "both", "-j", 2, "--out", out) == 0
    assert b'"simulator":"verilator,icarus"' in files(out)[0].replace(b" ", b"")


def test_one_piece_is_driven_here(odd: Path, model: BulkModel) -> None:
    words = ("--steps", 3, "--route", "*=G_TERNARY", "-j", 4)
    model_epochs, tiny = model.epochs, odd.parent / "tiny"
    write_capture(tiny, "tiny", {3: {"t": np.ones((2, 9), np.float32)}})
    assert nf_replay(model, tiny, *BULK[:2], *words) == 0
    assert model.epochs == model_epochs + 1


class Marks:
    """Breaks what drives one piece: the one with the line of ``s`` of worker 0 in the first step.

    Every process that drives a piece leaves a mark.
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
        """How often it was done."""
        return len(list(self.folder.glob("done*")))

    @property
    def pieces(self) -> int:
        """Pieces that were begun."""
        return len(list(self.folder.glob("piece*")))


def die() -> None:
    """The end of this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def pieces_of(capture: Path) -> list[Piece]:
    """Those of the whole capture."""
    options = ReplayOptions(str(capture), routes=BULK[3:], epoch_lines_log2=1)
    return make_replay(options).pieces()


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_dies_costs_its_piece_a_second_run(
    odd: Path,
    model: BulkModel,
    whole: list[bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    times: int,
) -> None:
    model.damage = marks = Marks(tmp_path / "marks", odd, die, times)
    out, count = tmp_path / "out.safetensors", len(pieces_of(odd))
    words = (odd, *BULK, "--out", out, "-j", 2)
    code = nf_replay(model, *words)
    first, *rest = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"nf replay: shard \d+ once more: its process ended with SIGKILL", first)
    assert marks.done == times
    if times == 1:
        assert (code, rest) == (0, [])
        assert marks.pieces == count + 1
    else:
        assert code == 1
        assert re.fullmatch(
            r"nf replay: verilator: shard \d+: its process ended with SIGKILL; log: .+/run\.log",
            rest[0],
        )
        assert nf_replay(model, *words, "--resume") == 0
        assert marks.pieces == count + times
    assert files(out) == whole


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_and_resume(
    odd: Path,
    model: BulkModel,
    whole: list[bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    jobs: int,
) -> None:
    """What is there is not driven again, and nothing that runs is left."""
    parent = os.getpid()

    def interrupt() -> None:
        os.kill(parent, signal.SIGINT)
        time.sleep(0.0 if os.getpid() == parent else 600.0)

    model.damage = marks = Marks(tmp_path / "marks", odd, interrupt)
    out, every = tmp_path / "out.safetensors", pieces_of(odd)
    words = (odd, *BULK, "--out", out, "-j", jobs)
    others = set(psutil.Process().children(recursive=True))  # of tests before this one
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        nf_replay(model, *words)
    assert time.monotonic() - start < 300  # nobody has waited for who sleeps
    running = set(psutil.Process().children(recursive=True)) - others
    assert len(running) <= 1  # the orphan guard
    assert not out.exists()
    there, begun = journal_keys(out), marks.pieces
    left = [piece for piece in every if not there.issuperset(piece.keys)]
    assert 0 < len(left) < len(every)
    assert "kept; go on with the same command and --resume" in capsys.readouterr().err
    assert nf_replay(model, *words, "--resume") == 0
    assert marks.pieces == begun + len(left)
    rounds = sum(len(piece.keys) for piece in left)
    assert f" rounds are there, {rounds} to go" in capsys.readouterr().out
    assert files(out) == whole


def journal_keys(out: Path) -> set[tuple[int, int]]:
    """Rounds that a journal beside --out holds."""
    path = out.with_name(f"{out.name}.verilator.journal")
    header = path.read_bytes()[len(MAGIC) + 4 :]
    identity, _ = json.JSONDecoder().raw_decode(header.decode("latin-1"))
    with closing(Journal.open(path, identity)) as journal:
        return set(journal.records)


# -- negative twins -------------------------------------------------------------------------------
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_the_first_of_several_wrong_lines_is_told(
    odd: Path, model: BulkModel, capsys: pytest.CaptureFixture[str], jobs: int
) -> None:
    """Worker 1's bit of element 3 arrives wrong in every piece."""

    def damage(count: int, message: M2SRwD) -> M2SRwD:
        if message.ldid != 1:
            return message
        return replace(message, data=bytes([message.data[0] ^ 1 << 3]) + message.data[1:])

    model.damage = damage
    assert nf_replay(model, odd, *BULK, "-j", jobs) == 1
    shown = capsys.readouterr()
    assert "step 3 tensor a G_BINARY line 0 element 3 " in shown.err
    assert "; worker 1, line 0 of region 0, element 3: after its contribution" in shown.err
    assert len(shown.err.splitlines()) == 1
    assert "FAILED" in shown.out.splitlines()[-1]
    path = model.files / "bulk-odd-verilator" / "stimulus.json"
    (copy,) = re.findall(r"nf replay --stimulus (\S+) --sim verilator --waves", shown.out)
    assert (ROOT / copy).read_bytes() == path.read_bytes()  # the next replay empties the folder
    assert Stimulus.read(path).note.startswith("worker 1")


def test_a_capture_that_changes_meanwhile_is_refused(
    odd: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = max(odd.rglob("*.safetensors"))

    def flip() -> None:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    model.damage = Marks(tmp_path / "marks", odd, flip)
    out = tmp_path / "out.safetensors"
    assert nf_replay(model, odd, *BULK, "--out", out, "-j", 2) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "has changed since this replay began to read it; replay it again" in line
    assert not out.exists()


def test_every_round_is_in_one_piece(odd: Path) -> None:
    """Of bounded size, in order, whatever the shard; sizes differ by one at most."""
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
