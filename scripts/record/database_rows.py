# SPDX-License-Identifier: Apache-2.0
"""What a row of the history stands for, checked: SQLite takes any value in any column."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.common import data, paths
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.records import RunRecord, RunSpec

COLUMNS = "r.id, r.invocation, r.finished, r.result, r.fingerprint, r.spec, r.record"


@dataclass(frozen=True)
class Invocation:
    """One command, with its runs counted. `finished` is None, and `facts` too, when it was killed
    before its end; `facts` is what its report said of it."""

    id: int
    started: float
    finished: float | None
    title: str
    command: str
    revision: str
    expected: int
    facts: dict[str, Any] | None
    passed: int
    failed: int
    flaky: int


@dataclass(frozen=True)
class Run:
    """One recorded run; `id` is what `nf rerun` takes."""

    id: int
    invocation: int
    finished: float
    result: str
    fingerprint: str
    spec: RunSpec
    record: RunRecord


def invocation_of(row: tuple[Any, ...]) -> Invocation:
    """A command, from its fields in order; NfError names the command that is damaged."""
    values = dict(zip((field.name for field in fields(Invocation)), row, strict=True))
    try:
        values["facts"] = data.from_text(values["facts"] or "null", dict[str, Any] | None)
        found = typed(Invocation, values)
        _check_moments(found.started, found.finished)
        return found
    except DataError as error:
        raise NfError(
            f"command {row[0]} of the history is damaged ({error}): "
            f"move {shown(paths.HISTORY)} away to start a new one."
        ) from error


def run_of(row: tuple[Any, ...]) -> Run:
    """A run, from `COLUMNS`; NfError names the run that is damaged, or of another version."""
    *facts, spec, record = row
    try:
        of = RunSpec.from_json(data.from_text(spec, dict[str, Any]))
        came = RunRecord.from_json(data.from_text(record, dict[str, Any]))
        plain = typed(tuple[int, int, float, str, str], facts)
        _check_moments(plain[2])
    except DataError as error:
        raise NfError(
            f"run {row[0]} of the history was written by another nf ({error}): "
            f"move {shown(paths.HISTORY)} away to start a new one."
        ) from error
    return Run(*plain, of, came)


def _check_moments(*moments: float | None) -> None:
    if any(one is not None and not 0 <= one < 1 << 37 for one in moments):
        raise DataError("a time that is no date")
