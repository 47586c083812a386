# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf train check` with real workers, and of the workloads that it uses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
pytest.importorskip("sklearn", reason="scikit-learn is not installed: see requirements-torch.txt")

import torch

from examples.train_check_variants import profile_of, spike, spike_at
from examples.workloads import WORKLOADS
from neuron_fabric.lock import Lock
from neuron_fabric.profile import sketch, traced_head
from neuron_fabric.profile.draft_profile import draft
from scripts.cli import main as cli
from scripts.cli import train_check
from scripts.cli.train_check_goals import (
    AUTO,
    BINARY,
    BINARY_HEAD,
    CHECKS,
    FED,
    FP32,
    GUIDED,
    LATE,
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_check, "FOLDER", tmp_path)


ELEMENTS = {"pairs100": 53_224, "digits": 5_154, "gpt": 1_367_040}
"""Values of the networks of the trial, and of the GPT."""


@pytest.mark.parametrize("name", [name for name in CHECKS if name in WORKLOADS])
def test_workloads(name: str) -> None:
    """Check that batches differ by worker, step and seed, are reproducible, and fit the network."""
    work, info = WORKLOADS[name], CHECKS[name]
    assert (work.workers, work.batch, work.steps) == (info.workers, info.batch, info.steps)
    data, net = work.data(), work.net()
    x, y = data.batch(1, 0, 0, work.workers, work.batch)
    assert len(x) == len(y) == work.batch
    for seed, step, rank in ((1, 0, 1), (1, 1, 0), (2, 0, 0)):
        assert not torch.equal(data.batch(seed, step, rank, work.workers, work.batch)[0], x)
    assert torch.equal(data.batch(1, 0, 0, work.workers, work.batch)[0], x)
    assert data.loss(net, x, y).item() > 0
    assert 0 <= data.judge(net) <= 100
    elements = sum(one.numel() for one in net.parameters())
    assert elements == ELEMENTS.get(name, elements)
    head = traced_head(net, x)
    assert set(head) == ({"embedding.weight"} if name == "gpt" else {"head.weight", "head.bias"})


def test_variants() -> None:
    """Check the profiles of the variants: which regions are low-bit, and that they are verified."""
    work = WORKLOADS["pairs100"]
    net = work.net()
    parameters = sketch(net, ("head.weight",))
    for variant in CHECKS["pairs100"].variants:
        guided = draft("guided", parameters)
        profile = profile_of(variant, parameters, guided)
        full = {one.name for one in profile.regions if not one.low_bit}
        assert profile is guided if variant == GUIDED else profile.verified
        if variant in (BINARY_HEAD, FED, LATE):
            assert "head" in full
            assert len(full) < len(profile.regions)
            low = [one.phases["steady"] for one in profile.regions if one.low_bit]
            assert {one.feedback for one in low} == {variant != BINARY_HEAD}
        elif variant not in (FP32, GUIDED):
            assert not full


def test_earlier_results_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that bad words, and a second command during a first one, remove no results."""
    results = tmp_path / "digits" / "results.jsonl"
    results.parent.mkdir()
    results.touch()
    assert cli.main(["train", "check", "digits", "--reducer", "tcp:1"]) == 2
    monkeypatch.setattr(train_check, "_trained", lambda *_: "")
    with Lock(results.parent):
        assert cli.main(["train", "check", "digits", "--steps", "1"]) == 0
    assert results.exists()
    assert (tmp_path / "digits.2" / "plan.json").exists()


def test_a_spike_is_ten_steps() -> None:
    assert spike_at(300) == 120
    assert [step for step in range(300) if spike(step, 300) != 1] == list(range(120, 130))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pairs"], "invalid choice: 'pairs'"),
        (["digits", "--seeds", "1,x"], "'1,x' is no list of numbers"),
        (["digits", "--steps", "0"], "'0' is not a number from 1"),
        (["digits", "--seeds", "1001"], "seed 1001 is one of the calibration's: give another one."),
        (["digits", "--only", "ternary"], "no training of digits is called 'ternary': FP32; "),
    ],
)
def test_bad_input(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(["train", "check", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_sixty_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check a calibration and a training by its profile: 60 steps with eight workers.

    `test_all_goals_are_reached` is the full-length version.
    """
    words = ["train", "check", "pairs100", "--steps", "60", "--seeds", "1", "--only", GUIDED]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "[ok] weights equal on all ranks: 0 trainings differ" in out
    assert "page: " in out
    lines = (tmp_path / "pairs100" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    calibrated, trained = map(json.loads, lines)
    head = next(one for one in calibrated["regions"] if one["kind"] == "head")
    assert (head["route"], head["elements"]) == ("FP32", 9_700)
    assert trained["value"] > 3  # chance is 1
    assert trained["sent"]["FP32"] > 0
    assert {"G_BINARY", "G_TERNARY"} & trained["sent"].keys()
    page = next((tmp_path / "pairs100").glob("*.html")).read_text(encoding="utf-8")
    assert "<svg" in page


@pytest.mark.nightly('10 s: two trainings; laws of the hook start with "auto" in every change')
def test_auto(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that "auto" is trained against FP32, admits regions, and is not judged by one seed."""
    words = ["train", "check", "digits", "--steps", "60", "--seeds", "9", "--only", AUTO]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "auto near FP32: 5 to 10 seeds judge it" in out
    assert "auto: 0 of 1 trainings are lost" in out
    lines = (tmp_path / "digits" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    full, auto = map(json.loads, lines)
    assert set(full["sent"]) == {FP32}
    assert auto["sent"]["G_INT4"] > 0
    assert ["PROBE", "LOW"] in [one[2:4] for one in auto["decisions"]]


@pytest.mark.nightly("20 s: two trainings of eight ranks; test_training closes rounds by day")
@pytest.mark.parametrize("reducer", ["torch", "pool:/dev/shm/nf-test-late-ranks"])
def test_late_ranks(reducer: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that rounds close in the training with late ranks, by a server or in a pool."""
    words = ["train", "check", "pairs100", "--steps", "60", "--seeds", "9", "--only", LATE]
    words += ["--reducer", reducer]
    assert cli.main(words) == 0
    assert re.search(r"\[ok\] G_BINARY, late ranks: [1-9]\d* to ", capsys.readouterr().out)


@pytest.mark.nightly("60 steps of every check by the RTL: half an hour on two cores")
@pytest.mark.parametrize("simulator", ["verilator"])
@pytest.mark.parametrize("name", CHECKS)
def test_the_same_weights_by_the_rtl(
    name: str, simulator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check for each check that trainings by the RTL and by torch have the same weights.

    They use the calibrated profile, and votes everywhere if the check has that variant.
    """
    words = ["train", "check", name, "--steps", "60", "--seeds", "1", "--reducer", "rtl"]
    for only in {GUIDED, BINARY} & set(CHECKS[name].variants):
        assert cli.main([*words, "--sim", simulator, "--only", only]) == 0
        goal = f"[ok] {only}, seed 1: the same weights, bit for bit, by rtl ({simulator}) and torch"
        assert goal in capsys.readouterr().out


def test_a_reducer_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "check", "digits", "--steps", "4", "--seeds", "1", "--reducer", "nothing"]
    assert cli.main(words) == 2
    assert "nf: --reducer: 'nothing' is no reducer; use torch" in capsys.readouterr().err


@pytest.mark.nightly("every training of every check at full length: over an hour on two cores")
def test_all_goals_are_reached() -> None:
    """Check that `nf train check all` reaches all goals; `test_sixty_steps` is a short version."""
    assert cli.main(["train", "check", "all"]) == 0
