# SPDX-License-Identifier: Apache-2.0
"""Tests of a record and their outcomes, as all writers use them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scripts.common.records import FailureKind, RunRecord
from scripts.record.cause_key import SEED, key_of, normalised
from verif.scoreboard.finding import APART

_PROFILE = re.compile(r"/profile=(\w+)")


class Outcome(StrEnum):
    """Outcome of a test. FLAKY (red, then green with the same seed) is never green."""

    FAILED = "failed"
    FLAKY = "flaky"
    PASSED = "passed"
    SKIPPED = "skipped"


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
    return Outcome(record.status)


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

    def __str__(self) -> str:
        rare = [(self.flaky, "flaky"), (self.skipped, "skipped")]
        parts = [(self.passed, "passed"), (self.failed, "failed"), *(p for p in rare if p[0])]
        return ", ".join(f"{number} {word}" for number, word in parts)


def counts(records: Iterable[RunRecord]) -> Counts:
    """Count tests by outcome; a run without tests counts as one."""
    sums = dict.fromkeys(Outcome, 0)
    for test in all_results(records):
        sums[test.outcome] += 1
    return Counts(**{str(outcome): number for outcome, number in sums.items()})


@dataclass(frozen=True)
class Bucket:
    """Red runs of one kind and cause (`cause_key.key_of`).

    Attributes:
        cause: the common cause; if the runs differ, the cause without values, else their key.
        records: at least one record.
        parts: sub-causes with their number of runs, if there are several: runs that differ clearly
            and may have different faults.
    """

    kind: str
    cause: str
    records: tuple[RunRecord, ...]
    parts: tuple[tuple[int, str], ...] = ()


def buckets(records: Sequence[RunRecord]) -> list[Bucket]:
    """Group red runs by cause, the most frequent first."""
    found: dict[tuple[FailureKind | None, str], list[RunRecord]] = {}
    for record in records:
        if of_record(record) is not Outcome.PASSED:
            kind, key = key_of(record)
            found.setdefault((kind, key.partition(APART)[0]), []).append(record)
    out = []
    for (kind, cause), group in found.items():
        for said in (
            {SEED.sub("", record.cause) for record in group},
            {normalised(record.cause) for record in group},
            {key_of(record)[1] for record in group},
            {cause},
        ):
            if len(said) == 1:
                out.append(Bucket(str(kind), said.pop(), tuple(group), _parts(group, records)))
                break
    return sorted(out, key=lambda bucket: (-len(bucket.records), bucket.kind, bucket.cause))


def _parts(group: Sequence[RunRecord], records: Iterable[RunRecord]) -> tuple[tuple[int, str], ...]:
    """Return the sub-causes of a cause: the difference and its access, and the traffic profile if
    the tests of these runs are green with all other profiles.
    """
    by_key: dict[str, list[RunRecord]] = {}
    for record in group:
        by_key.setdefault(key_of(record)[1].partition(APART)[2], []).append(record)
    out: list[tuple[int, str]] = []
    for part, red in by_key.items():
        names = {record.name for record in red}
        failed = {name for record in red for name in _profiles(record, "failed")}
        same = (record for record in records if record.name in names)
        passed = {name for record in same for name in _profiles(record, "passed")} - failed
        only = f"profile {failed.pop()} alone" if len(failed) == 1 and passed else ""
        out.append((len(red), ", ".join(filter(None, (part, only)))))
    return tuple(sorted(out, reverse=True)) if len(out) > 1 or "alone" in out[0][1] else ()


def _profiles(record: RunRecord, status: str) -> set[str]:
    """Return the traffic profiles of the tests of a run with a status."""
    found = (_PROFILE.search(case.name) for case in record.cases if case.status == status)
    return {profile[1] for profile in found if profile}


def many(number: int, word: str) -> str:
    """Return "1 hole", "2 holes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def ordered(records: Iterable[RunRecord]) -> Sequence[RunRecord]:
    """Sort records for reports: red first, then by name."""
    place = {outcome: number for number, outcome in enumerate(Outcome)}
    return sorted(records, key=lambda r: (place[of_record(r)], r.name, r.sim, r.build_name, r.seed))
