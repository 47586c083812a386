# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf cov` on run folders and merged files, and of its messages on bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.cli import main
from scripts.common import paths
from scripts.common.records import RunRecord
from scripts.conftest import record
from scripts.coverage import functional_coverage
from scripts.coverage.conftest import key, run

Make = Callable[..., RunRecord]
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


def nf(*words: object) -> int:
    return main.main([str(word) for word in words])


def test_merge_holes_rank_html_diff(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, info = folders / "a.cov", folders / "b.cov", folders / "b.info"
    xml = ("--cobertura", folders / "b.xml")
    assert nf("cov", "merge", folders / "a", "-o", a) == 0
    assert nf("cov", "merge", folders / "b", a, "-o", b, "--lcov", info, *xml) == 0
    assert "1 run in" in capsys.readouterr().out
    assert "DA:5,4" in info.read_text(encoding="utf-8")
    assert 'number="5" hits="4"' in xml[1].read_text(encoding="utf-8")
    assert nf("cov", "holes", a) == 0
    out = capsys.readouterr().out
    assert f"branch {FILE}:5: if; test_x::one" in out
    assert "functional memory / write full: 0 of 10 hits; test_" in out
    assert "3 of 4 lines (75.0 %), 0 of 1 branches" in out
    assert nf("cov", "rank", b) == 0
    out = capsys.readouterr().out
    assert "smallest set with the same coverage (greedy set cover" in out
    assert "1 run, 1.0 of 2.0 s" in out
    assert nf("cov", "html", b) == 0
    assert (paths.REPORT / "coverage.html").is_file()
    capsys.readouterr()
    assert nf("cov", "diff", a, b) == 0
    assert f"+ branch {FILE}:5 if" in capsys.readouterr().out
    assert nf("cov", "diff", b, a) == 1  # something was lost


def test_no_output_replaces_an_input(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, place = folders / "a.cov", folders / "a/one/record.json"
    assert nf("cov", "merge", folders / "a", "-o", a) == 0
    before = a.read_bytes(), place.read_bytes()
    (folders / "link").symlink_to(folders / "a")
    for words in (
        ("merge", a, "-o", a),
        ("merge", folders / "b", a, "--lcov", a),
        ("merge", folders / "b", a, "--cobertura", a),
        ("html", a, "-o", a),
        ("merge", folders / "link", "-o", place),
    ):
        capsys.readouterr()
        assert nf("cov", *words) == 2
        assert capsys.readouterr().err.endswith("this command reads it; write to another file.\n")
    assert (a.read_bytes(), place.read_bytes()) == before
    assert nf("cov", "merge", folders / "a") == 0
    assert nf("cov", "merge", paths.BUILD / "coverage/merged.cov") == 2  # its usual output


def test_moved_runs_keep_their_code_coverage(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check `nf cov merge` of a folder of runs that was moved.

    The record names the old place, where another run may be by now. The key table is found in the
    moved build or in a neighbouring run, or the merge is refused.
    """
    (folders / "a").rename(folders / "moved")
    (folders / "b").rename(folders / "a")
    lines = "3 of 4 lines (75.0 %), 0 of 1 branches"
    assert nf("cov", "merge", folders / "moved") == 0
    assert lines in capsys.readouterr().out
    [table] = (folders / "build" / "coverage").glob("*.keys")
    (folders / "moved" / "one" / table.name).unlink()
    monkeypatch.setattr(paths, "BUILD", folders / "other")
    for place in ("runs/beside", "coverage"):
        there = folders / "old" / place
        there.mkdir(parents=True)
        shutil.copyfile(table, there / table.name)
        (folders / "old" / "runs").mkdir(exist_ok=True)
        shutil.copytree(folders / "moved" / "one", folders / "old" / "runs" / "one")
        assert nf("cov", "merge", folders / "old" / "runs") == 0
        assert lines in capsys.readouterr().out
        shutil.rmtree(folders / "old")


@pytest.mark.parametrize("gone", ["one/coverage.counts", "one/*.keys"])
def test_runs_without_their_code_coverage_are_refused(
    folders: Path, gone: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "BUILD", folders / "other")
    for path in (folders / "a").glob(gone):
        path.unlink()
    assert nf("cov", "merge", folders / "a") == 2
    err = capsys.readouterr().err
    assert err.startswith("nf: ")
    assert len(err.splitlines()) == 1


def test_bad_input_is_one_line(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folders / "text.cov").write_text("hello\n", encoding="utf-8")
    (folders / "empty").mkdir()
    for words in (
        (folders / "text.cov",),
        (folders / "none.cov",),
        (folders / "empty",),
        ("7",),
        (),
    ):
        assert nf("cov", "merge", *words) == 2
        err = capsys.readouterr().err
        assert err.startswith("nf: ")
        assert len(err.splitlines()) == 1
    assert nf("cov", "merge", folders / "a", "-o", folders / "no" / "x.cov") == 2


def test_holes_say_which_waiver_is_wrong(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waiver = functional_coverage.Waiver("memory", "read", "never read")
    monkeypatch.setattr(functional_coverage, "read_waivers", lambda: [waiver])
    assert nf("cov", "holes", folders / "a") == 1
    assert "waived but hit: memory / read" in capsys.readouterr().out


def test_bins_of_drawn_seeds_alone_are_named(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that `nf cov goals` and `merge` name the bins that no run with seed 1 reaches."""
    hits = {"memory": {"read": 20, "write full": 20}}
    run(folders / "b" / "two", record(seed=77), [], hits)
    assert nf("cov", "merge", folders / "b", "-o", folders / "b.cov") == 0
    line = "warning: 1 bin reached by drawn seeds alone, not by seed 1: memory / write full"
    assert line in capsys.readouterr().out.splitlines()
    assert nf("cov", "goals", folders / "b.cov") == 1
    assert line in capsys.readouterr().out.splitlines()


def test_goals_are_red_below_one(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nf("cov", "goals", folders / "b") == 1
    out = capsys.readouterr().out
    assert "functional bins" in out
    assert "nf cov goals: " in out.splitlines()[-1]
    lines = {line.split()[0]: line.split()[-1] for line in out.splitlines()}
    assert (lines["functional"], lines["line"], lines["branch"]) == ("MISSED", "ok", "ok")
    assert lines["toggle"] == "MISSED"  # nobody measured it
    assert nf("cov", "goals", folders / "a") == 1
    assert "branch                0.00     >= 95 MISSED" in capsys.readouterr().out


def test_smoke_is_chosen_by_bins_and_kills(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert nf("cov", "smoke", folders / "c", "--rows", rows) == 0
    lines = capsys.readouterr().out.splitlines()
    (out,) = [line for line in lines if line.startswith("out")]
    assert test in out
    (into,) = [line for line in lines if line.endswith("edge_crowded: kills 1 more: new")]
    assert into.startswith("in ")
    assert lines[-1].startswith("nf cov smoke: 1 run out, ")
    rows.write_text("{}\n[", encoding="utf-8")
    assert nf("cov", "smoke", folders / "c", "--rows", rows) == 2
    assert "no rows of `nf mutate --rows`" in capsys.readouterr().err
