# SPDX-License-Identifier: Apache-2.0
"""Run folders with coverage that no simulator made, for tests and benchmarks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scripts.common.records import RunRecord
from scripts.coverage import run_counts
from verif.coverage.cover_model import FUNCTIONAL, Hits


def key(kind: str, file: str, line: int, name: str = "", lines: str = "", page: str = "m") -> str:
    """Return a key in Verilator's format."""
    fields = {"f": file, "l": str(line), "n": "3", "t": kind, "page": f"v_{kind}/{page}"}
    fields |= {"o": name} | ({"S": lines} if lines else {}) | {"h": f"top.{page}"}
    return "".join(f"\x01{short}\x02{value}" for short, value in fields.items())


def text(points: Sequence[tuple[str, int]]) -> str:
    """Return a coverage file in Verilator's format."""
    return "# SystemC::Coverage-3\n" + "".join(f"C '{one}' {count}\n" for one, count in points)


def run(
    folder: Path,
    like: RunRecord,
    points: Sequence[tuple[str, int]],
    hits: Hits | None = None,
    root: Path = Path("/elsewhere"),
) -> RunRecord:
    """Make a run in `folder`, packed as the runner packs it."""
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
