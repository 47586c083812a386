# SPDX-License-Identifier: Apache-2.0
"""Code coverage in lcov's format (`.info`), which genhtml, editors and code hosts read: lines and
branches. Expression terms and toggles have no form there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from scripts.coverage.code_coverage import Counted
from scripts.coverage.places import BRANCH, LINE, Place


def text(counted: Counted) -> str:
    """The tracefile; waived points are left out."""
    files: dict[str, list[tuple[Place, int]]] = defaultdict(list)
    for place, hits in counted.counts.items():
        if place.kind in (LINE, BRANCH) and counted.wanted(place):
            files[place.file].append((place, hits))
    lines = ["TN:nf"]
    for file, rows in sorted(files.items()):
        lines += [f"SF:{file}", *_of_file(sorted(rows)), "end_of_record"]
    return "\n".join(lines) + "\n"


def _of_file(rows: list[tuple[Place, int]]) -> Iterator[str]:
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
