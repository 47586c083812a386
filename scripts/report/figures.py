# SPDX-License-Identifier: Apache-2.0
"""The table of measured figures over all runs: one line a figure, one column a simulator."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.common.records import RunRecord

# What every test leaves, and what has a table of its own, is no figure.
_BOOKKEEPING = ("requests", "judged", "cycles")


def lines(records: Iterable[RunRecord]) -> list[str]:
    """Figures by name, smallest to largest over seeds; nothing where none was measured."""
    table: dict[str, dict[str, list[float]]] = {}
    for record in records:
        for name, value in record.metrics.items():
            if isinstance(value, (int, float)) and name.rpartition(".")[2] not in _BOOKKEEPING:
                table.setdefault(name, {}).setdefault(str(record.sim), []).append(value)
    if not table:
        return []
    sims = sorted({sim for row in table.values() for sim in row}, reverse=True)
    width = max(len(name) for name in table)
    out = [f"{'figure':{width}} " + " ".join(f"{sim:>12}" for sim in sims)]
    for name, row in sorted(table.items()):
        out.append(f"{name:{width}} " + " ".join(f"{_span(row.get(sim)):>12}" for sim in sims))
    return out


def _span(values: list[float] | None) -> str:
    if not values:
        return "-"
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}..{high:g}"
