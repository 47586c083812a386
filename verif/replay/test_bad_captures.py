# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf replay` with bad captures, options and --out: one line, exit code 2, nothing driven
or written.

Faults of single files of a capture are tested in `neuron_fabric/capture/test_reader.py`.
"""

import io
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from neuron_fabric.capture import write_capture
from neuron_fabric.errors import CaptureError
from neuron_fabric.lock import Lock
from verif.conftest import SignalModel
from verif.replay.conftest import Command
from verif.replay.options import RTL_RANGES

Signal = Command[SignalModel]


def worker(capture: Path) -> Path:
    return capture / "step-000060" / "worker-004.safetensors"


def cut(capture: Path) -> None:
    worker(capture).write_bytes(worker(capture).read_bytes()[:-1])


def crowd(capture: Path) -> None:
    with suppress(CaptureError):  # the writer reads what it has written
        write_capture(capture, "crowd", {3: {"t": np.zeros((65, 4), np.float32)}})


def large(capture: Path) -> None:
    shape = (16, 1 << 12)
    write_capture(capture, "large", {3: {"t": np.zeros((64, *shape), np.float32)}})


def empty(capture: Path) -> None:
    write_capture(capture, "empty", {3: {"t": np.zeros((2, 0, 4))}})


def good(_capture: Path) -> None:
    """Leave the capture as it is: an option is wrong."""


BAD: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no such folder": (shutil.rmtree, "", "no such folder"),
    "truncated file": (cut, "", "truncated"),
    "too many workers": (crowd, "", "65 workers, the device takes 64"),
    "too large a tensor": (
        large,
        "--route t=FP32 --param MEM_LINES_LOG2=12",
        "tensor 't' [16, 4096]: by FP32 with 64 workers it needs a state area of 266240 lines, "
        "the device's memory has 4096",
    ),
    "no elements": (empty, "", "no tensor has an element"),
    "no such step": (good, "--steps 4", "no step 4; the capture has 3, 60"),
    "step text": (good, "--steps 3,x", "--steps 'x'"),
    "route text": (good, "--route a=G_QUATERNARY", "'a=G_QUATERNARY'"),
    "route pattern": (good, "--route zz*=FP32", "matches no tensor"),
    "parameter": (good, "--param SLOT=4", "parameter 'SLOT=4'"),
    "parameter of no memory": (good, "--param MEM_LINES_LOG2=4", "=4': the RTL takes 8 to 38"),
    "parameter of slots": (good, "--param SLOTS=48", "takes a power of two"),
    "parameter value": (good, "--param CNT_W=9", "cnt_w is 1..8, not 9"),
    "out folder": (good, "--out /nowhere/x", "its folder does not exist"),
    "out is a folder": (good, "--out /", "/: is a folder"),
}


@pytest.mark.parametrize(("change", "words", "text"), BAD.values(), ids=BAD.keys())
def test_bad_captures_give_one_line(
    signal: Signal, change: Callable[[Path], object], words: str, text: str
) -> None:
    assert signal.capture is not None
    change(signal.capture)
    assert text in signal.refuses("--out", signal.out, *words.split())
    assert signal.device.runs == []
    assert not list(signal.folder.glob("out*"))


def test_results_never_go_into_the_capture(signal: Signal, capture: Path) -> None:
    assert "lies inside the capture" in signal.refuses("--out", worker(capture))


def test_only_the_chosen_steps_are_read(signal: Signal, capture: Path) -> None:
    worker(capture).unlink()
    signal.passes("--steps", "0-10")


@pytest.mark.parametrize("dangling", [False, True])
def test_a_worker_without_a_file_is_missing(either: Signal, capture: Path, dangling: bool) -> None:
    path = capture / "step-000003" / "worker-002.safetensors"
    path.unlink()
    if dangling:
        path.symlink_to("nowhere")
    wanted = f"{path}: worker 2 of 5 is missing in step 3; capture the step again"
    assert wanted in either.refuses()


def test_ranges_of_parameters_are_those_of_the_rtl() -> None:
    """Check that RTL_RANGES agrees with the ranges in the elaboration messages of the RTL.

    Credits have one less at the top, since registers show one credit less than queues hold.
    """
    sources = (Path(__file__).parents[2] / "hdl").rglob("*.sv")
    texts = "".join(path.read_text(encoding="utf-8") for path in sources)
    said = re.findall(r"\b([A-Z]\w+) must be (?:a power of two, )?(\d+)\.\.(\d+)", texts)
    ranges = {name: (int(first), int(last)) for name, first, last in said}
    for name in ("REGIONS", "SLOTS", "MEM_LINES_LOG2", "RETRY_DEPTH"):
        assert RTL_RANGES[name] == ranges[name]
    assert ranges["CREDITS"] == (2, 256)
    assert RTL_RANGES["REQ_CREDITS"] == RTL_RANGES["RWD_CREDITS"] == (2, 255)


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
