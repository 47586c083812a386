# SPDX-License-Identifier: Apache-2.0
"""`nf replay` with the device model in the simulator's place: results, files, exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.line_packing import Mode, Tie
from neuron_fabric.capture import Capture, write_capture
from neuron_fabric.capture.safetensors_io import open_tensors
from scripts.common.records import RunRecord
from verif.conftest import SignalModel, StepResult, expected_outputs, gradients, nf_replay, record
from verif.replay.epoch import EpochLines
from verif.replay.plan import Extent
from verif.replay.stimulus import Read, Stimulus

SHIPPED = Path(__file__).parents[2] / "captures" / "digits-resnet-8x"
MIX = ("a.weight=G_BINARY", "c.*=G_TERNARY", "b=G_TERNARY", "s=G_BINARY", "*=FP32")


def check_file(path: Path, capture: Path, step: int, **options: Any) -> dict[str, str]:
    """The file holds what the reference models expect of every tensor; its metadata."""
    file = open_tensors(path)
    routes = {name: Mode[route] for name, route in json.loads(file.metadata["routes"]).items()}
    wanted = {}
    for name, values in Capture.open(capture).load(step).items():
        for suffix, array in expected_outputs(values, routes[name], **options).items():
            wanted[f"{name}.{suffix}"] = array
    assert list(file.tensors) == list(wanted)
    for name, array in wanted.items():
        got = file.read(name)
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert got.tobytes() == array.tobytes(), name
    return file.metadata


def test_a_mix_of_routes(
    capture: Path, signal_model: SignalModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.safetensors"
    words = ("--route", *MIX, "--tie", "minus", "--threshold", 2, "--ternary-ratio", 0.3)
    assert nf_replay(signal_model, capture, "--sim", "both", "--out", out, *words) == 0
    assert not out.exists()
    for step, name in ((3, "out.step-000003.safetensors"), (60, "out.step-000060.safetensors")):
        path = tmp_path / name
        found = check_file(path, capture, step, tie=Tie.MINUS, threshold=2, ratio=0.3)
        assert found["simulator"] == "verilator,icarus"
        assert found["cycles"] == f"{1000 + step},{1000 + step}"
        assert found["epoch"] == ("1" if step == 3 else "2")
        assert json.loads(found["routes"])["c.weight"] == "G_TERNARY"
        # a.weight 2, a.bias 2, b, c.weight and s 1 line each; 3 count planes for 5 workers.
        assert found["bytes_to_device"] == str(7 * 5 * 64)
        assert found["bytes_from_device"] == str((7 + 5 * 3) * 64)
        assert found["fp32_bytes_to_device"] == str((33 + 2 + 1 + 1 + 3) * 5 * 64)
    text = capsys.readouterr().out
    assert "28 lines, 0 mismatches" in text.splitlines()[-1]
    assert "FP32 takes" in text
    assert len(signal_model.runs) == 2


@pytest.mark.parametrize("route", ["G_BINARY", "G_TERNARY", "G_INT4", "G_INT8", "FP32"])
def test_each_route_alone(
    capture: Path, signal_model: SignalModel, tmp_path: Path, route: str
) -> None:
    out = tmp_path / "out.safetensors"
    words = ("--steps", "60", "--route", f"*={route}", "--out", out)
    assert nf_replay(signal_model, capture, *words) == 0
    assert check_file(out, capture, 60)["simulator"] == "verilator"
    assert not list(tmp_path.glob("*.part"))


def test_the_shipped_capture(signal_model: SignalModel, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    assert nf_replay(signal_model, SHIPPED, "--out", out) == 0
    for step in (3, 60):
        check_file(tmp_path / f"out.step-{step:06d}.safetensors", SHIPPED, step)


@pytest.mark.parametrize("words", [("--param", "SLOTS=4", "CNT_W=2"), ("--param", "REGIONS=1")])
def test_other_devices(
    capture: Path, signal_model: SignalModel, tmp_path: Path, words: tuple[str, ...]
) -> None:
    out = tmp_path / "out.safetensors"
    assert nf_replay(signal_model, capture, "--steps", "3", "--out", out, *words) == 0
    assert signal_model.runs[0]["parameters"]
    check_file(out, capture, 3, cnt_max=3 if "CNT_W=2" in words else 255)


def test_nonfinite_by_fp32_takes_a_session_of_its_own(
    tmp_path: Path, signal_model: SignalModel, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = gradients(2)
    bad["c.weight"][2, 3, 1] = np.inf
    path = tmp_path / "nan"
    write_capture(path, "nan", {1: gradients(1), 2: bad, 3: gradients(3)})
    out = tmp_path / "out.safetensors"
    words = ("--route", "c.weight=G_BINARY", "--out", out)
    assert nf_replay(signal_model, path, *words) == 2
    error = capsys.readouterr().err
    assert "worker 2, step 2, tensor 'c.weight', index [3, 1]: inf has no sign vote" in error
    assert len(error.splitlines()) == 1
    assert signal_model.runs == []
    assert nf_replay(signal_model, path, *words, "--nonfinite", "fp32") == 0
    assert len(signal_model.runs) == 3
    for step in (1, 2, 3):
        found = check_file(tmp_path / f"out.step-{step:06d}.safetensors", path, step)
        route = json.loads(found["routes"])["c.weight"]
        assert route == ("FP32" if step == 2 else "G_BINARY")
    assert "step 2 takes other routes for 1: c.weight" in capsys.readouterr().out


# -- negative twins: what came back is wrong, and the exit code says so -------------------------


def flip(name: str, plane: int | None, byte: int, simulator: str = "") -> Any:
    """Damage that turns one bit over in what came back of a tensor."""

    def damage(sim: str, result: StepResult) -> None:
        for work in result.works:
            for extent, _, lines in work.extents():
                if work.step == 60 and simulator in ("", sim) and extent.tensor.name == name:
                    target = lines.result if plane is None else lines.planes[plane]
                    target[0, byte] ^= 4

    return damage


FLIPS = {
    "vote": (("a.weight", None, 1), "vote is"),
    "count": (("a.weight", 2, 0), "count of non-negative is"),
    "minus": (("c.weight", 0, 0), "count of +1 is"),
    "sum": (("a.bias", None, 12), "sum is"),
    "padding": (("b", None, 63), "(padding)"),
}


@pytest.mark.parametrize(("where", "text"), FLIPS.values(), ids=FLIPS.keys())
def test_a_wrong_bit_is_named(
    capture: Path,
    signal_model: SignalModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    where: tuple[str, int | None, int],
    text: str,
) -> None:
    signal_model.spoil = flip(*where)
    out = tmp_path / "out.safetensors"
    assert nf_replay(signal_model, capture, "--route", *MIX, "--out", out) == 1
    assert not list(tmp_path.glob("out*"))
    shown = capsys.readouterr()
    first = shown.err.splitlines()[0]
    assert f"verilator: step 60 tensor {where[0]} " in first
    for word in (text, "line 0 element ", "the reducers say ", "workers sent 0: "):
        assert word in first
    assert "FAILED, 14 lines, 1 mismatches" in shown.out.splitlines()[-1]
    assert "rerun: .venv/bin/nf replay " in shown.out


def test_the_note_of_a_stimulus_forges_no_line(
    signal_model: SignalModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forged, path = "x\nFORGED\x1b[2J", tmp_path / "stimulus.json"
    Stimulus(forged, {}, 1, (Read(0x40, 0, bytes(64)),)).write(path)
    wrong = record("verilator", False, forged)
    monkeypatch.setattr(signal_model, "simulate", lambda *_, **__: wrong)
    assert nf_replay(signal_model, "--stimulus", path) == 1
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert "x\\nFORGED\\x1b[2J" in text
        assert "\nFORGED" not in text


def test_simulators_that_disagree(capture: Path, signal_model: SignalModel, tmp_path: Path) -> None:
    signal_model.spoil = flip("a.bias", None, 0, "icarus")
    assert (
        nf_replay(signal_model, capture, "--sim", "both", "--out", tmp_path / "out.safetensors")
        == 1
    )
    assert not list(tmp_path.glob("out*"))


def lost_step(_sim: str, result: StepResult) -> bool:
    return result.works[0].step != 60


def lost_tensor(_sim: str, result: StepResult) -> None:
    """The bench took another capture for this one: tensor s is not in it."""
    for at, work in enumerate(result.works):
        result.works[at] = renamed(work, "s", "x")


def lost_planes(_sim: str, result: StepResult) -> None:
    """The bench took FP32 for the route of a.weight."""
    for at, work in enumerate(result.works):
        result.works[at] = without_planes(work)


def renamed(work: EpochLines, name: str, to: str) -> EpochLines:
    uses = [
        replace(use, extents=tuple(_renamed(extent, name, to) for extent in use.extents))
        for use in work.uses
    ]
    return replace(work, uses=tuple(uses))


def _renamed(extent: Extent, name: str, to: str) -> Extent:
    if extent.tensor.name != name:
        return extent
    return replace(extent, tensor=replace(extent.tensor, name=to))


def without_planes(work: EpochLines) -> EpochLines:
    uses = tuple(replace(use, selectors=(0,)) for use in work.uses)
    room = np.zeros((sum(use.lines for use in work.uses), 64), np.uint8)
    return replace(work, uses=uses, returned=room)


def trouble(_sim: str, result: StepResult) -> None:
    result.problems.append("counter CRC_ERROR")


LOSSES = {
    "step": (lost_step, "step 60 was not completed"),
    "tensor": (lost_tensor, "tensor s: nothing was read back"),
    "planes": (lost_planes, "tensor a.weight: nothing was read back"),
    "problem": (trouble, "counter CRC_ERROR"),
}


@pytest.mark.parametrize(("damage", "text"), LOSSES.values(), ids=LOSSES.keys())
def test_what_is_missing_is_red(
    capture: Path,
    signal_model: SignalModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Any,
    text: str,
) -> None:
    signal_model.spoil = damage
    assert nf_replay(signal_model, capture, "--out", tmp_path / "out.safetensors") == 1
    assert not list(tmp_path.glob("out*"))
    assert text in capsys.readouterr().err


def test_a_red_bench_is_red_even_if_the_lines_are_right(
    capture: Path, signal_model: SignalModel, capsys: pytest.CaptureFixture[str]
) -> None:
    signal_model.passed = False
    assert nf_replay(signal_model, capture) == 1
    assert "verilator: mismatch: it says so (log: run.log)" in capsys.readouterr().err


def test_a_capture_that_changes_between_two_readers_is_refused(
    capture: Path, signal_model: SignalModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bench reads the capture again: it must be the one that the lines are judged by."""
    simulate, gradient = signal_model.simulate, min(capture.rglob("*.safetensors"))

    def late(*what: str, **how: Any) -> RunRecord:
        data = gradient.read_bytes()
        gradient.write_bytes(data[:-1] + bytes([data[-1] ^ 128]))
        return simulate(*what, **how)

    signal_model.simulate = late  # type: ignore[method-assign]
    assert nf_replay(signal_model, capture, "--out", tmp_path / "out.safetensors") == 2
    assert "has changed since this replay began to read it" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_planted_links_are_not_followed(
    capture: Path, signal_model: SignalModel, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    out = tmp_path / "out.safetensors"
    (tmp_path / "out.safetensors.part").symlink_to(victim)
    assert nf_replay(signal_model, capture, "--steps", 3, "--out", out) == 0
    assert victim.read_text(encoding="utf-8") == "mine"
    check_file(out, capture, 3)
