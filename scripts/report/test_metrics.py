# SPDX-License-Identifier: Apache-2.0
"""The tables of measured figures and of faults."""

from __future__ import annotations

import re
from typing import Any, cast

from scripts.common.paths import ROOT
from scripts.common.records import RunRecord
from scripts.report import metrics

# Figures of section 8 of the controller's specification, by how their row begins: the name by which
# a test reports it, or None for one that a command measures.
MEASURED = {
    "low-bit datapath latency": "_latency_cycles",
    "initiation interval": "back_to_back_on_one_line",
    "write rate on slot hits": "lines_per_flit_time",
    "vote read rate on slot hits": "lines_per_flit_time",
    "exposed overhead of the engine": None,
    "the same under bandwidth pressure": None,
}


class _Record:
    def __init__(self, sim: str, metrics: dict[str, object]) -> None:
        self.sim = sim
        self.metrics = metrics


def _lines(*records: Any) -> list[str]:
    return metrics.lines([cast(RunRecord, record) for record in records])


def test_one_line_a_figure_one_column_a_simulator() -> None:
    out = _lines(
        _Record("verilator", {"T-idle.latency": 3, "T-idle.requests": 9}),
        _Record("verilator", {"T-idle.latency": 4}),
        _Record("icarus", {"T-idle.latency": 3, "T-idle.faults.x": {"rows": [], "flits": [0, 0]}}),
    )
    assert [line.split() for line in out] == [
        ["figure", "verilator", "icarus"],
        ["T-idle.latency", "3..4", "3"],
    ]


def test_nothing_measured_prints_nothing() -> None:
    assert _lines(_Record("icarus", {"T-idle.requests": 1})) == []


def test_a_figure_of_the_specification_is_measured_by_a_test_or_a_command() -> None:
    spec = (ROOT / "docs/spec/controller.md").read_text(encoding="utf-8").partition("## 8.")[2]
    rows = re.findall(r"^\| (?!figure)(\w[^|]*) \|", spec, re.MULTILINE)
    known = {row: next(name for name in MEASURED if row.startswith(name)) for row in rows}
    assert sorted(known.values()) == sorted(MEASURED)
    tests = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "verif/tests").glob("*.py"))
    for name in filter(None, MEASURED.values()):
        assert name in tests
    said = {
        "verif/testplan/features.yaml": "`nf measure figures timing` measures the exposed overhead",
        "docs/measurements.md": "clocks over plain memory (`nf measure figures timing`)",
    }
    for file, sentence in said.items():
        assert sentence in " ".join((ROOT / file).read_text(encoding="utf-8").split())


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
