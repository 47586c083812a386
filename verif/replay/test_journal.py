# SPDX-License-Identifier: Apache-2.0
"""Tests of journals: each belongs to one content, one replay and one process, or is refused."""

import os
from pathlib import Path

import numpy as np
import pytest

from cocotbext.cxl.wire.messages import M2SRwD
from neuron_fabric.capture import write_capture
from neuron_fabric.lock import Lock
from verif.conftest import BulkModel
from verif.replay.conftest import Command
from verif.replay.journal import MAGIC, Journal

SHARDS = 2
Bulk = Command[BulkModel]


@pytest.fixture
def large(bulk: Bulk) -> Bulk:
    """Return the command for a capture of two workers with files of 160 KB (several hashed
    chunks).
    """
    values = np.random.default_rng(1).standard_normal((2, 40_000)).astype(np.float32)
    write_capture(bulk.folder / "large", "large", {0: {"a": values}})
    return bulk.of(bulk.folder / "large", "--route", "*=G_BINARY")


def flip(command: Bulk, at: int) -> None:
    """Invert the sign of gradient number `at` of worker 0 in the file of the capture."""
    assert command.capture is not None
    path = min(command.capture.rglob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[len(data) - 160_000 + 4 * at + 3] ^= 128
    path.write_bytes(data)


def journal(out: Path, part: int | None = None) -> Path:
    """Return the name of the journal of --out, or of its shard ``part``."""
    shard = f".shard-{part}-of-{SHARDS}" if part else ""
    return out.with_name(f"{out.name}.verilator{shard}.journal")


def shard(part: int) -> tuple[str, str]:
    return "--shard", f"{part}/{SHARDS}"


MERGE = ("--merge", SHARDS)


def test_a_capture_that_changes_while_it_is_read_is_refused(large: Bulk) -> None:
    flips = iter([39_000])  # a stretch that no round has read for its lines yet

    def late(count: int, message: M2SRwD) -> M2SRwD:
        if count == 5:
            for at in flips:
                flip(large, at)
        return message

    large.device.damage = late
    error = large.refuses("--out", large.out)
    assert "has changed since this replay began to read it; replay it again" in error
    assert not large.out.exists()
    error = large.refuses("--out", large.out, "--resume")
    assert "it is of another replay (content" in error


def test_a_record_of_another_journal_is_refused(large: Bulk) -> None:
    """Check that records of another capture's journal under the right header are refused as
    damaged.
    """
    out, other = large.out, large.folder / "other.safetensors"
    for one in (out, other):
        large.passes(*shard(1), "--out", one)
        large.passes(*shard(2), "--out", one)
        flip(large, 20_000)
    data, foreign = journal(out, 1).read_bytes(), journal(other, 1).read_bytes()
    assert len(data) == len(foreign)
    half = len(data) // 2
    assert data[half:] != foreign[half:]
    journal(out, 1).write_bytes(foreign[: foreign.index(b"}") + 1] + data[data.index(b"}") + 1 :])
    flip(large, 20_000)  # the capture of the header
    assert "is damaged, or of another replay" in large.refuses(*MERGE, "--out", out)
    assert not out.exists()


def test_a_journal_that_another_process_writes_is_not_changed(large: Bulk) -> None:
    large = large.of(large.capture, "--out", large.out)
    large.passes(*shard(1))
    large.passes(*shard(2))
    path = journal(large.out, 1)
    before = path.read_bytes()
    with Lock(path):
        assert f"in use by `{Lock(path).holder()[11:]}" in large.refuses(*shard(1))
        assert f"(process {os.getpid()})" in large.refuses(*MERGE)
    assert path.read_bytes() == before
    large.passes(*MERGE)


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_other_files_are_not_overwritten(large: Bulk, resume: tuple[str, ...]) -> None:
    victim, path = large.folder / "victim", journal(large.out)
    victim.write_bytes(MAGIC + b"mine")
    path.symlink_to(victim)
    error = large.refuses("--out", large.out, *resume)
    assert "is a link, and a journal would go there" in error
    path.unlink()
    path.write_bytes(b"mine")
    error = large.refuses("--out", large.out, *resume)
    assert "no journal of a replay, and one would go there" in error
    assert path.read_bytes() == b"mine"
    assert victim.read_bytes() == MAGIC + b"mine"
    assert large.device.epochs == 0


@pytest.mark.parametrize("where", ["journal", "results"])
def test_a_full_disk_is_named_and_resume_goes_on(
    large: Bulk, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    out = large.out
    name = journal(out).name if where == "journal" else out.name + ".part"
    real = os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if offset > 9000 and os.readlink(f"/proc/self/fd/{file}").endswith(name):
            if len(data) > 100:
                return real(file, bytes(data)[:100], offset)  # the last bytes that fit
            raise OSError(28, "No space left on device")
        return real(file, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        error = large.refuses("--out", out)
    path = journal(out) if where == "journal" else out
    assert f"{path}: No space left on device; make room, then go on with the same" in error
    assert "--resume" in error
    assert not out.exists()
    before = large.device.epochs
    large.passes("--out", out, "--resume")
    assert large.device.epochs - before < 40
    whole = large.folder / "whole.safetensors"
    large.passes("--out", whole)
    assert out.read_bytes() == whole.read_bytes()


def test_damage_after_opening_is_found(tmp_path: Path) -> None:
    """Check that lines are verified again when they are read to make tensors."""
    one = Journal.create(tmp_path / "x.journal", {"seed": 1})
    one.append((3, 0), {"cycles": 7}, np.full((4, 64), 5, np.uint8))
    assert one.lines((3, 0)).tolist() == [[5] * 64] * 4
    data = bytearray(one.path.read_bytes())
    data[-40] ^= 1
    one.path.write_bytes(data)
    with pytest.raises(Exception, match="is damaged"):
        one.lines((3, 0))
    one.close()
