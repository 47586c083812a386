# SPDX-License-Identifier: Apache-2.0
"""Tests of synthesis and of place and route: longest paths, cells, refusals and time-outs."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from neuron_fabric.data import DataError
from scripts.build import nextpnr, yosys
from scripts.build.nextpnr import PlacedDesign
from scripts.build.yosys import Mapped
from scripts.common import process
from scripts.common.paths import shown


def test_paths_do_not_go_through_rams_and_submodules() -> None:
    """Check that a RAM whose row is read and written back gives no loop in the longest path.

    It once gave 13 GB of warnings.
    """
    found = yosys.synthesize(
        *("nf_written", "hdl/nf_controller.f", "generic"), name="test-paths", hierarchy=True
    )
    assert 10 < found.depth["nf_written"] < 200
    paths = found.log.with_suffix(".paths").read_text(encoding="utf-8")
    assert "loop" not in paths


@pytest.mark.parametrize("target", ["ecp5", "ecp5_fast", "ecp5_short"])
def test_paths_end_in_flip_flops_of_ecp5(target: str) -> None:
    """Check that the longest path of two LUTs, each before a flip-flop, is one cell.

    Both once were on one path.
    """
    listed = yosys.FOLDER / f"two_steps-{target}.f"
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text(shown(Path(__file__).with_suffix(".v")) + "\n", encoding="utf-8")
    found = yosys.synthesize("two_steps", shown(listed), target, name=f"test-two-steps-{target}")
    assert found.cells() == {"LUT4": 5, "TRELLIS_FF": 5}
    assert found.depth == {"two_steps": 1}


def test_a_design_is_read_once_for_two_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that concurrent calls of `read_once` read a design once.

    A failed read leaves no file, another key is read again, and old files are removed.
    """
    monkeypatch.setattr(yosys, "FOLDER", tmp_path)
    done: list[str] = []

    def read(text: str, new: Path) -> None:
        time.sleep(0.05)
        new.write_text(text, encoding="utf-8")
        done.append(text)
        if text == "half":
            raise yosys.SynthesisFailed("too long")

    def one(key: str, text: str) -> Path:
        return yosys.read_once("x", key * 16, partial(read, text))

    with ThreadPoolExecutor(4) as pool:
        places = {wait.result() for wait in [pool.submit(one, "a", "first") for _ in range(4)]}
    [place] = places
    assert done == ["first"]
    with pytest.raises(yosys.SynthesisFailed):
        one("b", "half")
    assert one("a", "not read") == place
    assert one("b", "second").read_text(encoding="utf-8") == "second"
    assert place.exists()  # another command may be about to map it
    os.utime(place, (0, 0))
    third = one("c", "third")
    assert {path.name for path in tmp_path.iterdir()} == {third.name, "x-bbbbbbbbbbbb.il"}


def test_a_path_that_is_a_loop_has_no_length() -> None:
    """Check that `depths` returns nothing if ltp has found a loop: its length is meaningless."""
    told = "Longest topological path in a (length=7)\n"
    assert yosys.depths(told) == {"a": 7}
    assert yosys.depths("Detected loop at $x in a\n" + told) == {}


STOCK = {
    "generic": ("synth -top TOP -run begin:fine", *yosys.TARGETS["generic"][-5:]),
    "ecp5_fast": (
        "synth_ecp5 -noflatten -nowidelut -top TOP -run begin:map_luts",
        *yosys.TARGETS["ecp5_fast"][-5:],
    ),
}
"""Commands of yosys itself, with its checks."""


@pytest.mark.parametrize("target", STOCK)
def test_commands_one_by_one_map_as_yosys_does(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that our list of commands for a target maps like yosys' own synthesis command.

    Another release of yosys may make the list out of date.
    """
    words = ("nf_fp32_add", "hdl/nf_controller.f")
    ours = yosys.synthesize(*words, target, name=f"test-steps-{target}").cells()
    monkeypatch.setitem(yosys.TARGETS, target, STOCK[target])
    theirs = yosys.synthesize(*words, target, name=f"test-stock-{target}").cells()
    assert yosys.flip_flops(ours) == yosys.flip_flops(theirs)
    assert ours.total() == pytest.approx(theirs.total(), rel=0.02)


# ---- place and route ---------------------------------------------------------------------------
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
