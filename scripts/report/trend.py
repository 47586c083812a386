# SPDX-License-Identifier: Apache-2.0
"""Results of earlier invocations, for the trend over time.

A caller with a history passes HistoryPoints to `write_report.write_all`. Without one, the points
travel in the JSON report itself: each report takes over those of the report that it replaces.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from neuron_fabric.data import DataError, read_object
from neuron_fabric.typed import typed
from scripts.common.records import RunRecord
from scripts.report.invocation import Invocation
from scripts.report.outcome import all_results, counts

KEPT = 30  # points carried from report to report


@dataclass(frozen=True)
class HistoryPoint:
    """One invocation. `when` is ISO 8601 with the zone; counts are of tests.

    `seconds` is the total wall-clock time; `durations` are the seconds of each test on a
    simulator and a build. Only points with the same `title` are compared: they ran the same suite.
    """

    invocation: str
    title: str
    when: str
    passed: int
    failed: int
    flaky: int
    seconds: float
    durations: dict[str, float] = field(default_factory=dict)


def durations(records: Iterable[RunRecord]) -> dict[str, float]:
    """Return the mean seconds of every test on a simulator and a build."""
    found: dict[str, list[float]] = {}
    for test in all_results(records):
        if not test.whole_run:
            found.setdefault(f"{test.id} {test.record.sim} {test.record.build_name}", []).append(
                test.seconds
            )
    return {name: round(statistics.mean(values), 2) for name, values in found.items()}


def point(invocation: Invocation, records: Sequence[RunRecord]) -> HistoryPoint:
    """Return this invocation as a point for later histories."""
    sums, when = counts(records), invocation.started
    numbers = (sums.passed, sums.failed, sums.flaky, invocation.seconds)
    return HistoryPoint(when, invocation.title, when, *numbers, durations(records))


def from_report(path: Path) -> list[HistoryPoint]:
    """Read the history of a JSON report, its own invocation last; empty without a report."""
    try:
        return typed(list[HistoryPoint], read_object(path).get("history"))
    except (OSError, DataError):
        return []  # none, of an older version, or damaged: the trend then starts anew


def comparable(history: Iterable[HistoryPoint], title: str) -> list[HistoryPoint]:
    """Return the points with the same title, oldest first."""
    return sorted((p for p in history if p.title == title), key=lambda p: p.when)
