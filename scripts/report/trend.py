# SPDX-License-Identifier: Apache-2.0
"""Results of earlier invocations and their charts over time.

A caller with a history passes HistoryPoints to `report.write_all`. Without one, the points travel
in the JSON report itself: each report takes over those of the report that it replaces.

Charts contain no text: an SVG is scaled to the width of the screen with its text, which would be
unreadable on a phone. Numbers are next to them, in HTML.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from neuron_fabric.data import DataError, read_object
from neuron_fabric.typed import typed
from scripts.common.records import RunRecord
from scripts.report.invocation import Invocation
from scripts.report.outcome import all_results, counts

KEPT = 30  # points carried from report to report
WIDTH, HEIGHT = 600.0, 100.0  # of a chart, in the units of its SVG view box
_FEWEST = 8  # a chart of two points does not fill the page with two slabs


@dataclass(frozen=True)
class HistoryPoint:
    """One invocation. `when` is ISO 8601 with the zone; counts are of tests.

    `seconds` is the total wall-clock time; `durations` are the seconds of each test by its key
    (`key`). Only points with the same `title` are compared: they ran the same suite.
    """

    invocation: str
    title: str
    when: str
    passed: int
    failed: int
    flaky: int
    seconds: float
    durations: dict[str, float] = field(default_factory=dict)


def key(test_id: str, record: RunRecord) -> str:
    """Return a test on a simulator and a build: the unit for comparing durations."""
    return f"{test_id} {record.sim} {record.build_name}"


def durations(records: Iterable[RunRecord]) -> dict[str, float]:
    """Return the mean seconds of every test, by its key."""
    found: dict[str, list[float]] = {}
    for test in all_results(records):
        if not test.whole_run:
            found.setdefault(key(test.id, test.record), []).append(test.seconds)
    return {name: round(statistics.mean(values), 2) for name, values in found.items()}


def point(invocation: Invocation, records: Sequence[RunRecord]) -> HistoryPoint:
    """Return this invocation as a point for later histories."""
    sums = counts(records)
    return HistoryPoint(
        invocation.id,
        invocation.title,
        invocation.started,
        sums.passed,
        sums.failed,
        sums.flaky,
        invocation.seconds,
        durations(records),
    )


def from_report(path: Path) -> list[HistoryPoint]:
    """Read the history of a JSON report, its own invocation last; empty without a report."""
    try:
        return typed(list[HistoryPoint], read_object(path).get("history"))
    except (OSError, DataError):
        return []  # none, of an older version, or damaged: charts then start anew


def comparable(history: Iterable[HistoryPoint], title: str) -> list[HistoryPoint]:
    """Return the points with the same title, oldest first."""
    return sorted((p for p in history if p.title == title), key=lambda p: p.when)


class Bar(NamedTuple):
    """Rectangle; `kind` selects its fill: passed, failed, flaky, time."""

    kind: str
    x: float
    y: float
    width: float
    height: float


def bars(points: Sequence[HistoryPoint]) -> list[tuple[HistoryPoint, list[Bar], list[Bar]]]:
    """Return each point, oldest first, with its bars in the charts of tests and of time.

    Failed is at the bottom, then flaky, then passed, so that red is visible below a tall bar.
    """
    most = max((p.passed + p.failed + p.flaky for p in points), default=0)
    longest = max((p.seconds for p in points), default=0.0)
    step = WIDTH / max(len(points), _FEWEST)
    out = []
    for number, p in enumerate(points):
        x, width, bottom = round(number * step, 2), round(step * 0.8, 2), HEIGHT
        tests = []
        for kind, count in (("failed", p.failed), ("flaky", p.flaky), ("passed", p.passed)):
            height = _height(count, most)
            bottom -= height
            if count:
                tests.append(Bar(kind, x, round(bottom, 2), width, round(height, 2)))
        tall = round(_height(p.seconds, longest), 2)
        out.append((p, tests, [Bar("time", x, round(HEIGHT - tall, 2), width, tall)]))
    return out


def _height(value: float, top: float) -> float:
    """Return the height of a bar; at least 3 of 100 if not zero, so that one failure is visible."""
    return max(3.0, HEIGHT * value / top) if value and top else 0.0
