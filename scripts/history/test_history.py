# SPDX-License-Identifier: Apache-2.0
"""Tests of the history: its content, and that a damaged one costs one line and no run."""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.cli import replay, rerun
from scripts.cli.main import main
from scripts.common.errors import NfError
from scripts.common.records import (
    FILELIST,
    TOP,
    BuildSpec,
    CaseResult,
    Edit,
    FailureKind,
    RunRecord,
    RunSpec,
    Verdict,
    Waves,
)
from scripts.conftest import RECORD
from scripts.farm.replay_run import write_history
from scripts.history.database import History, Recorder, keys_of
from scripts.plan.run_order import Memory

BUILD = BuildSpec("icarus", "toy", "toy.f")


def spec(*tests: str, seed: int = 1, sim: str = "icarus") -> RunSpec:
    """Return a run of these tests of the module test_x."""
    return RunSpec(replace(BUILD, sim=sim), "verif.tests.test_x", tests, seed)


def record(of: RunSpec, *failed: str, crash: bool = False, seconds: float = 2.0) -> RunRecord:
    """Return the record of a run in which these tests failed, or that crashed without results."""
    cases = tuple(
        CaseResult(name, "failed" if name in failed else "passed", seconds, 1.0)
        for name in (() if crash else of.tests)
    )
    red = Verdict(False, FailureKind.MISMATCH, "got 1, want 2")
    verdict = red if failed or crash else Verdict(True)
    return RunRecord.of(of, verdict, seconds=seconds, cases=cases, log="run.log", rerun="nf run")


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the path of the history to a file of the test, and return it."""
    path = tmp_path / "history.sqlite"
    monkeypatch.setattr("scripts.common.paths.HISTORY", path)
    return path


@pytest.fixture
def history(path: Path, open_history: Callable[[Path], History]) -> History:
    return open_history(path)


def test_a_spec_survives_json() -> None:
    build = replace(
        BUILD,
        parameters=(("WIDTH", 3),),
        edits=(Edit("a.sv", "x", "y"),),
        waves=Waves.FST,
        root=Path("/elsewhere"),
    )
    one = replace(spec("a", "b"), build=build, env=(("NF_SCALE", "2"),))
    for each in (one, spec()):
        assert RunSpec.from_json(json.loads(json.dumps(each.to_json()))) == each
        assert RunSpec.from_json({**each.to_json(), "plusargs": []}) == each  # of an earlier nf


def test_runs_and_invocations(history: History) -> None:
    first = history.begin("a", 2, "nf run a", "abc")
    ids = [history.add(first, s, record(s)) for s in (spec("a"), spec("a", seed=2))]
    assert history.invocations()[0].finished is None  # as a killed command leaves it
    history.finish(first, {"point": 1})
    second = history.begin("nf run b", 1)
    history.add(second, spec("b"), record(spec("b"), "b"))
    newest, oldest = history.invocations()
    assert (newest.failed, oldest.passed, oldest.expected) == (1, 2, 2)
    assert oldest.finished is not None
    assert (oldest.title, oldest.command, oldest.revision) == ("a", "nf run a", "abc")
    assert [one.facts for one in history.invocations(title="a")] == [{"point": 1}]
    assert history.run(ids[1]).spec == spec("a", seed=2)
    assert history.latest(spec("a").id).id == ids[0]
    assert [run.record.name for run in history.runs(result="failed")] == ["test_x::b"]
    for globs, number in ((["a"], 2), (["test_x"], 3), (["test_x::b", "a"], 3), (["c"], 0)):
        assert len(history.runs(globs=globs)) == number
    assert not history.runs(sim="verilator")
    assert len(history.runs(invocation=first)) == 2
    with pytest.raises(NfError, match="holds no run 99"):
        history.run(99)
    with pytest.raises(NfError, match="no number as large"):
        history.run(10**20)
    with pytest.raises(NfError, match="holds no run 'no-such'"):
        history.latest("no-such")


def test_red_is_what_failed_last(history: History) -> None:
    number = history.begin("nf run", 5)
    both = spec("a", "b")
    history.add(number, both, record(both, "b"))
    assert [test for test, _ in history.red()] == ["test_x::b"]
    history.add(number, spec("b", seed=2), record(spec("b", seed=2)))
    assert [test for test, _ in history.red()] == ["test_x::b"]  # another seed says nothing
    history.add(number, spec("b"), record(spec("b")))
    assert history.red() == []
    history.add(number, both, record(both, crash=True))
    assert sorted(test for test, _ in history.red()) == ["test_x::a", "test_x::b"]


def test_durations_seeds_and_green(history: History) -> None:
    for seeds in ((1, 2, 3), (7, 9)):
        number = history.begin("nf run", len(seeds))
        for seed in seeds:
            one = spec("a", seed=seed)
            history.add(number, one, record(one, seconds=float(seed)), f"print{seed}")
    (key,) = keys_of(spec("a"))
    assert history.last_seeds() == {key: (7, 9)}
    assert history.largest_seed() == 9
    assert history.durations() == {key: pytest.approx((9 + 7 + 3 + 2 + 1) / 5)}
    assert (key, "print7") in history.green()
    assert keys_of(spec("a/n=1", "a/n=2")) == [key]


@pytest.mark.parametrize("damage", ["text", "middle", "folder", "schema"])
def test_a_broken_history_costs_one_line(
    path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if damage == "folder":
        path.mkdir()
    elif damage == "text":
        path.write_text(
            "this is no database, and it is long enough to be read as one" * 20, encoding="utf-8"
        )
    else:
        history = History(path)
        number = history.begin("nf run", 1)
        for seed in range(200):
            history.add(number, spec("a", seed=seed), record(spec("a", seed=seed)))
        history.close()
        if damage == "schema":
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("PRAGMA user_version = 99")
        else:
            data = bytearray(path.read_bytes())
            data[4096:] = b"\xff" * (len(data) - 4096)
            path.write_bytes(data)
    recorder = Recorder("nf run", [spec("a"), spec("b")])
    for one in (spec("a"), spec("b")):
        recorder.add(record(one))
    recorder.close()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "history" in said[0]
    assert "not recorded" in said[0]
    assert not recorder.ids


def test_runs_of_another_version_cost_one_line(history: History) -> None:
    history.add(history.begin("nf run", 1), spec("a"), record(spec("a"), "a"))
    assert Memory.read().red
    data = {**spec("a").to_json(), "of_tomorrow": 1}
    history._db.execute("UPDATE run SET spec = ?", (json.dumps(data),))
    with pytest.raises(NfError, match=r"written by another nf .*of_tomorrow.*: move"):
        history.runs()
    assert not Memory.read_if_any().red  # a run goes on without


def test_recorder() -> None:
    recorder = Recorder("nf run a", [spec("a"), spec("b")])
    recorder.add(record(spec("a")))
    reader = History(write=False)  # while it is being written: nothing waits for the end
    assert [run.id for run in reader.runs()] == [recorder.ids[spec("a").id]]
    recorder.close()
    assert reader.invocations()[0].expected == 2
    again = Recorder("nf run a", [])
    assert again.before() == []  # nothing was told of the first
    again.close({"point": 2})
    for title, before in (("nf run a", [{"point": 2}]), ("nf run b", [])):
        later = Recorder(title, [])
        assert later.before() == before
        later.close()
    reader.close()


DAMAGE: list[tuple[str, str, object]] = [
    *(("run", name, text) for name in ("spec", "record") for text in ("{", "{}", "[1]", "null")),
    ("run", "finished", -1.0),
    ("run", "record", '{"id": "' + "9" * 10 + '\\ud800"}'),
    ("run", "spec", '{"seed": ' + "9" * 5000 + "}"),
    ("invocation", "started", "yesterday"),
    ("invocation", "started", 1e300),
    ("invocation", "expected", 1.5),
    ("invocation", "title", b"\xff"),
    ("invocation", "facts", "[1"),
    ("invocation", "facts", "[" * 100_000),
    ("invocation", "facts", '{"a": NaN}'),
    ("result", "seed", "x"),
    ("result", "seconds", "x"),
    ("result", "test", b"x"),
]


@pytest.mark.parametrize(("table", "column", "value"), DAMAGE)
def test_a_damaged_row_is_one_line(
    history: History, table: str, column: str, value: object
) -> None:
    """Check that each reader reports a value of a wrong type in a row in one line.

    SQLite takes any value in any column.
    """
    run = history.add(history.begin("nf run", 1), spec("a"), record(spec("a")))
    with closing(sqlite3.connect(history.path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    of_a_run = (history.runs, lambda: history.run(run), lambda: history.latest(spec("a").id))
    readers: dict[str, tuple[Callable[[], object], ...]] = {
        "run": of_a_run,
        "invocation": (history.invocations,),
        "result": (lambda: (history.last_seeds(), history.series(), history.green()),),
    }
    says = r"is damaged .*: move" if table == "result" else r"1 of the history .*: move"
    for reader in readers[table]:
        with pytest.raises(NfError, match=says):
            reader()


def test_no_history_yet(tmp_path: Path) -> None:
    with pytest.raises(NfError, match="no history yet"):
        History(tmp_path / "none.sqlite", write=False)


def test_notes_forge_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "x\nFORGED\x1b[2J"
    with History() as history:
        number = history.begin("nf run", 1, f"nf run {forged}")
        history.add(number, spec("a"), replace(record(spec("a"), "a"), cause=forged))
    for words in ((), ("--result", "failed")):
        assert main(["history", *words]) == 0
        text = capsys.readouterr().out
        assert text.count("x\\nFORGED\\x1b[2J") == 1
        assert "\nFORGED" not in text


def test_words_that_are_not_utf8_are_recorded(history: History) -> None:
    odd = replace(record(spec("a")), cause="caf\udce9", rerun="nf replay caf\udce9")
    history.add(history.begin("nf run", 1, "nf run caf\udce9"), spec("a"), odd)
    assert history.invocations()[0].command == "nf run caf\\udce9"
    assert history.runs()[0].record.cause == "caf\\udce9"


def test_a_replay_is_recorded_and_driven_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ".venv/bin/nf replay 'my grads' --steps 3 --transport bulk"
    red = replace(RECORD, name="replay::my_grads", passed=False, cause="a line", rerun=words)
    spec = RunSpec(BuildSpec(red.sim, TOP, FILELIST), "replay", ("my_grads",), rerun=words)
    write_history([(spec, red)])
    with History(write=False) as history:
        (one,) = history.runs(globs=["replay::*"])
    assert (one.result, one.record.cause, one.spec.rerun) == ("failed", "a line", words)
    driven: list[argparse.Namespace] = []

    def drive(args: argparse.Namespace) -> int:
        driven.append(args)
        return 1

    monkeypatch.setattr(replay, "run", drive)
    asked = argparse.Namespace(id=str(one.id), waves=False, timeout=9.0)
    assert rerun.run(asked) == 1
    assert driven[0].capture == "my grads"
    assert (driven[0].transport, driven[0].timeout) == ("bulk", 9.0)
    monkeypatch.setenv("NF_ICARUS", "/opt/icarus/bin/iverilog")
    with pytest.raises(NfError, match=r"was made without NF_ICARUS: unset it, or use `nf run`\."):
        rerun.run(asked)
