# SPDX-License-Identifier: Apache-2.0
"""Stages of a long command: each its own process, its output shown as it comes, its score kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.text import say
from scripts.common import warden
from scripts.common.paths import ROOT

_PASSED = re.compile(r"\b(\d+) passed\b")
_FAILED = re.compile(r"\b(\d+) (?:failed|errors?)\b")


class Show(Enum):
    """When the output of a stage is printed."""

    NOW = "now"
    AT_END = "at the end"  # in one piece: for stages that run side by side
    IF_RED = "if red"


@dataclass(frozen=True)
class Stage:
    """Result of one stage; a stage that prints no counts of its own counts as one check."""

    name: str
    returncode: int
    passed: int
    failed: int
    seconds: float
    last: str


def nf(*words: str) -> list[str]:
    """The command line of another `nf` on this interpreter."""
    return [sys.executable, "-m", "scripts.cli.main", *words]


def run(name: str, command: Sequence[str], log: Path | None = None, show: Show = Show.NOW) -> Stage:
    """Run one stage from the root; the output goes to `log` too."""
    start = time.monotonic()
    if show is not Show.AT_END:
        say(f"--- {name}", flush=True)
    lines: list[str] = []
    with subprocess.Popen(
        list(command),
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:  # on Ctrl-C the child gets the same signal and ends its own simulators
        assert process.stdout is not None
        warden.watch(process.pid, group=False)
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if show is Show.NOW:
                say(lines[-1], flush=True)
    warden.forget(process.pid)
    if show is Show.AT_END:
        say(f"--- {name}", *lines, flush=True)
    elif show is Show.IF_RED and process.returncode != 0:
        say(*lines[-60:], flush=True)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(log, "\n".join(lines) + "\n")
    return _score(name, process.returncode, lines, time.monotonic() - start)


def _score(name: str, returncode: int, lines: list[str], seconds: float) -> Stage:
    last = next((line for line in reversed(lines) if line.strip()), "")
    passed, failed = _PASSED.search(last), _FAILED.search(last)
    good = int(passed.group(1)) if passed else int(returncode == 0)
    bad = int(failed.group(1)) if failed else 0
    if returncode != 0 and bad == 0:
        bad = 1
    return Stage(name, returncode, good, bad, seconds, last.strip("= "))


def close(stages: Sequence[Stage], seconds: float) -> int:
    """Print the table of stages and the closing line; the exit code of the whole."""
    say("---")
    for stage in stages:
        word = "ok" if stage.returncode == 0 else "FAIL"
        say(f"{word:4} {stage.name:34} {stage.seconds:7.1f} s  {stage.last[:110]}")
    passed = sum(stage.passed for stage in stages)
    failed = sum(stage.failed for stage in stages)
    say(f"===== {passed} passed, {failed} failed in {seconds:.1f}s =====", flush=True)
    return 1 if any(stage.returncode for stage in stages) or not stages else 0
