# SPDX-License-Identifier: Apache-2.0
"""Tables of measurements over all runs, one line per figure and one column per simulator; and of
the faults of a campaign.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.common.records import RunRecord
from scripts.common.terminal import TextTable

# Facts of every test, and facts with their own table, are not figures.
_BOOKKEEPING = ("requests", "judged", "cycles")
_FAULTS = ".faults."


def lines(records: Iterable[RunRecord]) -> list[str]:
    """Return both tables; empty if nothing was measured. Raise NfError for damaged figures."""
    records = list(records)
    return _measured(records) + _faults(records)


def _measured(records: Iterable[RunRecord]) -> list[str]:
    """Return figures by name, smallest to largest over seeds."""
    table: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for name, value in record.metrics.items():
            if isinstance(value, (int, float)) and name.rpartition(".")[2] not in _BOOKKEEPING:
                table[name][record.sim].append(value)
    if not table:
        return []
    sims = sorted({sim for row in table.values() for sim in row}, reverse=True)
    columns = f"{{:{max(map(len, table))}}}" + " {:>12}" * len(sims)
    rows = [(name, *(_span(row.get(sim)) for sim in sims)) for name, row in sorted(table.items())]
    return TextTable(columns, rows, ("figure", *sims)).lines()


def _span(values: list[float] | None) -> str:
    if not values:
        return "-"
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}..{high:g}"


def _faults(records: Iterable[RunRecord]) -> list[str]:
    """Return injected, detected and recovered faults by kind and simulator."""
    sums: dict[tuple[str, str], list[int]] = {}
    flits: dict[str, list[int]] = {}
    for record in records:
        for name, value in record.metrics.items():
            if _FAULTS not in name or not isinstance(value, dict):
                continue
            try:
                rows = typed(list[tuple[str, str, int, int, int]], value.get("rows"), "rows")
                both = typed(tuple[int, int], value.get("flits"), "flits")
            except DataError as error:
                raise NfError(f"figures of {record.name} are damaged ({error}).") from error
            for kind, _way, *came in rows:
                sums[kind, record.sim] = _added(sums.get((kind, record.sim)), came)
            flits[record.sim] = _added(flits.get(record.sim), both)
    if not sums:
        return []
    titles = ("fault", "simulator", "injected", "detected", "recovered")
    table = [(*key, *numbers) for key, numbers in sorted(sums.items())]
    return [
        *TextTable("{:26} {:10} {:>9} {:>9} {:>9}", table, titles).lines(),
        *(f"flits under {sim}: {down} M2S, {up} S2M" for sim, (down, up) in sorted(flits.items())),
    ]


def _added(total: list[int] | None, more: Iterable[int]) -> list[int]:
    return [a + b for a, b in zip(total, more, strict=True)] if total else list(more)
