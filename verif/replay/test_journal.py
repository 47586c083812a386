# SPDX-License-Identifier: Apache-2.0
"""Journals: of one content, one replay and one process, or refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocotbext.cxl.wire.messages import M2SRwD
from neuron_fabric.capture import write_capture
from neuron_fabric.lock import Lock
from verif.conftest import BulkModel, nf_replay
from verif.replay.journal import MAGIC, Journal

BULK = ("--transport", "bulk", "--route", "*=G_BINARY")
SHARDS = 2


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Two workers whose files have a middle: 160 KB each."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((2, 40_000)).astype(np.float32)
    write_capture(tmp_path / "large", "large", {0: {"a": values}})
    return tmp_path / "large"


def flip(capture: Path, at: int) -> None:
    """Turn the sign of one gradient of worker 0."""
    path = min(capture.rglob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[len(data) - 160_000 + 4 * at + 3] ^= 128
    path.write_bytes(data)


def journal(out: Path, part: int | None = None) -> Path:
    """Where a journal lies."""
    shard = f".shard-{part}-of-{SHARDS}" if part else ""
    return out.with_name(f"{out.name}.verilator{shard}.journal")


def shard(model: Any, capture: Path, out: Path, part: int) -> int:
    return nf_replay(model, capture, *BULK, "--shard", f"{part}/{SHARDS}", "--out", out)


def merge(model: Any, capture: Path, out: Path) -> int:
    return nf_replay(model, capture, *BULK, "--merge", SHARDS, "--out", out)


def test_shards_of_two_captures_do_not_merge(
    large: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The captures differ in one bit in the middle of a file."""
    out = tmp_path / "out.safetensors"
    assert shard(model, large, out, 1) == 0
    flip(large, 20_000)
    assert shard(model, large, out, 2) == 0
    for back in (False, True):  # by whichever of the two captures they are merged
        if back:
            flip(large, 20_000)
        assert merge(model, large, out) == 2
        assert "it is of another replay (content" in capsys.readouterr().err
    assert not out.exists()
    assert shard(model, large, out, 2) == 0  # the twin: of one capture they do
    assert merge(model, large, out) == 0


def test_a_capture_that_changes_while_it_is_read_is_refused(
    large: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flips = iter([39_000])  # a stretch that no round has read for its lines yet

    def late(count: int, message: M2SRwD) -> M2SRwD:
        if count == 5:
            for at in flips:
                flip(large, at)
        return message

    model.damage = late
    out = tmp_path / "out.safetensors"
    assert nf_replay(model, large, *BULK, "--out", out) == 2
    error = capsys.readouterr().err
    assert "has changed since this replay began to read it; replay it again" in error
    assert len(error.splitlines()) == 1
    assert not out.exists()
    assert nf_replay(model, large, *BULK, "--out", out, "--resume") == 2
    assert "it is of another replay (content" in capsys.readouterr().err


def test_a_record_of_another_journal_is_refused(
    large: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two captures: the journal of one, with whole records out of the other's behind it."""
    out, other = tmp_path / "out.safetensors", tmp_path / "other.safetensors"
    for one in (out, other):
        assert shard(model, large, one, 1) == 0
        assert shard(model, large, one, 2) == 0
        flip(large, 20_000)
    data, foreign = journal(out, 1).read_bytes(), journal(other, 1).read_bytes()
    assert len(data) == len(foreign)
    half = len(data) // 2
    assert data[half:] != foreign[half:]
    journal(out, 1).write_bytes(foreign[: foreign.index(b"}") + 1] + data[data.index(b"}") + 1 :])
    flip(large, 20_000)  # the capture that the header speaks of
    assert merge(model, large, out) == 2
    assert "is damaged, or of another replay" in capsys.readouterr().err
    assert not out.exists()


def test_a_journal_that_another_process_writes_is_left_alone(
    large: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.safetensors"
    assert shard(model, large, out, 1) == 0
    assert shard(model, large, out, 2) == 0
    there = journal(out, 1).read_bytes()
    with Lock(journal(out, 1)):
        assert shard(model, large, out, 1) == 2
        assert f"in use by `{Lock(journal(out, 1)).holder()[11:]}" in capsys.readouterr().err
        assert merge(model, large, out) == 2
        assert f"(process {os.getpid()})" in capsys.readouterr().err
    assert journal(out, 1).read_bytes() == there
    assert merge(model, large, out) == 0


def test_what_is_no_journal_is_not_overwritten(
    large: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.safetensors"
    victim = tmp_path / "victim"
    victim.write_bytes(MAGIC + b"mine")
    for resume in ((), ("--resume",)):
        journal(out).symlink_to(victim)
        assert nf_replay(model, large, *BULK, "--out", out, *resume) == 2
        assert "is a link, and a journal would go there" in capsys.readouterr().err
        journal(out).unlink()
        journal(out).write_bytes(b"mine")
        assert nf_replay(model, large, *BULK, "--out", out, *resume) == 2
        assert "no journal of a replay, and one would go there" in capsys.readouterr().err
        assert journal(out).read_bytes() == b"mine"
        journal(out).unlink()
    assert victim.read_bytes() == MAGIC + b"mine"
    assert model.epochs == 0


@pytest.mark.parametrize("where", ["journal", "results"])
def test_a_full_disk_is_named_and_resume_goes_on(
    large: Path,
    model: BulkModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    out = tmp_path / "out.safetensors"
    name = journal(out).name if where == "journal" else out.name + ".part"
    real = os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if offset > 9000 and os.readlink(f"/proc/self/fd/{file}").endswith(name):
            if len(data) > 100:
                return real(file, bytes(data)[:100], offset)  # the last bytes that it takes
            raise OSError(28, "No space left on device")
        return real(file, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert nf_replay(model, large, *BULK, "--out", out) == 2
    error = capsys.readouterr().err
    path = journal(out) if where == "journal" else out
    assert f"{path}: No space left on device; make room, then go on with the same" in error
    assert "--resume" in error
    assert not out.exists()
    before = model.epochs
    assert nf_replay(model, large, *BULK, "--out", out, "--resume") == 0
    assert model.epochs - before < 40
    whole = tmp_path / "whole.safetensors"
    assert nf_replay(model, large, *BULK, "--out", whole) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    """Between its opening and the making of tensors a journal may be damaged as well."""
    one = Journal.create(tmp_path / "x.journal", {"seed": 1})
    one.append((3, 0), {"cycles": 7}, np.full((4, 64), 5, np.uint8))
    assert one.lines((3, 0)).tolist() == [[5] * 64] * 4
    data = bytearray(one.path.read_bytes())
    data[-40] ^= 1
    one.path.write_bytes(data)
    with pytest.raises(Exception, match="is damaged"):
        one.lines((3, 0))
    one.close()
