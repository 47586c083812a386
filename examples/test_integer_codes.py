# SPDX-License-Identifier: Apache-2.0
"""Training on integer codes end to end, by the models and by the RTL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REASON = "{} is not installed: see requirements-torch.txt"
pytest.importorskip("torch", reason=REASON.format("torch"))
pytest.importorskip("sklearn", reason=REASON.format("scikit-learn"))

ROOT = Path(__file__).parent.parent


def codes(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.integer_codes_in_the_loop", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=1800,  # against a hang: the machine may be busy
        check=False,
    )


def rows_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Every row of the table but for its accuracy; the loss has fallen in each."""
    assert done.returncode == 0, done.stderr
    row = r"^(\S+) +([\d.]+) +([\d.]+) +[\d.]+% +([\d,]+)$"
    rows = re.findall(row, done.stdout, re.M)
    assert [name for name, *_ in rows] == ["FP32", "G_INT4", "G_INT8"]
    assert all(float(after) < float(before) for _, before, after, _ in rows)
    sent = [int(count.replace(",", "")) for *_, count in rows]
    assert sent[0] > sent[2] > sent[1]
    return [" ".join(row) for row in rows]


@pytest.mark.parametrize("simulator", ["verilator"])
def test_the_loop_trains(simulator: str) -> None:
    """A few steps of every row, by the RTL as by the models; the server compares each line of the
    RTL with the models before it is used."""
    words = ("--steps", "8", "--workers", "2")
    rtl, model = codes("--sim", simulator, *words), codes("--device", "model", *words)
    assert rows_of(rtl) == rows_of(model)
    for done in (rtl, model):
        assert re.search(r"ended: [1-9]\d+ buckets done, 0 lost, [\d,]+ lines", done.stdout)
    assert " 0 cycles" in model.stdout
    assert " 0 cycles" not in rtl.stdout


def test_more_workers_than_the_device_takes() -> None:
    """What the server says, in a line."""
    done = codes("--device", "model", "--workers", "65")
    assert done.returncode == 1
    assert "'65' is not a number from 1 to 64" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
