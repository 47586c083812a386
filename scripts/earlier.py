# SPDX-License-Identifier: Apache-2.0
"""Between history and report: what the report is told of earlier commands, and what the history
keeps of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from scripts import history, paths, report
from scripts.recorder import Recorder
from scripts.records import RunRecord
from scripts.report import HistoryPoint, Report, trend


def facts(found: Report) -> dict[str, Any]:
    """What the history keeps of a report, apart from its records."""
    point = trend.point(found.invocation, found.records)
    return {"invocation": asdict(found.invocation), "point": asdict(point)}


def points(before: Sequence[Mapping[str, Any]]) -> list[HistoryPoint]:
    """The input of the charts over time, from the facts of earlier commands."""
    return [HistoryPoint(**one["point"]) for one in before]


def invocation(of: history.Invocation, records: Sequence[RunRecord]) -> report.Invocation:
    """A recorded command as the report names it; of one that was killed less is known."""
    if of.facts:
        known = of.facts["invocation"]
        tools = tuple((name, version) for name, version in known["tools"])
        return report.Invocation(**{**known, "tools": tools, "seeds": tuple(known["seeds"])})
    return report.Invocation(
        title=of.title,
        command=of.command,
        started=report.moment(of.started),
        seconds=sum(record.seconds for record in records),
        expected=of.expected,
        host="",
        revision=of.revision,
        tools=(),
        seeds=tuple(sorted({record.seed for record in records})),
    )


def write_report(
    recorder: Recorder,
    records: Sequence[RunRecord],
    title: str,
    seconds: float,
    expected: int,
    coverage: bool = False,
) -> list[str]:
    """Write the report of the command that ends now and close its history; lines to show."""
    before = recorder.before()
    try:
        found = report.write_all(
            records,
            title,
            paths.REPORT,
            seconds=seconds,
            expected=expected,
            history=None if before is None else points(before),
        )
    except OSError as error:  # a full disk must not hide what came
        recorder.close()
        return [f"no report could be written: {error.strerror}: {error.filename or ''}"]
    recorder.close(facts(found))
    return [*(report.coverage_lines(found) if coverage else []), report.where(paths.REPORT)]
