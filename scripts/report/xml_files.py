# SPDX-License-Identifier: Apache-2.0
"""XML files for other tools: JUnit of runs, UCIS of functional and Cobertura of code coverage.

JUnit is for Jenkins (schema junit-10) and GitLab; the rules are in `scripts/schema/junit.xsd`.

A run is a suite, so that simulator, build and seed stay visible. A flaky test is a failure: most
readers show the format's own marks for it as green.

UCIS (Accellera UCIS 1.0, chapter 9) is for tools that merge coverage. A point is a coverpoint of
one covergroup, its floor `at_least`, its reason the comment; a waived bin is an ignored one with
its reason as alias. A cross is a coverpoint too: its bins are named by their axis values, which a
merge compares. The written part of the format is in `scripts/schema/ucis.xsd`.

Cobertura (coverage-04) is for GitLab, Jenkins and Azure, which show it on changes. It holds what
lcov's format holds: lines and branches without waived points. A folder is a package, a source file
a class; complexity is required, and measured by nothing here. `scripts/schema/cobertura.xsd` has
the rules.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from scripts.common.cause_key import key_of
from scripts.common.records import TOP, RunRecord
from scripts.coverage.code_coverage import Counted, Share, shown_by_file
from scripts.coverage.functional_coverage import Functional
from scripts.coverage.places import BRANCH, LINE, Place
from scripts.report.invocation import Invocation
from scripts.report.json_file import Report
from scripts.report.outcome import RED, Outcome, results
from scripts.report.templates import render


def junit(report: Report) -> str:
    """Return the document. A fault of the command itself is a separate error, so that CI
    sees it: missing runs, and faults of the list of known failures.
    """
    said = [("known failures", error) for error in report.errors]
    if report.missing:
        missing = f"{report.missing} of {report.invocation.expected} runs did not finish"
        said.append(("every run", missing))
    suites = [_suite(record, report.invocation.revision) for record in report.records]
    return render(
        "junit.xml.j2",
        invocation=report.invocation,
        said=said,
        suites=suites,
        place=lambda test: report.places.get(test.id.partition("/")[0]),
        tests=sum(len(suite["tests"]) for suite in suites) + len(said),
        failures=sum(suite["failures"] for suite in suites),
        errors=sum(suite["errors"] for suite in suites) + len(said),
    )


def _suite(record: RunRecord, revision: str) -> dict[str, Any]:
    """Return the values of a run as a test suite. A run without a red test (crash, build) counts
    as an error, since no test of it failed."""
    tests = results(record)
    return {
        "record": record,
        "tests": tests,
        "failures": sum(test.outcome in RED and not test.whole_run for test in tests),
        "errors": sum(test.outcome in RED and test.whole_run for test in tests),
        "skipped": sum(test.outcome in (Outcome.SKIPPED, Outcome.KNOWN) for test in tests),
        "facts": {
            "seed": record.seed,
            "simulator": record.sim,
            "build": record.build_name,
            **{f"parameter {name}": value for name, value in record.parameters},
            "revision": revision,
            "log": record.log,
            "rerun": record.rerun,
            **({} if record.passed else {"cause key": key_of(record)[1]}),
        },
    }


def ucis(found: Functional, invocation: Invocation) -> str:
    """Return the document. Times are in UTC without zone: not every reader accepts one."""
    when = datetime.datetime.fromisoformat(invocation.started).astimezone(datetime.UTC)
    started = when.replace(tzinfo=None).isoformat(timespec="seconds")
    return render("ucis.xml.j2", found=found, invocation=invocation, started=started, top=TOP)


def cobertura(counted: Counted, when: float) -> str:
    """Return the document; ``when`` is its time in seconds since 1970."""
    rows = shown_by_file(counted)

    def shares(files: Iterable[dict[str, Any]]) -> dict[str, Share]:
        found = [one for file in files for one in rows[file["path"]]]
        return {kind: _share(found, kind) for kind in (LINE, BRANCH)}

    def lines(path: str) -> Iterator[tuple[int, int, Share]]:
        for number, group in groupby(rows[path], lambda row: row[0].line):
            here = list(group)
            share = _share(here, BRANCH)
            hits = next((count for place, count in here if place.kind == LINE), share.hit)
            yield number, hits, share

    files = [
        {"path": path, "folder": Path(path).parent, "name": Path(path).stem, "lines": lines(path)}
        for path in rows
    ]
    words = {LINE: "lines", BRANCH: "branches"}
    return render(
        "cobertura.xml.j2", files=files, shares=shares, words=words, when=int(when * 1000)
    )


def _share(rows: Iterable[tuple[Place, int]], kind: str) -> Share:
    hit = [count > 0 for place, count in rows if place.kind == kind]
    return Share(len(hit), sum(hit))
