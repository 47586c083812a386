# SPDX-License-Identifier: Apache-2.0
"""Summary of a JSON report for GitHub: Markdown of the job, and an annotation for each failure.

    python -m scripts.report.ci_summary build/report/results.json

It appends to the file that GITHUB_STEP_SUMMARY names, and prints a workflow command `::error` for
each failed test, which GitHub shows at the line of the test.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from neuron_fabric.errors import say
from scripts.common.errors import NfError
from scripts.common.paths import REPORT
from scripts.report import json_file, write_report
from scripts.report.json_file import WrittenReport
from scripts.report.outcome import RED, Outcome, Result, all_results, ordered

ROWS = 200
"""Rows of the table: GitHub refuses a summary of more than 1 MiB."""
_SUMMARY = "GITHUB_STEP_SUMMARY"
_COMMAND = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_VALUE = {**_COMMAND, ":": "%3A", ",": "%2C"}


def annotation(text: str, **values: object) -> str:
    """Return the workflow command that annotates a line; `values` are file, line and title."""
    given = ",".join(f"{k}={_escaped(str(one), _VALUE)}" for k, one in values.items())
    return f"::error {given}::{_escaped(text, _COMMAND)}"


def _escaped(text: str, signs: Mapping[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)


def commands(found: WrittenReport) -> Iterator[str]:
    """Yield a workflow command for each failed test, and for each fault of the command itself."""
    for text in faults(found):
        yield annotation(text, title=found.invocation.title)
    for test in _tests(found):
        if test.outcome in RED:
            file, line = found.places.get(test.id.partition("/")[0], ("", 0))
            at = {"file": file, "line": line} if file else {}
            text = f"{test.cause}\nrerun: {test.record.rerun}"
            yield annotation(text, **at, title=_name(test))


def faults(found: WrittenReport) -> list[str]:
    """Return the faults that belong to no test."""
    if found.missing:
        missing = f"{found.missing} of {found.invocation.expected} runs did not finish"
        return [missing, *found.errors]
    return [*found.errors]


def markdown(found: WrittenReport) -> str:
    """Return the summary: the counts, then each failed, flaky and known test with its cause."""
    run = found.invocation
    sign = "✅ passed" if found.green else "❌ not passed"
    lines = [
        f"## {sign}: {plain(run.title)}",
        "",
        f"{found.counts} in {run.seconds:.0f} s, commit {plain(run.revision or 'unknown')}",
        *(f"\n- {plain(text)}" for text in faults(found)),
    ]
    rows = [test for test in _tests(found) if test.outcome in (*RED, Outcome.KNOWN)]
    if rows:
        lines += ["", "| result | test | cause | again |", "|---|---|---|---|"]
    for test in rows[:ROWS]:
        known = f" ({test.record.known})" if test.record.known else ""
        cells = (f"{test.outcome}{known}", _name(test), test.cause, test.record.rerun)
        lines.append(f"| {' | '.join(map(plain, cells))} |")
    if rows[ROWS:]:
        lines += ["", f"and {len(rows) - ROWS} more in the report"]
    return "\n".join([*lines, "", ""])


def plain(text: str) -> str:
    """Return Markdown that shows a text as it is, in one line, also in a cell of a table."""
    return re.sub(r"[^\w ./-]|_", lambda sign: f"&#{ord(sign[0])};", " ".join(text.split()))


def _tests(found: WrittenReport) -> Iterator[Result]:
    return all_results(ordered(found.records))


def _name(test: Result) -> str:
    record = test.record
    return f"{test.id} {record.sim} {record.build_name} seed {record.seed}"


def main(words: Sequence[str]) -> int:
    """Write the summary of a report (that of the last command) and print its annotations.

    Raises:
        NfError: The report cannot be read, or the summary cannot be written; one line.
    """
    found = json_file.read(Path(*words) if words else REPORT / write_report.JSON)
    if where := os.environ.get(_SUMMARY):
        try:
            with open(where, "a", encoding="utf-8") as file:
                file.write(markdown(found))
        except OSError as error:
            raise NfError(f"cannot write {where} ({_SUMMARY}): {error.strerror}.") from error
    say(*commands(found))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NfError as error:
        say(f"ci_summary: {error}", file=sys.stderr)
        sys.exit(2)
