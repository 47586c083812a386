# SPDX-License-Identifier: Apache-2.0
"""Tests of limits of processor time: a busy process is ended, one that waits for a core is not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.common import cpu_time, process

_BUSY = "while True: pass"
_HELPER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_BUSY!r}])"


def run(tmp_path: Path, program: str, limit_s: float) -> process.Finished:
    words = [sys.executable, "-S", "-c", program]
    return process.run_logged(words, tmp_path / "log", cwd=tmp_path, timeout_s=limit_s)


@pytest.mark.parametrize("program", [_BUSY, _HELPER], ids=["itself", "its-helper"])
def test_what_works_is_stopped(tmp_path: Path, program: str) -> None:
    done = run(tmp_path, program, 0.4)
    assert done.timed_out
    assert "of processor time, more than the limit of 0.4 s" in done.why
    assert done.used is not None
    assert 0.4 < done.used < 10


def test_what_waits_is_not(tmp_path: Path) -> None:
    """Check that a process that mostly sleeps may take more wall-clock time than its limit."""
    done = run(tmp_path, "import time; time.sleep(1.5); raise SystemExit(3)", 0.75)
    assert (done.timed_out, done.returncode) == (False, 3)
    assert done.seconds > 1.5
    assert done.used is not None
    assert done.used < 0.75


def test_what_stands_still_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_time, "STANDS_STILL_S", 0.5)
    done = run(tmp_path, "import time; time.sleep(60)", 30.0)
    assert done.timed_out
    assert "stood still for " in done.why


def test_output_is_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_time, "STANDS_STILL_S", 1.0)
    monkeypatch.setattr(cpu_time, "of_group", lambda _group: 0.0)
    program = "import time\nfor _ in range(20): time.sleep(0.1); print('.', flush=True)"
    assert not run(tmp_path, program, 30.0).timed_out


def test_wall_clock_time_is_bounded(tmp_path: Path) -> None:
    done = run(tmp_path, "import time; time.sleep(60)", 0.1)
    assert done.timed_out
    assert "of wall-clock time, more than 10 times the limit of 0.1 s" in done.why


def test_work_of_a_helper_that_is_gone_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that `Meter` does not lose processor time when the sum over the group decreases.

    It does when a process ends that no other waits for.
    """
    found = iter([0.0, 5.0, 1.0, 1.2, 1.4, 1.6])
    monkeypatch.setattr(cpu_time, "of_group", lambda _group: next(found))
    meter = cpu_time.Meter(1, 5.5, tmp_path / "log")
    assert [bool(meter.measure()) for _ in range(5)] == [False, False, False, False, True]


def test_no_time_passes_while_this_process_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 1000.0])
    monkeypatch.setattr(cpu_time, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(cpu_time, "of_group", lambda _group: 0.0)
    assert cpu_time.Meter(1, 20.0, tmp_path / "log").measure() == ""
