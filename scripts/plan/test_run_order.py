# SPDX-License-Identifier: Apache-2.0
"""Tests of decisions before a run: order, dependencies, seeds, builds."""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.build import build_cache, registry
from scripts.cli import main as cli
from scripts.cli import run as nf_run
from scripts.common.errors import NfError
from scripts.common.paths import TESTPLAN
from scripts.common.records import TOP, RunSpec
from scripts.conftest import QUICK, Toy
from scripts.history.database import History, keys_of
from scripts.history.test_history import record, spec
from scripts.plan import run_order, selection, testplan
from scripts.plan.depends import Dependencies, changed_since
from scripts.plan.discover import discover
from scripts.plan.run_order import Memory, Reason
from scripts.run import schedule, simulate


def test_failed_then_changed_then_new_then_longest() -> None:
    slow, quick, new, edited, red = (spec(name) for name in ("slow", "quick", "new", "ed", "red"))
    known = {slow: 9.0, quick: 1.0, edited: 5.0, red: 0.1}
    memory = Memory(
        durations={keys_of(one)[0]: seconds for one, seconds in known.items()},
        red=frozenset({(keys_of(red)[0], 1)}),
        green=frozenset((keys_of(one)[0], "same") for one in (slow, quick, red)),
    )
    prints = {one.id: "same" for one in (slow, quick, new, edited, red)}
    got = run_order.arrange([quick, new, slow, edited, red], memory, prints)
    assert [one.name for one in got] == [one.name for one in (red, edited, new, slow, quick)]
    assert run_order.reason(replace(red, seed=2), memory, "same") is Reason.KNOWN
    assert memory.seconds(spec("slow", "quick")) == 10.0
    assert memory.seconds(spec("slow", "new")) is None


def test_a_missing_build_is_started_early(toy: Toy, tmp_path: Path) -> None:
    names = [
        RunSpec(toy.spec(sim), "toy_bench", (test,))
        for test in ("one", "two")
        for sim in ("icarus", "verilator")
    ]
    got = run_order.arrange(names, Memory(), {}, run_order.missing_builds(names, tmp_path))
    assert [one.build.sim for one in got[:2]] == ["verilator", "icarus"]
    assert sorted(one.id for one in got) == sorted(one.id for one in names)


def test_dependencies(write: Callable[[str, str], Path], tmp_path: Path, toy: Toy) -> None:
    write("verif/__init__.py", "")
    write("verif/env/__init__.py", "from .deep import x\n")
    write("verif/env/deep.py", "import json\nx = 1\n")
    write("verif/env/table.yaml", "a: 1\n")
    write("verif/env/README.md", "")
    write("verif/other.py", "")
    write("verif/late.py", "")
    write("bench.py", "from verif.env import (\n  deep,\n)\ndef f():\n    from verif import late\n")
    for name in ("toy.sv", "toy.f", "inc/toy.svh"):
        write(name, (toy.folder / name).read_text(encoding="utf-8"))
    one = RunSpec(toy.spec(root=tmp_path), "bench")
    found = {path.relative_to(tmp_path).as_posix() for path in Dependencies().files(one)}
    python = {"bench.py", "verif/__init__.py", "verif/late.py"}
    python |= {"verif/env/__init__.py", "verif/env/deep.py", "verif/env/table.yaml"}
    assert found == python | {"toy.sv", "toy.f", "inc/toy.svh"}
    before = Dependencies().fingerprint(one)
    write("verif/other.py", "y = 1\n")
    assert Dependencies().fingerprint(one) == before
    for name, text in (("verif/env/deep.py", "x = 2\n"), ("inc/toy.svh", "`define STEP 2\n")):
        write(name, text)
        after = Dependencies().fingerprint(one)
        assert after != before
        before = after


def test_an_unknown_revision_is_one_line() -> None:
    with pytest.raises(NfError, match="no-such-revision"):
        changed_since("no-such-revision")


def test_a_revision_is_no_option_of_git(tmp_path: Path) -> None:
    target = tmp_path / "written"
    with pytest.raises(NfError, match="a revision does not begin with a dash"):
        changed_since(f"--output={target}")
    assert not target.exists()


read_once, discover_once = functools.cache(testplan.read), functools.cache(discover)


