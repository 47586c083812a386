# SPDX-License-Identifier: Apache-2.0
"""Code coverage of merged runs by place in the source.

It computes counts, waivers, figures by file, holes (points that no run reached), goals and lcov
output.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scripts.build.filelist import no_design
from scripts.common.terminal import TextTable
from scripts.coverage.code_waivers import CodeWaiver, judge, source_lines
from scripts.coverage.merged import Merged
from scripts.coverage.places import (
    BRANCH,
    EXPR,
    KINDS,
    LINE,
    TOGGLE,
    Place,
    numbers,
    points,
    ranges,
)

_WHOLE = "default"  # the build that has every line of the design


@dataclass(frozen=True)
class Share:
    """Numbers of coverage points of one kind.

    Attributes:
        total: Points that are not waived.
        hit: Those of them that a run reached.
        waived: Waived points.
    """

    total: int = 0
    hit: int = 0
    waived: int = 0

    @property
    def percent(self) -> float:
        return 100 * self.hit / self.total if self.total else 100.0

    def __add__(self, other: Share) -> Share:
        return Share(self.total + other.total, self.hit + other.hit, self.waived + other.waived)


@dataclass(frozen=True)
class Hole:
    """Coverage points that no run reached, folded: all bits of a signal on a line are one hole.

    Attributes:
        file: Source file.
        line: Its line.
        kind: "line", "branch", "expr" or "toggle".
        what: Name of the point; for toggles the bits and edges.
        points: Number of points.
    """

    file: str
    line: int
    kind: str
    what: str
    points: int


@dataclass(frozen=True)
class FileCoverage:
    """Code coverage of one source file by kind of point.

    `missed` are ranges of lines that no run reached ("70-74").
    """

    file: str
    line: Share
    branch: Share
    expr: Share
    toggle: Share
    missed: tuple[str, ...]


@dataclass(frozen=True)
class CodeCoverage:
    """Code coverage of all files over `runs` runs.

    `unneeded` has a text for each waiver that matches nothing or a point that was reached.
    """

    runs: int
    files: tuple[FileCoverage, ...]
    holes: tuple[Hole, ...] = ()
    unneeded: tuple[str, ...] = ()

    def share(self, kind: str) -> Share:
        """Return the sum over all files of one kind ("line", "branch", "expr" or "toggle")."""
        return sum((getattr(file, kind) for file in self.files), Share())


@dataclass(frozen=True)
class Counted:
    """Hits of coverage points by place over `runs` runs, with the applied waivers.

    A line is a Place without column and name.
    """

    runs: int
    counts: Mapping[Place, int]
    waived: Mapping[Place, CodeWaiver]
    unneeded: tuple[str, ...]

    def wanted(self, place: Place) -> bool:
        return place not in self.waived


def line_place(file: str, line: int) -> Place:
    """Return the Place that stands for a whole source line: a hit of any of its blocks counts."""
    return Place(file, line, 0, LINE, "")


def count(merged: Merged, waivers: Iterable[CodeWaiver] = ()) -> Counted | None:
    """Sum the hits of merged runs by place over all builds, and apply the waivers.

    Lines that describe no hardware (`no_design`) are left out.

    Returns:
        None when no run measured code coverage.
    """
    counts: Counter[Place] = Counter()
    for code in merged.code.values():
        for point, hits in zip(points(code.keys), code.counts.tolist(), strict=True):
            if point is None:
                continue
            place = point.place
            if place.kind != LINE:
                counts[place] += hits
            if point.lines:
                for number in numbers(point.lines):
                    counts[line_place(place.file, number)] += hits
    for place in [place for place in counts if place.line in _no_design(place.file)]:
        del counts[place]
    if not counts:
        return None
    runs = sum(bool(run.table) for run in merged.runs)
    whole = any(run.table and run.build == _WHOLE for run in merged.runs)
    return Counted(runs, counts, *judge(waivers, counts, whole))


@functools.lru_cache(maxsize=256)
def _no_design(file: str) -> frozenset[int]:
    return no_design(source_lines(file))


def figures(found: Counted | None) -> CodeCoverage | None:
    """Return the figures of each file, and the holes; None for None."""
    if found is None:
        return None
    sums: dict[str, dict[str, list[int]]] = defaultdict(lambda: {kind: [0, 0, 0] for kind in KINDS})
    missed: dict[str, list[int]] = defaultdict(list)
    for place, hits in found.counts.items():
        of = sums[place.file][place.kind]
        if found.wanted(place):
            of[0] += 1
            of[1] += hits > 0
            if not hits and place.kind == LINE:
                missed[place.file].append(place.line)
        else:
            of[2] += 1
    files = tuple(
        FileCoverage(file, **shares, missed=tuple(ranges(missed[file])))
        for file, kinds in sorted(sums.items())
        for shares in [{kind: Share(*of) for kind, of in kinds.items()}]
    )
    return CodeCoverage(found.runs, files, tuple(holes(found)), found.unneeded)


def holes(found: Counted) -> Iterator[Hole]:
    """Yield the points that no run reached and no waiver covers, sorted by file and line."""
    groups: dict[tuple[str, int, str, str], list[Place]] = defaultdict(list)
    for place, hits in found.counts.items():
        if not hits and found.wanted(place):
            stem = _stem(place.name) if place.kind == TOGGLE else place.name
            groups[place.file, place.line, place.kind, stem].append(place)
    for (file, line, kind, stem), places in sorted(groups.items()):
        what = folded(stem, [place.name for place in places]) if kind == TOGGLE else stem
        yield Hole(file, line, kind, what, len(places))


def _stem(name: str) -> str:
    """Return the signal in the name of a toggle point, without its last index and its edge."""
    signal = name.rpartition(":")[0]
    return signal[: signal.rindex("[")] if signal.endswith("]") else signal


def folded(stem: str, names: Iterable[str]) -> str:
    """Return the toggle points of one signal in short form: `q[7:4,0] 0->1, q[3] both`.

    Args:
        stem: Name of the signal.
        names: Names of the points, such as "q[3]:0->1".
    """
    edges: dict[int | None, set[str]] = defaultdict(set)
    for name in names:
        signal, _, edge = name.rpartition(":")
        bit = signal[len(stem) + 1 : -1]
        edges[int(bit) if bit.isdecimal() else None].add(edge)
    out = []
    for edge in ("0->1", "1->0", "both"):
        bits = [
            bit for bit, seen in edges.items() if edge == ("both" if len(seen) > 1 else min(seen))
        ]
        if bits:
            which = ",".join(_bits(one) for one in ranges(bit for bit in bits if bit is not None))
            out.append(f"{stem}{f'[{which}]' if which else ''} {edge}")
    return ", ".join(out)


def _bits(text: str) -> str:
    first, _, last = text.partition("-")
    return f"{last}:{first}" if last else first


def lines(found: CodeCoverage | None) -> list[str]:
    """Return the totals as a text line for the terminal, then a line for each wrong waiver.

    [] without code coverage.
    """
    if found is None:
        return []
    words = {LINE: "lines", BRANCH: "branches", EXPR: "expression terms", TOGGLE: "toggles"}
    parts = []
    for kind, word in words.items():
        share = found.share(kind)
        note = f", {share.waived} waived" if share.waived else ""
        parts.append(f"{share.hit} of {share.total} {word} ({share.percent:.1f} %{note})")
    out = [f"code coverage: {', '.join(parts)}, over {found.runs} run{'s'[: found.runs != 1]}"]
    return out + [f"  waiver not needed: {text}" for text in found.unneeded]


FUNCTIONAL = "functional bins"
GOALS = {FUNCTIONAL: 100.0, LINE: 98.0, BRANCH: 95.0, EXPR: 95.0, TOGGLE: 95.0}
"""Percent of the points that are not waived. A bin is covered at its declared number of hits."""


def missed_goals(functional: float | None, code: CodeCoverage | None) -> tuple[list[str], int]:
    """Compare the coverage with `GOALS`; a figure without a measurement misses its goal.

    Args:
        functional: Percent of functional bins covered; None if not measured.
        code: Code coverage; None if not measured.

    Returns:
        The lines of a table of figures and goals, and the number of missed goals.
    """
    rows, bad = [], 0
    for name, goal in GOALS.items():
        share = code.share(name) if code and name != FUNCTIONAL else Share()
        value = functional if name == FUNCTIONAL else share.percent if share.total else None
        good = value is not None and value >= goal
        bad += not good
        shown = "none" if value is None else f"{value:.2f}"
        rows.append((name, shown, f">= {goal:.0f}", "ok" if good else "MISSED"))
    return TextTable("{:16} {:>9} {:>9} {}", rows, ("figure", "value", "goal")).lines(), bad


def lcov_text(counted: Counted) -> str:
    """Return the coverage in lcov's format (`.info`), which genhtml, editors and code hosts read.

    It holds lines and branches without waived points; expression terms and toggles have no form
    there.
    """
    lines = ["TN:nf"]
    for file, rows in shown_by_file(counted).items():
        lines += [f"SF:{file}", *_lcov_file(rows), "end_of_record"]
    return "\n".join(lines) + "\n"


def shown_by_file(counted: Counted) -> dict[str, list[tuple[Place, int]]]:
    """Return the lines and branches that other tools are shown: sorted by file, without waived."""
    files: dict[str, list[tuple[Place, int]]] = defaultdict(list)
    for place, hits in sorted(counted.counts.items()):
        if place.kind in (LINE, BRANCH) and counted.wanted(place):
            files[place.file].append((place, hits))
    return files


def _lcov_file(rows: list[tuple[Place, int]]) -> Iterator[str]:
    branches = [(place, hits) for place, hits in rows if place.kind == BRANCH]
    ran = {place.line: hits for place, hits in rows if place.kind == LINE}
    block = -1
    last = 0
    number = 0
    for place, hits in branches:
        if place.line != last:
            block, last, number = block + 1, place.line, 0
        taken = hits if hits or ran.get(place.line) else "-"  # "-": nobody came there
        yield f"BRDA:{place.line},{block},{number},{taken}"
        number += 1
    yield f"BRF:{len(branches)}"
    yield f"BRH:{sum(hits > 0 for _, hits in branches)}"
    for line, hits in sorted(ran.items()):
        yield f"DA:{line},{hits}"
    yield f"LF:{len(ran)}"
    yield f"LH:{sum(hits > 0 for hits in ran.values())}"
