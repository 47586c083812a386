# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf replay` with integer codes on the device model: sums, means and scales."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_fabric.capture import Capture
from neuron_fabric.capture.safetensors_io import open_tensors
from verif.conftest import BulkModel, SignalModel, StepResult
from verif.replay.conftest import Command, check_file

INTS = ("--route", "a.weight=G_INT4", "a.bias=G_INT8", "s=G_INT8", "b=G_BINARY", "*=FP32")
Signal = Command[SignalModel]
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
