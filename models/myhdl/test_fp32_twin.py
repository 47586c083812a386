# SPDX-License-Identifier: Apache-2.0
"""Tests of the MyHDL twin of the FP32 adder against the model of the FP32 path."""

from __future__ import annotations

import random

import numpy as np
import pytest

from models.fp32 import add_bits
from models.myhdl.stepper import Stepper
from models.myhdl.stimulus import CORNERS, Fp32Add

ONE = 0x3F800000


def check_sums(stepper: Stepper, pairs: list[tuple[int, int]]) -> None:
    """Check the twin's sums of pairs of bit patterns, one pair per clock."""
    table = np.array(pairs, np.uint32)
    for (a, b), want in zip(pairs, add_bits(table[:, 0], table[:, 1]), strict=True):
        stepper.inputs("nf_fp32_add", {"en": 1, "a": a, "b": b})
        stepper.clock()
        got = stepper.inputs("nf_fp32_add", {})["sum"]
        assert got == want, f"{a:08x} + {b:08x} = {got:08x}, not {want:08x}"


def test_corners(adder: Stepper) -> None:
    signed = [value | sign << 31 for value in (*CORNERS, ONE) for sign in (0, 1)]
    check_sums(adder, [(a, b) for a in signed for b in signed])


NIGHTLY = pytest.mark.nightly("1,000,000 sums, each of 278 bits in Python")


@pytest.mark.parametrize("rounds", [1, pytest.param(1600, marks=NIGHTLY)])
def test_drawn(adder: Stepper, rounds: int) -> None:
    drawn = Fp32Add(random.Random(rounds), {})
    for _ in range(rounds):
        check_sums(adder, [drawn.operands() for _ in range(600)])


def test_nothing_asked_for(adder: Stepper) -> None:
    """Check that the sum is zero in the clock after one without `en`, and only then."""
    adder.inputs("nf_fp32_add", {"en": 1, "a": ONE, "b": ONE})
    adder.clock()
    assert adder.inputs("nf_fp32_add", {"en": 0})["sum"] == 0x40000000
    adder.clock()
    assert adder.inputs("nf_fp32_add", {"en": 1})["sum"] == 0
