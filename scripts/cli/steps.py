# SPDX-License-Identifier: Apache-2.0
"""Steps of a verb of `nf`: functions that return faults, or commands in child processes.

`run_checks` calls functions; `run` executes a command, prints its output and counts its tests.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.common import orphan_guard, tool_environment
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.terminal import Bars, TextTable, clock

_PASSED = re.compile(r"\b(\d+) passed\b")
# They would choose among the tests, bring packages that are not pinned, drop plug-ins or
# assertions, or colour the counts.
_NOT_FOR_STEPS = frozenset(
    {
        *("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"),
        *("PYTHONPATH", "PYTHONOPTIMIZE", "FORCE_COLOR", "PY_COLORS"),
    }
)
_FAILED = re.compile(r"\b(\d+) (?:failed|errors?)\b")


def run_checks(title: str, todo: Mapping[str, Callable[[], list[str]]]) -> int:
    """Call functions as steps and print a line for each; return the exit code of the verb.

    Args:
        title: Name of the verb, for the last line.
        todo: Functions by name of the step. Each returns lines on faults, [] for a pass; one that
            raises NfError has failed, and the others go on.

    Returns:
        1 if a step failed, else 0.
    """
    failed = []
    for name, action in todo.items():
        start = time.monotonic()
        try:
            lines = action()
        except NfError as error:
            lines = [str(error)]
        word = "FAIL" if lines else "ok"
        say(f"{word:4} {name} ({time.monotonic() - start:.1f} s)", flush=True)
        say(*(f"     {line}" for line in lines), flush=True)
        failed += [name] if lines else []
    result = f"failed: {', '.join(failed)}" if failed else "clean"
    say(f"{title}: {len(todo)} checks, {result}")
    return 1 if failed else 0


def command(
    words: Sequence[str], env: Mapping[str, str] | None = None, keep: int = 40
) -> list[str]:
    """Run a command in the root of the project, with the environment of tools and ``env``.

    Returns:
        [] when it exits 0, else the last `keep` lines of its output.
    """
    try:
        code, written = _execute(words, tool_environment.tools(env))
    except OSError as error:
        return [f"{words[0]}: {error.strerror}"]
    if code == 0:
        return []
    lines = [line for line in written if line.strip()]
    return lines[-keep:] or [f"{words[0]} ended with exit code {code}"]


@dataclass(frozen=True)
class Step:
    """Result of a command that ran as a step.

    Attributes:
        name: Name of the step.
        returncode: Exit code.
        passed: Number of passed tests in its last output line; without one 1 or 0.
        failed: Number of failed tests, likewise.
        seconds: Wall-clock time.
        last: Last output line.
    """

    name: str
    returncode: int
    passed: int
    failed: int
    seconds: float
    last: str


def nf(*words: str) -> list[str]:
    """Return the command line of another `nf` with this Python interpreter."""
    return [sys.executable, "-m", "scripts.cli.main", *words]


def run(name: str, words: Sequence[str], log: Path | None = None, *, at_end: bool = False) -> Step:
    """Run one command as a step in the root of the project, and return its result.

    Args:
        name: Name of the step.
        words: The command.
        log: File for the output, in addition to stdout; None for none.
        at_end: Print the output in one piece at the end, since other steps run at the same time.
    """
    start = time.monotonic()
    if not at_end:
        say(f"--- {name}", flush=True)
    on_line = None if at_end else partial(say, flush=True)
    kept = {k: v for k, v in os.environ.items() if k not in _NOT_FOR_STEPS}
    code, lines = _execute(words, {**kept, "PYTHONUNBUFFERED": "1"}, on_line)
    if at_end:
        say(f"--- {name}", *lines, flush=True)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(log, "\n".join(lines) + "\n")
    last = next((x for x in reversed(lines) if x.strip() and not x.startswith("report: ")), "")
    passed, failed = _PASSED.search(last), _FAILED.search(last)
    good = int(passed[1]) if passed else int(code == 0)
    bad = int(failed[1]) if failed else 0
    took = time.monotonic() - start
    return Step(name, code, good, bad or int(code != 0), took, last.strip("= "))


def run_beside(todo: Mapping[str, Sequence[str]], jobs: int) -> list[Step]:
    """Run commands that need a core each, ``jobs`` at a time; print the output of each as it ends.

    Returns:
        Their results, in order.
    """
    start = time.monotonic()
    with ThreadPoolExecutor(max_workers=jobs) as pool, Bars() as bars:
        work = {name: pool.submit(run, name, words, at_end=True) for name, words in todo.items()}
        while pending := {name for name, one in work.items() if not one.done()}:
            now = ", ".join(name for name in todo if name in pending and work[name].running())
            took = clock(time.monotonic() - start)
            bars.draw(f"{took}: {now}", stages=(len(todo) - len(pending), len(todo)))
            wait([work[name] for name in pending], timeout=0.5, return_when=FIRST_COMPLETED)
        return [one.result() for one in work.values()]


def _execute(
    words: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None] | None = None
) -> tuple[int, list[str]]:
    """Run a command to its end; return its exit code and output lines.

    Args:
        words: The command.
        env: Its whole environment.
        on_line: Called with each line as it appears.

    Raises:
        OSError: It cannot be started.
    """
    lines: list[str] = []
    with subprocess.Popen(
        list(words),
        cwd=ROOT,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:  # on Ctrl-C the child gets the same signal and ends its own simulators
        assert process.stdout is not None
        orphan_guard.watch(process.pid, group=False)
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if on_line:
                on_line(lines[-1])
    orphan_guard.forget(process.pid)
    return process.returncode, lines


def close(done: Sequence[Step], seconds: float) -> int:
    """Print the table of steps and the closing line with all counts.

    Returns:
        Exit code: 1 if a step failed or there is none, else 0.
    """
    say("---")
    rows = [
        ("FAIL" if step.returncode else "ok", step.name, step.seconds, step.last[:110])
        for step in done
    ]
    TextTable("{:4} {:34} {:>7.1f} s  {}", rows).show()
    passed = sum(step.passed for step in done)
    failed = sum(step.failed for step in done)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"     processor time of all steps {used.ru_utime + used.ru_stime:12.1f} s")
    say(f"===== {passed} passed, {failed} failed in {seconds:.1f}s =====", flush=True)
    return 1 if any(step.returncode for step in done) or not done else 0
