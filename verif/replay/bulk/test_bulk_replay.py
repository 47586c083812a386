# SPDX-License-Identifier: Apache-2.0
"""Bulk replay around the device: tensors, shards, kills, journals, and what is said of a fault."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cocotbext.cxl.wire.messages import M2SRwD
from models.line_packing import Tie
from neuron_fabric.capture import write_capture
from neuron_fabric.progress_bar import clock
from scripts.common.paths import ROOT
from scripts.common.records import Edit
from verif.conftest import BulkModel, gradients, nf_replay
from verif.coverage.cover_model import FUNCTIONAL
from verif.coverage.cover_points import NfCoverage
from verif.replay.runner import Progress
from verif.replay.stimulus import Commit, Read, Stimulus, Write
from verif.replay.test_signal_replay import MIX, check_file

STEPS = (3, 60)
BULK = ("--transport", "bulk")
ROUTES = ("--route", *MIX)


def files(out: Path) -> list[bytes]:
    """The result files of both steps."""
    return [out.with_name(f"{out.stem}.step-{step:06d}.safetensors").read_bytes() for step in STEPS]


def test_the_tensors_are_those_of_the_reference(
    capture: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.safetensors"
    words = (*ROUTES, "--sim", "both", "--tie", "minus", "--threshold", 2, "--ternary-ratio", 0.3)
    assert nf_replay(model, capture, *BULK, *words, "--out", out) == 0
    for step in STEPS:
        path = tmp_path / f"out.step-{step:06d}.safetensors"
        found = check_file(path, capture, step, tie=Tie.MINUS, threshold=2, ratio=0.3)
        assert found["simulator"] == "verilator,icarus"
        assert json.loads(found["routes"])["c.weight"] == "G_TERNARY"
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("out")) == [
        "out.step-000003.safetensors",
        "out.step-000060.safetensors",
    ]
    last = capsys.readouterr().out.splitlines()[-1]
    assert "0 mismatches" in last
    assert "cycles at memory latency 100, " in last
    metrics = json.loads(next(model.files.rglob("metrics.json")).read_text(encoding="utf-8"))
    covered = metrics[FUNCTIONAL]
    assert covered["access"]["read plane 2 G_TERNARY"] == 4
    assert covered["opcode"]["RwD MEM_WR"] == 2 * 7 * 5
    planned = NfCoverage().model.points
    assert all(set(bins) <= set(planned[name].bins) for name, bins in covered.items())


@pytest.mark.parametrize(("transport", "device"), [("signal", "signal_model"), ("bulk", "model")])
def test_warnings(
    transport: str,
    device: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A capture that does not tell its head, and a tensor that a worker does not use."""
    values = {"body.weight": np.ones((2, 2, 2)), "norm.weight": np.ones((2, 2))}
    values["body.weight"][1] = 0
    write_capture(tmp_path / "c", "m", {3: values})
    words = ("--transport", transport)
    assert nf_replay(request.getfixturevalue(device), tmp_path / "c", *words) == 0
    head, zero = capsys.readouterr().err.splitlines()
    assert head.startswith("nf replay: warning: the capture does not tell which layer is the head")
    assert "tensor 'body.weight' is zero everywhere in step 3 of worker 1" in zero


