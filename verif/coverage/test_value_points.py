# SPDX-License-Identifier: Apache-2.0
"""Tests of value classes: counts around majority and threshold, FP32 operands, rounding and
results.
"""

import struct

import numpy as np
import pytest

from models.modes import Mode, Tie
from models.regions import RegionConfig
from models.votes import reduce_binary, reduce_ternary
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import class_of, codes
from verif.coverage.engine_points import OPERANDS, CountPoints, Fp32Points
from verif.coverage.transaction_points import threshold_class, workers_class


def _config(mode: Mode, workers: int, tie_minus: bool = False, threshold: int = 1) -> RegionConfig:
    return RegionConfig(1 << 40, 0, 0, workers, mode, tie_minus=tie_minus, threshold=threshold)


def _float_line(value: float | int) -> bytes:
    """Return a line of 64 bytes that holds one FP32 number (int: its bit pattern) 16 times."""
    word = struct.pack("<I", value) if isinstance(value, int) else struct.pack("<f", value)
    return word * 16


def _hit(model: CoverModel, name: str) -> set[str]:
    return {one for one, hits in model.points[name].bins.items() if hits}


def test_classes_cover_every_value() -> None:
    assert {workers_class(w) for w in range(1, 65)} == set(codes("WORKERS"))
    assert [workers_class(w) for w in (7, 8, 9, 10, 11, 62, 63, 64)] == [
        *("2^k-1", "2^k", "2^k+1", "even", "odd", "even", "63", "64")
    ]
    assert {threshold_class(t, 8) for t in range(1, 256)} == set(codes("THRESHOLDS"))
    found = [class_of("LINES", 0), class_of("LINES", 13), class_of("LINES", 30)]
    assert found == ["0", "10..13", "14.."]
    assert [class_of("WINDOWS", one) for one in (255, 256, 257)] == ["3..255", "256", "above 256"]


@pytest.mark.parametrize(
    ("minus", "seen"),
    [
        (2, {"half x even x MINUS x all"}),
        (1, {"half+1 x even x MINUS x all", "m-1 x even x MINUS x all"}),
        (4, {"0 x even x MINUS x all"}),
    ],
)
def test_majority(minus: int, seen: set[str]) -> None:
    model = CoverModel()
    points = CountPoints(model)
    lines = np.zeros((4, 1, 64), dtype=np.uint8)
    lines[:minus] = 255  # a 1 votes for minus
    points.result(_config(Mode.G_BINARY, 4, tie_minus=True), reduce_binary(lines, tie=Tie.MINUS))
    assert _hit(model, "majority") == seen
    assert bool(_hit(model, "unanimous line")) == (minus == 4)


def test_net_and_shares() -> None:
    model = CoverModel()
    points = CountPoints(model)
    lines = np.full((3, 1, 64), 0xAA, dtype=np.uint8)  # +1 everywhere
    lines[2] = 0xFF  # -1 everywhere
    points.result(_config(Mode.G_TERNARY, 3, threshold=2), reduce_ternary(lines, threshold=2))
    assert _hit(model, "net") == {"T-1 x 2"}
    assert _hit(model, "plus and minus") == {"m-1 x 1"}
    assert model.points["net"].unexpected == {}


def test_planes() -> None:
    model = CoverModel()
    points = CountPoints(model)
    for plane, data in ((0, bytes(64)), (1, b"\xff" * 64), (2, b"\x01" * 64)):
        points.plane(Mode.G_BINARY, plane, data)
    assert _hit(model, "plane content") == {
        *("G_BINARY x 0 x zeros", "G_BINARY x 1 x ones", "G_BINARY x 2 x mixed")
    }


ONE, ULP = 0x3F800000, 2.0**-23


@pytest.mark.parametrize(
    ("first", "second", "rounding"),
    [
        (1.0, 2.0, "exact x none"),
        (1.0, 1.0, "exact x carry out"),
        (1.0, 2.0**-26, "guard 0, sticky 1 x none"),
        (1.0, 2.0**-24 + 2.0**-30, "guard 1, sticky 1 x none"),
        (1.0, 2.0**-24, "tie, to even below x none"),
        (1.0 + ULP, 2.0**-24, "tie, to even above x none"),
        (2.0 - ULP, 4 * ULP, "tie, to even above x carry out"),
        (1.0, -0.25, "exact x cancels 1 bit"),
        (1.0, -0.75, "exact x cancels more"),
        (1.0, -(1.5 * 2.0**-25), "guard 0, sticky 1 x cancels 1 bit"),
    ],
)
def test_rounding(first: float, second: float, rounding: str) -> None:
    model = CoverModel()
    points = Fp32Points(model)
    for sign in (1.0, -1.0):
        points.sum([_float_line(sign * first), _float_line(sign * second)])
    points.flush()
    assert _hit(model, "FP32 rounding") == {rounding}
    assert model.points["FP32 rounding"].bins[rounding] == 32
    points.flush()  # nothing is counted twice
    assert model.points["FP32 rounding"].bins[rounding] == 32


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (1.5, -1.5, {"exact zero of two that cancel"}),
        (0x80000000, 0x80000000, {"-0 of two zeros"}),
        (0x80000000, 0, {"+0 of two zeros"}),
        (0x7F7FFFFF, 0x7F7FFFFF, {"overflow to infinity"}),
        (0x7F800000, 1.0, {"infinity stays"}),
        (0x7F800000, 0xFF800000, {"infinities that cancel"}),
        (0x7FC00000, 1.0, {"NaN stays"}),
        (1, 1, {"two subnormals give a subnormal"}),
        (0x007FFFFF, 1, {"two subnormals give a normal", "smallest normal"}),
        (0x00800001, 0x80800000, {"normals give a subnormal"}),
        (0x7F7FFFFF, 1.0, {"largest number"}),
    ],
)
def test_results(first: float, second: float, result: set[str]) -> None:
    model = CoverModel()
    points = Fp32Points(model)
    points.sum([_float_line(first), _float_line(second)])
    points.flush()
    assert _hit(model, "FP32 results") == result


def test_each_pair_of_operands_has_its_bin() -> None:
    samples = {
        "0": 0,
        "-0": 0x80000000,
        "subnormal": 0x80000001,
        "normal": ONE,
        "huge": 0xFF7FFFFF,
        "+inf": 0x7F800000,
        "-inf": 0xFF800000,
        "nan": 0xFFC12345,
    }
    model = CoverModel()
    points = Fp32Points(model)
    for one in OPERANDS:
        for other in OPERANDS:
            points.sum([_float_line(samples[one]), _float_line(samples[other])])
    points.sum([_float_line(1.0)])  # nothing is added
    points.flush()
    assert set(model.points["FP32 operands"].bins.values()) == {16}
