# SPDX-License-Identifier: Apache-2.0
"""Tests of the audit: it finds fields that no checker compares, and entries that match nothing."""

from __future__ import annotations

import dataclasses

import pytest

from models.register_map import REG_MAP
from scripts.checks import traceability
from scripts.common.paths import ROOT
from scripts.plan.discover import discover
from verif.coverage import register_points
from verif.coverage.device_coverage import NfCoverage

ENTRIES = traceability.read(ROOT)
NAME = "register:LATE.VALUE"
TESTS = discover()


def test_a_counter_that_no_test_sees_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the errors for a counter that no test sees change, and for a test that is not named.

    The counter is new in the register map, with a checker and tests.
    """
    late = next(one for one in REG_MAP.registers if one.name == "LATE")
    more = dataclasses.replace(late, name="LATER", address=0x1FC)
    wider = dataclasses.replace(REG_MAP, registers=(*REG_MAP.registers, more))
    monkeypatch.setattr(traceability, "REG_MAP", wider)
    monkeypatch.setattr(register_points, "REG_MAP", wider)
    entries = [
        dataclasses.replace(one, of=(*one.of, "register:LATER.*")) if one.covers(NAME) else one
        for one in ENTRIES
    ]
    (line,) = traceability.problems(ROOT, entries, TESTS)
    assert line.startswith("no test sees LATER change: name a test for it in [shown_by]")
    model = NfCoverage().model  # has its bin all the same
    assert model.points["changes in no test"].bins == {"LATER x 0": 0, "LATER x not 0": 0}
    monkeypatch.setitem(register_points.SHOWN_BY, "test_views::info", ("LATER",))
    (line,) = traceability.problems(ROOT, entries, TESTS)
    assert line.endswith("register:LATER.VALUE changes in test_views::info, which is not named")


def test_each_entry_is_needed() -> None:
    """Check that without any one entry of the audit some field has no checker."""
    for entry in ENTRIES:
        rest = [one for one in ENTRIES if one is not entry]
        found = traceability.problems(ROOT, rest, TESTS)
        assert any("nobody compares" in line for line in found), entry


def test_entries_that_lead_nowhere() -> None:
    first, *rest = ENTRIES
    for change, text in (
        ({"of": (*first.of, "register:NO_SUCH.*")}, "NO_SUCH.* fits no register field"),
        ({"checker": "verif.scoreboard.scoreboard:Scoreboard.gone"}, "Scoreboard.gone does not"),
        ({"checker": "verif.no_module:f"}, "verif.no_module:f does not exist"),
        ({"tests": ("test_regs::gone",)}, "test test_regs::gone does not exist"),
        ({"sweep": ""}, "names no sweep; add `sweep: test_status::sweep`"),
        ({"sweep": "test_regs::unmapped"}, "but the sweep is test_status::sweep"),
    ):
        changed = dataclasses.replace(first, **change)  # type: ignore[arg-type]
        (line,) = traceability.problems(ROOT, [changed, *rest], TESTS)
        assert text in line
