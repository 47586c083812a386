# SPDX-License-Identifier: Apache-2.0
"""The table at the end of `nf run`."""

from __future__ import annotations

from typing import Any, cast

from scripts.common.records import RunRecord
from scripts.report.fault_report import lines


class _Record:
    """The two things of a record that the table looks at."""

    def __init__(self, sim: str, metrics: dict[str, object]) -> None:
        self.sim = sim
        self.metrics = metrics


def _lines(*records: _Record) -> list[str]:
    return lines(cast("list[RunRecord]", list(records)))


def test_sums_by_kind_and_simulator() -> None:
    table: dict[str, Any] = {
        "rows": [["1 bit", "M2S", 3, 3, 3], ["1 bit", "S2M", 2, 2, 2]],
        "flits": [10, 20],
    }
    records = [
        _Record("verilator", {"T-idle.faults.a": table, "T-idle.faults.b": table}),
        _Record("icarus", {"T-idle.faults.a": table, "T-idle.requests": 5}),
    ]
    text = _lines(*records)
    assert [line.split()[-3:] for line in text[1:3]] == [["5", "5", "5"], ["10", "10", "10"]]
    assert text[3:] == [
        "flits under icarus: 10 M2S, 20 S2M",
        "flits under verilator: 20 M2S, 40 S2M",
    ]


def test_nothing_without_faults() -> None:
    assert _lines(_Record("icarus", {"T.requests": 5})) == []
