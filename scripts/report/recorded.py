# SPDX-License-Identifier: Apache-2.0
"""Reports with the history: reads the results of earlier commands for the charts over time, and
stores those of this command for the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts import report
from scripts.common import paths
from scripts.common.errors import NfError
from scripts.common.records import RunRecord
from scripts.record import database as history
from scripts.record.recorder import Recorder
from scripts.report import HistoryPoint, Report, trend


def facts(found: Report) -> dict[str, Any]:
    """What the history keeps of a report, apart from its records."""
    point = trend.point(found.invocation, found.records)
    return {"invocation": asdict(found.invocation), "point": asdict(point)}


def points(before: Sequence[Mapping[str, Any]]) -> list[HistoryPoint]:
    """The input of the charts over time, from the facts of earlier commands. NfError names what is
    damaged."""
    try:
        return [typed(HistoryPoint, one.get("point"), "point") for one in before]
    except DataError as error:
        raise NfError(f"the facts of an earlier command are damaged ({error}).") from error


def invocation(of: history.Invocation, records: Sequence[RunRecord]) -> report.Invocation:
    """A recorded command as the report names it; of one that was killed less is known."""
    if of.facts:
        try:
            return typed(report.Invocation, of.facts.get("invocation"), "invocation")
        except DataError as error:
            raise NfError(f"the facts of command {of.id} are damaged ({error}).") from error
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


def _points_if_good(
    before: Sequence[Mapping[str, Any]] | None,
) -> tuple[list[HistoryPoint] | None, list[str]]:
    """The points, and lines to show: damage done earlier must not cost the report of now."""
    if before is None:
        return None, []
    try:
        return points(before), []
    except NfError as error:
        return [], [f"charts over time begin anew: {error}"]


def write_report(
    recorder: Recorder,
    records: Sequence[RunRecord],
    title: str,
    seconds: float,
    expected: int,
    coverage: bool = False,
) -> list[str]:
    """Write the report of the command that ends now and close its history; lines to show."""
    before, said = _points_if_good(recorder.before())
    try:
        found = report.write_all(
            records,
            title,
            paths.REPORT,
            seconds=seconds,
            expected=expected,
            history=before,
        )
    except OSError as error:  # a full disk must not hide what came
        recorder.close()
        return [*said, f"no report could be written: {error.strerror}: {error.filename or ''}"]
    recorder.close(facts(found))
    return [*said, *(report.coverage_lines(found) if coverage else []), report.where(paths.REPORT)]
