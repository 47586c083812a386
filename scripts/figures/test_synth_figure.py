# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure figures synth`: sums over a hierarchy, goals, budgets and caches."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from neuron_fabric.data import DataError
from scripts.build import nextpnr, yosys
from scripts.build.filelist import read_filelist
from scripts.build.nextpnr import PlacedDesign
from scripts.build.yosys import Mapped
from scripts.cli.main import make_parser
from scripts.common import process
from scripts.common.paths import ROOT
from scripts.common.records import Edit
from scripts.conftest import git_by_somebody as git
from scripts.figures import baseline, synth_figure
from scripts.figures.result_file import Cell, Measured, Table

LOW_BIT = "low-bit datapath"
FIRST = "low-bit datapath without integer sums"
ENGINE = "engine, 128 columns, 16 slots"
EARLIER_ENGINE = "engine of 5293eb9, 128 columns, 16 slots"
EARLIER_COMMIT = synth_figure.DESIGNS[EARLIER_ENGINE].commit
ROUTE = PlacedDesign(60.0, "u_a.q", "u_b.line", 9, 4.5, 12.0, 7.0, ("u_a.sum[1]",))


def mapped(top: str, modules: dict[str, dict[str, int]], depth: dict[str, int]) -> Mapped:
    """Return a Mapped design with these cells and depths, as yosys' `stat` would report it."""
    return Mapped("nowhere", top, "ecp5", 1.0, modules, depth)


FIFO = "nf_fifo$nf_controller.u_x"
WHOLE = mapped(
    "nf_controller",
    {
        "nf_controller": {"LUT4": 10, "nf_engine": 1, "nf_link": 1},
        "nf_engine": {"LUT4": 100, "TRELLIS_FF": 50, FIFO: 2, "nf_vote": 1},
        "nf_vote": {"LUT4": 40, "CCU2C": 5},
        "nf_link": {"LUT4": 30, "DP16KD": 2, FIFO: 1},
        FIFO: {"TRELLIS_FF": 4, "TRELLIS_DPR16X4": 3},
    },
    {"nf_vote": 7, "nf_engine": 3},
)


def test_cells_add_up_over_the_hierarchy() -> None:
    assert WHOLE.cells("nf_engine") == {
        "LUT4": 140,
        "CCU2C": 5,
        "TRELLIS_FF": 58,
        "TRELLIS_DPR16X4": 6,
    }
    assert yosys.luts(WHOLE.cells()) == 10 + 140 + 10 + 30 + 4 * 9
    assert yosys.flip_flops(WHOLE.cells()) == 50 + 3 * 4
    assert yosys.memory_bits(WHOLE.cells()) == 2 * 18 * 1024 + 9 * 64
    assert WHOLE.uses(FIFO) == 3
    assert WHOLE.instances("nf_fifo") == [FIFO]
    assert yosys.source_of("$paramod$0123\\nf_fifo") == yosys.source_of("\\nf_fifo") == "nf_fifo"
    assert yosys.flip_flops({"$_DFF_P_": 3, "$_SDFFE_PP0P_": 2, "$_AND_": 9}) == 5


def test_stat_of_yosys(tmp_path: Path) -> None:
    stat = tmp_path / "stat.json"
    module = '{"num_wires": 3, "num_cells": 24, "num_cells_by_type": {"LUT4": 20, "CCU2C": 4}}'
    stat.write_text(f'{{"modules": {{"\\\\nf_fp32_path": {module}}}}}', encoding="utf-8")
    assert yosys.modules_of(stat) == {"nf_fp32_path": {"LUT4": 20, "CCU2C": 4}}
    stat.write_text('{"modules": {"\\\\top": {"num_cells_by_type": 4}}}', encoding="utf-8")
    with pytest.raises(DataError):
        yosys.modules_of(stat)


def row(table: Table, name: str) -> tuple[Cell, ...]:
    """Return the row of a table whose first cell is `name`."""
    return next(one for one in table.rows if one[0] == name)


