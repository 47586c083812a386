# SPDX-License-Identifier: Apache-2.0
"""The example of a training by a profile: it learns, and votes are sent."""

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


def test_it_learns_by_votes(tmp_path: Path) -> None:
    """One worker, which torchrun would start: the laws of several are the runtime's own tests."""
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "examples.train_by_profile", "--steps", "60"],
        cwd=ROOT,
        env={**os.environ, **place, "OMP_NUM_THREADS": "1", "NF_MONITOR": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"loss ([\d.]+), .*\nbytes .*", done.stdout)
    assert found is not None
    assert float(found[1]) < 2.1  # log 10 is 2.3
    assert '"target":"LOW"' in (tmp_path / "monitor.jsonl").read_text(encoding="utf-8")
    assert "every region is tried beside FP32 first" in done.stderr
