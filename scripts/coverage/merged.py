# SPDX-License-Identifier: Apache-2.0
"""Coverage of many runs as one value and one file (`.cov`): sums, and what each run reached.

Merging is a sum over runs in a fixed order, so any order of merging gives the same file, byte for
byte. Only passed runs count: a failed run measured a design, or a testbench, that does not work. A
run that is merged twice counts twice.

    file     = zip of `merged.json` (runs and functional bins), `bins.rows` and, for each key
               table, `ID.keys`, `ID.counts` (64 bits each) and `ID.rows`
    rows     = a bit for each point and run (numpy.packbits), of the runs with that table in order
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neuron_fabric import output
from neuron_fabric.data import DataError, as_object, parse_json, read_bytes
from neuron_fabric.typed import typed
from scripts.common import paths
from scripts.common.errors import NfError, why_of
from scripts.common.paths import ROOT, shown
from scripts.common.records import FIXED_SEED, RunRecord
from scripts.coverage import run_counts
from verif.coverage.cover_model import FUNCTIONAL

SUFFIX = ".cov"
_FORMAT, _VERSION = "nf merged coverage", 1
_MAX_FILE, _MAX_WHOLE = 1 << 30, 1 << 33  # bytes of a file, and of its members: see `_read`
# What zipfile and the readers of its members raise for damaged files; NotImplementedError (a
# version or compression that is none) and "encrypted" are RuntimeErrors.
_DAMAGED = (
    *(DataError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError),
    *(KeyError, IndexError, ValueError, TypeError, OverflowError),
)
_WHEN = (1980, 1, 1, 0, 0, 0)  # of every member: equal content is an equal file
Counts = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]
Bin = tuple[str, str]  # point, bin


@dataclass(frozen=True, order=True)
class RunFacts:
    """Identity and cost of a merged run.

    `table` is the id of the key table of its code coverage, "" if it measured none (see
    `run_counts`).
    """

    name: str
    sim: str
    build: str
    seed: int
    seconds: float
    cycles: int
    table: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.sim} {self.build} seed {self.seed}"


@dataclass(frozen=True)
class Code:
    """Code coverage of the runs that share a key table, which lists the points of one build.

    Attributes:
        keys: Verilator's keys of the points, one a line.
        counts: Hits by point, summed over the runs.
        rows: Packed bits of the points that a run reached, one row for each run.
    """

    keys: bytes
    counts: Counts
    rows: Bits


@dataclass(frozen=True)
class Merged:
    """Functional and code coverage of many runs.

    Attributes:
        runs: The runs, in canonical order.
        bins: Functional bins.
        hits: Hits by bin, summed over the runs.
        bin_rows: Packed bits of the bins that a run hit, one row for each run.
        code: Code coverage by key table.
    """

    runs: tuple[RunFacts, ...] = ()
    bins: tuple[Bin, ...] = ()
    hits: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    bin_rows: Bits = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    code: Mapping[str, Code] = field(default_factory=dict)

    def functional(self) -> dict[str, dict[str, int]]:
        """Return the hits by coverage point and bin, in the form of `RunRecord.metrics`."""
        out: dict[str, dict[str, int]] = {}
        for (point, name), hits in zip(self.bins, self.hits.tolist(), strict=True):
            out.setdefault(point, {})[name] = hits
        return out

    def each_run(self) -> Iterator[tuple[RunFacts, Bits, npt.NDArray[np.bool_]]]:
        """Yield each run with the bits of its functional bins, and whether it reached each point
        of its key table (no element without code coverage)."""
        rows = {table: iter(code.rows) for table, code in self.code.items()}
        for run, bins in zip(self.runs, self.bin_rows, strict=True):
            row = next(rows[run.table]) if run.table else np.zeros(0, np.uint8)
            points = len(self.code[run.table].counts) if run.table else 0
            hit = np.unpackbits(row, count=points).astype(bool)
            yield run, np.unpackbits(bins, count=len(self.bins)), hit

    def fixed(self) -> frozenset[Bin] | None:
        """Return the bins that runs with `FIXED_SEED` hit; None if there is no such run."""
        rows = self.bin_rows[[run.seed == FIXED_SEED for run in self.runs]]
        if not len(rows):
            return None
        hit = np.unpackbits(np.bitwise_or.reduce(rows, axis=0), count=len(self.bins))
        return frozenset(name for name, one in zip(self.bins, hit, strict=True) if one)


@dataclass
class _Run:
    facts: RunFacts
    bins: npt.NDArray[np.intp]  # numbers in Merger.index
    row: bytes  # packed bits of its table


class Merger:
    """Collector of runs and of merged coverage, added in any order."""

    def __init__(self) -> None:
        self._index: dict[Bin, int] = {}
        self._hits: list[int] = []
        self._runs: list[_Run] = []
        self._keys: dict[str, bytes] = {}
        self._counts: dict[str, Counts] = {}

    def record(self, record: RunRecord, whole: bool = False) -> bool:
        """Add a run.

        Args:
            record: The run; only passed runs count.
            whole: Treat missing or damaged counts of code coverage as an error.

        Returns:
            False for a run that was not added: it failed or measured no coverage.

        Raises:
            NfError: Its coverage is damaged, or its key table is missing.
        """
        if not record.passed:
            return False
        found = _code_of(record, whole)
        functional = hits_of(record)
        if found is None and not functional:
            return False
        if found is None:
            self._run(record, functional, "", b"")
            return True
        table, counts = found.table, found.counts.astype(np.int64)
        if table not in self._keys:
            near = (ROOT / str(record.coverage)).parent
            self._table(table, run_counts.read_table(table, near), np.zeros(len(counts), np.int64))
        if len(self._counts[table]) != len(counts):
            raise NfError(f"{record.coverage} does not fit its key table: run with --cov again.")
        self._counts[table] += counts
        self._run(record, functional, table, np.packbits(counts > 0).tobytes())
        return True

    def _table(self, table: str, keys: bytes, counts: Counts) -> None:
        if keys.count(b"\n") + 1 != len(counts):
            raise NfError(f"the key table {table} does not fit the counts: run with --cov again.")
        if table in self._counts:
            self._counts[table] = self._counts[table] + counts
        else:
            self._keys[table], self._counts[table] = keys, counts.copy()

    def _run(
        self, record: RunRecord, hits: Mapping[str, Mapping[str, int]], table: str, row: bytes
    ) -> None:
        place = (record.name, str(record.sim), record.build_name)
        facts = RunFacts(*place, record.seed, record.seconds, record.cycles or 0, table)
        found = [
            self._bin((point, name), times)
            for point, bins in hits.items()
            for name, times in bins.items()
            if times
        ]
        self._runs.append(_Run(facts, np.array(found, np.intp), row))

    def _bin(self, name: Bin, times: int) -> int:
        number = self._index.setdefault(name, len(self._index))
        if number == len(self._hits):
            self._hits.append(0)
        self._hits[number] += times
        return number

    def merged(self, other: Merged) -> None:
        """Add all runs of an earlier merge."""
        numbers = np.array(
            [self._bin(b, n) for b, n in zip(other.bins, other.hits.tolist(), strict=True)], np.intp
        )
        for table, code in other.code.items():
            self._table(table, code.keys, code.counts)
        rows = {table: iter(code.rows) for table, code in other.code.items()}
        for facts, bits in zip(other.runs, other.bin_rows, strict=True):
            hit = np.unpackbits(bits, count=len(numbers)).astype(bool)
            row = next(rows[facts.table]).tobytes() if facts.table else b""
            self._runs.append(_Run(facts, numbers[hit], row))

    def result(self) -> Merged:
        """Return the coverage of everything that was added, in canonical order."""
        bins = sorted(self._index)
        place = np.empty(len(bins), np.intp)
        for number, name in enumerate(bins):
            place[self._index[name]] = number
        hits = np.zeros(len(bins), np.int64)
        hits[place] = self._hits
        rows = []
        for run in self._runs:
            bits = np.zeros(len(bins), np.uint8)
            bits[place[run.bins]] = 1
            rows.append((run.facts, np.packbits(bits).tobytes(), run.row))
        rows.sort()
        code = {
            table: Code(
                self._keys[table],
                self._counts[table],
                _matrix([row for facts, _, row in rows if facts.table == table], len(counts)),
            )
            for table, counts in sorted(self._counts.items())
        }
        return Merged(
            tuple(facts for facts, _, _ in rows),
            tuple(bins),
            hits,
            _matrix([row for _, row, _ in rows], len(bins)),
            code,
        )


def _matrix(rows: Sequence[bytes], points: int) -> Bits:
    width = (points + 7) // 8
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)


def _code_of(record: RunRecord, whole: bool) -> run_counts.RunCounts | None:
    """Return the code coverage counts of a run.

    None when it has none, or their file is missing (`nf clean`, or a run on another machine) or
    damaged; with `whole` the latter raise NfError.
    """
    if not record.coverage:
        return None
    path = ROOT / record.coverage
    try:
        return run_counts.read(path)
    except (OSError, DataError) as error:
        if not whole:
            return None
        why = why_of(error)
        raise NfError(f"{shown(path)}: no code coverage of {record.name} ({why}).") from error


def hits_of(record: RunRecord) -> dict[str, dict[str, int]]:
    """Return the functional coverage of a run, hits by point and bin; {} if it measured none.

    Raises:
        NfError: The data in the record are damaged.
    """
    try:
        return typed(dict[str, dict[str, int]], record.metrics.get(FUNCTIONAL, {}), FUNCTIONAL)
    except DataError as error:
        raise NfError(f"the coverage of {record.name} is damaged ({error}).") from error


def merge(records: Iterable[RunRecord], others: Iterable[Merged] = ()) -> Merged:
    """Return the merged coverage of runs and of earlier merges."""
    merger = Merger()
    for record in records:
        merger.record(record)
    for other in others:
        merger.merged(other)
    return merger.result()


def of_command(number: int) -> Path:
    """Return the path where `nf run --cov` writes the merged coverage of a command.

    ``number`` is that of the command in the history.
    """
    return paths.BUILD / "coverage" / f"command-{number}{SUFFIX}"


def write(merged: Merged, path: Path) -> None:
    """Write merged coverage to a `.cov` file, atomically; raise OSError if that fails."""
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "runs": [list(astuple(run)) for run in merged.runs],
        "bins": [
            [*name, hits] for name, hits in zip(merged.bins, merged.hits.tolist(), strict=True)
        ],
    }
    members = {"merged.json": json.dumps(head).encode(), "bins.rows": merged.bin_rows.tobytes()}
    for table, code in merged.code.items():
        members[f"{table}.keys"] = code.keys
        members[f"{table}.counts"] = code.counts.astype("<i8").tobytes()
        members[f"{table}.rows"] = code.rows.tobytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data, zipfile.ZIP_DEFLATED)
    path.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(path, buffer.getvalue())


def read(path: Path) -> Merged:
    """Read a `.cov` file; NfError in one line if it cannot be read or is damaged."""
    try:
        return _read(read_bytes(path, _MAX_FILE))
    except OSError as error:
        raise NfError(f"cannot read {shown(path)}: {error.strerror}.") from error
    except _DAMAGED as error:
        raise NfError(f"{shown(path)} is no merged coverage, or damaged ({error}).") from error


def _read(data: bytes) -> Merged:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        # A night's has 40 MB and members of 1.3 GB: 36 builds, each with the names of its points.
        if sum(member.file_size for member in archive.infolist()) > _MAX_WHOLE:
            raise DataError("too large")
        members = {name: archive.read(name) for name in archive.namelist()}
    head = as_object(parse_json(members["merged.json"]))
    if (head.get("format"), head.get("version")) != (_FORMAT, _VERSION):
        raise DataError(f"of version {head.get('version')!r}, this nf reads {_VERSION}")
    runs = tuple(
        RunFacts(*row)
        for row in typed(list[tuple[str, str, str, int, float, int, str]], head.get("runs"), "runs")
    )
    rows = typed(list[tuple[str, str, int]], head.get("bins"), "bins")
    code = {}
    for table in sorted({run.table for run in runs if run.table}):
        counts = np.frombuffer(members[f"{table}.counts"], "<i8").astype(np.int64)
        number = sum(run.table == table for run in runs)
        packed = np.frombuffer(members[f"{table}.rows"], np.uint8).reshape(number, -1)
        if packed.shape[1] != (len(counts) + 7) // 8:
            raise DataError(f"the rows of {table} do not fit")
        code[table] = Code(members[f"{table}.keys"], counts, packed)
    width = (len(rows) + 7) // 8
    return Merged(
        runs,
        tuple((point, name) for point, name, _ in rows),
        np.array([hits for _, _, hits in rows], np.int64),
        np.frombuffer(members["bins.rows"], np.uint8).reshape(len(runs), width),
        code,
    )
