# SPDX-License-Identifier: Apache-2.0
"""Tests of the example trainings as a user starts them: with a profile, and on a device."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from neuron_fabric.tests.python_process import run_python

REASON = "{} is not installed: see requirements-torch.txt"
pytest.importorskip("torch", reason=REASON.format("torch"))
pytest.importorskip("sklearn", reason=REASON.format("scikit-learn"))

NIGHTLY = pytest.mark.nightly("verif/serve trains on the RTL and on codes in every change")
SENT = {
    "votes": ["FP32", "G_TERNARY everywhere", "G_BINARY everywhere"],
    "codes": ["FP32", "G_INT8", "G_INT4"],
}
"""Rows by the bytes that they send, most first."""


def test_it_learns_by_votes(tmp_path: Path) -> None:
    """Check that the example learns with a profile as a single worker, with log and warnings.

    The laws of the hook cover several workers.
    """
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    profile = Path(__file__).with_name("digits.toml")
    words = ("-m", "examples.train", "--profile", profile, "--steps", "60")
    done = run_python(*words, **place, NF_MONITOR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = re.search(r"seed 1, 60 steps: accuracy ([\d.]+)\nbytes sent by a worker: ", done.stdout)
    assert found is not None
    assert float(found[1]) > 20  # chance is 10
    assert '"target":"LOW"' in (tmp_path / "monitor.jsonl").read_text(encoding="utf-8")
    assert "every region is tried against FP32 first" in done.stderr


def test_every_example_tells_its_scaler() -> None:
    """Check that every call of attach in the examples passes `scaler`.

    Without it a profile with error feedback warns in a training that has none.
    """
    for file in Path(__file__).parent.glob("*.py"):
        calls = [
            one for one in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(one, ast.Call)
        ]
        for call in calls:
            if getattr(call.func, "id", "") == "attach":
                assert any(word.arg == "scaler" for word in call.keywords), file


def rows_on(routes: str, *device: str) -> tuple[list[str], str]:
    """Train a few steps with each route on a device; return the table's rows and all output.

    Checks that each training learns, and the order of the bytes sent.
    """
    words = ("--routes", routes, *device, "--steps", "8", "--workers", "2")
    done = run_python("-m", "examples.train_on_device", *words)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\S.*?)  +([\d.]+) +([\d.]+) +[\d.]+% +([\d,]+)$", done.stdout, re.M)
    sent = {name: int(count.replace(",", "")) for name, _, _, count in rows}
    assert sorted(sent, key=lambda name: -sent[name]) == SENT[routes]
    assert len(set(sent.values())) == 3
    assert all(float(after) < float(before) for _, before, after, _ in rows)
    assert re.search(r"ended: [1-9]\d+ buckets done, 0 lost, [\d,]+ lines", done.stdout)
    return [" ".join(row) for row in rows], done.stdout


@pytest.mark.parametrize("routes", ["votes", pytest.param("codes", marks=NIGHTLY)])
def test_it_trains_on_the_models(routes: str) -> None:
    _, out = rows_on(routes, "--device", "model")
    assert " 0 cycles" in out


@NIGHTLY
@pytest.mark.parametrize("simulator", ["verilator"])
@pytest.mark.parametrize("routes", SENT)
def test_rtl_and_models_train_alike(routes: str, simulator: str) -> None:
    """Check that trainings on the RTL and on the reference models print equal rows.

    The server compares each line of the RTL with the models before it is used.
    """
    rows, out = rows_on(routes, "--sim", simulator)
    assert rows == rows_on(routes, "--device", "model")[0]
    assert " 0 cycles" not in out


def test_more_workers_than_the_device_takes() -> None:
    words = ("-m", "examples.train_on_device")
    done = run_python(*words, "--device", "model", "--workers", "65")
    assert done.returncode == 1
    assert "'65' is not a number from 1 to 64" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
