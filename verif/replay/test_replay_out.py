# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf replay --out`: names that must not be written, full disks, a file in use."""

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
from verif.conftest import SignalModel
from verif.replay.conftest import Command

Signal = Command[SignalModel]
PLACES = {
    "link": ("link.safetensors", "is a link to "),
    "long": ("x" * 300, "its name has 300 bytes"),
    "journal": ("y" * 230, "its name has 230 bytes"),
    "folder": ("capture", "is a folder"),
    "fifo": ("fifo", "is no regular file"),
    "step": ("steps.safetensors", "is a link to "),
}


@pytest.mark.parametrize(("name", "text"), PLACES.values(), ids=PLACES.keys())
def test_an_out_that_must_not_be_written(either: Signal, name: str, text: str) -> None:
    folder = either.folder
    victim = folder / "victim"
    victim.write_text("mine", encoding="utf-8")
    for link in ("link.safetensors", "steps.step-000060.safetensors"):
        (folder / link).symlink_to(victim)
    os.mkfifo(folder / "fifo")
    assert text in either.refuses("--out", folder / name)
    assert either.device.runs == []
    assert victim.read_text(encoding="utf-8") == "mine"
    assert stat.S_ISFIFO((folder / "fifo").stat().st_mode)


def test_a_device_is_no_out() -> None:
    """Check that the name of a device such as /dev/null is refused.

    Only the check is called: a failing replay as root would replace /dev/null.
    """
    with pytest.raises(CaptureError, match="/dev/null: is no regular file; give --out the name"):
        check_output(Path("/dev/null"), "--out")


def test_a_second_replay_with_the_same_out_names_the_first(signal: Signal) -> None:
    out = signal.out
    with Lock(out):
        error = signal.refuses("--steps", 3, "--out", out)
        assert f"{out}: in use by `" in error
        assert f"(process {os.getpid()}); wait until it has ended" in error
    signal.passes("--steps", 3, "--out", out)
    assert [path.name for path in signal.folder.glob("*out*")] == [out.name]


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_full_disk_is_named_with_what_to_do(
    signal: Signal, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Check the message for a full disk, which some file systems report only at fsync; no file is
    left.
    """
    real = os.pwrite

    def full(file: int, data: bytes = b"", offset: int = 1 << 20) -> int:
        if offset > 1000 and "out.safetensors" in os.readlink(f"/proc/self/fd/{file}"):
            raise OSError(28, "No space left on device")
        return real(file, data, offset) if call == "pwrite" else 0

    monkeypatch.setattr(os, call, full)
    error = signal.refuses("--steps", 3, "--out", signal.out)
    assert f"{signal.out}: No space left on device; make room or choose another --out" in error
    assert not list(signal.folder.glob("out*"))


def test_a_closed_pipe_is_no_error_of_the_replay(
    signal: Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that `nf replay .. | head` ends as every command does: by BrokenPipeError, without a
    message.
    """

    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        signal.run("--steps", 3)
    assert not signal.capsys.readouterr().err
