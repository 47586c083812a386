# SPDX-License-Identifier: Apache-2.0
"""Code coverage on the source: one offline HTML file with every file of the design, hits per line
and uncovered parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from scripts.coverage import code_coverage
from scripts.coverage.code_coverage import Counted
from scripts.coverage.code_waivers import source_lines
from scripts.coverage.places import LINE, TOGGLE
from scripts.report.templates import render, source

NAME = "coverage.html"  # in the folder of the report


class SourceRow(NamedTuple):
    """Source line; `hits` is None if nothing is counted; `state` is "hit", "part", "missed" or "".

    `notes` lists what was not reached, `waived` what need not be, with the reason.
    """

    number: int
    text: str
    hits: int | None
    state: str
    notes: tuple[str, ...]
    waived: tuple[str, ...]


def text(counted: Counted, title: str) -> str:
    """Return the page."""
    found = code_coverage.figures(counted)
    assert found is not None
    rows = _rows(counted)
    return render(
        "source_page.html.j2",
        title=title,
        style=source("source_page.css"),
        code=found,
        files=[(file, file.file.replace("/", "."), rows[file.file]) for file in found.files],
        kinds=("line", "branch", "expr", "toggle"),
    )


def _rows(counted: Counted) -> dict[str, list[SourceRow]]:
    """Return every line of every file."""
    hits: dict[str, dict[int, int]] = defaultdict(dict)
    notes: dict[tuple[str, int], list[str]] = defaultdict(list)
    waived: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    for place, number in counted.counts.items():
        if place.kind == LINE:
            hits[place.file][place.line] = number
        else:
            hits[place.file].setdefault(place.line, -1)
    for hole in code_coverage.holes(counted):
        if hole.kind != LINE:
            notes[hole.file, hole.line].append(f"{hole.kind}: {hole.what}")
    for place, waiver in counted.waived.items():
        waived[place.file, place.line][f"{waiver.kind} waived: {waiver.reason}"] = None
    return {
        file: [
            _row(number, line, numbers.get(number), notes[file, number], waived[file, number])
            for number, line in enumerate(source_lines(file), 1)
        ]
        for file, numbers in hits.items()
    }


def _row(
    number: int, line: str, hits: int | None, notes: list[str], waived: Iterable[str]
) -> SourceRow:
    state = "" if hits is None else "missed" if hits == 0 else "part" if notes else "hit"
    only = None if hits is None or hits < 0 else hits
    order = sorted(notes, key=lambda note: note.startswith(TOGGLE))
    return SourceRow(number, line, only, state, tuple(order), tuple(waived))
