# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf replay` with the device model in place of a simulator: signal level, and integer
codes (sums, means, scales) by both transports.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.modes import Tie
from neuron_fabric.capture import Capture, write_capture
from neuron_fabric.capture.safetensors_io import open_tensors
from neuron_fabric.data import read_object
from scripts.common.records import FailureKind, RunRecord
from verif.conftest import BulkModel, SignalModel, StepResult, gradients, record
from verif.replay.conftest import MIX, SHIPPED, Command, check_file, check_files
from verif.replay.plan import Extent
from verif.replay.stimulus_file import Read, Stimulus

Signal = Command[SignalModel]


def test_a_mix_of_routes(signal: Signal, capture: Path) -> None:
    words = ("--route", *MIX, "--tie", "minus", "--threshold", 2, "--ternary-ratio", 0.3)
    shown = signal.passes("--sim", "both", "--out", signal.out, *words)
    assert not signal.out.exists()
    both = check_files(signal.out, capture, tie=Tie.MINUS, threshold=2, ratio=0.3)
    for step, epoch, found in zip((3, 60), ("1", "2"), both, strict=True):
        assert found["simulator"] == "verilator,icarus"
        assert found["cycles"] == f"{1000 + step},{1000 + step}"
        assert found["epoch"] == epoch
        assert json.loads(found["routes"])["c.weight"] == "G_TERNARY"
        # a.weight 2, a.bias 2, b, c.weight and s 1 line each; 3 count planes for 5 workers.
        assert found["bytes_to_device"] == str(7 * 5 * 64)
        assert found["bytes_from_device"] == str((7 + 5 * 3) * 64)
        assert found["fp32_bytes_to_device"] == str((33 + 2 + 1 + 1 + 3) * 5 * 64)
    assert "28 lines, 0 mismatches" in shown.last
    assert "FP32 takes" in shown.out
    assert len(signal.device.runs) == 2


@pytest.mark.parametrize(("memory", "epochs"), [(11, "1"), (9, "1,2,3,4")])
def test_the_shipped_capture(signal: Signal, memory: int, epochs: str) -> None:
    """Check a replay of the shipped capture, for which a device with less memory takes more
    epochs.
    """
    words = ("--route", "5.*=G_TERNARY", "--param", f"MEM_LINES_LOG2={memory}")
    signal.of(SHIPPED).passes(*words, "--out", signal.out)
    assert check_files(signal.out, SHIPPED)[0]["epoch"] == epochs


def test_an_analysis_of_its_routes(signal: Signal) -> None:
    """Check that a replay without a difference is analysed by its routes, and no other one."""
    out = signal.folder / "analysis"
    words = ("--analyse", out, "--steps", "60", "--route", "5.*=G_TERNARY")
    signal.of(SHIPPED).passes(*words)
    numbers = json.loads((out / "analysis.json").read_text("utf-8"))
    routes = {one["tensor"]: (one["step"], one["route"]) for one in numbers["figures"]}
    assert routes["4.c1.weight"] == (60, "G_BINARY")
    assert routes["5.c1.weight"] == (60, "G_TERNARY")
    assert len(routes) == len(numbers["figures"])
    shutil.rmtree(out)
    error = signal.of(SHIPPED).refuses(*words, "--tie", "minus")
    assert "--tie: is not how the hook votes, which --analyse follows; leave it out" in error
    assert "cannot be written to as a folder" in signal.of(SHIPPED).refuses("--analyse", __file__)
    signal.device.spoil = flip("5.c1.weight", None, 1)
    signal.of(SHIPPED).fails(*words)
    assert not out.exists()


@pytest.mark.parametrize(("words", "cnt_max"), [(("SLOTS=4", "CNT_W=2"), 3), (("REGIONS=1",), 255)])
def test_other_devices(signal: Signal, capture: Path, words: tuple[str, ...], cnt_max: int) -> None:
    signal.passes("--steps", "3", "--out", signal.out, "--param", *words)
    assert signal.device.runs[0]["parameters"]
    check_file(signal.out, capture, 3, cnt_max=cnt_max)


def test_nonfinite_by_fp32_takes_a_separate_session(signal: Signal) -> None:
    bad = gradients(2)
    bad["c.weight"][2, 3, 1] = np.inf
    path = signal.folder / "nan"
    write_capture(path, "nan", {1: gradients(1), 2: bad, 3: gradients(3)})
    signal = signal.of(path, "--route", "c.weight=G_BINARY", "--out", signal.out)
    error = signal.refuses()
    assert "worker 2, step 2, tensor 'c.weight', index [3, 1]: inf has no sign vote" in error
    assert signal.device.runs == []
    shown = signal.passes("--nonfinite", "fp32")
    assert len(signal.device.runs) == 3
    for step in (1, 2, 3):
        found = check_file(signal.folder / f"out.step-{step:06d}.safetensors", path, step)
        route = json.loads(found["routes"])["c.weight"]
        assert route == ("FP32" if step == 2 else "G_BINARY")
    assert "step 2 takes other routes for 1: c.weight" in shown.out