def test_tables_of_a_whole_by_hand() -> None:
    path = mapped("nf_low_bit_path", {"nf_low_bit_path": {"LUT4": 60}}, {"nf_low_bit_path": 9})
    yardstick = mapped("nf_fp32_path", {"nf_fp32_path": {"LUT4": 40, "CCU2C": 30}}, {})
    found = {
        LOW_BIT: path,
        synth_figure.FP32: yardstick,
        synth_figure.WHOLE: WHOLE,
    }
    clocks = {LOW_BIT: ROUTE}
    designs, routes, parts, modules = synth_figure.tables_of("ecp5", found, clocks)
    assert row(designs, LOW_BIT)[1:9] == (60, 60, 0, 0, 0, 9, 60.0, 1.0)
    assert designs.notes[0].endswith("LUTs: 0.60")
    assert row(parts, "engine")[2] == 140 + 10 + 4 * 6
    assert row(parts, synth_figure.DATAPATH)[2] == 40 + 2 * 5
    plain = mapped("nf_controller", {"nf_controller": {"LUT4": 100}}, {})
    _, parts, _ = synth_figure.tables_of("ecp5", {**found, synth_figure.PLAIN: plain}, {})
    assert "LUTs): the whole has 2.26 times its LUTs, 126 more; the low-bit" in parts.notes[1]
    assert parts.notes[1].endswith("adds 50 %")
    flat = mapped("nf_controller", {"nf_controller": {"LUT4": 180}}, {})
    both = {**found, synth_figure.PLAIN: plain, synth_figure.FLAT: flat}
    noted = synth_figure.tables_of("ecp5", both, {})[1].notes
    assert noted[2] == "80 more where both are mapped as one module"
    assert row(parts, "aggregation") == ("aggregation", *row(parts, "engine")[1:])
    assert row(parts, "all but aggregation")[2] == 10 + 30 + 4 * 3
    assert row(modules, "nf_fifo") == ("nf_fifo", 3, 21, 36, 12, 9 * 64, 0, None)
    assert row(modules, "nf_engine")[:4] == ("nf_engine", 1, 150, 100)
    way = ("u_a.q", "u_a.sum[1]", "u_b.line", 9, 4.5, 12.0, 7.0)
    assert row(routes, LOW_BIT)[1:] == (60.0, *way)
    followed = synth_figure.followed_of("ecp5", found, clocks)
    assert followed["engine, ECP5: LUTs"] == 174
    assert followed[f"{LOW_BIT}, ECP5: Fmax, MHz"] == 60.0
    assert followed[f"{synth_figure.WHOLE}, ECP5: longest path, cells"] == 7
    assert f"{synth_figure.FP32}, ECP5: longest path, cells" not in followed  # ltp told none


def test_what_is_not_routed_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the reason for a missing clock rate: the design fits, or has a LUT too many."""
    Tools(monkeypatch, 10.0)
    monkeypatch.setattr(nextpnr, "LUTS", 1)
    name = synth_figure.PLAIN
    [told] = run("--only", name).left_out
    assert told.startswith(f"{name}: no Fmax; 1 LUTs, of which the part has 1: it fits, and ")
    monkeypatch.setattr(nextpnr, "LUTS", 0)
    assert run("--only", name).left_out[0].endswith("the part has 0: it does not fit")


def test_another_commit_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a clone without an earlier commit measures the rest, and leaves its goal open."""

    def gone(commit: str) -> str:
        raise synth_figure.NotHere(f"commit {commit} is not in this clone")

    Tools(monkeypatch, 10.0)
    monkeypatch.setattr(synth_figure, "filelist_at", gone)
    found = run("--only", "128 columns")
    name = f"{EARLIER_ENGINE}, ECP5 for short paths"
    wanted = f"{name}: commit {EARLIER_COMMIT} is not in this clone"
    assert wanted in found.left_out
    monkeypatch.setattr(synth_figure, "filelist_at", lambda commit: f"at-{commit}.f")
    measured = run("--only", "128 columns")
    assert measured.followed == found.followed  # so nothing of the baseline is missed
    assert len(measured.tables[0].rows) == len(found.tables[0].rows) == 1
    assert str(measured.tables[0].rows[0][-1]).startswith("missed by 60.0 MHz")
    assert found.tables[0].rows[0][-1] == "open: its reference was not measured"


