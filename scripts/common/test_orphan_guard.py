# SPDX-License-Identifier: Apache-2.0
"""Tests that no process survives its command, and that repeated Ctrl-C ends the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from scripts.conftest import ended

COMMON = """import contextlib, os, sys, time
from pathlib import Path
from scripts.common import process
"""
GROUP = """
out = open(os.devnull, "wb")
child = process.start(["sh", "-c", "sleep 300 & echo $! > grandchild; wait"], out, cwd=".")
while not (Path("grandchild").exists() and Path("grandchild").read_text(encoding="utf-8").strip()):
    time.sleep(0.01)
print(child.pid, Path("grandchild").read_text(encoding="utf-8").strip(), flush=True)
time.sleep(300)
"""
STAGE = """
from scripts.cli import steps
code = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
steps.run("long", [sys.executable, "-c", code])
"""
PROGRAMS = {"group": GROUP, "stage": STAGE}


def start(folder: Path, program: str) -> subprocess.Popen[str]:
    """Start a Python program in a folder, in a separate process group, and return the process."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{COMMON}{program}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_a_killed_command_has_started_ends(
    tmp_path: Path, program: str, number: signal.Signals
) -> None:
    with start(tmp_path, program) as process:
        assert process.stdout is not None
        pids: list[int] = []
        while not pids:
            line = process.stdout.readline()
            assert line, "the program has ended"
            pids = [int(word) for word in line.split() if word.isdecimal()]
        assert all(map(psutil.pid_exists, pids))
        process.send_signal(number)
        process.wait()
        assert ended(*pids)


PRESSED = """
from scripts.cli import main as cli

class Verb:
    examples = ""
    @staticmethod
    def add_arguments(parser): pass
    @staticmethod
    def run(args):
        print("up", flush=True)
        try:
            with contextlib.suppress(SystemExit):  # as where cocotb's runners are called
                time.sleep(60)
        finally:
            time.sleep(float(os.environ["CLEANING"]))

cli.load = lambda name: Verb
sys.exit(cli.main(["doctor"]))
"""


def at_once(press: Callable[[], None]) -> None:
    for _ in range(5):
        press()
        time.sleep(0.01)


def later(press: Callable[[], None]) -> None:
    press()
    time.sleep(1.2)
    press()


@pytest.mark.parametrize(
    ("cleaning", "hand"),
    [("0", at_once), ("0.4", at_once), ("60", later)],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_ctrl_c_however_often(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cleaning: str,
    hand: Callable[[Callable[[], None]], None],
) -> None:
    """Check exit code 130 and one message after repeated Ctrl-C, for short and long clean-ups."""
    monkeypatch.setenv("CLEANING", cleaning)
    with start(tmp_path, PRESSED) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "up\n"
        hand(lambda: process.send_signal(signal.SIGINT))
        error = process.stderr.read()
        assert (process.wait(), error) == (130, "nf: interrupted\n")


def test_sigterm_has_its_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEANING", "0")
    with start(tmp_path, PRESSED) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        error = process.stderr.read()
        assert (process.wait(), error) == (128 + signal.SIGTERM, "nf: ended by SIGTERM\n")
