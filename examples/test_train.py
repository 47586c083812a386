# SPDX-License-Identifier: Apache-2.0
"""Tests of the example training as a user starts it, with a profile."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from neuron_fabric.tests.python_process import run_python

REASON = "{} is not installed: see requirements-torch.txt"
pytest.importorskip("torch", reason=REASON.format("torch"))
pytest.importorskip("sklearn", reason=REASON.format("scikit-learn"))


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