class Tools:
    """Fake yosys and nextpnr that only use up processor time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.seconds, self.kept, self.limits = seconds, False, list[float]()
        monkeypatch.setattr(yosys, "synthesize", self._synthesize)
        monkeypatch.setattr(nextpnr, "route", self._route)
        monkeypatch.setattr(nextpnr, "installed", lambda: True)
        monkeypatch.setattr(synth_figure, "filelist_at", lambda commit: f"at-{commit}.f")

    def _synthesize(self, top: str, _list: str, target: str, **options: object) -> Mapped:
        effort_s, sliced = options["effort_s"], options["edits"] == (synth_figure.SLICED,)
        alone = f"{synth_figure.SLICE}-columns" in str(options["name"])
        assert sliced == (target == "ecp5_small" or alone)
        assert isinstance(effort_s, float)
        self.limits.append(effort_s)
        if self.seconds > effort_s:
            raise yosys.SynthesisFailed(f"{top} failed: more than {effort_s:.0f} s", effort_s)
        return dataclasses.replace(
            mapped(top, {top: {"LUT4": 1}}, {}), seconds=self.seconds, fresh=not self.kept
        )

    def _route(self, _design: Mapped, effort_s: float) -> nextpnr.Ended:
        self.limits.append(effort_s)
        return nextpnr.Ended(ROUTE, "", self.seconds)


def run(*words: str) -> Measured:
    """Run `nf measure figures synth` with one job, and return its result."""
    return synth_figure.run(
        make_parser("measure figures").parse_args(["measure", "figures", "synth", "-j1", *words])
    )


def test_a_run_ends_when_its_processor_time_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that designs are measured while processor time is left, and the others named."""
    tools = Tools(monkeypatch, 200.0)
    found = run("--effort", "700")
    assert tools.limits == [240.0, 240.0, 300.0, 100.0]  # two areas, one clock, and too little
    works = sum(len(one.targets) for one in synth_figure.DESIGNS.values())
    assert sum("no processor time was left" in text for text in found.left_out) == works - 3
    assert any("more than 100 s" in text for text in found.left_out)
    assert f"{LOW_BIT}, ECP5: Fmax, MHz" in found.followed
    assert found.followed[f"{LOW_BIT}, ECP5: LUTs"] == 1
    assert found.followed[f"{LOW_BIT}, ECP5 for area: LUTs"] == synth_figure.SLICES
    assert f"{synth_figure.FP32}, ECP5: Fmax, MHz" not in found.followed


