# SPDX-License-Identifier: Apache-2.0
"""Folders of runs with made-up coverage, for tests without a simulator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scripts.common.records import RunRecord
from scripts.coverage import run_counts
from verif.coverage.cover_model import FUNCTIONAL, Hits


def key(kind: str, file: str, line: int, name: str = "", lines: str = "", page: str = "m") -> str:
    """Return a key of a coverage point in Verilator's format (see `places`).

    Args:
        kind: "line", "branch", "expr" or "toggle".
        file: Source file.
        line: Its line.
        name: Name of the point.
        lines: Source lines of its block ("70-74,80").
        page: Module.
    """
    fields = {"f": file, "l": str(line), "n": "3", "t": kind, "page": f"v_{kind}/{page}"}
    fields |= {"o": name} | ({"S": lines} if lines else {}) | {"h": f"top.{page}"}
    return "".join(f"\x01{short}\x02{value}" for short, value in fields.items())


def text(points: Sequence[tuple[str, int]]) -> str:
    """Return a coverage file in Verilator's format from pairs of key and count."""
    return "# SystemC::Coverage-3\n" + "".join(f"C '{one}' {count}\n" for one, count in points)


def run(
    folder: Path,
    like: RunRecord,
    points: Sequence[tuple[str, int]],
    hits: Hits | None = None,
    root: Path = Path("/elsewhere"),
) -> RunRecord:
    """Write the folder of a run with coverage, packed as the runner packs it; return its record.

    Args:
        folder: Folder to write.
        like: Record from which all other fields are copied.
        points: Keys and counts of code coverage.
        hits: Functional coverage, hits by point and bin.
        root: Folder of the sources.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / run_counts.RAW).write_text(text(points), encoding="utf-8")
    run_counts.pack(folder, root)
    packed = folder / run_counts.PACKED
    made = replace(
        like,
        metrics={FUNCTIONAL: hits or {}},
        coverage=str(packed) if packed.is_file() else None,
    )
    (folder / "record.json").write_text(json.dumps(made.to_json()), encoding="utf-8")
    return made