def words(*text: str) -> argparse.Namespace:
    """Return the parsed arguments of `nf run` with these words."""
    return cli.make_parser("run").parse_args(["run", *text])


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the path of the history to a file that does not exist, and return it."""
    path = tmp_path / "history.sqlite"
    monkeypatch.setattr("scripts.common.paths.HISTORY", path)
    return path


@pytest.fixture(autouse=True)
def plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the real testplan and discover the real tests once for all tests here."""
    monkeypatch.setattr(testplan, "read", lambda folder=TESTPLAN: read_once(folder))
    monkeypatch.setattr(selection, "discover", discover_once)


TEST = "test_regs::read_write"


def plan(*text: str) -> list[tuple[str, int]]:
    """Return (build, seed) of the runs of one real test for these options."""
    found = selection.plan_runs(words(*text, "--sim", "verilator"))
    assert {one.name for one in found} == {TEST}
    return [(one.build_name, one.seed) for one in found]


def test_seeds(empty: Path, open_history: Callable[[Path], History]) -> None:
    assert plan(TEST) == [("default", 1)]
    assert plan(TEST, "--seeds", "2") == [("default", 1), ("default", 2)]
    assert plan(TEST, "--seed", "7") == [("default", 7)]
    with pytest.raises(NfError, match="no history yet"):
        plan(TEST, "--seed", "repeat")
    history = open_history(empty)
    number = history.begin("nf run", 3)
    for seed in (4, 5):
        (one,) = selection.plan_runs(words(TEST, "--seed", str(seed), "--sim", "verilator"))
        history.add(number, one, record(one, *(one.tests if seed == 5 else ())))
    assert plan(TEST, "--seed", "repeat") == [("default", 4), ("default", 5)]
    assert plan("--failed") == [("default", 5)]
    with pytest.raises(NfError, match="holds no run of these"):
        selection.plan_runs(words("test_regs::unmapped", "--seed", "repeat"))
    with pytest.raises(selection.NothingToDo, match="was red"):
        selection.plan_runs(words("test_regs::unmapped", "--failed"))
    some = list(selection.rounds([one], 2, history.largest_seed()))
    assert [[each.seed for each in round_] for round_ in some] == [[6], [7]]
    suite = [replace(one, seed=seed) for seed in (1, 2, 3)]  # its own seeds make no copies
    assert [len(round_) for round_ in selection.rounds(suite, 2, 0)] == [1, 1]


def test_once(empty: Path) -> None:
    """Check that --once plans each test once, and blocks on the simulator that compiles fastest."""
    specs = selection.plan_runs(words("--suite", "smoke", "--once"))
    tests = [(one.module, name) for one in specs for name in one.tests]
    assert len(tests) == len(set(tests)) > 200
    assert {one.build.sim for one in specs if one.build.top != TOP} == {registry.quick().name}
    assert {one.build_name for one in specs if one.build.top == TOP} >= {"default", "small"}


def test_changed(empty: Path, open_history: Callable[[Path], History]) -> None:
    history = open_history(empty)
    number = history.begin("nf run", 1)
    (one,) = selection.plan_runs(words(TEST, "--sim", "verilator"))
    assert len(plan(TEST, "--changed")) == 1  # never green
    history.add(number, one, record(one), "other files")
    assert len(plan(TEST, "--changed")) == 1
    history.add(number, one, record(one), run_order.fingerprints([one])[one.id])
    with pytest.raises(selection.NothingToDo, match="no file"):
        plan(TEST, "--changed")


@pytest.mark.parametrize(
    "text",
    [
        ["--suite", "smoke", TEST, "--feature", "modes"],
        ["--suite", "smoke", "no_such_test"],
        ["--feature", "no-such-feature", TEST],
        [TEST, "--seed", "3", "--seed-base", "3"],
        [],
        ["--suite", "no_such_suite"],
        ["no_such_test"],
        [TEST, "--build", "no_such_build"],
        [TEST, "--changed", "no-such-revision"],
    ],
)
def test_a_wrong_choice_is_refused(empty: Path, text: list[str]) -> None:
    with pytest.raises(NfError):
        selection.plan_runs(words(*text))


def save(path: Path) -> None:
    """Change a file by one added line."""
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")