def test_what_is_the_same_is_not_mapped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that `synthesize` maps again only if a source, edit or command has changed.

    A damaged cache file is also mapped again.
    """
    runs: list[str] = []

    def run_logged(command: list[str], log: Path, **_: object) -> process.Finished:
        words = " ".join(command)
        log.write_text("", encoding="utf-8")
        if "write_rtlil" in words:
            Path(words.rpartition(" ")[2]).write_text("module", encoding="utf-8")
        if "stat -json" in words:
            runs.append(words)
            stat = '{"modules": {"top": {"num_cells_by_type": {"LUT4": 3}}}}'
            (folder / "x.json").write_text(stat, encoding="utf-8")
            text = "Longest topological path in top (length=4)\n"
            (folder / "x.paths").write_text(text, encoding="utf-8")
        return process.Finished(0, False, 0.1)

    folder = tmp_path / "synth"
    (tmp_path / "a.sv").write_text("module top; endmodule", encoding="utf-8")
    (tmp_path / "a.f").write_text("a.sv\n", encoding="utf-8")
    monkeypatch.setattr(yosys, "ROOT", tmp_path)
    monkeypatch.setattr(yosys, "FOLDER", folder)
    monkeypatch.setattr(process, "run_logged", run_logged)
    monkeypatch.setattr(yosys, "native_version", lambda: "1")

    def mapped_now(target: str = "ecp5") -> Mapped:
        return yosys.synthesize("top", "a.f", target, name="x")

    first = mapped_now()
    assert first.modules == {"top": {"LUT4": 3}}
    assert first.depth == {"top": 4}
    assert mapped_now() == first
    assert len(runs) == 1
    edit = Edit("a.sv", "top;", "top ;")
    assert yosys.synthesize("top", "a.f", "ecp5", name="x", edits=(edit,)).key != first.key
    assert (folder / "x.a.sv").read_text(encoding="utf-8") == "module top ; endmodule"
    assert mapped_now("generic").key != first.key
    assert mapped_now() == mapped_now()
    assert len(runs) == 4
    (tmp_path / "a.sv").write_text("module top; wire a; endmodule", encoding="utf-8")
    assert mapped_now().key != first.key
    (folder / "x.mapped.json").write_text('{"key": "', encoding="utf-8")
    mapped_now()
    assert len(runs) == 6


def test_what_is_taken_out_drives_0() -> None:
    """Check that with `without` the rest is one module, and logic for removed instances is gone."""
    words = ("nf_fp32_exits", "hdl/nf_controller.f", "generic")
    with_all = yosys.synthesize(*words, name="test-with")
    without = yosys.synthesize(*words, name="test-without", without=("nf_data_fifo",))
    assert list(without.modules) == ["nf_fp32_exits"]
    left = without.cells()
    assert not any("scopeinfo" in kind for kind in left)
    assert left.total() < with_all.cells().total() / 2
    assert yosys.flip_flops(left) < yosys.flip_flops(with_all.cells())
    assert yosys.synthesize(*words, name="test-without").cells() == with_all.cells()


def test_goals_are_judged_by_what_was_measured() -> None:
    """Check the verdicts of goals: met, missed by how much, or open without a reference.

    Goals of designs that were not measured are left out.
    """
    first, fp32 = FIRST, synth_figure.FP32
    followed = {
        f"{first}, ECP5: LUTs": 601.0,
        f"{fp32}, ECP5: LUTs": 1000.0,
        f"{first}, ECP5: Fmax, MHz": 120.0,
        f"{LOW_BIT}, ECP5: Fmax, MHz": 90.0,
        f"{ENGINE}, ECP5 for short paths: Fmax, MHz": 50.0,
    }
    clocks = {(LOW_BIT, "ecp5"): ROUTE, (first, "ecp5"): ROUTE}
    [table] = synth_figure.goals(followed, clocks)
    verdicts = [(one[0], one[1], one[-1]) for one in table.rows]
    assert verdicts == [
        (first, "LUTs", "missed by 1.0 LUTs, 0 %"),
        (first, "Fmax, MHz", "met"),
        (LOW_BIT, "Fmax, MHz", "missed by 30.0 MHz, 25 %"),
        (ENGINE, "Fmax, MHz", "open: its reference was not measured"),
    ]
    assert len(table.notes) == 2
    assert "a path of 16.5 ns, of which 9 cells take 4.5 ns" in table.notes[1]
    followed[f"{EARLIER_ENGINE}, ECP5 for short paths: Fmax, MHz"] = 25.0
    followed[f"{first}, ECP5: LUTs"] = 600.0
    [table] = synth_figure.goals(followed, {})
    assert [one[-1] for one in table.rows if one[0] != LOW_BIT] == ["met"] * 3
    assert synth_figure.goals({f"{fp32}, ECP5: LUTs": 1000.0}, {}) == ()


def test_a_goal_is_of_designs_that_are_mapped_so() -> None:
    """Check that the designs of each goal are mapped (and routed) to its target.

    Otherwise it would never be judged.
    """
    for goal in synth_figure.GOALS:
        for name in filter(None, (goal.design, goal.against)):
            design = synth_figure.DESIGNS[name]
            assert goal.target in design.targets
            assert design.routed or goal.figure == "LUTs"


def test_docs_say_what_was_accepted() -> None:
    """Check that docs/area-and-clock.md states the accepted verdicts of the datapath's goals.

    It meets both; with integer sums it misses both.
    """
    [table] = synth_figure.goals(baseline.read()["synth"], {})
    met = {(one[0], one[1]): one[-1] == "met" for one in table.rows}
    kinds = "LUTs", synth_figure.FMAX
    assert [met[FIRST, kind] for kind in kinds] == [True, True]
    assert [met[LOW_BIT, kind] for kind in kinds] == [False, False]
    text = (ROOT / "docs/area-and-clock.md").read_text(encoding="utf-8")
    assert "It meets both. With integer sums it misses both" in " ".join(text.split())


def test_files_of_an_earlier_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the unpacked RTL is that of the commit: removed sources exist, changes do not.

    A missing commit, or no git, raises NotHere.
    """
    root = tmp_path / "a project"
    (root / "hdl/common").mkdir(parents=True)
    (root / "hdl/nf_controller.f").write_text("+incdir+hdl/common\nhdl/a.sv\n", encoding="utf-8")
    (root / "hdl/a.sv").write_text("old", encoding="utf-8")
    (root / "hdl/common/a.svh").write_text("", encoding="utf-8")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "a")
    commit = git(root, "rev-parse", "--short", "HEAD")
    (root / "hdl/a.sv").unlink()
    (root / "hdl/nf_controller.f").write_text("hdl/b.sv\n", encoding="utf-8")
    monkeypatch.setattr(synth_figure, "ROOT", root)
    monkeypatch.setattr(synth_figure, "FOLDER", root / "build/synth")
    monkeypatch.setattr(synth_figure, "shown", lambda path: str(path.relative_to(root)))
    for _ in range(2):
        files = read_filelist(root, synth_figure.filelist_at(commit))
        assert files.sources == (f"build/synth/at-{commit}/hdl/a.sv",)
        assert files.includes == (f"build/synth/at-{commit}/hdl/common",)
        assert (root / files.sources[0]).read_text(encoding="utf-8") == "old"
    with pytest.raises(synth_figure.NotHere, match=r"commit 1234567 is not in .*: fatal: "):
        synth_figure.filelist_at("1234567")
    synth_figure.unpack(
        commit, root / "build/synth" / f"at-{commit}", "hdl"
    )  # by another command meanwhile
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(synth_figure.NotHere, match="git does not start"):
        synth_figure.filelist_at("1234567")
    assert [one.name for one in (root / "build/synth").iterdir()] == [f"at-{commit}"]
