# SPDX-License-Identifier: Apache-2.0
"""Limits of processor time: what works hard is stopped, what waits for a busy machine is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts.common import effort, process

_BUSY = "while True: pass"
_HELPER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_BUSY!r}])"


def run(tmp_path: Path, program: str, limit_s: float) -> process.Finished:
    words = [sys.executable, "-S", "-c", program]
    return process.run_logged(words, tmp_path / "log", cwd=tmp_path, effort_s=limit_s)


@pytest.mark.parametrize("program", [_BUSY, _HELPER], ids=["itself", "its-helper"])
def test_what_works_is_stopped(tmp_path: Path, program: str) -> None:
    done = run(tmp_path, program, 0.4)
    assert done.timed_out
    assert done.used is not None
    assert 0.4 < done.used < 10


def test_what_waits_is_not(tmp_path: Path) -> None:
    """As a solver that gets a twentieth of a core: more wall-clock time than its limit."""
    done = run(tmp_path, "import time; time.sleep(1.5); raise SystemExit(3)", 0.75)
    assert (done.timed_out, done.returncode) == (False, 3)
    assert done.seconds > 1.5
    assert done.used is not None
    assert done.used < 0.75


def test_what_stands_still_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "STANDS_STILL_S", 0.5)
    assert run(tmp_path, "import time; time.sleep(60)", 30.0).timed_out