def test_watch(toy: Toy) -> None:
    one = RunSpec(toy.spec(), "toy_bench", ("adds_one",))
    other = replace(one, module="other_bench")
    (toy.folder / "other_bench.py").write_text("", encoding="utf-8")
    seen: list[list[RunSpec]] = []
    broken = iter([False, False, False, True])

    def plan() -> list[RunSpec]:
        if next(broken, False):
            save(toy.folder / "toy.f")
            raise NfError("half saved")
        return [one, other]

    def run(specs: list[RunSpec]) -> int:
        seen.append(list(specs))
        save(toy.folder / ("other_bench.py" if len(seen) == 1 else "toy.sv"))
        return 0

    assert nf_run.watch(plan, run, rounds=3, poll_s=0.01) == 0
    assert seen == [[one, other], [other], [one, other]]


def test_watch_waits_for_a_file_that_is_gone(toy: Toy) -> None:
    one = RunSpec(toy.spec(), "toy_bench", ("adds_one",))
    path = toy.folder / "gone.py"
    path.write_text("", encoding="utf-8")
    before = {path: nf_run._stamped([path])[path]}
    path.unlink()
    assert nf_run.changed(before) >= {path}
    before |= nf_run._stamped([path])
    assert path not in nf_run.changed(before)  # told once, not again and again
    path.write_text("", encoding="utf-8")
    assert path in nf_run.changed(before)
    path.unlink()
    assert nf_run.affected(lambda: [one], [one], frozenset({path})) == []


def test_what_is_saved_while_the_plan_is_made_counts(toy: Toy) -> None:
    one = RunSpec(toy.spec(), "toy_bench", ("adds_one",))
    source = toy.folder / "toy.sv"
    seen: list[int] = []

    def plan() -> list[RunSpec]:
        if len(seen) == 1:
            save(source)
        return [one]

    def run(specs: list[RunSpec]) -> int:
        seen.append(len(specs))
        if len(seen) == 1:
            save(source)
        return 0

    assert nf_run.watch(plan, run, rounds=3, poll_s=0.01) == 0
    assert seen == [1, 1, 1]


def test_progress_tells_what_is_built(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schedule, "_SHORT_S", 0.0)

    def once(*_: object) -> build_cache.Built:
        progress = schedule.RunProgress([], 1, schedule.show, builds={})
        progress.tick()
        progress.tick()
        return build_cache.Built(tmp_path, 0.0, True)

    monkeypatch.setattr(build_cache, "once", once)
    build_cache.build(toy.spec())
    assert capsys.readouterr().out == f"building toy for {QUICK}\n"
    assert build_cache.under_way() == []


MODES = "test_modes::g_binary"  # planned on several builds, one of them ecp5
BLOCK = "test_regs_block::levels"  # planned on builds of its block alone


def builds(*text: str) -> set[str]:
    """Return the names of the builds of the runs that these words select."""
    return {one.build_name for one in selection.plan_runs(words(*text, "--sim", "icarus"))}


