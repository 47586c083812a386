# SPDX-License-Identifier: Apache-2.0
"""`nf replay --out`: names that must not be written, full disks, a file in use."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path

import pytest

from neuron_fabric.errors import CaptureError
from neuron_fabric.lock import Lock
from neuron_fabric.output import check_output
from verif.conftest import SignalModel, nf_replay

PLACES = {
    "link": ("link.safetensors", "is a link to "),
    "long": ("x" * 300, "its name has 300 bytes"),
    "journal": ("y" * 230, "its name has 230 bytes"),
    "folder": ("capture", "is a folder"),
    "fifo": ("fifo", "is no regular file"),
    "step": ("steps.safetensors", "is a link to "),
}


@pytest.mark.parametrize("transport", ["signal", "bulk"])
@pytest.mark.parametrize(("name", "text"), PLACES.values(), ids=PLACES.keys())
def test_an_out_that_must_not_be_written(
    capture: Path,
    signal_model: SignalModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    transport: str,
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    for link in ("link.safetensors", "steps.step-000060.safetensors"):
        (tmp_path / link).symlink_to(victim)
    os.mkfifo(tmp_path / "fifo")
    words = ("--transport", transport, "--out", tmp_path / name)
    assert nf_replay(signal_model, capture, *words) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.splitlines()) == 1
    assert signal_model.runs == []
    assert victim.read_text(encoding="utf-8") == "mine"
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_a_device_is_no_out() -> None:
    """The check alone: where it failed, a root would lose his /dev/null to the replay itself."""
    with pytest.raises(CaptureError, match="/dev/null: is no regular file; give --out the name"):
        check_output(Path("/dev/null"), "--out")


def test_a_second_replay_with_the_same_out_is_told_who_has_it(
    capture: Path, signal_model: SignalModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.safetensors"
    with Lock(out):
        assert nf_replay(signal_model, capture, "--steps", 3, "--out", out) == 2
        error = capsys.readouterr().err
        assert f"{out}: in use by `" in error
        assert f"(process {os.getpid()}); wait until it has ended" in error
    assert nf_replay(signal_model, capture, "--steps", 3, "--out", out) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == [out.name]


def test_a_full_disk_is_named_with_what_to_do(
    capture: Path,
    signal_model: SignalModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out.safetensors"
    real = os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if offset > 1000 and "out.safetensors" in os.readlink(f"/proc/self/fd/{file}"):
            raise OSError(28, "No space left on device")
        return real(file, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    assert nf_replay(signal_model, capture, "--steps", 3, "--out", out) == 2
    error = capsys.readouterr().err
    assert f"{out}: No space left on device; make room or choose another --out" in error
    assert not list(tmp_path.glob("out*"))


def test_a_disk_that_says_it_is_full_at_the_end(
    capture: Path,
    signal_model: SignalModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some file systems take every byte, and tell only when these have to reach the disk."""
    out = tmp_path / "out.safetensors"

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert nf_replay(signal_model, capture, "--steps", 3, "--out", out) == 2
    assert f"{out}: No space left on device" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_a_pipe_that_nobody_reads_is_no_error_of_the_replay(
    capture: Path,
    signal_model: SignalModel,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`nf replay .. | head` ends as every command does (`scripts/cli/main.py`)."""

    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        nf_replay(signal_model, capture, "--steps", 3)
    assert not capsys.readouterr().err
