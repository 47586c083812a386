# SPDX-License-Identifier: Apache-2.0
"""Tests of `RamFaults`: each wrong counter and each wrong capture of a RAM error is reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.parameters import DeviceParams
from models.register_map import REG_MAP
from verif.scoreboard.ram_faults import RamFaults
from verif.scoreboard.ranges import Span

RAMS = REG_MAP.enums["Ram"]
PLACES = st.lists(st.tuples(st.sampled_from(sorted(set(RAMS.values()) - {RAMS["RETRY"]})),
                            st.integers(0, 255)), max_size=6)  # fmt: skip


def faults(ecc: int, places: list[tuple[int, int]]) -> RamFaults:
    out = RamFaults(DeviceParams(ecc=ecc))
    for ram, row in places:
        out.injected(ram, row)
    return out


@given(PLACES)
def test_no_more_errors_than_flips(places: list[tuple[int, int]]) -> None:
    assert faults(0, places).bad() == faults(0, places).corrected() == Span(0, 0)
    assert faults(1, places).bad() == Span(0, len(places))
    assert faults(1, places).corrected() == Span(0, 0)
    assert faults(2, places).bad() == Span(0, len(places) // 2)
    assert faults(2, places).corrected() == Span(0, len(places))


@given(PLACES, st.tuples(st.sampled_from(sorted(RAMS.values())), st.integers(0, 255)))
def test_a_capture_names_a_flip(places: list[tuple[int, int]], named: tuple[int, int]) -> None:
    value = {"VALID": 1, "RAM": named[0], "ROW": named[1]}
    wrong = faults(1, places).captured(value)
    assert (wrong is None) == (named in places)
    left = faults(1, places).captured(value | {"VALID": 0})
    assert (left is None) == (named in places or named == (0, 0))


def test_a_flit_is_counted_at_each_replay() -> None:
    assert faults(1, [(RAMS["RETRY"], 3)]).bad().high > 1000


def test_a_reset_forgets() -> None:
    checker = faults(1, [(0, 0)])
    checker.reset()
    assert checker.bad() == Span(0, 0)
    assert "no bit has flipped" in str(checker.captured({"VALID": 1, "RAM": 0, "ROW": 0}))


def test_a_device_has_one_of_three_codes() -> None:
    with pytest.raises(ValueError, match=r"ecc is 0\.\.2"):
        DeviceParams(ecc=3)