# -- negative twins: wrong results give exit code 1 ----------------------------------------------
def flip(name: str, plane: int | None, byte: int, simulator: str = "") -> Any:
    """Return a fault that inverts one bit of the returned lines of a tensor in step 60.

    Args:
        name: Name of the tensor.
        plane: Count plane; None for the result.
        byte: Byte of the first line.
        simulator: Only in this simulator; "" for each.
    """

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
    signal: Signal, where: tuple[str, int | None, int], text: str
) -> None:
    signal.device.spoil = flip(*where)
    shown = signal.fails("--route", *MIX, "--out", signal.out)
    first = shown.err.splitlines()[0]
    assert f"verilator: step 60 tensor {where[0]} " in first
    for word in (text, "line 0 element ", "the reducers say ", "workers sent 0: "):
        assert word in first
    assert "FAILED, 14 lines, 1 mismatches" in shown.last
    assert "rerun: .venv/bin/nf replay " in shown.out


def test_the_note_of_a_stimulus_forges_no_line(
    signal: Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged, path = "x\nFORGED\x1b[2J", signal.folder / "stimulus.json"
    Stimulus(forged, {}, 1, (Read(0x40, 0, bytes(64)),)).write(path)
    wrong = record("verilator", False, forged)
    monkeypatch.setattr(signal.device, "simulate", lambda *_, **__: wrong)
    shown = signal.of(None).run("--stimulus", path)
    assert shown.code == 1
    for text in (shown.out, shown.err):
        assert "x\\nFORGED\\x1b[2J" in text
        assert "\nFORGED" not in text


def test_simulators_that_disagree(signal: Signal) -> None:
    signal.device.spoil = flip("a.bias", None, 0, "icarus")
    signal.fails("--sim", "both", "--out", signal.out)


def lost_step(_sim: str, result: StepResult) -> bool:
    return result.works[0].step != 60


def lost_tensor(_sim: str, result: StepResult) -> None:
    """Give results as of a testbench that read another capture, in which tensor s has another
    name.
    """

    def renamed(extent: Extent) -> Extent:
        name = "x" if extent.tensor.name == "s" else extent.tensor.name
        return replace(extent, tensor=replace(extent.tensor, name=name))

    for at, work in enumerate(result.works):
        uses = [replace(use, extents=tuple(map(renamed, use.extents))) for use in work.uses]
        result.works[at] = replace(work, uses=tuple(uses))


def lost_planes(_sim: str, result: StepResult) -> None:
    """Give results as of a testbench that read no count planes, as if all routes were FP32."""
    for at, work in enumerate(result.works):
        uses = tuple(replace(use, selectors=(0,)) for use in work.uses)
        room = np.zeros((sum(use.lines for use in work.uses), 64), np.uint8)
        result.works[at] = replace(work, uses=uses, returned=room)


def trouble(_sim: str, result: StepResult) -> None:
    result.problems.append("counter CRC_ERROR")


LOSSES = {
    "step": (lost_step, "step 60 was not completed"),
    "tensor": (lost_tensor, "tensor s: nothing was read back"),
    "planes": (lost_planes, "tensor a.weight: nothing was read back"),
    "problem": (trouble, "counter CRC_ERROR"),
}


@pytest.mark.parametrize(("damage", "text"), LOSSES.values(), ids=LOSSES.keys())
def test_missing_results_are_red(signal: Signal, damage: Any, text: str) -> None:
    signal.device.spoil = damage
    assert text in signal.fails("--out", signal.out).err


def test_a_red_bench_is_red_even_if_the_lines_are_right(signal: Signal) -> None:
    signal.device.passed = False
    assert "verilator: mismatch: it says so (log: run.log)" in signal.fails().err


def test_a_capture_that_changes_between_two_readers_is_refused(
    signal: Signal, capture: Path
) -> None:
    """Check that a capture which changes before the testbench reads it again is refused."""
    simulate, gradient = signal.device.simulate, min(capture.rglob("*.safetensors"))

    def late(*what: str, **how: Any) -> RunRecord:
        data = gradient.read_bytes()
        gradient.write_bytes(data[:-1] + bytes([data[-1] ^ 128]))
        return simulate(*what, **how)

    signal.device.simulate = late  # type: ignore[method-assign]
    error = signal.refuses("--out", signal.out)
    assert "has changed since this replay began to read it" in error
    assert not list(signal.folder.glob("out*"))


@pytest.mark.parametrize("passed", [True, False])
def test_a_replay_leaves_the_record_of_a_run(signal: Signal, passed: bool) -> None:
    """Check the record.json that a replay writes with --record, which `nf regress` reads."""
    signal.device.passed = passed
    folder = signal.folder / "r"
    assert signal.run("--steps", 3, "--record", folder).code == 1 - passed
    found = RunRecord.from_json(read_object(folder / "record.json"))
    assert (found.name, found.sim, found.passed) == ("replay::capture", "verilator", passed)
    assert found.cycles == 1003
    assert (found.kind, found.cause) == (
        (None, "") if passed else (FailureKind.MISMATCH, "mismatch: it says so (log: run.log)")
    )
    (original,) = signal.device.files.rglob("record.json")
    assert RunRecord.from_json(read_object(original)) == found


INTS = ("--route", "a.weight=G_INT4", "a.bias=G_INT8", "s=G_INT8", "b=G_BINARY", "*=FP32")
each_sums = pytest.mark.parametrize("sums", ["views", "planes"])


@each_sums
def test_sums_with_votes(signal: Signal, capture: Path, sums: str) -> None:
    """Check sums, means and scales of 4-bit and 8-bit codes, in a replay with other tensors by
    vote.
    """
    words = ("--steps", 3, "--sim", "both", *INTS, "--sums", sums)
    assert "0 mismatches" in signal.passes(*words, "--out", signal.out).last
    found = check_file(signal.out, capture, 3)
    assert found["rounding"] == "nearest"
    # Lines: a.weight 5, a.bias, s and b 1, c.weight 3. Reads: 3 planes each, the vote of b; with
    # views also 4 SUM16 and 2 SUM8 lines of 4-bit codes, 2 SUM16 lines of 8-bit codes.
    views = 5 * 6 + 2 * 2 if sums == "views" else 0
    assert found["bytes_from_device"] == str((8 * 3 + 1 + 3 + views) * 64)


def test_stochastic_codes_are_drawn_from_the_seed(signal: Signal, capture: Path) -> None:
    """Check that stochastic rounding gives equal codes for equal seeds, and others for another
    seed.
    """
    sums: dict[int, Any] = {}
    for number, seed in enumerate((1, 1, 2)):
        out = signal.folder / f"out-{number}.safetensors"
        words = ("--steps", 3, "--route", "a.weight=G_INT4", "--rounding", "stochastic")
        shutil.rmtree(signal.device.files)
        signal.device.files.mkdir()
        signal.passes(*words, "--seed", seed, "--out", out)
        file = open_tensors(out)
        got = file.read("a.weight.sum")
        assert (sums.setdefault(seed, got) == got).all()
        mean = Capture.open(capture).load(3)["a.weight"].mean(axis=0)
        assert np.abs(file.read("a.weight.mean") - mean).max() <= file.read("a.weight.scale").max()
        assert file.metadata["rounding"] == "stochastic"
    assert (sums[1] != sums[2]).any()


WRONG_SUMS = {
    "planes": "element 2 (index [0, 2]): count of bit 2 ",
    "sum16": "element 32 (index [1, 15]): sum by SUM16 ",
    "sum8": "element 65 (index [3, 14]): sum by SUM8 ",
}


@pytest.mark.parametrize(("view", "text"), WRONG_SUMS.items())
def test_a_wrong_sum_is_named(signal: Signal, view: str, text: str) -> None:
    """Check the message for a view of a.weight in which bit 10 of the second line is inverted."""

    def damage(_: str, result: StepResult) -> None:
        for work in result.works:
            for extent, _use, lines in work.extents():
                if work.step == 60 and extent.tensor.name == "a.weight":
                    getattr(lines, view)[1, 0, 1] ^= 4

    signal.device.spoil = damage
    first = signal.fails(*INTS).err.splitlines()[0]
    assert f"tensor a.weight G_INT4 line 0 {text}" in first


@each_sums
def test_in_bulk(bulk: Command[BulkModel], capture: Path, sums: str) -> None:
    """Check integer codes in bulk with epochs of two lines, which cut buckets of a common scale."""
    bulk.passes("--steps", 3, *INTS, "--sums", sums, "--out", bulk.out)
    assert check_file(bulk.out, capture, 3)["sums"] == sums


def test_a_lost_contribution_is_found(bulk: Command[BulkModel]) -> None:
    """Check that a bulk replay names the worker of a sum from which a contribution is missing."""
    bulk.device.damage = lambda count, message: None if count == 3 else message
    error = bulk.fails("--steps", 3, "--route", "*=G_INT8").err
    assert "G_INT8 line " in error
    assert "; worker " in error


@each_sums
def test_more_workers_than_the_counters_sum(either: Signal, sums: str) -> None:
    words = ("--sums", sums, "--route", "*=G_INT4", "--param", "CNT_W=2")
    assert "CNT_W=2 sums the codes of 3 workers, not of 5" in either.refuses(*words)
