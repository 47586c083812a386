# SPDX-License-Identifier: Apache-2.0
"""`nf replay` of integer codes with the device model in the simulator's place: sums and scales."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_fabric.capture import Capture
from neuron_fabric.capture.safetensors_io import open_tensors
from verif.conftest import BulkModel, SignalModel, StepResult, nf_replay
from verif.replay.test_signal_replay import check_file

INTS = ("a.weight=G_INT4", "a.bias=G_INT8", "s=G_INT8", "b=G_BINARY", "*=FP32")


@pytest.mark.parametrize("sums", ["views", "planes"])
def test_sums_beside_votes(
    capture: Path,
    signal_model: SignalModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sums: str,
) -> None:
    """Codes of 4 and 8 bits: exact sums, their mean and the scale of each bucket."""
    out = tmp_path / "out.safetensors"
    words = ("--steps", 3, "--sim", "both", "--route", *INTS, "--sums", sums, "--out", out)
    assert nf_replay(signal_model, capture, *words) == 0
    found = check_file(out, capture, 3)
    assert found["rounding"] == "nearest"
    # a.weight 5, a.bias, s and b 1, c.weight 3 lines: 3 planes each, the vote of b, and where the
    # device sums, 4 SUM16 and 2 SUM8 lines of 4-bit codes, 2 SUM16 lines of 8-bit codes.
    views = 5 * 6 + 2 * 2 if sums == "views" else 0
    assert found["bytes_from_device"] == str((8 * 3 + 1 + 3 + views) * 64)
    assert "0 mismatches" in capsys.readouterr().out.splitlines()[-1]


def test_stochastic_codes_are_drawn_from_the_seed(
    capture: Path, signal_model: SignalModel, tmp_path: Path
) -> None:
    """The same seed gives the same codes; another one does not."""
    sums: dict[int, Any] = {}
    for number, seed in enumerate((1, 1, 2)):
        out = tmp_path / f"out-{number}.safetensors"
        words = ("--steps", 3, "--route", "a.weight=G_INT4", "--rounding", "stochastic")
        shutil.rmtree(signal_model.files)
        signal_model.files.mkdir()
        assert nf_replay(signal_model, capture, *words, "--seed", seed, "--out", out) == 0
        file = open_tensors(out)
        got = file.read("a.weight.sum")
        assert (sums.setdefault(seed, got) == got).all()
        mean = Capture.open(capture).load(3)["a.weight"].mean(axis=0)
        assert np.abs(file.read("a.weight.mean") - mean).max() <= file.read("a.weight.scale").max()
        assert file.metadata["rounding"] == "stochastic"
    assert (sums[1] != sums[2]).any()


def wrong_view(view: str) -> Any:
    """Damage to bit 10 of the second line of a view of a.weight."""

    def damage(_: str, result: StepResult) -> None:
        for work in result.works:
            for extent, _use, lines in work.extents():
                if work.step == 60 and extent.tensor.name == "a.weight":
                    getattr(lines, view)[1, 0, 1] ^= 4

    return damage


WRONG_SUMS = {
    "planes": "element 2 (index [0, 2]): count of bit 2 ",
    "sum16": "element 32 (index [1, 15]): sum by SUM16 ",
    "sum8": "element 65 (index [3, 14]): sum by SUM8 ",
}


@pytest.mark.parametrize(("view", "text"), WRONG_SUMS.items())
def test_a_wrong_sum_is_named(
    capture: Path,
    signal_model: SignalModel,
    capsys: pytest.CaptureFixture[str],
    view: str,
    text: str,
) -> None:
    signal_model.spoil = wrong_view(view)
    assert nf_replay(signal_model, capture, "--route", *INTS) == 1
    first = capsys.readouterr().err.splitlines()[0]
    assert f"tensor a.weight G_INT4 line 0 {text}" in first


@pytest.mark.parametrize("sums", ["views", "planes"])
def test_in_bulk(capture: Path, model: BulkModel, tmp_path: Path, sums: str) -> None:
    """Epochs of two lines: a bucket is cut, and each part has its scale."""
    out = tmp_path / "out.safetensors"
    words = ("--transport", "bulk", "--steps", 3, "--route", *INTS, "--sums", sums)
    assert nf_replay(model, capture, *words, "--out", out) == 0
    assert check_file(out, capture, 3)["sums"] == sums


def test_a_lost_contribution_is_found(
    capture: Path, model: BulkModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """In bulk a wrong sum names the worker."""
    model.damage = lambda count, message: None if count == 3 else message
    words = ("--transport", "bulk", "--steps", 3, "--route", "*=G_INT8")
    assert nf_replay(model, capture, *words) == 1
    error = capsys.readouterr().err
    assert "G_INT8 line " in error
    assert "; worker " in error


@pytest.mark.parametrize("transport", ["signal", "bulk"])
@pytest.mark.parametrize("sums", ["views", "planes"])
def test_more_workers_than_the_counters_sum(
    capture: Path,
    signal_model: SignalModel,
    capsys: pytest.CaptureFixture[str],
    transport: str,
    sums: str,
) -> None:
    """Whatever the transport, and the mode of the region."""
    words = ("--transport", transport, "--sums", sums, "--route", "*=G_INT4", "--param", "CNT_W=2")
    assert nf_replay(signal_model, capture, *words) == 2
    error = capsys.readouterr().err
    assert "CNT_W=2 sums the codes of 3 workers, not of 5" in error
    assert len(error.splitlines()) == 1
