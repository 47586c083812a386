# SPDX-License-Identifier: Apache-2.0
"""The table of measured figures."""

from __future__ import annotations

from typing import Any, cast

from scripts import figures
from scripts.records import RunRecord


class _Record:
    def __init__(self, sim: str, metrics: dict[str, object]) -> None:
        self.sim = sim
        self.metrics = metrics


def _lines(*records: Any) -> list[str]:
    return figures.lines([cast(RunRecord, record) for record in records])


def test_one_line_a_figure_one_column_a_simulator() -> None:
    out = _lines(
        _Record("verilator", {"T-idle.latency": 3, "T-idle.requests": 9}),
        _Record("verilator", {"T-idle.latency": 4}),
        _Record("icarus", {"T-idle.latency": 3, "T-idle.faults.x": {"rows": []}}),
    )
    assert [line.split() for line in out] == [
        ["figure", "verilator", "icarus"],
        ["T-idle.latency", "3..4", "3"],
    ]


def test_nothing_measured_prints_nothing() -> None:
    assert _lines(_Record("icarus", {"T-idle.requests": 1})) == []
