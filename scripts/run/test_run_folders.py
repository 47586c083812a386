# SPDX-License-Identifier: Apache-2.0
"""Tests that no run deletes its input files, or the evidence of an earlier failed run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from models.parameters import DeviceParams
from scripts.build import bulk_build
from scripts.cli.run import scenario
from scripts.common import paths
from scripts.common.errors import NfError
from scripts.common.paths import BUILD as REAL_BUILD
from scripts.common.records import BuildSpec
from scripts.conftest import Toy
from scripts.run import replay_simulators, run_folders
from scripts.run.replay_simulators import FILES, Simulators
from verif.scenario.generator import generate
from verif.scenario.weights import Weights


@pytest.fixture
def build(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the build folder to that of the toy, and return it."""
    monkeypatch.setattr(paths, "BUILD", toy.folder)
    return toy.folder


def test_a_run_reads_a_copy_of_what_lies_in_its_folder(toy: Toy, build: Path) -> None:
    """Check that a scenario in the folder of a run is copied before the run empties the folder.

    An earlier run of the same name has left it; NF_SCENARIO names it. The printed command names the
    copy in `build/inputs`.
    """
    spec = toy.spec("icarus")
    toy.run(spec, "wrong", seed=11)
    (build / "runs/toy_bench.wrong-icarus-default-s11/left.json").write_text("7", encoding="utf-8")
    given = (("NF_SCENARIO", str(build / "runs/toy_bench.wrong-icarus-default-s11/left.json")),)
    for _ in range(2):
        record = toy.run(spec, "wrong", seed=11, env=given)
        words = record.rerun.split()
        used = Path(words[words.index("--scenario") + 1])
        assert used.read_text(encoding="utf-8") == "7"
        assert used.parent == build / "inputs"
        given = (("NF_SCENARIO", str(used)),)


def test_the_evidence_of_a_red_run_is_moved_aside(toy: Toy, build: Path) -> None:
    spec, name = toy.spec("icarus"), "toy_bench.{}-icarus-default-s12"
    for test, kept in (("wrong", True), ("many", False)):
        toy.run(spec, test, seed=12)
        (build / "runs" / name.format(test) / "waves.fst").write_text("seen", encoding="utf-8")
        toy.run(spec, test, seed=12)
        assert not (build / "runs" / name.format(test) / "waves.fst").exists()
        assert (build / "red" / name.format(test) / "waves.fst").is_file() is kept


def test_a_red_run_without_waves_replaces_none_with_waves(toy: Toy, build: Path) -> None:
    spec = toy.spec("icarus")
    place = "toy_bench.wrong-icarus-default-s13/waves.fst"
    for waves in ("first", "second", "", ""):
        toy.run(spec, "wrong", seed=13)
        if waves:
            (build / "runs" / place).write_text(waves, encoding="utf-8")
    assert (build / "red" / place).read_text(encoding="utf-8") == "second"


def test_a_mutant_that_was_caught_is_no_evidence(toy: Toy, build: Path) -> None:
    for _ in range(2):
        toy.run(toy.spec("icarus"), "wrong", build_name="mutant-x")
    assert not (build / "red/toy_bench.wrong-icarus-mutant-x-s1").exists()


def test_a_scenario_works_after_the_run_that_empties_its_folder(build: Path) -> None:
    folder = build / "runs" / "test_scenario.mixed-icarus-default-s1"
    folder.mkdir(parents=True)
    file = folder / "reduced-mixed.json"
    file.write_text(generate(3, DeviceParams(), Weights(), 9).text(), encoding="utf-8")
    stored = scenario(str(file))
    run_folders.empty(folder)
    assert not file.exists()
    assert scenario(stored) == stored  # as it is printed, as often as it is pasted
    with pytest.raises(argparse.ArgumentTypeError, match="No such file"):
        scenario(str(file))


def test_a_replay_does_not_empty_the_folder_of_its_input(build: Path) -> None:
    simulators = Simulators(files=build / "replay")
    folder = simulators.workspace("one")
    capture = folder / "capture"
    capture.mkdir()
    with pytest.raises(NfError, match="copy it elsewhere"):
        simulators.workspace("one", str(capture))
    assert capture.is_dir()


def test_a_failed_replay_is_moved_aside_with_its_stimulus(build: Path) -> None:
    simulators = Simulators(files=build / FILES.relative_to(REAL_BUILD))
    folder = simulators.workspace("bulk-x")
    (folder / "stimulus.json").write_text("{}", encoding="utf-8")
    assert simulators.workspace("bulk-x") == folder
    assert list(folder.iterdir()) == []
    assert (build / "red/bulk-x/stimulus.json").is_file()


@pytest.mark.parametrize(("quick", "opt"), [(False, BuildSpec.opt), (True, "-O0")])
def test_quick_is_the_optimisation_of_the_build(
    quick: bool, opt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(replay_simulators, "run_simulation", lambda spec, _: seen.append(spec))
    monkeypatch.setattr(bulk_build, "build", lambda *_, **how: seen.append(how))
    simulators = Simulators(quick=quick)
    simulators.simulate("verilator", "a.b_bench", parameters={}, runs=tmp_path, waves=False)
    simulators.bulk("verilator", {})
    assert seen[0].build.opt == opt
    assert seen[1] == {"quick": quick}
