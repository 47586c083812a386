# SPDX-License-Identifier: Apache-2.0
"""Tests of the table of route errors: the shipped capture gives another program's values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from examples.route_errors import METHODS, judge, main, step_of
from neuron_fabric.capture import write_capture

SHIPPED = Path(__file__).parent.parent / "captures" / "digits-resnet-8x"
MEASURED = {
    "G_BINARY vote": (0.629, 0.604, 0.552, 0.695),
    "G_BINARY counts": (0.793, 0.371, 0.703, 0.506),
    "G_TERNARY vote": (0.749, 0.439, 0.660, 0.565),
    "G_TERNARY net counts": (0.904, 0.183, 0.800, 0.360),
    "G_INT4 nearest": (0.982, 0.037, 0.969, 0.061),
    "G_INT4 stochastic": (0.964, 0.075, 0.937, 0.138),
}
"""Cosine and NMSE of steps 3 and 60, from a trial of the formulas with numpy."""


def test_the_shipped_capture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SHIPPED)]) == 0
    rows = {line[:22].strip(): line[37:] for line in capsys.readouterr().out.splitlines()[2:]}
    assert list(rows) == list(METHODS)
    for name, want in MEASURED.items():
        got = [float(text) for part in rows[name].split() for text in part.split(",") if text]
        assert got == pytest.approx(want, rel=0.1 if "stochastic" in name else 0.02), name
    assert float(rows["G_INT8 nearest"].split()[-1]) < 0.0004


def test_more_bits_are_closer() -> None:
    x = {"a": np.random.default_rng(1).standard_normal((4, 3000)).astype(np.float32)}
    error = {name: nmse for name, (_, nmse) in step_of(x, ["a"], seed=1).items()}
    assert error["G_INT8 nearest"] < error["G_INT4 nearest"] < error["G_TERNARY net counts"]
    assert error["G_INT4 nearest"] < error["G_INT4 stochastic"]


def test_the_judge() -> None:
    mean = np.array([3.0, 4.0])
    assert judge(mean, mean) == (1.0, 0.0)
    assert judge(2 * mean, mean) == (1.0, 1.0)
    assert judge(np.array([4.0, -3.0]), mean) == (0.0, 2.0)
    assert judge(np.zeros(2), mean) == (0.0, 1.0)  # votes of two workers that never agree
    assert all(math.isnan(value) for value in judge(mean, np.zeros(2)))


def written(folder: Path, workers: int, **tensors: np.ndarray) -> str:
    """Write a capture of one step with given tensors and a head; return its folder.

    The head is sent in FP32 by default.
    """
    head = np.ones((workers, 4, 4), np.float32)
    write_capture(folder / "c", "m", {7: {**tensors, "head": head}})
    return str(folder / "c")


def test_bits_are_those_of_the_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check the bits per element of 64 workers: counts have 7 planes, G_INT4 sums take 16 bits."""
    assert main([written(tmp_path, 64, a=np.ones((64, 8, 8), np.float32))]) == 0
    rows = {line[:22].strip(): line[22:37].strip() for line in capsys.readouterr().out.splitlines()}
    assert rows["G_BINARY counts"] == "1 / 7"
    assert rows["G_TERNARY net counts"] == "2 / 14"
    assert rows["G_INT4 nearest"] == "4 / 16"
    assert rows["G_INT8 stochastic"] == "8 / 16"


def test_a_step_of_zeros_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([written(tmp_path, 2, a=np.zeros((2, 8, 8), np.float32))]) == 0
    assert capsys.readouterr().out.count("nan,      nan") == len(METHODS)


def test_what_cannot_be_compared_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = np.ones((2, 8, 8), np.float32)
    bad[1, 2, 3] = np.nan
    for path, text in (
        (str(tmp_path), "capture.json"),
        (written(tmp_path, 2, a=bad), "worker 1, step 7, tensor 'a', element 19: nan has no low"),
        (written(tmp_path / "head", 2), "no tensor goes by a low-bit mode by default"),
    ):
        assert main([path]) == 2
        error = capsys.readouterr().err
        assert text in error
        assert len(error.splitlines()) == 1
    with pytest.raises(SystemExit, match="2"):
        main([str(SHIPPED), "--seed", "-1"])
    assert "'-1' is not a number from 1" in capsys.readouterr().err
