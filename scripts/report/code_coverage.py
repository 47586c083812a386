# SPDX-License-Identifier: Apache-2.0
"""Code coverage that Verilator counted: its files merged, lines and branches by source file.

A `coverage.dat` is text, one point a line: `C 'KEY' COUNT`, where KEY is made of a 0x01, a short
name, a 0x02 and a value, over and over. Names used here: f file, t type (line, branch, user),
l and n line and column, o comment, S the source lines of the block ("70-74,80"), h instance.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from neuron_fabric.data import DataError, read_bytes
from scripts.common.paths import ROOT, shown
from scripts.common.records import RunRecord
from scripts.report.outcome import many

_POINT = re.compile(r"^C '(.*)' (\d{1,20})$", re.ASCII)
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)
_MAX_FILE = 1 << 30  # bytes; those of the whole design have some 10 MB
_MAX_LINES = 100_000  # of a source file: a range beyond is damage


@dataclass(frozen=True)
class FileCoverage:
    """One source file. `missed` are ranges of lines that no run reached ("70-74")."""

    file: str
    lines: int
    lines_hit: int
    branches: int
    branches_hit: int
    missed: tuple[str, ...]


@dataclass(frozen=True)
class CodeCoverage:
    """All files, over `runs` runs; sums over all of them."""

    runs: int
    files: tuple[FileCoverage, ...]

    @property
    def lines(self) -> int:
        return sum(f.lines for f in self.files)

    @property
    def lines_hit(self) -> int:
        return sum(f.lines_hit for f in self.files)

    @property
    def branches(self) -> int:
        return sum(f.branches for f in self.files)

    @property
    def branches_hit(self) -> int:
        return sum(f.branches_hit for f in self.files)


def merge(records: Iterable[RunRecord]) -> CodeCoverage | None:
    """Counts of the green runs, summed by key; None when no run has any that can be read."""
    counts: Counter[str] = Counter()
    runs = 0
    for record in records:
        if record.coverage and record.passed:
            runs += _add(ROOT / record.coverage, counts)
    return CodeCoverage(runs, tuple(_files(counts))) if runs else None


def _add(path: Path, counts: Counter[str]) -> bool:
    try:
        text = read_bytes(path, _MAX_FILE).decode(errors="replace")
    except (OSError, DataError):
        return False  # `nf clean`, or a run on another machine
    for line in text.splitlines():
        found = _POINT.match(line)
        if found:
            counts[found[1]] += int(found[2])
    return True


def _files(counts: Counter[str]) -> Iterable[FileCoverage]:
    """One entry a file; what several instances and parameter sets count is added up."""
    lines: dict[str, Counter[int]] = defaultdict(Counter)
    branches: dict[str, Counter[tuple[str, str, str]]] = defaultdict(Counter)
    for key, count in counts.items():
        fields = dict(part.split("\x02", 1) for part in key.split("\x01") if "\x02" in part)
        kind, file = fields.get("t", ""), fields.get("f", "")
        if kind not in ("line", "branch"):
            continue
        for number in _numbers(fields.get("S", fields.get("l", ""))):
            lines[file][number] += count
        if kind == "branch":
            branches[file][fields.get("l", ""), fields.get("n", ""), fields.get("o", "")] += count
    for file, of_lines in sorted(lines.items()):
        of_branches = branches[file]
        missed = sorted(number for number, count in of_lines.items() if not count)
        yield FileCoverage(
            file=shown(Path(file)),
            lines=len(of_lines),
            lines_hit=len(of_lines) - len(missed),
            branches=len(of_branches),
            branches_hit=sum(count > 0 for count in of_branches.values()),
            missed=tuple(_ranges(missed)),
        )


def _numbers(text: str) -> Iterable[int]:
    """ "70-74,80" as 70, 71, 72, 73, 74, 80."""
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found:
            first, last = int(found[1]), int(found[2] or found[1])
            yield from range(first, min(last, _MAX_LINES) + 1)


def _ranges(numbers: list[int]) -> Iterable[str]:
    """The inverse of `_numbers`, a text a range."""
    for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0]):
        (_, first), *more = run
        yield f"{first}-{more[-1][1]}" if more else str(first)


def lines(found: CodeCoverage | None) -> list[str]:
    """The total, for the terminal."""
    if found is None:
        return []
    return [
        f"code coverage: {found.lines_hit} of {found.lines} lines, "
        f"{found.branches_hit} of {found.branches} branches, over {many(found.runs, 'run')}"
    ]
