# SPDX-License-Identifier: Apache-2.0
"""Causes of failures: groups of red runs with one cause, and their sub-causes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scripts.common.cause_key import SEED, key_of, normalised
from scripts.common.records import FailureKind, RunRecord
from scripts.report.outcome import RED, of_record
from verif.scoreboard.finding import APART

_PROFILE = re.compile(r"/profile=(\w+)")


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
        if of_record(record) in RED:
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
