# SPDX-License-Identifier: Apache-2.0
"""Tests of the conversion of tensors to lines and back, and of the exact ternary threshold."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.modes import Mode
from verif.conftest import expected_outputs
from verif.replay.tensor_lines import outputs_from_lines, ternary_threshold


@settings(deadline=None)
@given(st.lists(st.floats(-1e3, 1e3, width=16), min_size=1, max_size=50))
def test_threshold_is_the_rounded_product(values: list[float]) -> None:
    """Check the gate of float16 values, whose sum is exact in float64: there is one right
    result.
    """
    x = np.array(values, dtype=np.float32)
    mean = np.float32(float(sum(abs(Fraction(v)) for v in values)) / len(values))
    product = float(np.float32(0.7)) * float(mean)  # 24 + 24 bits: exact in a double
    assert ternary_threshold(x) == np.float32(product)


def test_threshold_by_hand() -> None:
    assert ternary_threshold([1.0, -3.0], 0.5) == np.float32(1.0)
    assert ternary_threshold([1.0, -3.0]) == np.float32(0.7) * np.float32(2.0)
    assert ternary_threshold(np.zeros((0, 3))) == 0.0
    assert ternary_threshold([-0.0, 0.0]) == 0.0
    # Summed in float64: in float32 the small ones would be lost.
    x = np.array([2.0**24] + [1.0] * 1024, dtype=np.float32)
    assert ternary_threshold(x, 1.0) == np.float32((2.0**24 + 1024) / 1025)


shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)
LOW = [Mode.G_BINARY, Mode.G_TERNARY]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), shapes, st.integers(1, 6), st.sampled_from([*LOW, Mode.FP32]))
def test_outputs_against_numpy(seed: int, shape: tuple[int, ...], workers: int, mode: Mode) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((workers, *shape)).astype(np.float32)
    out = expected_outputs(x, mode)
    assert all(array.shape == shape for array in out.values())
    if mode == Mode.FP32:
        want = x[0]
        for other in x[1:]:
            want = want + other
        assert (out["sum"] == want).all()
        assert out["sum"].dtype == np.float32
        return
    if mode == Mode.G_BINARY:
        plus = (x >= 0).sum(axis=0)
        vote = np.where(2 * plus >= workers, 1, -1)
    else:
        t = np.array([ternary_threshold(one) for one in x]).reshape(-1, *([1] * len(shape)))
        plus = (x > t).sum(axis=0)
        minus = (x < -t).sum(axis=0)
        vote = np.sign(plus - minus)
        assert (out["minus"] == minus).all()
        assert out["minus"].dtype == np.uint8
    assert (out["plus"] == plus).all()
    assert out["plus"].dtype == np.uint8
    assert (out["vote"] == vote).all()
    assert out["vote"].dtype == np.int8


def test_missing_planes_read_as_zeros() -> None:
    result = np.zeros((1, 64), dtype=np.uint8)
    plane = np.full((1, 1, 64), 255, dtype=np.uint8)
    out = outputs_from_lines(Mode.G_BINARY, (3,), result, plane)
    assert list(out["plus"]) == [1, 1, 1]
