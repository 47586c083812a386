# SPDX-License-Identifier: Apache-2.0
"""Tests of a record and their outcomes, as all writers use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scripts.common.records import RunRecord


class Outcome(StrEnum):
    """Outcome of a test. FLAKY (red, then green with the same seed) is never green.

    KNOWN is a failure that does not gate (`known_failures.py`).
    """

    FAILED = "failed"
    FLAKY = "flaky"
    KNOWN = "known"
    PASSED = "passed"
    SKIPPED = "skipped"


RED = (Outcome.FAILED, Outcome.FLAKY)


@dataclass(frozen=True)
class Result:
    """One test of a run. `seconds` is the time of the test alone, without start-up.

    `whole_run` marks a run that ended red without a red test (crash, build, nothing matched): it
    represents the tests that did not run.
    """

    record: RunRecord
    name: str
    outcome: Outcome
    seconds: float
    message: str = ""
    whole_run: bool = False

    @property
    def cause(self) -> str:
        """Return the cause in one line. The record has that of the first failed test; other
        tests have theirs.
        """
        first = next((c.name for c in self.record.cases if c.status == "failed"), self.name)
        if self.name == first:
            return self.record.cause
        return self.message.partition("\n")[0] or "failed without a message"

    @property
    def waves(self) -> str | None:
        """Return the waves that contain this test. Waves of an automatic rerun contain only the
        first failed test, or the end of a run in which none failed.
        """
        record = self.record
        if record.rerun_log is None:
            return None if self.outcome is Outcome.SKIPPED else record.waves
        failed = [case.name for case in record.cases if case.status == "failed"]
        shown = self.name == failed[0] if failed else self.whole_run
        return record.waves if shown else None

    @property
    def module(self) -> str:
        return self.record.name.partition("::")[0]

    @property
    def id(self) -> str:
        """Return `test_module::test`, with its parameter values."""
        return f"{self.module}::{self.name}"


def of_record(record: RunRecord) -> Outcome:
    """Return the outcome of a run."""
    return Outcome.KNOWN if record.known else Outcome(record.status)


def results(record: RunRecord) -> list[Result]:
    """Return the tests of a run; never empty."""
    red = of_record(record)
    out = []
    for case in record.cases:
        outcome = red if case.status == "failed" else Outcome(case.status)
        out.append(Result(record, case.name, outcome, case.seconds, case.message))
    if red is not Outcome.PASSED and all(case.status != "failed" for case in record.cases):
        name = record.name.partition("::")[2]
        out.append(Result(record, name, red, record.seconds, record.cause, whole_run=True))
    return out or [Result(record, record.name.partition("::")[2], red, record.seconds)]


def all_results(records: Iterable[RunRecord]) -> Iterator[Result]:
    """Yield the results of every test in every run."""
    for record in records:
        yield from results(record)


@dataclass(frozen=True)
class Counts:
    """Number of tests by outcome."""

    passed: int = 0
    failed: int = 0
    flaky: int = 0
    skipped: int = 0
    known: int = 0

    def __str__(self) -> str:
        rare = [(self.flaky, "flaky"), (self.known, "known"), (self.skipped, "skipped")]
        parts = [(self.passed, "passed"), (self.failed, "failed"), *(p for p in rare if p[0])]
        return ", ".join(f"{number} {word}" for number, word in parts)


def counts(records: Iterable[RunRecord]) -> Counts:
    """Count tests by outcome; a run without tests counts as one."""
    sums = dict.fromkeys(Outcome, 0)
    for test in all_results(records):
        sums[test.outcome] += 1
    return Counts(**{str(outcome): number for outcome, number in sums.items()})


def ordered(records: Iterable[RunRecord]) -> Sequence[RunRecord]:
    """Sort records for reports: red first, then by name."""
    place = {outcome: number for number, outcome in enumerate(Outcome)}
    return sorted(records, key=lambda r: (place[of_record(r)], r.name, r.sim, r.build_name, r.seed))
