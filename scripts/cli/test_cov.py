# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf cov` on run folders and merged files, and of its messages on bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from scripts.cli.conftest import Nf
from scripts.common import paths
from scripts.conftest import record
from scripts.coverage import functional_coverage
from scripts.coverage.conftest import key, run

FILE = "hdl/common/nf_fifo.sv"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make two folders with a run each, a and b; b reaches one branch more. Return their parent."""
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(paths, "REPORT", tmp_path / "build" / "report")
    monkeypatch.setattr(paths, "HISTORY", tmp_path / "history.sqlite")
    for name, count in (("a", 0), ("b", 4)):
        points = [
            (key("line", FILE, 1, "block", "1-3"), 2),
            (key("branch", FILE, 5, "if", "5"), count),
        ]
        run(tmp_path / name / "one", record(), points, {"memory": {"read": 20}})
    return tmp_path


def test_merge_holes_rank_html_diff(folders: Path, nf: Nf) -> None:
    a, b, info = folders / "a.cov", folders / "b.cov", folders / "b.info"
    xml = ("--cobertura", folders / "b.xml")
    assert "1 run in" in nf("cov", "merge", folders / "a", "-o", a)
    assert "2 runs in" in nf("cov", "merge", folders / "b", a, "-o", b, "--lcov", info, *xml)
    assert "DA:5,4" in info.read_text(encoding="utf-8")
    assert 'number="5" hits="4"' in xml[1].read_text(encoding="utf-8")
    out = nf("cov", "holes", a)
    assert f"branch {FILE}:5: if; test_x::one" in out
    assert "functional memory / write full: 0 of 10 hits; test_" in out
    assert "3 of 4 lines (75.0 %), 0 of 1 branches" in out
    out = nf("cov", "rank", b)
    assert "smallest set with the same coverage (greedy set cover" in out
    assert "1 run, 1.0 of 2.0 s" in out
    nf("cov", "html", b)
    assert (paths.REPORT / "coverage.html").is_file()
    assert f"+ branch {FILE}:5 if" in nf("cov", "diff", a, b)
    nf("cov", "diff", b, a, code=1)  # something was lost


def test_no_output_replaces_an_input(folders: Path, nf: Nf) -> None:
    a, place = folders / "a.cov", folders / "a/one/record.json"
    nf("cov", "merge", folders / "a", "-o", a)
    before = a.read_bytes(), place.read_bytes()
    (folders / "link").symlink_to(folders / "a")
    for words in (
        ("merge", a, "-o", a),
        ("merge", folders / "b", a, "--lcov", a),
        ("merge", folders / "b", a, "--cobertura", a),
        ("html", a, "-o", a),
        ("merge", folders / "link", "-o", place),
    ):
        assert nf("cov", *words, code=2).endswith("this command reads it; write to another file.\n")
    assert (a.read_bytes(), place.read_bytes()) == before
    nf("cov", "merge", folders / "a")
    nf("cov", "merge", paths.BUILD / "coverage/merged.cov", code=2)  # its usual output


def test_moved_runs_keep_their_code_coverage(
    folders: Path, monkeypatch: pytest.MonkeyPatch, nf: Nf
) -> None:
    """Check `nf cov merge` of a folder of runs that was moved.

    The record names the old place, where another run may be by now. The key table is found in the
    moved build or in a neighbouring run, or the merge is refused.
    """
    (folders / "a").rename(folders / "moved")
    (folders / "b").rename(folders / "a")
    lines = "3 of 4 lines (75.0 %), 0 of 1 branches"
    assert lines in nf("cov", "merge", folders / "moved")
    [table] = (folders / "build" / "coverage").glob("*.keys")
    (folders / "moved" / "one" / table.name).unlink()
    monkeypatch.setattr(paths, "BUILD", folders / "other")
    for place in ("runs/beside", "coverage"):
        there = folders / "old" / place
        there.mkdir(parents=True)
        shutil.copyfile(table, there / table.name)
        (folders / "old" / "runs").mkdir(exist_ok=True)
        shutil.copytree(folders / "moved" / "one", folders / "old" / "runs" / "one")
        assert lines in nf("cov", "merge", folders / "old" / "runs")
        shutil.rmtree(folders / "old")


@pytest.mark.parametrize("gone", ["one/coverage.counts", "one/*.keys"])
def test_runs_without_their_code_coverage_are_refused(
    folders: Path, gone: str, nf: Nf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "BUILD", folders / "other")
    for path in (folders / "a").glob(gone):
        path.unlink()
    assert nf("cov", "merge", folders / "a", code=2).startswith("nf: ")


def test_bad_input_is_one_line(folders: Path, nf: Nf) -> None:
    (folders / "text.cov").write_text("hello\n", encoding="utf-8")
    (folders / "empty").mkdir()
    for words in (
        (folders / "text.cov",),
        (folders / "none.cov",),
        (folders / "empty",),
        ("7",),
        (),
    ):
        assert nf("cov", "merge", *words, code=2).startswith("nf: ")
    nf("cov", "merge", folders / "a", "-o", folders / "no" / "x.cov", code=2)


def test_holes_say_which_waiver_is_wrong(
    folders: Path, monkeypatch: pytest.MonkeyPatch, nf: Nf
) -> None:
    waiver = functional_coverage.Waiver("memory", "read", "never read")
    monkeypatch.setattr(functional_coverage, "read_waivers", lambda: [waiver])
    assert "waived but hit: memory / read" in nf("cov", "holes", folders / "a", code=1)


def test_bins_of_drawn_seeds_alone_are_named(folders: Path, nf: Nf) -> None:
    """Check that `nf cov goals` and `merge` name the bins that no run with seed 1 reaches."""
    hits = {"memory": {"read": 20, "write full": 20}}
    run(folders / "b" / "two", record(seed=77), [], hits)
    line = "warning: 1 bin reached by drawn seeds alone, not by seed 1: memory / write full"
    merged = nf("cov", "merge", folders / "b", "-o", folders / "b.cov")
    assert line in merged.splitlines()
    assert line in nf("cov", "goals", folders / "b.cov", code=1).splitlines()


def test_goals_are_red_below_one(folders: Path, nf: Nf) -> None:
    out = nf("cov", "goals", folders / "b", code=1)
    assert "functional bins" in out
    assert "nf cov goals: " in out.splitlines()[-1]
    lines = {line.split()[0]: line.split()[-1] for line in out.splitlines()}
    assert (lines["functional"], lines["line"], lines["branch"]) == ("MISSED", "ok", "ok")
    assert lines["toggle"] == "MISSED"  # nobody measured it
    assert "branch                0.00     >= 95 MISSED" in nf(
        "cov", "goals", folders / "a", code=1
    )


def test_smoke_is_chosen_by_bins_and_kills(folders: Path, nf: Nf) -> None:
    """Check the runs that `nf cov smoke` adds and leaves out, and its rate of kills."""
    test, rows = "test_regs::reset_values", folders / "rows.jsonl"
    for build in ("default", "small"):
        one = record(name=test, build_name=build)
        run(folders / "c" / build, one, [], {"memory": {"read": 1}})
    killer = "test_systematic::pairs/profile=idle nightly:edge_crowded"
    found = [
        {"id": "new", "result": "killed", "killed_by": killer},
        {"id": "seen-not-forwarded", "result": "survived"},  # of smoke
        {"id": "new", "result": "survived"},
    ]
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in found), encoding="utf-8")
    lines = nf("cov", "smoke", folders / "c", "--rows", rows).splitlines()
    (out,) = [line for line in lines if line.startswith("out")]
    assert test in out
    (into,) = [line for line in lines if line.endswith("edge_crowded: kills 1 more: new")]
    assert into.startswith("in ")
    assert lines[-1].startswith("nf cov smoke: 1 run out, ")
    rows.write_text("{}\n[", encoding="utf-8")
    error = nf("cov", "smoke", folders / "c", "--rows", rows, code=2)
    assert "no rows of `nf mutate --rows`" in error
