# SPDX-License-Identifier: Apache-2.0
"""Progress against the testplan, and over time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.common.records import CaseResult, FailureKind
from scripts.conftest import RECORD, record
from scripts.plan import testplan
from scripts.report import testplan_progress, trend, write_report
from scripts.report.page import span
from scripts.report.test_report import CRASHED
from scripts.report.trend import HistoryPoint

PLAN = """
    features:
      - name: first
        spec: none at all
        goal: it does what it should
        tests:
          - {test: "test_x::one", stage: V1}
          - {test: "test_x::two", stage: V2}
          - {test: "test_y::three", stage: V2}
          - {test: "test_z::four", stage: V2}
"""
POINT = HistoryPoint("a", "smoke", "2026-01-01T00:00:00+00:00", 90, 1, 0, 60.0, {})


def test_progress_by_stage(write: Callable[[str, str], Path]) -> None:
    plan = testplan.read(write("plan/a.yaml", PLAN).parent)
    red = record(
        name="test_x::*",
        seed=2,
        passed=False,
        kind=FailureKind.MISMATCH,
        cases=(CaseResult("one", "passed", 1, 1), CaseResult("two/n=1", "failed", 1, 1)),
    )
    found = testplan_progress.measure(plan, [RECORD, red, CRASHED])
    first, second = found.stages
    assert (first.name, first.passed, first.red, first.not_run) == ("V1", ("test_x::one",), (), ())
    # A module that crashed as a whole is red in each of its tests.
    assert second.red == ("test_x::two", "test_y::three")
    assert (second.not_run, second.total) == (("test_z::four",), 3)
    assert [row.name for row in found.features] == ["first"]


def test_red_with_one_seed_is_red() -> None:
    plan = testplan.Plan(
        {"test_x::one": testplan.Entry("test_x::one", "f", "V1", ("default",), (), 1.0)}, {}, {}
    )
    red = record(seed=2, passed=False, kind=FailureKind.CRASH, cases=())
    assert testplan_progress.states(plan, [RECORD, red]) == {"test_x::one": "failed"}
    assert testplan_progress.states(plan, []) == {"test_x::one": "not run"}


def test_history_travels_with_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend, "KEPT", 3)
    for title in ("smoke", "other", "smoke"):
        found = write_report.write_all([RECORD], title, tmp_path)
    points = trend.from_report(tmp_path / "results.json")
    assert [p.title for p in points] == ["smoke", "other", "smoke"]
    assert points[0].durations == {"test_x::one icarus default": 1.0}
    assert [p.title for p in found.history] == ["smoke", "other"]
    assert len(trend.comparable(points, "smoke")) == 2
    write_report.write_all([RECORD], "more", tmp_path)
    titles = [p.title for p in trend.from_report(tmp_path / "results.json")]
    assert titles == ["other", "smoke", "more"]  # the oldest goes


def test_a_history_that_is_given_wins(tmp_path: Path) -> None:
    write_report.write_all([RECORD], "smoke", tmp_path)
    found = write_report.write_all([RECORD], "smoke", tmp_path, history=[POINT])
    assert found.history == (POINT,)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "2 invocations of" in page


def test_bars_and_times(tmp_path: Path) -> None:
    cases = tuple(CaseResult(f"t{s}", "passed", s, 1.0) for s in (2.0, 1.0, 0.0))
    write_report.write_all([replace(RECORD, cases=cases)], "smoke", tmp_path)
    slowest = (tmp_path / "index.html").read_text(encoding="utf-8").partition("Slowest tests")[2]
    widths = re.findall(r'class="part" width="([\d.]+)"', slowest.partition("</table>")[0])
    assert widths == ["100.0", "50.0", "0.0"]
    texts = [span(value) for value in (0.44, 59.4, 61, 3600, 7500)]
    assert texts == ["0.4 s", "59 s", "1 min 1 s", "1 h 0 min", "2 h 5 min"]
