# SPDX-License-Identifier: Apache-2.0
"""Tests of the runner on a toy design: every failure kind is produced on purpose."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.build import registry
from scripts.common import cpu_time
from scripts.common.paths import ROOT
from scripts.common.records import Edit, FailureKind, RunRecord, RunSpec, Waves
from scripts.conftest import Toy
from scripts.plan import discover
from scripts.run import simulate
from scripts.run.rerun_failed import RepeatingRunner
from scripts.run.verdict import read_log, read_results, worth_a_rerun

SIMS = pytest.mark.parametrize("sim", registry.names())
SLOW = pytest.mark.nightly("a build with waves; Icarus and test_rerun_failed are the quick part")


@SIMS
def test_pass_with_metrics_and_parameters(toy: Toy, sim: str) -> None:
    build = toy.spec(sim)
    record = toy.run(build, "adds_one")
    assert record.passed, record.cause
    assert record.sim_time_ns > 0
    assert record.metrics == {"cycles": 3, "parameters": {}}
    assert RunRecord.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert toy.run(build, "adds_one").build_seconds == 0  # the build is shared


@SIMS
@pytest.mark.parametrize(
    ("test", "kind", "cause"),
    [
        ("wrong", FailureKind.MISMATCH, "q is not 77; assert 0 == 77 (toy_bench.py:"),
        ("bench_error", FailureKind.CRASH, "named nothing (toy_bench.py:"),
        ("not_installed", FailureKind.CRASH, "'no_such_package' (toy_bench.py:"),
        ("debugs", FailureKind.CRASH, "a debugger ended the test"),
        ("debugs_task", FailureKind.CRASH, "a debugger ended the test"),
        ("debugs_by_another_name", FailureKind.CRASH, "a debugger ended the test"),
        ("reads", FailureKind.CRASH, "the test read from standard input"),
        ("exits_task", FailureKind.CRASH, "exit"),
        ("exits", FailureKind.CRASH, "ended by sys.exit(0) (toy_bench.py:"),
        ("gone", FailureKind.CRASH, "ended in toy_bench.gone without results"),
        ("stuck", FailureKind.TIME_OUT, "SimTimeoutError"),
        ("dies", FailureKind.CRASH, "signal 11"),
        ("no_such_test", FailureKind.NO_TEST, "nothing was run"),
    ],
)
def test_failure_kinds(toy: Toy, sim: str, test: str, kind: FailureKind, cause: str) -> None:
    record = toy.run(toy.spec(sim), test)
    assert (record.passed, record.kind) == (False, kind)
    assert cause in record.cause
    assert "\n" not in record.cause
    assert f"toy_bench::{test}" in record.rerun
    if test.startswith(("debugs", "reads")):
        assert re.search(r"\(toy_bench\.py:\d+\)$", record.cause)
        assert not worth_a_rerun(record.cause_key)


def test_stimulus_is_of_the_record_alone(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that NF_SCALE, NF_WEIGHTS and NF_SCENARIO of the shell do not change a run.

    A rerun uses the values of its record only.
    """
    for name in ("NF_SCALE", "NF_WEIGHTS", "NF_SCENARIO"):
        monkeypatch.setenv(name, "7")
    record = toy.run(toy.spec("icarus"), "shell")
    assert record.passed, record.cause


def test_a_named_test_that_left_no_result_is_a_failure(toy: Toy) -> None:
    record = toy.run(toy.spec("icarus"), "adds_one", "no_such_test")
    assert record.kind is FailureKind.NO_TEST
    assert "no result of no_such_test" in record.cause


