# SPDX-License-Identifier: Apache-2.0
"""Known failures (`verif/known_failures.yaml`): failed runs that do not gate until a date.

An entry names the tests and the cause key; a failure with another cause stays red. An entry that
has expired, or whose tests pass again, is an error, so that the list cannot grow old.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from neuron_fabric.typed import FieldRule
from scripts.common.cause_key import key_of
from scripts.common.data import Listed, Text, at_least, load_list
from scripts.common.paths import ROOT
from scripts.common.records import RunRecord
from scripts.plan.discover import TestCase
from scripts.plan.testplan import Skip
from scripts.report.outcome import Outcome, Result, results
from verif.scoreboard.finding import APART

FILE = ROOT / "verif" / "known_failures.yaml"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class KnownFailure(Skip):
    """Rule for failed runs that do not gate, by the inherited patterns and the cause.

    Attributes:
        cause: The cause key of the failure, or the part of it that is common to its sub-causes.
        ticket: Where the failure is tracked.
        until: Last day on which the entry holds.
    """

    test: Text
    cause: Annotated[str, at_least(3)]
    ticket: Text
    until: Annotated[str, FieldRule(_is_date, "a date like 2026-12-31")]
    why: str = ""

    @property
    def label(self) -> str:
        """Text of the entry in one line."""
        return f"known failure of {self.test} ({self.ticket}, until {self.until})"

    def selects(self, test: Result) -> bool:
        """Return whether the patterns match a test of a run."""
        record, name = test.record, test.id.partition("/")[0]
        return self.fits(name, record.build_name, record.sim)

    def covers(self, record: RunRecord) -> bool:
        """Return whether all that failed in a run is this failure.

        The record has the cause of the first failed test; each further one has its own.
        """
        failed = [case.cause_key for case in record.cases if case.status == "failed"]
        keys = {key_of(record)[1], *failed[1:]}
        return all(self.cause in (key, key.partition(APART)[0]) for key in keys) and all(
            self.selects(test) for test in results(record) if test.outcome is Outcome.FAILED
        )


def read(path: Path = FILE) -> list[KnownFailure]:
    """Read the entries. Raise NfError with one line if the file is not valid."""
    return load_list(path, "known", KnownFailure, _with_date)


def _with_date(value: Listed) -> Iterable[Listed]:
    """Yield an element with its date, which YAML has read as such, as text."""
    yield {k: one.isoformat() if isinstance(one, date) else one for k, one in value.items()}


def marked(record: RunRecord, known: Iterable[KnownFailure], today: date) -> RunRecord:
    """Return a record, with the ticket and the last day if an entry covers its failure.

    A flaky run is another finding than a failure, and stays red.
    """
    if record.status == "failed":
        for entry in known:
            if entry.until >= today.isoformat() and entry.covers(record):
                return replace(record, known=f"{entry.ticket}, until {entry.until}")
    return record


def problems(known: Iterable[KnownFailure], records: Sequence[RunRecord], today: date) -> list[str]:
    """Return an error line for each entry of these runs that has expired or is not needed."""
    tests = [test for record in records for test in results(record)]
    out = []
    for entry in known:
        seen = {test.outcome for test in tests if entry.selects(test)} - {Outcome.SKIPPED}
        if not seen:
            continue
        if entry.until < today.isoformat():
            out.append(f"{entry.label} has expired: mend it, or give it another date")
        elif seen == {Outcome.PASSED}:
            out.append(f"{entry.label}: all of its runs passed; delete the entry")
    return out


def misfits(known: Iterable[KnownFailure], tests: Sequence[TestCase], today: date) -> list[str]:
    """Return an error line for each entry that names no test or has expired."""
    out = [
        f"{one.label}: no test matches"
        for one in known
        if not any(fnmatchcase(test.id, one.test) for test in tests)
    ]
    return out + [f"{one.label} has expired" for one in known if one.until < today.isoformat()]
