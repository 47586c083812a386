# SPDX-License-Identifier: Apache-2.0
"""The table of quantizers: the shipped capture gives what was measured apart from this code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.quantizers import METHODS, judge, main, step_of

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


def test_no_capture_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
