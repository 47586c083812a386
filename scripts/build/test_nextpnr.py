# SPDX-License-Identifier: Apache-2.0
"""Tests of place and route: refusals and time-outs of nextpnr, and its report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from neuron_fabric.data import DataError
from scripts.build import nextpnr, yosys
from scripts.build.nextpnr import PlacedDesign
from scripts.build.yosys import Mapped
from scripts.common import process


def test_what_does_not_fit_has_no_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a refusal or time-out of nextpnr is reported; only a refusal is cached."""
    ended = [process.Finished(1, False, 9.0, 2.0), process.Finished(-9, True, 9.0, 30.0)]
    monkeypatch.setattr(process, "run_logged", lambda *_, **__: ended[0])
    monkeypatch.setattr(yosys, "FOLDER", tmp_path)
    design = Mapped("a", "nf_controller", "ecp5", 1.0, {}, {}, "one")
    assert nextpnr.route(design) == nextpnr.Ended(None, nextpnr.NO_PLACE, 2.0)
    assert nextpnr.route(design) == nextpnr.Ended(None, nextpnr.NO_PLACE)
    del ended[0]
    late = nextpnr.route(replace(design, key="another"), 30.0)
    assert (late.route, late.seconds) == (None, 30.0)
    assert late.lacks == "no Fmax: nextpnr took more than 30 s of processor time"


def step(kind: str, delay: float, cell: str) -> dict[str, object]:
    """Return a step of a path in the form of nextpnr's report."""
    return {"type": kind, "delay": delay, "from": {"cell": cell}, "to": {"cell": f"to_{cell}"}}


def report(achieved: dict[str, float], clock: str = "b") -> str:
    """Return the JSON text of a nextpnr report with one path of a clock."""
    path = [
        step("clk-to-q", 0.5, "q_TRELLIS_FF_Q_3"),
        {**step("routing", 1.5, "q_TRELLIS_FF_Q_3"), "net": "u_x.less_LUT4_Z_A[1]"},
        step("logic", 0.25, "u_x.less_LUT4_Z"),
        {**step("routing", 2.0, "u_x.less_LUT4_Z"), "net": "u_x.sum"},
        step("setup", 0.0, "line_TRELLIS_FF_Q"),
    ]
    clocks = {name: {"achieved": mhz, "constraint": 12.0} for name, mhz in achieved.items()}
    edge = f"posedge {clock}"
    return json.dumps(
        {"fmax": clocks, "critical_paths": [{"from": edge, "to": edge, "path": path}]}
    )


def test_report_of_place_and_route(tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    written.write_text(report({"clk": 90.0, "b": 61.5}), encoding="utf-8")
    want = PlacedDesign(61.5, "q", "to_line", 1, 0.75, 3.5, signals=("u_x.sum",))
    assert nextpnr.slowest(written) == want
    for text in (
        '{"fmax": {}}',
        report({"clk": 61.5, "b": 90.0}),  # no path of its slowest clock
        report({"b": 61.5}).replace('"delay": 1.5', '"delay": "long"'),
        json.dumps({**json.loads(report({"b": 61.5})), "critical_paths": []}),
    ):
        written.write_text(text, encoding="utf-8")
        with pytest.raises(DataError):
            nextpnr.slowest(written)
