# SPDX-License-Identifier: Apache-2.0
"""What the nightly suite must cover: merged figures beside their goals, in percent."""

from __future__ import annotations

from scripts.coverage.code_coverage import CodeCoverage
from scripts.coverage.places import BRANCH, EXPR, LINE, TOGGLE

FUNCTIONAL = "functional bins"
GOALS = {FUNCTIONAL: 100.0, LINE: 98.0, BRANCH: 95.0, EXPR: 95.0, TOGGLE: 95.0}
"""Percent of what is not waived. A bin counts with as many hits as it asks for."""


def missed(functional: float | None, code: CodeCoverage | None) -> tuple[list[str], int]:
    """The table, and how many goals are missed; a figure that nobody measured is."""
    table = [f"{'figure':16} {'value':>9} {'goal':>9}"]
    bad = 0
    for name, goal in GOALS.items():
        value = functional if name == FUNCTIONAL else _percent(code, name)
        good = value is not None and value >= goal
        bad += not good
        shown = "none" if value is None else f"{value:.2f}"
        table.append(f"{name:16} {shown:>9} {f'>= {goal:.0f}':>9} {'ok' if good else 'MISSED'}")
    return table, bad


def _percent(code: CodeCoverage | None, kind: str) -> float | None:
    share = code.share(kind) if code else None
    return share.percent if share and share.total else None
