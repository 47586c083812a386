# SPDX-License-Identifier: Apache-2.0
"""Reports with history: reads the results of earlier commands for the trend, and stores
those of this command for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.common import paths
from scripts.common.data import load_json
from scripts.common.errors import NfError
from scripts.common.records import RunRecord
from scripts.coverage import merged
from scripts.history.database import History, RecordedCommand, Recorder
from scripts.report import trend, write_report
from scripts.report.invocation import Invocation, moment
from scripts.report.trend import HistoryPoint


def command(history: History, number: int | None) -> RecordedCommand:
    """Return a recorded command; None: the last. Raise NfError if there is none."""
    found = next((one for one in history.invocations(-1) if number in (None, one.id)), None)
    if found is None:
        what = f"command {number}" if number else "command yet"
        raise NfError(f"the history holds no {what} (`nf history`).")
    return found


def of_folder(folder: Path) -> dict[Path, RunRecord]:
    """Return the records of run folders by file. Raise NfError if there are none."""
    found = {path: load_json(path, RunRecord) for path in sorted(folder.glob("*/record.json"))}
    if not found:
        raise NfError(f"{paths.shown(folder)} holds no run (FOLDER/*/record.json).")
    return found


def points(before: Sequence[Mapping[str, Any]]) -> list[HistoryPoint]:
    """Return the input of the trend from the facts of earlier commands. Raise NfError
    with the name of damaged data.
    """
    try:
        return [typed(HistoryPoint, one.get("point"), "point") for one in before]
    except DataError as error:
        raise NfError(f"the facts of an earlier command are damaged ({error}).") from error


def invocation(of: RecordedCommand, records: Sequence[RunRecord]) -> Invocation:
    """Return a recorded command for the report; less is known of a killed one."""
    if of.facts:
        try:
            return typed(Invocation, of.facts.get("invocation"), "invocation")
        except DataError as error:
            raise NfError(f"the facts of command {of.id} are damaged ({error}).") from error
    return Invocation(
        title=of.title,
        command=of.command,
        started=moment(of.started),
        seconds=sum(record.seconds for record in records),
        expected=of.expected,
        host="",
        revision=of.revision,
        tools=(),
        seeds=tuple(sorted({record.seed for record in records})),
    )


def write_and_close(
    recorder: Recorder,
    records: Sequence[RunRecord],
    title: str,
    seconds: float,
    expected: int,
    coverage: bool = False,
) -> list[str]:
    """Write the report of the command that ends now and close its history; return lines to show."""
    facts, said = recorder.before(), []
    try:
        before = None if facts is None else points(facts)
    except NfError as error:  # damage done earlier must not cost the report of now
        before, said = [], [f"trend begin anew: {error}"]
    where = paths.REPORT
    try:
        found = write_report.write_all(
            records, title, where, seconds=seconds, expected=expected, history=before
        )
    except OSError as error:  # a full disk must not hide what came
        recorder.close()
        return [*said, f"no report could be written: {error.strerror}: {error.filename or ''}"]
    if found.merged is not None and recorder.number:
        try:
            merged.write(found.merged, merged.of_command(recorder.number))
        except OSError as error:
            said.append(f"no merged coverage could be written: {error.strerror}")
    point = trend.point(found.invocation, found.records)
    recorder.close({"invocation": asdict(found.invocation), "point": asdict(point)})
    return [
        *said,
        *(write_report.coverage_lines(found) if coverage else []),
        write_report.where(where),
    ]
