# SPDX-License-Identifier: Apache-2.0
"""History of all runs in one SQLite file.

It serves `--failed`, `--seed repeat`, `nf rerun` and `nf history`. A record is committed when its
run ends, so that a crash loses no finished run. A run goes on without the history if it cannot be
written. Three tables: an invocation is one command, a run is one process of it, a result is one
test in a run.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any

from neuron_fabric.data import DataError, encodable
from neuron_fabric.errors import say
from neuron_fabric.printable import one_line
from neuron_fabric.typed import typed
from scripts.common import data, paths
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.records import RunRecord, RunSpec
from scripts.common.secret_values import masked_spec

# What a row of the history stands for, checked: SQLite takes any value in any column.

COLUMNS = "r.id, r.invocation, r.finished, r.result, r.fingerprint, r.spec, r.record"


@dataclass(frozen=True)
class RecordedCommand:
    """One `nf` command in the history, with its runs counted by result.

    `started` and `finished` are Unix times. `finished` and `facts` are None if it was killed before
    its end; `facts` is the summary of its report. `expected` is the number of runs that it planned.
    """

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
    """One run in the history; `id` is the number that `nf rerun` takes.

    `invocation` is the number of its command, `finished` a Unix time, `result` "passed", "failed"
    or "flaky".
    """

    id: int
    invocation: int
    finished: float
    result: str
    fingerprint: str
    spec: RunSpec
    record: RunRecord


@contextmanager
def _intact(what: str) -> Iterator[None]:
    """Context that turns a value of another type into an NfError with the remedy."""
    try:
        yield
    except DataError as error:
        remedy = f"move {shown(paths.HISTORY)} away to start a new one"
        raise NfError(f"{what} ({error}): {remedy}.") from error


def invocation_of(row: tuple[Any, ...]) -> RecordedCommand:
    """Convert a row of the database to a command; NfError if it is damaged."""
    values = dict(zip((field.name for field in fields(RecordedCommand)), row, strict=True))
    with _intact(f"command {row[0]} of the history is damaged"):
        values["facts"] = data.from_text(values["facts"] or "null", dict[str, Any] | None)
        found = typed(RecordedCommand, values)
        _check_moments(found.started, found.finished)
    return found


def run_of(row: tuple[Any, ...]) -> Run:
    """Convert a row of the columns `COLUMNS` to a run.

    Raises:
        NfError: The row is damaged or was written by another version of `nf`.
    """
    *facts, spec, record = row
    with _intact(f"run {row[0]} of the history was written by another nf"):
        of = RunSpec.from_json(data.from_text(spec, dict[str, Any]))
        came = RunRecord.from_json(data.from_text(record, dict[str, Any]))
        plain = typed(tuple[int, int, float, str, str], facts)
        _check_moments(plain[2])
    return Run(*plain, of, came)


def _check_moments(*moments: float | None) -> None:
    if any(one is not None and not 0 <= one < 1 << 37 for one in moments):
        raise DataError("a time that is no date")


SCHEMA = 1
_BUSY_S = 20.0  # two commands may write at the same time
_TABLES = Path(__file__).with_name("history.sql")
# A test on a simulator and a build: what durations and seeds are remembered for.
Key = tuple[str, str, str]


def keys_of(spec: RunSpec) -> list[Key]:
    """Return the key (test id, simulator, build name) of each test of a run.

    Parameter values (`test/n=1`) are dropped, so that all cases of a test have one key.
    """
    names = dict.fromkeys(test.partition("/")[0] for test in spec.tests)
    place = (str(spec.build.sim), spec.build_name)
    return [(f"{spec.short_module}::{name}", *place) for name in names]


class History:
    """The open database of runs; close it, or use it in `with`.

    With `write` False a missing file is an error, else it is created. Every fault of the file is an
    NfError in one line.
    """

    def __init__(self, path: Path | None = None, *, write: bool = True) -> None:
        self.path = path or paths.HISTORY
        if not write and not self.path.is_file():
            raise NfError("there is no history yet: `nf run` writes it.")
        with self._clear():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        # A killed process loses nothing; only a power cut may take the last records along.
        self._db.execute("PRAGMA synchronous = NORMAL")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._create()
        elif version != SCHEMA:
            raise NfError(
                f"{shown(self.path)} is of schema {version}, this nf reads {SCHEMA}: "
                "move it away to start a new history."
            )

    def _create(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        with self._transaction():  # another command may have been faster
            if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in _TABLES.read_text(encoding="utf-8").split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _clear(self) -> Iterator[None]:
        """Context that turns errors of SQLite and of the disk into an NfError with the remedy."""
        name = shown(self.path)
        try:
            yield
        except sqlite3.OperationalError as error:
            raise NfError(f"the history {name} cannot be used: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise NfError(
                f"the history {name} is damaged ({error}): move it away to start a new one."
            ) from error
        except OSError as error:
            raise NfError(f"the history {name} cannot be used: {error.strerror}.") from error
        except OverflowError as error:  # SQLite's integers have 64 bits
            raise NfError(f"the history {name} holds no number as large as that.") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _rows(
        self, query: str, values: Sequence[Any] = (), types: Sequence[type | UnionType] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Args:
            query: SQL with placeholders.
            values: Values of the placeholders.
            types: Expected type of each column, checked since SQLite takes any value in any column;
                empty for no check.

        Raises:
            NfError: The database is damaged, or a value has another type.
        """
        with self._clear():
            rows: list[tuple[Any, ...]] = self._db.execute(query, values).fetchall()
        for row in rows:
            for value, kind in zip(row, types, strict=bool(types)):
                if not isinstance(value, kind):
                    raise NfError(
                        f"the history {shown(self.path)} is damaged ({one_line(value, 60)} where "
                        "another type belongs): move it away to start a new one."
                    )
        return rows

    # ---- writing

    def begin(self, title: str, expected: int, command: str = "", revision: str = "") -> int:
        """Record the start of a command, and return its number in the history.

        Args:
            title: Kind of the command, by which `Recorder.before` finds earlier ones.
            expected: Number of runs that it plans.
            command: Command line.
            revision: Git revision.
        """
        with self._clear():
            done = self._db.execute(
                "INSERT INTO invocation(started, title, command, revision, expected)"
                " VALUES(?, ?, ?, ?, ?)",
                (time.time(), *map(encodable, (title, command, revision)), expected),
            )
        return int(done.lastrowid or 0)

    def add(self, invocation: int, spec: RunSpec, record: RunRecord, fingerprint: str = "") -> int:
        """Record a finished run, with secret values masked, and return its number in the history.

        Args:
            invocation: Number of its command.
            spec: The run.
            record: Its result.
            fingerprint: `Dependencies.fingerprint` of the files that it used; "" for unknown.
        """
        place = (record.sim, record.build_name, record.seed)
        with self._clear(), self._transaction():
            done = self._db.execute(
                f"INSERT INTO run VALUES(NULL{', ?' * 15})",
                (
                    *(
                        invocation,
                        encodable(record.id),
                        time.time(),
                        encodable(record.name),
                        *place,
                    ),
                    *(record.status, str(record.kind or ""), encodable(record.cause)),
                    *(record.seconds, record.build_seconds, fingerprint),
                    *(json.dumps(masked_spec(spec).to_json()), json.dumps(record.to_json())),
                ),
            )
            run = int(done.lastrowid or 0)
            self._db.executemany(
                "INSERT INTO result VALUES(?, ?, ?, ?, ?, ?, ?)",
                [(run, encodable(test), *place, *came) for test, *came in _results(spec, record)],
            )
        return run

    def finish(self, invocation: int, facts: Mapping[str, Any] | None = None) -> None:
        """Record the end of a command; `facts` (JSON values) are stored unchanged."""
        with self._clear():
            self._db.execute(
                "UPDATE invocation SET finished = ?, facts = ? WHERE id = ?",
                (time.time(), json.dumps(encodable(facts)), invocation),
            )

    # ---- reading

    def invocations(self, limit: int = 20, title: str | None = None) -> list[RecordedCommand]:
        """Return the latest `limit` commands, of the given title or of all, newest first."""
        rows = self._rows(
            "SELECT i.id, started, i.finished, title, command, revision, expected, facts,"
            " COUNT(r.id) FILTER (WHERE result = 'passed'),"
            " COUNT(r.id) FILTER (WHERE result = 'failed'),"
            " COUNT(r.id) FILTER (WHERE result = 'flaky')"
            " FROM invocation i LEFT JOIN run r ON r.invocation = i.id WHERE title = ? OR ? IS NULL"
            " GROUP BY i.id ORDER BY i.id DESC LIMIT ?",
            (title, title, limit),
        )
        return [invocation_of(row) for row in rows]

    def runs(
        self,
        *,
        globs: Sequence[str] = (),
        sim: str | None = None,
        result: str | None = None,
        invocation: int | None = None,
        limit: int = -1,
    ) -> list[Run]:
        """Return the runs that match every given filter, newest first.

        Args:
            globs: Globs of tests; a run matches with any of its tests.
            sim: Name of the simulator.
            result: "passed", "failed" or "flaky".
            invocation: Number of the command.
            limit: Largest number of runs; -1 for all.
        """
        where, values = ["1"], []
        for column, value in (("sim", sim), ("result", result), ("invocation", invocation)):
            if value is not None:
                where.append(f"r.{column} = ?")
                values.append(value)
        if globs:
            hit, patterns = _tests("t.test", globs)
            where.append(f"EXISTS (SELECT 1 FROM result t WHERE t.run = r.id AND {hit})")
            values += patterns
        query = (
            f"SELECT {COLUMNS} FROM run r WHERE {' AND '.join(where)} ORDER BY r.id DESC LIMIT ?"
        )
        return [run_of(row) for row in self._rows(query, [*values, limit])]

    def run(self, id: int) -> Run:
        """Return the run with that number in the history; NfError if there is none."""
        return self._last("r.id", id, "`nf history '*'` shows their numbers")

    def find(self, name: str) -> Run:
        """Return the run with a number (`run`) or an id (`latest`), as the user writes it."""
        number = name.isdecimal() and len(name) <= 18  # SQLite counts to 2^63
        return self.run(int(name)) if number else self.latest(name)

    def latest(self, record_id: str) -> Run:
        """Return the newest run with that `RunSpec.id` (`test_modes.g_binary-icarus-default-s1`).

        Raises:
            NfError: There is none.
        """
        return self._last("record_id", record_id, "`nf history '*'`")

    def _last(self, column: str, value: int | str, hint: str) -> Run:
        """Return the newest run with a value in a column; NfError with `hint` if there is none."""
        query = f"SELECT {COLUMNS} FROM run r WHERE {column} = ? ORDER BY r.id DESC LIMIT 1"
        rows = self._rows(query, (value,))
        if not rows:
            raise NfError(f"the history holds no run {value!r} ({hint}).")
        return run_of(rows[0])

    def red(self) -> list[tuple[str, Run]]:
        """Return the tests whose last run did not pass, newest first, each with that run.

        A test counts separately for each simulator, build and seed.
        """
        rows = self._rows(
            "SELECT test, run FROM (SELECT *, ROW_NUMBER() OVER"
            " (PARTITION BY test, sim, build, seed ORDER BY run DESC) AS age FROM result)"
            " WHERE age = 1 AND result != 'passed' ORDER BY run DESC",
            types=(str, int),
        )
        return [(test, self.run(run)) for test, run in rows]

    def durations(self) -> dict[Key, float]:
        """Return the mean seconds of the last five runs of each test, by (test, sim, build)."""
        rows = self._rows(
            "SELECT test, sim, build, AVG(seconds) FROM (SELECT *, ROW_NUMBER() OVER"
            " (PARTITION BY test, sim, build ORDER BY run DESC) AS age FROM result)"
            " WHERE age <= 5 GROUP BY test, sim, build",
            types=(str, str, str, float | int),
        )
        return {(test, sim, build): seconds for test, sim, build, seconds in rows}

    def series(
        self, *, globs: Sequence[str] = (), sim: str | None = None
    ) -> dict[Key, list[float]]:
        """Return the seconds of all passed runs, oldest first, by (test, simulator, build).

        Args:
            globs: Globs of tests; all if empty.
            sim: Name of the simulator; None for all.
        """
        where, values = _tests("test", globs)
        rows = self._rows(
            f"SELECT test, sim, build, seconds FROM result WHERE result = 'passed' AND {where}"
            f"{' AND sim = ?' if sim else ''} ORDER BY run",
            [*values, *([sim] if sim else [])],
            types=(str, str, str, float | int),
        )
        out = defaultdict(list)
        for test, on, build, seconds in rows:
            out[test, on, build].append(seconds)
        return out

    def last_seeds(self) -> dict[Key, tuple[int, ...]]:
        """Return the seeds of the last command that ran a test, by (test, simulator, build)."""
        rows = self._rows(
            "SELECT DISTINCT test, sim, build, seed FROM (SELECT t.*, RANK() OVER"
            " (PARTITION BY t.test, t.sim, t.build ORDER BY r.invocation DESC) AS age"
            " FROM result t JOIN run r ON r.id = t.run) WHERE age = 1 ORDER BY seed",
            types=(str, str, str, int),
        )
        out: dict[Key, tuple[int, ...]] = {}
        for test, sim, build, seed in rows:
            out[test, sim, build] = (*out.get((test, sim, build), ()), seed)
        return out

    def largest_seed(self) -> int:
        """Return the largest seed that was ever used; 0 when there is none."""
        return int(self._rows("SELECT COALESCE(MAX(seed), 0) FROM run", types=(int,))[0][0])

    def green(self) -> set[tuple[Key, str]]:
        """Return all (key, fingerprint) with which a test has passed.

        The key is (test, simulator, build); the fingerprint is a hash of the files that the run
        used.
        """
        rows = self._rows(
            "SELECT DISTINCT t.test, t.sim, t.build, r.fingerprint"
            " FROM result t JOIN run r ON r.id = t.run"
            " WHERE t.result = 'passed' AND r.fingerprint != ''",
            types=(str, str, str, str),
        )
        return {((test, sim, build), text) for test, sim, build, text in rows}


