# SPDX-License-Identifier: Apache-2.0
"""JSON report: the content of all other reports, for programs. Schema: report.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from neuron_fabric.data import read_json
from neuron_fabric.typed import typed
from scripts.common import data
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.records import RunRecord
from scripts.coverage.code_coverage import CodeCoverage, Counted
from scripts.coverage.functional_coverage import Functional
from scripts.coverage.merged import Merged
from scripts.report import trend
from scripts.report.invocation import Invocation
from scripts.report.mutation import Mutation
from scripts.report.outcome import Counts
from scripts.report.proofs import Proofs
from scripts.report.testplan_progress import Progress
from scripts.report.trend import HistoryPoint

NAME = "neuron-fabric report"
VERSION = 2  # goes up when a reader of the old one would be wrong


@dataclass(frozen=True)
class Report:
    """Data of one invocation, the only input of every writer.

    `history` are earlier invocations of any title; `progress` is None without a testplan.
    """

    invocation: Invocation
    counts: Counts
    records: tuple[RunRecord, ...]
    functional: Functional | None
    code: CodeCoverage | None
    progress: Progress | None
    history: tuple[HistoryPoint, ...]
    mutation: Mutation | None = None  # the last that was measured
    proofs: Proofs | None = None  # of the last `nf prove`
    errors: tuple[str, ...] = ()  # of the list of known failures
    places: dict[str, tuple[str, int]] = field(default_factory=dict)  # file and line by test id
    # If code coverage was collected: the counts that `code` sums up, for the annotated source.
    counted: Counted | None = None
    merged: Merged | None = None

    @property
    def missing(self) -> int:
        """Return the number of wanted runs without a record."""
        return max(0, self.invocation.expected - len(self.records))

    @property
    def ran(self) -> frozenset[str]:
        """Return the planned tests that ran; empty without a testplan."""
        rows = self.progress.stages if self.progress else ()
        return frozenset(test for row in rows for test in (*row.passed, *row.red))

    @property
    def filtered(self) -> bool:
        """Return whether only some of the planned tests were selected."""
        rows = self.progress.stages if self.progress else ()
        return bool(self.ran) and not self.missing and any(row.not_run for row in rows)

    @property
    def green(self) -> bool:
        """Return True if something ran, nothing is missing, and nothing is failed or flaky.

        Known failures count as run, but not as failed; errors of their list are never green.
        """
        counts = self.counts
        bad = counts.failed or counts.flaky or self.missing or self.errors
        return counts.passed + counts.known > 0 and not bad


def text(report: Report) -> str:
    """Return the JSON document."""
    point = trend.point(report.invocation, report.records)
    return json.dumps(
        {
            "format": NAME,
            "version": VERSION,
            "green": report.green,
            "missing": report.missing,
            "errors": report.errors,
            "counts": asdict(report.counts),
            "invocation": asdict(report.invocation),
            "functional_coverage": asdict(report.functional) if report.functional else None,
            "code_coverage": asdict(report.code) if report.code else None,
            "mutation": asdict(report.mutation) if report.mutation else None,
            "proofs": asdict(report.proofs) if report.proofs else None,
            "testplan": asdict(report.progress) if report.progress else None,
            "places": report.places,
            "history": [asdict(one) for one in [*report.history, point][-trend.KEPT :]],
            "records": [record.to_json() for record in report.records],
        },
        indent=1,
    )


@dataclass(frozen=True)
class WrittenReport:
    """The part of a JSON report that is read again."""

    green: bool
    missing: int
    counts: Counts
    invocation: Invocation
    records: tuple[RunRecord, ...]
    errors: tuple[str, ...]
    places: dict[str, tuple[str, int]]


def read(path: Path) -> WrittenReport:
    """Read a JSON report. Raise NfError if it is none, or of another version."""
    with data.reading(path, data.DAMAGED):
        found = read_json(path)
        if not isinstance(found, dict) or found.get("format") != NAME:
            raise NfError(f"{shown(path)} is no report of nf.")
        version = found.get("version")
        if version != VERSION:
            raise NfError(
                f"{shown(path)} is of version {version!r}, this nf reads {VERSION}: rerun."
            )
        names = [one.name for one in fields(WrittenReport)]
        return typed(WrittenReport, {name: found[name] for name in names if name in found})
