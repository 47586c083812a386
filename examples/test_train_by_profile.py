# SPDX-License-Identifier: Apache-2.0
"""The example of a training by a profile: it learns, and votes are sent."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from examples.conftest import example

REASON = "{} is not installed: see requirements-torch.txt"
pytest.importorskip("torch", reason=REASON.format("torch"))
pytest.importorskip("sklearn", reason=REASON.format("scikit-learn"))


def test_it_learns_by_votes(tmp_path: Path) -> None:
    """One worker, which torchrun would start: the laws of several are the runtime's own tests."""
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = example("train_by_profile", "--steps", "60", **place, NF_MONITOR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = re.search(r"loss ([\d.]+), .*\nbytes .*", done.stdout)
    assert found is not None
    assert float(found[1]) < 2.1  # log 10 is 2.3
    assert '"target":"LOW"' in (tmp_path / "monitor.jsonl").read_text(encoding="utf-8")
    assert "every region is tried beside FP32 first" in done.stderr


def test_every_example_tells_its_scaler() -> None:
    """Without it a profile with error feedback warns in a training that has none."""
    for file in Path(__file__).parent.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name.startswith("test_") or "neuron_fabric import attach" not in text:
            continue
        calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
        named = [one for one in calls if getattr(one.func, "id", "") == "attach"]
        told = [any(word.arg == "scaler" for word in one.keywords) for one in named]
        assert told, file
        assert all(told), file