def _tests(column: str, globs: Sequence[str]) -> tuple[str, list[str]]:
    """Return an SQL condition for the tests that match any of the globs, and its values.

    As in `nf run`, a glob without `::` may name a module or a test.
    """
    fits = [[glob] if "::" in glob else [f"{glob}::*", f"*::{glob}"] for glob in globs]
    patterns = [pattern for some in fits for pattern in some]
    return f"({' OR '.join(f'{column} GLOB ?' for _ in patterns) or '1'})", patterns


def _results(spec: RunSpec, record: RunRecord) -> Iterator[tuple[str, str, float]]:
    """Yield (test, result, seconds) for each test of a run; skipped tests are left out.

    A test that a crash prevented from ending counts as failed, or flaky in a flaky run.
    """
    module = spec.short_module
    cases: dict[str, list[tuple[str, float]]] = {
        name.partition("/")[0]: [] for name in spec.tests if record.cases or not record.passed
    }
    for case in record.cases:
        cases.setdefault(case.name.partition("/")[0], []).append((case.status, case.seconds))
    bad = "flaky" if record.flaky else "failed"
    alone = len(cases) == 1  # then start-up and tear-down belong to this test as well
    for name, found in cases.items():
        states = {status for status, _ in found}
        if "failed" in states or not found or (alone and not record.passed):
            result = bad
        elif "passed" in states:
            result = "passed"
        else:
            continue  # skipped
        seconds = record.seconds if alone else sum(seconds for _, seconds in found)
        yield f"{module}::{name}", result, seconds


