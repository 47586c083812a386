# SPDX-License-Identifier: Apache-2.0
"""What earlier invocations came to: the input of the charts over time.

Whoever keeps a history fills HistoryPoints and hands them to `report.write_all`. Without one, the
points travel in the JSON report itself: each report takes over those of the report it replaces.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neuron_fabric.data import DataError, read_object
from neuron_fabric.typed import typed
from scripts.common.records import RunRecord
from scripts.report.invocation import Invocation
from scripts.report.outcome import all_results, counts

KEPT = 30  # points carried from report to report


@dataclass(frozen=True)
class HistoryPoint:
    """One invocation. `when` is ISO 8601 with the zone; counts are of tests.

    `seconds` is wall-clock time of the whole; `durations` seconds of each test by its key (`key`).
    Only points with the same `title` are compared: they ran the same suite.
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
    """A test on a simulator and a build: what a duration can be compared with."""
    return f"{test_id} {record.sim} {record.build_name}"


def durations(records: Iterable[RunRecord]) -> dict[str, float]:
    """Mean seconds of every test, by its key."""
    found: dict[str, list[float]] = {}
    for test in all_results(records):
        if not test.whole_run:
            found.setdefault(key(test.id, test.record), []).append(test.seconds)
    return {name: round(statistics.mean(values), 2) for name, values in found.items()}


def point(invocation: Invocation, records: Sequence[RunRecord]) -> HistoryPoint:
    """This invocation as a point of the next one's history."""
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


def to_json(points: Iterable[HistoryPoint]) -> list[dict[str, Any]]:
    """Plain data; `from_report` is the inverse."""
    return [asdict(one) for one in points]


def from_report(path: Path) -> list[HistoryPoint]:
    """The history that a JSON report carries, its own invocation last; empty without a report."""
    try:
        return typed(list[HistoryPoint], read_object(path).get("history"))
    except (OSError, DataError):
        return []  # none, of an older version, or damaged: charts then start anew


def comparable(history: Iterable[HistoryPoint], title: str) -> list[HistoryPoint]:
    """Points of the same title, oldest first."""
    return sorted((p for p in history if p.title == title), key=lambda p: p.when)
