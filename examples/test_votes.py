# SPDX-License-Identifier: Apache-2.0
"""The example end to end on the RTL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
pytest.importorskip("sklearn", reason="scikit-learn is not installed: see requirements-torch.txt")

ROOT = Path(__file__).parent.parent


def votes(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.votes_in_the_loop", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=1800,  # against a hang: the machine may be busy
        check=False,
    )


@pytest.mark.parametrize("simulator", ["verilator"])
def test_the_loop_trains(simulator: str) -> None:
    """A few steps of every variant; the server compares each line with the models, and what votes
    are sent for takes fewer bytes."""
    done = votes("--sim", simulator, "--steps", "8", "--workers", "2")
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\S.*?)  +([\d.]+) +([\d.]+) +[\d.]+% +([\d,]+)$", done.stdout, re.M)
    sent = {variant: int(count.replace(",", "")) for variant, _, _, count in rows}
    assert all(float(after) < float(before) for _, before, after, _ in rows)
    assert sent["FP32"] > sent["G_TERNARY everywhere"] > sent["G_BINARY everywhere"]
    assert re.search(r"ended: [1-9]\d+ buckets done, 0 lost, [\d,]+ lines", done.stdout)


def test_more_workers_than_the_device_takes() -> None:
    """What the server says, in a line."""
    done = votes("--device", "model", "--workers", "65")
    assert done.returncode == 1
    assert "'65' is not a number from 1 to 64" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