@SIMS
def test_what_takes_too_long_is_ended(
    toy: Toy, sim: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Check that a test that uses its processor time, or hangs without using any, is ended.

    Both are time-outs, and are not repeated.
    """
    record = toy.run(toy.spec(sim), "spins", timeout_s=1.5)
    assert record.kind is FailureKind.TIME_OUT
    assert "s of processor time, more than the limit of 1.5 s" in record.cause
    assert re.match(r" +0\.00ns ERROR .* ended by a time limit$", read_log(ROOT / record.log)[-1])
    record = toy.run(toy.spec(sim), "ticks", timeout_s=1.5)
    assert record.cases == ()  # none has ended
    assert re.match(r" *\d+0\.00ns .* ended by a time limit$", read_log(ROOT / record.log)[-1])
    monkeypatch.setattr(cpu_time, "STANDS_STILL_S", 1.0)
    record = toy.run(toy.spec(sim), "hang")
    assert record.kind is FailureKind.TIME_OUT
    assert "no processor time, no output" in record.cause
    assert "ended by a time limit" in read_log(ROOT / record.log)[-1]
    spec = RunSpec(toy.spec(sim), "toy_bench", ("hang",))
    assert RepeatingRunner(lambda _spec: record, tmp_path).run(spec) is record


def test_missing_module_is_a_crash_that_names_it(toy: Toy) -> None:
    record = toy.run(toy.spec("verilator"), "wrong", module="no_such_bench")
    assert record.kind is FailureKind.CRASH
    assert "no_such_bench" in record.cause


def test_several_tests_in_one_process(toy: Toy) -> None:
    record = toy.run(toy.spec("verilator"), "many", "wrong", "adds_one")
    assert [case.name for case in record.cases] == ["adds_one", "many/n=1", "many/n=2", "wrong"]
    assert record.kind is FailureKind.MISMATCH
    assert record.rerun.split()[2] == "toy_bench::wrong"  # only what failed


WAYS = """
    import cocotb
    from toy_bench import adds_one

    @cocotb.skipif(True, reason="it is to be skipped")
    async def left_out(dut):
        assert False, "run all the same"
"""


def test_a_skipped_test_runs_when_it_is_named(toy: Toy) -> None:
    (toy.folder / "ways_bench.py").write_text(textwrap.dedent(WAYS), encoding="utf-8")
    whole = toy.run(toy.spec("icarus"), module="ways_bench")
    assert whole.passed, whole.cause
    ran = {case.name: case.status for case in whole.cases}
    assert ran == {"adds_one": "passed", "left_out": "skipped"}
    assert toy.run(toy.spec("icarus"), "adds_one", module="ways_bench").passed  # by its own name
    named = toy.run(toy.spec("icarus"), "left_out", module="ways_bench")
    assert named.cause == "AssertionError: run all the same; assert False (ways_bench.py:7)"


def test_what_cocotb_registers_must_be_what_was_planned(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "registered", lambda *_: ("adds_one", "gone"))
    record = toy.run(toy.spec("icarus"), "adds_one")
    assert record.kind is FailureKind.NO_TEST
    assert record.cause.startswith("cocotb registered shell, many/n=1, many/n=2 and ")
    assert record.cause.endswith(" more, which the plan does not know")


@SIMS
def test_broken_source_is_a_build_failure(toy: Toy, sim: str) -> None:
    edits = (Edit("toy.sv", "assign inner", "asign inner"),)
    record = toy.run(toy.spec(sim, edits), "adds_one")
    assert record.kind is FailureKind.BUILD
    assert record.log.endswith("build.log")


def test_edit_changes_a_copy_only(toy: Toy) -> None:
    before = (toy.folder / "toy.sv").read_text(encoding="utf-8")
    for edit in (Edit("toy.sv", "d + `STEP", "d"), Edit("inc/toy.svh", "STEP 1", "STEP 2")):
        record = toy.run(toy.spec(edits=(edit,)), "adds_one")
        assert record.kind is FailureKind.MISMATCH
    assert (toy.folder / "toy.sv").read_text(encoding="utf-8") == before


def test_only_ports_are_public_under_verilator(toy: Toy) -> None:
    build = toy.spec("verilator")
    assert toy.run(build, "internals").kind is FailureKind.CRASH
    assert toy.run(replace(build, public=("toy.inner",)), "internals").passed


@pytest.mark.parametrize("sim", [pytest.param("verilator", marks=SLOW), "icarus"])
def test_waves_and_coverage(toy: Toy, sim: str) -> None:
    build = toy.spec(sim, waves=Waves.FST, coverage=sim == "verilator")
    record = toy.run(build, "adds_one")
    assert record.waves is not None
    assert record.waves.endswith(".fst")
    assert (record.coverage is not None) == (sim == "verilator")


@SIMS
def test_parameters_reach_the_design(toy: Toy, sim: str) -> None:
    record = toy.run(toy.spec(sim, parameters=(("WIDTH", 2),)), "adds_one")
    assert record.kind in (FailureKind.MISMATCH, FailureKind.CRASH)  # 4 does not fit in 2 bits
    assert record.parameters == (("WIDTH", 2),)


@pytest.mark.parametrize(
    "text",
    [
        "<testsuite>",
        '<testcase name="x" time="x"/>',
        '<testcase name="x" time="nan"/>',
        '<?xml version="1.0" encoding="nonsense"?><testcase name="x"/>',
        '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><a>&d;</a>',
        "<a>" * 100_000,
    ],
)
def test_a_damaged_result_file_holds_no_test(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.xml").write_text(text, encoding="utf-8")
    assert read_results(tmp_path / "results.xml") is None


def test_damaged_figures_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.json").write_text('{"cycles": NaN}', encoding="utf-8")
    assert simulate._metrics(tmp_path / "metrics.json") == {}
    assert "NaN is no number" in capsys.readouterr().err
    assert simulate._metrics(tmp_path / "none") == {}