def test_a_glob_means_the_default_build(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert builds(MODES) == {"default"}
    said = capsys.readouterr().out
    assert "one build for each test: default (1 test); left out: ecp5, " in said
    assert builds(TEST) == {"default"}
    assert "left out" not in capsys.readouterr().out  # it has no other
    assert builds(BLOCK) == {"regs"}
    assert "regs (1 test); left out: regs_small" in capsys.readouterr().out
    assert {"default", "ecp5", "small"} <= builds(MODES, "--build", "*")
    assert builds(MODES, "--build", "sm*", "--build", "ecp5") == {"small", "small-myhdl", "ecp5"}
    assert builds(TEST, "--build", "small") == {"small"}  # though it is not planned there
    assert "left out" not in capsys.readouterr().out


def test_a_suite_is_narrowed(empty: Path) -> None:
    smoke = selection.plan_runs(words("--suite", "smoke"))
    assert {one.seed for one in smoke} == {1}
    assert {"default", "small", "regs"} <= {one.build_name for one in smoke}
    night = ("--suite", "nightly", "--seed", "1")
    assert builds(*night, MODES) > {"default", "ecp5"}
    assert builds(*night, "--build", "ecp5") == {"ecp5"}  # tests of blocks have no such build
    plan = testplan.read()
    for option, key, value in (("--stage", "stage", "V3"), ("--feature", "feature", "modes")):
        found = selection.plan_runs(words(*night, option, value))
        assert {getattr(plan.entries[one.name], key) for one in found} == {value}
    (one,) = selection.plan_runs(
        words("--suite", "smoke", MODES + "/profile=idle", "--sim", "icarus", "--build", "default")
    )
    assert one.tests == ("g_binary/profile=idle",)


def test_a_rerun_command_names_the_build(empty: Path) -> None:
    for name in ("default", "regs"):
        (one,) = selection.plan_runs(words(BLOCK, "--build", name, "--sim", "icarus"))
        command = shlex.split(simulate.rerun_command(one))
        assert selection.plan_runs(words(*command[2:])) == [one]


def night(*text: str) -> list[RunSpec]:
    """Return the runs of the nightly suite, which has several seeds, for one test."""
    return selection.plan_runs(words("--suite", "nightly", TEST, "--sim", "verilator", *text))


def test_seeds_of_a_night_are_drawn_from_the_date(
    empty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    days = []
    for day in (20261231, 20270101):
        monkeypatch.setattr(selection, "date_base", lambda day=day: day)
        days.append([one.seed for one in night()])
        assert f"--seed-base {day} draws the same" in capsys.readouterr().out
    assert len(set(days[0] + days[1])) == 19
    assert days[0][0] == days[1][0] == 1  # the same bins on every date
    assert [one.seed for one in night("--seed-base", "20261231")] == days[0]
    assert str(days[0][1]) in capsys.readouterr().out
    assert [one.seed for one in night("--seeds", "2")] == [1, 2]
    assert max(days[0]) < selection.DRAWN
    (one,) = selection.plan_runs(words("--suite", "smoke", TEST, "--sim", "verilator"))
    assert one.seed == 1  # for every change: results stay comparable


def test_seeds_that_failed_are_run_until_they_are_green(
    empty: Path, open_history: Callable[[Path], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = open_history(empty)
    number = history.begin("nf run: nightly", 9)
    first = night("--seed-base", "1")
    for one in first:
        history.add(number, one, record(one, *one.tests))
    drawn = replace(first[0], seed=5, env=(("NF_WEIGHTS", "{}"),))
    history.add(number, drawn, record(drawn, *drawn.tests))  # an experiment
    (tried,) = selection.plan_runs(words(TEST, "--sim", "verilator", "--build", "edge_tiny"))
    history.add(number, tried, record(tried, *tried.tests))  # the testplan does not name the build
    kept = night("--seed-base", "2")[10:]
    assert [one.seed for one in kept] == [one.seed for one in reversed(first[-5:])]
    assert len(night("--seed-base", "1")) == 10  # they are there already
    for one in first:
        history.add(number, one, record(one))
    assert len(night("--seed-base", "2")) == 10
    listed = testplan.Kept("found by a test of this", test=TEST, sim="veri*", seed=77)
    real = testplan.read()
    monkeypatch.setattr(testplan, "read", lambda: replace(real, kept=(listed,)))
    assert [one.seed for one in night("--seed-base", "2")[10:]] == [77]
    assert not testplan.problems(replace(real, kept=(listed,)), discover_once())
    gone = replace(listed, build="ecp5")
    (problem,) = testplan.problems(replace(real, kept=(gone,)), discover_once())
    assert "no run fits the kept seed 77" in problem


def test_the_environment_is_recorded(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that variables of the user's shell that reach a run are stored in its RunSpec.

    `nf rerun` and cluster workers have no such shell.
    """
    monkeypatch.setenv("NF_SCALE", "0.5")
    monkeypatch.setenv("NF_WEIGHTS", '{"mode": {"FP32": 9}}')
    (one,) = selection.plan_runs(words(TEST, "--sim", "verilator"))
    assert dict(one.env) == {"NF_SCALE": "0.5", "NF_WEIGHTS": '{"mode": {"FP32": 9}}'}
    (one,) = selection.plan_runs(words(TEST, "--sim", "verilator", "--scale", "2"))
    assert dict(one.env)["NF_SCALE"] == "2"
