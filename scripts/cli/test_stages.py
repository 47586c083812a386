# SPDX-License-Identifier: Apache-2.0
"""Tests of the stages of `nf test`: counts, parallel output, and mutants in a given time."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from scripts.cli import mutate, nightly, regress, steps
from scripts.cli.conftest import Nf
from scripts.cli.lint import QUICK_BY_SLANG
from scripts.cli.main import main
from scripts.cli.nightly import parts
from scripts.cli.test import STEPS, TESTED_AS_WHEEL, seed_of
from scripts.common.paths import ROOT, WORKFLOW
from scripts.common.records import FailureKind, RunRecord, RunSpec
from scripts.conftest import RECORD
from scripts.plan import testplan
from scripts.run import simulate


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_stage_score(capsys: pytest.CaptureFixture[str]) -> None:
    good = steps.run("good", python("print('3 passed, 0 failed')"))
    last = "print('===== 2 passed, 1 failed ====='); print('report: build/report/index.html')"
    report = steps.run("report", python(last))
    assert (report.passed, report.failed) == (2, 1)  # the path is the last line, not the result
    bad = steps.run("bad", python("raise SystemExit(3)"))
    assert (good.passed, good.failed, bad.passed, bad.failed) == (3, 0, 0, 1)
    assert steps.close([good, bad], 1.0) == 1
    assert "3 passed, 1 failed" in capsys.readouterr().out


def test_stages_side_by_side_keep_their_lines_together(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import time\nfor _ in range(3): print({!r}, flush=True); time.sleep(0.1)"
    todo = {name: python(code.format(name)) for name in ("one", "two")}
    done = steps.run_beside({**todo, "red": python("raise SystemExit(1)")}, 2)
    assert [(step.name, step.returncode) for step in done] == [("one", 0), ("two", 0), ("red", 1)]
    out = capsys.readouterr().out
    assert "--- one\none\none\none\n" in out
    assert "--- two\ntwo\ntwo\ntwo\n" in out


def test_the_help_names_all_parts(nf: Nf) -> None:
    error = nf("test", "--only", "nothing", code=2)
    every = error.strip(".\n").partition("there are: ")[2].split(", ")
    assert tuple(dict.fromkeys(name.split()[0] for name in every)) == STEPS


def test_what_lint_leaves_to_the_night_is_there() -> None:
    assert QUICK_BY_SLANG.keys() <= testplan.read().builds.keys()


def test_pytest_can_ignore_what_runs_as_a_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = settings["tool"]["pytest"]["ini_options"]["testpaths"]  # it ignores none of these
    assert all((ROOT / one).is_dir() and one not in named for one in TESTED_AS_WHEEL)


def test_a_commit_has_one_seed() -> None:
    assert seed_of("01209bbf4a5c, changed") == seed_of("01209bbf4a5c") == 0x01209BB
    assert seed_of("000000000000") == 1


def mutate_within(
    monkeypatch: pytest.MonkeyPatch, words: list[str], **fields: object
) -> tuple[int, list[str]]:
    """Run `nf mutate` with a fake simulator whose runs take one second each.

    Returns:
        The exit code, and the build names of the mutants that were tried.
    """
    tried: list[str] = []

    def one(spec: RunSpec, _folder: object) -> RunRecord:
        tried.append(spec.build_name)
        return replace(RECORD, id=spec.id, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(simulate, "run", one)
    monkeypatch.setattr(mutate, "time", SimpleNamespace(monotonic=lambda: float(len(tried))))
    return main(["mutate", "--part", "rtl", "--jobs", "1", *words]), tried


def test_mutants_within_a_time_are_a_sample_by_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    caught = {"passed": False, "kind": FailureKind.MISMATCH}
    code, first = mutate_within(monkeypatch, ["--seed", "7", "--within", "4.5"], **caught)
    assert (code, len(first)) == (0, 5)
    assert "5 of 5 runs caught their mutant (" in capsys.readouterr().out
    assert mutate_within(monkeypatch, ["--seed", "7", "--within", "1.5"], **caught)[1] == first[:2]
    assert mutate_within(monkeypatch, ["--seed", "8", "--within", "4.5"], **caught)[1] != first


def test_a_mutant_that_lives_in_a_sample_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mutate_within(monkeypatch, ["--seed", "7", "--within", "1.5"])[0] == 1


def test_every_part_of_the_night_runs(monkeypatch: pytest.MonkeyPatch, nf: Nf) -> None:
    todo = {"red": python("raise SystemExit(1)"), "fuzz x": python(""), "fuzz y": python("")}
    monkeypatch.setattr(nightly, "parts", lambda *_: todo)
    out = nf("nightly", "--seed", "3", code=1)
    assert "FAIL red" in out
    assert "===== 2 passed, 1 failed" in out
    nf("nightly", "--only", "fuzz")
    nf("nightly", "--only", "nothing", code=2)


def test_each_part_of_the_night_has_one_machine() -> None:
    pipeline = yaml.safe_load((ROOT / WORKFLOW).read_text(encoding="utf-8"))
    machines = pipeline["jobs"]["nightly"]["strategy"]["matrix"]["include"]
    words = [word for one in machines for word in one["only"].split()]
    assert sorted(words) == sorted({name.split()[0] for name in parts("both", "2", "7")})


@pytest.mark.parametrize("job", ["test", "nightly"])
def test_the_pipeline_keeps_what_a_failure_needs(job: str) -> None:
    """Check that CI jobs upload waves and scenarios of failed runs, and cache history and ccache.

    Both must happen also after a failure.
    """
    pipeline = yaml.safe_load((ROOT / WORKFLOW).read_text(encoding="utf-8"))
    listed = pipeline["jobs"][job]["steps"]
    used = {one["uses"].partition("@")[0]: one for one in listed if "uses" in one}
    uploaded = used["actions/upload-artifact"]["with"]["path"].split()
    assert {f"build/runs*/**/*.{end}" for end in ("log", "json", "vcd", "fst")} <= set(uploaded)
    restored, saved = used["actions/cache/restore"], used["actions/cache/save"]
    assert saved["if"] == used["actions/upload-artifact"]["if"] == "always()"
    for one in (restored, saved):
        assert one["with"]["path"].split() == ["build/history.sqlite", "build/ccache"]
        assert one["with"]["key"] == saved["with"]["key"]
    assert saved["with"]["key"].startswith(restored["with"]["restore-keys"])
    assert "github.run_id" in saved["with"]["key"]  # a cache is never written twice
    lines = [one.get("run", "") for one in listed]
    assert [line for line in lines if "CCACHE_DIR=$GITHUB_WORKSPACE/build/ccache" in line]


def test_the_night_has_every_suite_of_its_name() -> None:
    suites = {name for name in testplan.read().suites if name.startswith("nightly")}
    words = {word for part in parts("both", "2", "7").values() for word in part}
    assert suites <= words


def results(folder: Path, changed: str = "") -> None:
    """Write result files of every route, transport and simulator of `nf regress`.

    The file whose name begins with `changed` gets other values.
    """
    from safetensors.numpy import save_file

    for route in regress.ROUTES:
        for who in ("verilator", "verilator-bulk", "icarus", "icarus-bulk"):
            name = f"{who}-{route}-step-000060.safetensors"
            values = np.arange(4, dtype=np.float32) + np.float32(name.startswith(changed or "-"))
            save_file({"fc.weight": values}, folder / name)


def test_the_first_replay_builds_at_once_and_the_others_are_of_each_route() -> None:
    both = regress.replays(["verilator", "icarus"], full=False)
    assert [(one.route, one.who) for one in both[:2]] == [
        ("layer-aware", "icarus"),
        ("layer-aware", "verilator"),
    ]
    on_verilator = {(one.route, one.transport) for one in both if one.sim == "verilator"}
    assert len(on_verilator) == len(regress.ROUTES) * len(regress.TRANSPORTS)
    assert {one.route for one in both if one.sim == "icarus"} == {"layer-aware"}
    full = regress.replays(["verilator", "icarus"], full=True)
    assert len(set(full)) == 2 * len(on_verilator)
    assert regress.replays(["icarus"], full=False)[0].who == "icarus"
    assert not both[0].quick
    assert not both[1].quick
    assert regress.replays(["verilator"], full=False)[0].quick


def test_the_report_has_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the comparison of replays becomes a step and a record, passed or failed.

    Before, the report passed whatever the comparison said.
    """
    monkeypatch.setattr(regress, "REPLAYED", tmp_path)
    results(tmp_path)
    step, record = regress.compare(regress.replays(["verilator", "icarus"], full=True))
    assert (step.returncode, step.passed, step.failed) == (0, 1, 0)
    assert (record.passed, record.kind, record.cause) == (True, None, "")
    assert record.sim == "verilator+icarus"
    results(tmp_path, changed="icarus-bulk-mix")
    step, record = regress.compare(regress.replays(["verilator", "icarus"], full=True))
    assert (step.returncode, step.passed, step.failed) == (1, 0, 1)
    assert (record.passed, record.kind) == (False, FailureKind.MISMATCH)
    assert record.cause.startswith("mix: ")
    assert "icarus-bulk" in record.cause
    assert record.cause in (tmp_path / "agree.log").read_text(encoding="utf-8")
    assert record.rerun.endswith("nf regress")
