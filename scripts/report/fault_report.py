# SPDX-License-Identifier: Apache-2.0
"""The table of a fault campaign over all its runs, from the figures that the tests left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.common.records import RunRecord

_MARK = ".faults."


def lines(records: Iterable[RunRecord]) -> list[str]:
    """Injected, detected and recovered by kind and simulator; nothing where no fault was."""
    sums: dict[tuple[str, str], list[int]] = {}
    flits: dict[str, list[int]] = {}
    for record in records:
        for name, value in record.metrics.items():
            if _MARK in name and isinstance(value, dict):
                try:
                    _add(str(record.sim), value, sums, flits)
                except DataError as error:
                    raise NfError(f"figures of {record.name} are damaged ({error}).") from error
    if not sums:
        return []
    out = [f"{'fault':26} {'simulator':10} {'injected':>9} {'detected':>9} {'recovered':>9}"]
    out += [
        f"{kind:26} {sim:10} {n[0]:9} {n[1]:9} {n[2]:9}" for (kind, sim), n in sorted(sums.items())
    ]
    for sim, (down, up) in sorted(flits.items()):
        out.append(f"flits under {sim}: {down} M2S, {up} S2M")
    return out


def _add(
    sim: str,
    value: dict[str, Any],
    sums: dict[tuple[str, str], list[int]],
    flits: dict[str, list[int]],
) -> None:
    rows = typed(list[tuple[str, str, int, int, int]], value.get("rows"), "rows")
    for kind, _way, *numbers in rows:
        total = sums.setdefault((kind, sim), [0, 0, 0])
        for place, number in enumerate(numbers):
            total[place] += number
    both = flits.setdefault(sim, [0, 0])
    for place, number in enumerate(typed(tuple[int, int], value.get("flits"), "flits")):
        both[place] += number