# Writes the runs of one command into the history. When the history cannot be written, the command
# goes on without it: a line says so, and no run is lost.


_BEFORE = 30  # commands that a report looks back on


class Recorder:
    """Writer of the runs of one command into the history.

    A history that cannot be written costs one line on stderr, and no run.
    """

    def __init__(
        self,
        title: str,
        specs: Iterable[RunSpec],
        command: str = "",
        revision: str = "",
        fingerprints: Mapping[str, str] | None = None,
    ) -> None:
        self.specs = {spec.id: spec for spec in specs}
        self.fingerprints = fingerprints or {}
        self.ids: dict[str, int] = {}  # run's number in the history, by record id
        self._history: History | None = None
        self._invocation = 0
        self._title = title
        with self._going_on():
            self._history = History()
            self._invocation = self._history.begin(title, len(self.specs), command, revision)

    @property
    def number(self) -> int:
        """Number of the command in the history; 0 if that cannot be written."""
        return self._invocation if self._history is not None else 0

    def add(self, record: RunRecord) -> None:
        """Record a finished run of this command; ignore a run that is not one of its specs."""
        spec = self.specs.get(record.id)
        if self._history is None or spec is None:
            return
        fingerprint = self.fingerprints.get(record.id, "")
        with self._going_on():
            self.ids[record.id] = self._history.add(self._invocation, spec, record, fingerprint)

    def before(self) -> list[dict[str, Any]] | None:
        """Return the facts of the last 30 commands of the same title, oldest first.

        None without a history. Commands without facts are left out.
        """
        if self._history is not None:
            with self._going_on():
                found = self._history.invocations(_BEFORE, self._title)
                return [one.facts for one in reversed(found) if one.facts]
        return None

    def close(self, facts: Mapping[str, Any] | None = None) -> None:
        """Record the end of the command; `facts` are what `before` of a later command returns."""
        if self._history is not None:
            with self._going_on():
                self._history.finish(self._invocation, facts)
                self._history.close()

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Context that reports an NfError of the history on stderr, and then ends the recording."""
        try:
            yield
        except NfError as error:
            say(f"nf: {error} This run is not recorded there.", file=sys.stderr, flush=True)
            if self._history is not None:
                self._history.close()
            self._history = None
