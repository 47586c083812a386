# SPDX-License-Identifier: Apache-2.0
"""Tests of the shrinker of a failed scenario run, with a fake simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from models.parameters import DeviceParams
from scripts.common import paths
from scripts.common.records import BuildSpec, CaseResult, FailureKind, RunRecord, RunSpec, Verdict
from scripts.run import shrink_stimulus, simulate
from scripts.run.schedule import details
from verif.scenario.generator import generate
from verif.scenario.scenario_data import Do, parse
from verif.scenario.weights import Weights

SPEC = RunSpec(
    BuildSpec("verilator", "nf_controller", "hdl/nf_controller.f"),
    "verif.tests.test_scenario",
    ("mixed",),
    seed=3,
    env=(("NF_SCALE", "0.5"), ("NF_WEIGHTS", "{}")),
)
CASE = CaseResult("mixed", "failed", 1.0, 100.0)
RED = RunRecord.of(
    SPEC,
    Verdict(False, FailureKind.MISMATCH, "COUNTER DUPLICATE"),
    seconds=1.0,
    sim_time_ns=100.0,
    cases=(CASE,),
    log="run.log",
    rerun="nf run",
)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RunSpec]:
    """Write a scenario; replace the simulator by a function of it; return a list of the runs made.

    A scenario with a read fails for the first cause, one without a commit for another; others pass.
    """
    seen: list[RunSpec] = []

    def run(spec: RunSpec, _runs: Path) -> RunRecord:
        seen.append(spec)
        candidate = parse(Path(dict(spec.env)["NF_SCENARIO"]).read_text(encoding="utf-8"))
        kinds = {one.do for one in candidate.operations}
        if Do.COMMIT not in kinds:
            return replace(RED, cause="STUCK")
        return replace(RED, passed=Do.READ not in kinds)

    def key(record: RunRecord) -> tuple[FailureKind | None, str]:
        return (None, "green") if record.passed else (record.kind, record.cause)

    drawn = generate(3, DeviceParams(), Weights(), 80)
    (tmp_path / "scenario-mixed.json").write_text(drawn.text(), encoding="utf-8")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(simulate, "run", run)
    monkeypatch.setattr(shrink_stimulus, "key_of", key)
    return seen


def test_the_record_shows_what_is_left(seen: list[RunSpec], tmp_path: Path) -> None:
    record = shrink_stimulus.reduced(RED, SPEC, CASE, tmp_path)
    head, *steps, command = record.stimulus
    assert head.startswith("2 of ")
    assert [step.partition(" ")[2].split(" ")[0] for step in steps[-2:]] == ["commit", "read"]
    left = parse((tmp_path / "reduced-mixed.json").read_text(encoding="utf-8"))
    assert {one.do for one in left.operations} == {Do.COMMIT, Do.READ}
    assert command.startswith(".venv/bin/nf run test_scenario::mixed --sim verilator --seed 3")
    stored = Path(command.rpartition(" ")[2])
    assert stored.name.endswith("-reduced-mixed.json")
    assert parse(stored.read_text(encoding="utf-8")) == left
    assert stored.parent == tmp_path / "build" / "inputs"  # no run empties it
    assert "--scale 0.5" in command
    assert "--weights" not in command
    assert not (tmp_path / "reduce").exists()
    assert all("NF_WEIGHTS" not in dict(spec.env) for spec in seen)
    shown = "\n".join(details(record))
    assert "  reduced: 2 of" in shown
    assert f"    {command}" in shown


def test_the_time_limit_ends_it(seen: list[RunSpec], tmp_path: Path) -> None:
    record = shrink_stimulus.reduced(RED, SPEC, CASE, tmp_path, limit_s=0.0)
    assert not seen
    assert "(0 runs)" in record.stimulus[0]


def test_a_run_without_a_scenario_is_left_as_it_is(tmp_path: Path) -> None:
    assert shrink_stimulus.reduced(RED, SPEC, CASE, tmp_path) is RED
    assert shrink_stimulus.reduced(RED, SPEC, None, tmp_path) is RED
    (tmp_path / "scenario-mixed.json").write_text("{", encoding="utf-8")
    assert shrink_stimulus.reduced(RED, SPEC, CASE, tmp_path) is RED
