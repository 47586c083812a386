# SPDX-License-Identifier: Apache-2.0
"""Writer of reports: gathers records into one typed Report, and writes it in every format.

    found = write_report.write_all(records, "nf run: smoke", seconds=wall, expected=len(specs))
    say(*write_report.summary(records, wall, len(specs)))

Each format is written from that Report and nothing else. Files are written completely or not at
all.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from neuron_fabric import output
from neuron_fabric.errors import say
from neuron_fabric.lock import Lock
from neuron_fabric.printable import one_line
from scripts.common.errors import NfError
from scripts.common.paths import REPORT, shown
from scripts.common.records import RunRecord
from scripts.coverage import code_coverage, code_waivers, functional_coverage
from scripts.coverage.merged import merge
from scripts.plan import discover, testplan
from scripts.plan.discover import TestCase
from scripts.report import (
    json_file,
    known_failures,
    mutation,
    page,
    proofs,
    source_page,
    trend,
    xml_files,
)
from scripts.report.failure_causes import buckets
from scripts.report.invocation import Invocation, describe
from scripts.report.json_file import Report
from scripts.report.outcome import all_results, counts, ordered
from scripts.report.picture import Replays, draw
from scripts.report.testplan_progress import measure
from scripts.report.trend import HistoryPoint

JSON, JUNIT, PAGE, UCIS = "results.json", "junit.xml", "index.html", "ucis.xml"
SOURCE = source_page.NAME
T = TypeVar("T")


def gather(
    records: Sequence[RunRecord], invocation: Invocation, history: Sequence[HistoryPoint] = ()
) -> Report:
    """Build the Report of an invocation; `history` are the earlier invocations."""
    waivers = _read(functional_coverage.read_waivers, list[functional_coverage.Waiver](), "waivers")
    plan = _read(testplan.read, None, "the testplan")
    measured = merge(records) if any(record.coverage for record in records) else None
    counted = None
    if measured:
        hidden = _read(code_waivers.read, list[code_waivers.CodeWaiver](), "these waivers")
        counted = code_coverage.count(measured, hidden)
    ran = {test.id.partition("/")[0] for test in all_results(records)}
    tests = _read(discover.last, list[TestCase](), "lines of tests")
    listed = _read(known_failures.read, list[known_failures.KnownFailure](), "known failures")
    day = datetime.datetime.fromisoformat(invocation.started).astimezone(datetime.UTC).date()
    done = invocation.expected <= len(records)
    return Report(
        invocation=invocation,
        counts=counts(records),
        records=tuple(ordered(records)),
        functional=functional_coverage.merge(records, waivers=waivers),
        code=code_coverage.figures(counted),
        progress=measure(plan, records) if plan else None,
        history=tuple(history),
        mutation=mutation.read(),
        proofs=proofs.read(),
        errors=tuple(known_failures.problems(listed, records, day)) if done else (),
        places={test.id: test.place for test in tests if test.id in ran},
        counted=counted,
        merged=measured,
    )


def write_all(
    records: Sequence[RunRecord],
    what: str | Invocation,
    folder: Path = REPORT,
    *,
    seconds: float = 0.0,
    expected: int | None = None,
    history: Sequence[HistoryPoint] | None = None,
    replayed: Replays | None = None,
) -> Report:
    """Write results.json, junit.xml, index.html, and ucis.xml of functional coverage, to `folder`.

    Args:
        records: records of the runs.
        what: title of the command that ends now, or an Invocation that ended earlier.
        folder: folder of the reports.
        seconds: wall-clock time of the command.
        expected: number of runs that were wanted; None: those of the records, but at least one.
        history: earlier invocations; None reads them from the report in `folder`.
        replayed: replays that the page opens with a picture of; None: no picture.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(what, str):
        what = describe(what, records, seconds, expected)
    with Lock(folder).acquire(wait=lambda: None):  # all three are of one command
        if history is None:
            history = trend.from_report(folder / JSON)
        found = gather(records, what, history)
        drawn = None if replayed is None else draw(found, replayed)
        output.write_text(folder / JSON, json_file.text(found))
        output.write_text(folder / JUNIT, xml_files.junit(found))
        output.write_text(folder / PAGE, page.text(found, folder, drawn))
        if found.functional is not None:
            output.write_text(folder / UCIS, xml_files.ucis(found.functional, found.invocation))
        else:
            (folder / UCIS).unlink(missing_ok=True)  # of a command before
        if found.counted:
            output.write_text(folder / SOURCE, source_page.text(found.counted, what.title))
    return found


def _read(read: Callable[..., T], without: T, what: str) -> T:
    """Read a file of the project that a report uses, or report without it.

    `nf check` finds errors in these files; they must not cost the results of a long run.
    """
    try:
        return read()
    except NfError as error:
        say(f"nf: {error} Reported without {what}.", file=sys.stderr)
        return without


def summary(records: Sequence[RunRecord], seconds: float, expected: int) -> list[str]:
    """Return the last lines for the terminal. `expected` runs were wanted; a missing one is
    named.
    """
    lines: list[str] = []
    found = buckets(records)
    if found:
        lines.append("failures by cause (N: a value that differs):")
    for b in found:
        lines.append(f"  {len(b.records)} x {b.kind}: {one_line(b.cause, 600)}")
        lines += [f"    {count} x {part}" for count, part in b.parts]
    if len(records) < expected:
        lines.append(f"interrupted: {expected - len(records)} of {expected} runs did not finish")
    lines.append(f"===== {counts(records)} in {seconds:.1f} s ({len(records)} runs) =====")
    return lines


def coverage_lines(found: Report) -> list[str]:
    """Return coverage for the terminal: totals, and holes of the tests that ran, by name."""
    return functional_coverage.lines(found.functional, found.ran) + code_coverage.lines(found.code)


def where(folder: Path = REPORT) -> str:
    """Return one line with the paths of the reports."""
    return f"report: {shown(folder / PAGE)} (also {JUNIT}, {JSON})"