def test_shards_merge_to_the_same_files(
    capture: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, out = tmp_path / "whole.safetensors", tmp_path / "out.safetensors"
    assert nf_replay(model, capture, *BULK, *ROUTES, "--out", whole) == 0
    for part in (2, 3):
        words = ("--shard", f"{part}/3", "--out", out)
        assert nf_replay(model, capture, *BULK, *ROUTES, *words) == 0
    assert not list(tmp_path.glob("out.step*"))
    merge = (capture, *BULK, *ROUTES, "--merge", 3, "--out", out)
    assert nf_replay(model, *merge) == 2
    assert "shard-1-of-3.journal: there is no journal" in capsys.readouterr().err
    assert nf_replay(model, capture, *BULK, *ROUTES, "--shard", "1/3", "--out", out) == 0
    assert nf_replay(model, *merge) == 0
    assert files(out) == files(whole)


@pytest.mark.parametrize("cut", [0, 1, 5000])
def test_a_replay_that_was_killed_goes_on(
    capture: Path, model: BulkModel, tmp_path: Path, cut: int
) -> None:
    """`cut`: bytes of the last record that did not reach the disk."""
    whole, out = tmp_path / "whole.safetensors", tmp_path / "out.safetensors"
    assert nf_replay(model, capture, *BULK, *ROUTES, "--out", whole) == 0
    epochs, model.epochs, model.dies_at = model.epochs, 0, 3
    words = (capture, *BULK, *ROUTES, "--out", out)
    assert nf_replay(model, *words) == 1
    journal = tmp_path / "out.safetensors.verilator.journal"
    data = journal.read_bytes()
    journal.write_bytes(data[: len(data) - min(cut, 500)])
    model.epochs, model.dies_at = 0, None
    assert nf_replay(model, *words, "--resume") == 0
    assert model.epochs < epochs
    assert files(out) == files(whole)
    assert not journal.exists()


def test_a_journal_that_is_not_whole_is_refused(
    capture: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.safetensors"
    words = (capture, *BULK, *ROUTES, "--out", out)
    assert nf_replay(model, *words, "--resume") == 2
    assert "there is no journal; replay that part first" in capsys.readouterr().err
    model.dies_at = 3
    assert nf_replay(model, *words) == 1
    journal = tmp_path / "out.safetensors.verilator.journal"
    data = bytearray(journal.read_bytes())
    assert nf_replay(model, *words, "--resume", "--seed", 2) == 2
    assert "it is of another replay (seed 1, now 2)" in capsys.readouterr().err
    assert nf_replay(model, *words, "--resume", "--tie", "minus") == 2
    assert "it is of another replay (tie 'PLUS', now 'MINUS')" in capsys.readouterr().err
    assert nf_replay(model, *words, "--resume", "--steps", 3) == 2
    assert "it is of another replay (steps [3, 60], now [3])" in capsys.readouterr().err
    for merge in ((), ("--merge", 1)):
        model.edits = (Edit("hdl/engine/nf_vote.sv", "endmodule", "// another\nendmodule"),)
        assert nf_replay(model, *words, *(merge or ("--resume",))) == 2
        error = capsys.readouterr().err
        assert re.search(r"it is of another replay \(RTL '(\w{16})', now '(?!\1)\w{16}'\)", error)
        assert len(error.splitlines()) == 1
    model.edits = ()
    gradient = next(iter(sorted(capture.rglob("*.safetensors"))))
    there = gradient.read_bytes()
    gradient.write_bytes(there[:-1] + bytes([there[-1] ^ 1]))
    assert nf_replay(model, *words, "--resume") == 2
    assert "it is of another replay (content" in capsys.readouterr().err
    gradient.write_bytes(there)
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    assert nf_replay(model, *words, "--resume") == 2
    error = capsys.readouterr().err
    assert "is damaged, or of another replay; delete it" in error
    assert len(error.splitlines()) == 1
    journal.write_bytes(b"something else")
    assert nf_replay(model, *words, "--resume") == 2
    assert "no journal of a replay" in capsys.readouterr().err


# -- negative twins ---------------------------------------------------------------------------


def test_a_wrong_lane_is_named_with_its_worker(
    capture: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Worker 3's bit of element 5 arrives wrong, whenever it is sent to line 1 of a.weight."""
    line = 1

    def damage(_count: int, message: M2SRwD) -> M2SRwD:
        if message.ldid != 3 or len(set(message.data)) == 1:
            return message
        return replace(message, data=bytes([message.data[0] ^ 1 << 5]) + message.data[1:])

    model.damage = damage
    out = tmp_path / "out.safetensors"
    words = ("--steps", 3, "--route", "*=G_BINARY", "--out", out)
    assert nf_replay(model, capture, *BULK, *words) == 1
    shown = capsys.readouterr()
    assert not out.exists()
    assert "step 3 tensor a.weight G_BINARY line 0 element 5 " in shown.err
    assert "; worker 3, line 0 of region 0, element 5: after its contribution" in shown.err
    assert "FAILED" in shown.out.splitlines()[-1]
    path = next(model.files.rglob("stimulus.json"))
    (copy,) = re.findall(r"nf replay --stimulus (\S+) --sim verilator --waves", shown.out)
    assert (ROOT / copy).read_bytes() == path.read_bytes()  # the next replay empties the folder
    stimulus = Stimulus.read(path)
    assert stimulus.note.startswith("worker 3")
    kinds = [type(one) for one in stimulus.operations]
    assert kinds[0] is Commit
    assert kinds[-1] is Read
    writes = [one for one in stimulus.operations if isinstance(one, Write)]
    assert writes[-1].ldid == 3
    assert line


def test_a_loss_that_the_line_alone_does_not_show(
    capture: Path, model: BulkModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """The seventh contribution since the reset is lost: only the whole round shows it again."""

    def damage(count: int, message: M2SRwD) -> M2SRwD | None:
        return replace(message, data=bytes(64)) if count == 6 else message

    model.damage = damage
    assert nf_replay(model, capture, *BULK, "--steps", 3, "--route", "*=FP32") == 1
    shown = capsys.readouterr()
    assert "tensor a.weight FP32 line 1 " in shown.err
    path = next(model.files.rglob("stimulus.json"))
    writes = [one for one in Stimulus.read(path).operations if isinstance(one, Write)]
    assert len(writes) == 10
    assert f"worker {writes[6].ldid}: its contribution is not in it" in shown.err


def test_registers_and_faults_are_red(
    capture: Path, model: BulkModel, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (capture, *BULK, "--steps", 3, "--route", "*=G_BINARY")
    model.dies_at = 1
    assert nf_replay(model, *words) == 1
    assert "verilator: step 3 round 1: cycle 7: the simulator is gone" in capsys.readouterr().err
    whole = Stimulus.read(next(model.files.rglob("stimulus.json")))
    assert [type(one) for one in whole.operations].count(Write) == 10
    model.dies_at = None

    model.twice = True
    assert nf_replay(model, *words) == 1
    assert "step 3 round 0: counter DUPLICATE went up by 10" in capsys.readouterr().err


def test_a_nan_is_refused_or_goes_by_fp32(
    model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = gradients(2)
    bad["c.weight"][2, 3, 1] = np.inf
    path = tmp_path / "nan"
    write_capture(path, "nan", {1: gradients(1), 2: bad})
    out = tmp_path / "out.safetensors"
    words = (path, *BULK, "--route", "c.weight=G_BINARY", "--out", out)
    assert nf_replay(model, *words) == 2
    error = capsys.readouterr().err
    assert "worker 2, step 2, tensor 'c.weight', index [3, 1]: inf has no sign vote" in error
    assert nf_replay(model, path, *BULK, "--route", "*=G_INT4") == 2
    assert "index [3, 1]: inf has no integer code; send the tensor" in capsys.readouterr().err
    assert model.epochs == 0
    assert nf_replay(model, *words, "--nonfinite", "fp32") == 0
    for step, route in ((1, "G_BINARY"), (2, "FP32")):
        found = check_file(tmp_path / f"out.step-{step:06d}.safetensors", path, step)
        assert json.loads(found["routes"])["c.weight"] == route


WORDS = {
    "nothing": ((), "nothing to replay; name one of CAPTURE"),
    "two": (("--synthetic", "resnet18", "--stimulus", "x"), "2 given"),
    "signal": (("--synthetic", "resnet18"), "--synthetic: requires the bulk"),
    "waves": (("--synthetic", "resnet18", *BULK, "--waves"), "bulk replay writes no waves"),
    "kept": (("--synthetic", "resnet18", *BULK, "--resume"), "--resume: requires --out"),
    "merge": (
        ("--synthetic", "resnet18", *BULK, "--merge", 2, "--resume", "--out", "x"),
        "--merge: only joins journals",
    ),
    "cluster": (("--synthetic", "resnet18", *BULK, "--cluster", ""), "the address is empty"),
    "timeout": (("--synthetic", "resnet18", *BULK, "--timeout", 9), "bulk replay has no time-out"),
    "workers": (("captures/x", "--workers", 4), "a fixed number of workers"),
    "usual workers": (("captures/x", "--workers", 8), "a fixed number of workers"),
    "out": (("--stimulus", "x", "--out", "y"), "--out: a stimulus contains"),
    "parts": (
        ("captures/digits-resnet-8x", *BULK, "--merge", 2, "--out", "no-such.safetensors"),
        "there is no journal; replay that part first",
    ),
    "steps": (("--synthetic", "resnet18", *BULK, "--steps", "0-999999"), "more than 10,000 steps"),
    "digits": (("captures/x", "--param", "SLOTS=" + "9" * 5000), "write NAME=NUMBER with one of"),
    "forged": (("captures/x\nnf replay: 0 mismatches\x1b[2J",), "x\\nnf replay: 0 mismatches\\x1b"),
    "stimulus": (("--stimulus", "no such file"), "no such file: No such file"),
}


@pytest.mark.parametrize(("words", "text"), WORDS.values(), ids=WORDS.keys())
def test_words_that_do_not_go_together(
    model: BulkModel, capsys: pytest.CaptureFixture[str], words: tuple[str], text: str
) -> None:
    assert nf_replay(model, *words) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.splitlines()) == 1


def test_a_file_that_is_no_stimulus(
    model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep, digits = "[" * 100_000, '{"seed": ' + "9" * 5000 + "}"
    for text in ("", "{}", "[]", "\xff", "[NaN]", '{"a": 1, "a": 2}', deep, digits):
        (tmp_path / "x.json").write_text(text, encoding="latin-1")
        assert nf_replay(model, "--stimulus", tmp_path / "x.json") == 2
        assert "no stimulus" in capsys.readouterr().err


def test_what_is_no_file_is_refused_at_once(
    model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")  # who reads it waits for ever
    for path, kind in ((tmp_path / "fifo", "a FIFO"), (Path("/dev/zero"), "a device")):
        assert nf_replay(model, "--stimulus", path) == 2
        assert f"is {kind}, not a file" in capsys.readouterr().err


LINE = "00" * 64
READ = {"read": "0x40", "ldid": 0, "expect": LINE}
STIMULI: dict[str, tuple[dict[str, object], str]] = {
    "empty": ({"operations": []}, "it reads nothing"),
    "write": ({"operations": [{"write": "0x0", "ldid": 0, "data": LINE}]}, "it reads nothing"),
    "odd": ({"operations": [READ | {"read": "0x3"}]}, "'0x3' is no address of a line"),
    "digits": ({"operations": [READ | {"read": "0x" + "4" * 5000}]}, "is no address of a line"),
    "number": ({"operations": [READ | {"read": 64}]}, "operations[0]: read: 64 is not a text"),
    "short": ({"operations": [READ | {"expect": "00"}]}, "is no line of 64 bytes"),
    "list": ({"operations": [[READ]]}, "operations[0]: a list is not an object"),
    "mode": ({"operations": [{"commit": 0, "epoch": 1, "config": {"mode": []}}]}, "config.mode"),
    "config": ({"operations": [{"commit": 0, "epoch": 1, "config": {"mode": "FP32"}}]}, "'base'"),
    "later": ({"version": 2}, "version 2, not 1"),
    "seed": ({"operations": [READ], "seed": "1"}, "seed: '1' is not an integer"),
    "note": ({"operations": [READ], "note": None}, "note: None is not a text"),
    "parameters": ({"operations": [READ], "parameters": []}, "parameters: a list is not"),
    "far": ({"operations": [READ | {"read": hex(1 << 52)}]}, "is no address of a line"),
    "ldid": ({"operations": [READ | {"ldid": 16}]}, "operations[0]: 16 is not from 0 to 15"),
    "parameter": ({"operations": [READ], "parameters": {"X": 1}}, "parameter 'X=1'"),
}


@pytest.mark.parametrize(("change", "text"), STIMULI.values(), ids=STIMULI.keys())
def test_a_stimulus_that_cannot_be_driven(
    model: BulkModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, object],
    text: str,
) -> None:
    path = tmp_path / "x.json"
    Stimulus("wrong", {}, 1, (Read(0x40, 0, bytes(64)),)).write(path)
    assert Stimulus.read(path).operations  # the twin: nothing but the change is wrong
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8"
    )
    assert nf_replay(model, "--stimulus", path) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.splitlines()) == 1


def test_progress_says_speed_and_time_left() -> None:
    progress = Progress(total=1000, done=200)
    progress._start = 100.0
    progress.add(400)
    text = progress.text(now=110.0)
    assert "600 of 1,000 lines" in text
    assert "40 lines/s, 0:10 left" in text
    assert clock(3725) == "1:02:05"
