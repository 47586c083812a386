# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `calibrate`: refused arguments, and a training of two real workers."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import sys
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric import __main__ as command
from neuron_fabric.calibration import calibrate_command, calibrating
from neuron_fabric.calibration.calibrating import Trainings
from neuron_fabric.calibration.calibration_job import CALIBRATE, SEED, CalibrationError
from neuron_fabric.capacity.cost_model import Device
from neuron_fabric.capacity.substrate import shipped, write_substrate
from neuron_fabric.codec import Route
from neuron_fabric.errors import CaptureError
from neuron_fabric.launcher import run_workers
from neuron_fabric.monitor import log
from neuron_fabric.profile import PhaseRoute, read_profile
from neuron_fabric.profile.profile_types import ValidFor
from neuron_fabric.profile.samples import samples_path
from neuron_fabric.tests.python_process import ROOT, run_python

TRAINING = """
import os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from neuron_fabric import attach

torch.set_num_threads(1)
dist.init_process_group("gloo")
seed = int(os.environ["NF_SEED"])
torch.manual_seed(seed)
net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 20))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rt = attach(model, "a missing profile", steps=12, optimizer=optimizer)
torch.manual_seed(10 * seed + dist.get_rank())
for step in range(12):
    if step == int(sys.argv[1]):
        rt.close()
        sys.exit(3)
    loss = model(torch.randn(8, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    rt.observe(loss)
    optimizer.step()
rt.report(loss=loss)
rt.close()
del model, rt
dist.destroy_process_group()
"""


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    calibrate_command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--every", "0"], "--every: '0' is not a whole number from 1 to 1000000"),
        (["--workers", "-3"], "--workers: '-3' is not a whole number from 1 to 1000000"),
        (["--within", "nan"], "--within: 'nan' is not a number of at least 0"),
        (["--seeds", "2"], "--seeds: '2' is not a whole number from 3 to 10"),
        (["--seeds", "11"], "--seeds: '11' is not a whole number from 3 to 10"),
        (["--warmup", "much"], "--warmup: 'much' is not a number of at least 0"),
        (["--better", "more"], "--better: invalid choice: 'more'"),
        (["--routes", "G_INT4,FP32"], "'G_INT4,FP32' is no list of routes: G_BINARY,G_TERNARY,"),
        (["--protect", "head,heads"], "'head,heads' is neither none nor kinds: head,embedding,"),
        (["--protect", "head,head"], "'head,head' is neither none nor kinds: head,"),
        (["--routes", "G_INT4,G_INT4"], "'G_INT4,G_INT4' is no list of routes"),
    ],
)
def test_a_wrong_word(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["calibrate", "--out", "p.toml", *words, "--", "x.py"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_what_cannot_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that impossible requests are refused before any training is started."""

    def never(*_: object) -> None:
        raise AssertionError

    script = tmp_path / "x.py"
    script.touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    run, out = calibrate_command.run, str(tmp_path / "p.toml")
    with pytest.raises(CalibrationError, match="there is no such script; give a file of Python"):
        run(parsed("--out", out, "--", str(tmp_path / "y.py")), never)
    with pytest.raises(CalibrationError, match="256, and a count of votes holds 255; take fewer"):
        run(parsed("--out", out, "--workers", "256", "--", str(script)), never)
    with pytest.raises(CaptureError, match="its folder does not exist"):
        run(parsed("--out", str(tmp_path / "no" / "p.toml"), "--", str(script)), never)
    samples_path(out).mkdir()
    with pytest.raises(CaptureError, match=r"p.calibration.safetensors: is a folder"):
        run(parsed("--out", out, "--", str(script)), never)
    samples_path(out).rmdir()
    monkeypatch.setenv("NF_CAPTURE_DIR", str(tmp_path))
    with pytest.raises(CalibrationError, match="would all write into its folder; unset it"):
        run(parsed("--out", out, "--", str(script)), never)
    monkeypatch.delenv("NF_CAPTURE_DIR")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CalibrationError, match="torch is not installed"):
        run(parsed("--out", out, "--", str(script)), never)


def test_routes_are_those_of_the_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that routes that a device lacks are neither measured nor chosen, and are named."""
    path = tmp_path / "s.toml"
    routes = (Route.FP32, Route.G_BINARY, Route.G_INT4)
    write_substrate(path, dataclasses.replace(shipped(), device=Device(routes=routes)))
    of_device = calibrate_command.of_device
    votes = (Route.G_BINARY, Route.G_TERNARY)
    codes = (Route.G_INT4, Route.G_INT8)
    assert of_device(None, None) == (votes, (*votes, *codes))
    assert of_device(None, codes) == (codes, (*votes, *codes))
    assert not capsys.readouterr().out
    assert of_device(path, None) == (votes[:1], routes[1:])
    assert "left out, as the device of" in (said := capsys.readouterr().out)
    assert said.endswith("has not got it: G_TERNARY, G_INT8\n")
    assert of_device(path, codes[:1]) == (codes[:1], routes[1:])
    with pytest.raises(CalibrationError, match=r"G_INT4, G_INT8: the device of .* has FP32, G_B"):
        of_device(path, codes)
    write_substrate(
        path, dataclasses.replace(shipped(), device=Device(routes=(Route.FP32, Route.G_INT4)))
    )
    with pytest.raises(CalibrationError, match=r"G_BINARY, G_TERNARY: the device .* name routes"):
        of_device(path, None)


@pytest.mark.nightly("30 s; test_train_check calibrates with eight workers in every change")
def test_real_workers(tmp_path: Path) -> None:
    """Check the calibration of a training that completes, and of one that ends at step 9.

    The profile that the script names is ignored.
    """
    pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    script, out = tmp_path / "train.py", tmp_path / "p.toml"
    script.write_text(TRAINING, encoding="utf-8")
    words = [*("-m", "neuron_fabric", "calibrate", "--out", str(out), "--workers", "2")]
    words += ["--every", "3", "--no-verify", "--", str(script)]
    for stop, code, steps in (("99", 0, 12), ("9", 1, 7)):
        done = run_python(*words, stop)
        assert done.returncode == code, done.stderr[-2000:]
        ran = read_profile(out).calibration
        assert ran is not None
        assert (ran.steps, ran.stopped_early) == (steps, bool(code))
        assert samples_path(out).is_file()
        assert read_profile(out).valid_for == ValidFor((2, 2), (8, 8), 1, "SGD()", None, "off")
    assert "stopped early (worker " in done.stdout
    assert "ended with code 3) after 7 steps; usable, not verified" in done.stdout
    head = read_profile(out).region("head")
    assert head.match == ("2.weight", "2.bias")
    _impact(out, script, tmp_path)


def _impact(out: Path, script: Path, tmp_path: Path) -> None:
    """Check that trainings to measure the loss impact are equal up to the end of the warm-up.

    They stop after the steps that are needed.
    """

    def start(folder: Path, seed: int) -> str | None:
        env = {**os.environ, CALIBRATE: str(folder), SEED: str(seed)}
        env["PYTHONPATH"] = str(ROOT)
        return run_workers([sys.executable, str(script), "99"], 2, env)

    profile = read_profile(out)
    first, *rest = profile.regions
    assert first.elements == 32 * 64
    low = dataclasses.replace(first, phases={**first.phases, "steady": PhaseRoute(Route.G_BINARY)})
    profile = dataclasses.replace(profile, regions=(low, *rest))
    base = tmp_path / "impact"
    base.mkdir()
    runs = Trainings(base, start)
    with mock.patch.object(calibrating, "STEPS", 4):
        losses = [calibrating._loss(profile, name, 4, 1, runs) for name in (None, first.name)]
    assert losses[0] != losses[1]
    seen = []
    for run in runs.done:
        [segment], _ = log.read(log.find(run.folder))
        assert [one.step for one in segment.steps] == list(range(8))  # of 12
        assert run.report is None
        seen.append([one.loss for one in segment.steps])
    assert seen[0][:5] == seen[1][:5]  # of five losses none has seen a low-bit step
    assert seen[0][6:] != seen[1][6:]
