# SPDX-License-Identifier: Apache-2.0
"""Watcher of `nf run --watch`: a saved file starts the runs that depend on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from neuron_fabric.errors import say
from scripts.common.errors import NfError
from scripts.common.paths import TESTPLAN, TESTS
from scripts.common.records import RunSpec
from scripts.plan.depends import Dependencies

POLL_S = 0.3
_GONE = (0, 0)
Stamps = dict[Path, tuple[int, int]]
Plan = Callable[[], list[RunSpec]]


def stamps(specs: Iterable[RunSpec]) -> Stamps:
    """Return (modification time, size) of all files that can change the runs.

    These are the files that a run depends on, the testplan and all test modules.
    """
    finder = Dependencies()
    files = {path for spec in specs for path in finder.files(spec)}
    files |= {*TESTPLAN.glob("*.yaml"), *TESTS.glob("test_*.py")}
    return _stamped(files)


def _stamped(files: Iterable[Path]) -> Stamps:
    out: Stamps = {}
    for path in files:
        try:
            facts = path.stat()
        except OSError:  # deleted, or being replaced by an editor
            out[path] = _GONE
        else:
            out[path] = (facts.st_mtime_ns, facts.st_size)
    return out


def changed(before: Stamps) -> frozenset[Path]:
    """Return the files whose time or size differs from `before`, and new tests and testplans."""
    now = _stamped({*before, *TESTPLAN.glob("*.yaml"), *TESTS.glob("test_*.py")})
    return frozenset(
        path for path in before.keys() | now.keys() if before.get(path) != now.get(path)
    )


def affected(plan: Plan, old: Iterable[RunSpec], files: frozenset[Path]) -> list[RunSpec]:
    """Return the runs of the present plan that are new or depend on one of the changed files.

    Args:
        plan: Returns the runs of the present files.
        old: Runs planned before.
        files: Changed files.
    """
    finder, known = Dependencies(), set(old)
    return [spec for spec in plan() if spec not in known or files & finder.files(spec)]


def watch(
    plan: Plan, run: Callable[[list[RunSpec]], int], *, rounds: int = -1, poll_s: float = POLL_S
) -> int:
    """Run the plan, then rerun what each saved file affects, until Ctrl-C (exit code 130).

    A mistake in a file that is being edited (a syntax error, a bad testplan) is printed, and the
    next save tries again. Files are polled: some hundred take a millisecond, on every file system.
    Files that are saved during a run or while the plan is made are kept for the next round.

    Args:
        plan: Returns the runs of the present files.
        run: Executes runs and returns an exit code.
        rounds: Number of executions; -1 for no limit.
        poll_s: Seconds between two polls.
    """
    specs = plan()
    before = stamps(specs)
    code = run(specs)
    missed: frozenset[Path] = frozenset()
    while code != 130 and rounds != 1:
        say("nf: watching; a saved file starts what it affects, Ctrl-C ends", flush=True)
        files = _wait(before, poll_s) | missed
        now = _stamped(before)
        try:
            todo = affected(plan, specs, files)
            specs = plan()
        except NfError as error:
            say(f"nf: {error}", flush=True)
            before, missed = {**_stamped(files), **now}, files
            continue
        before, missed = {**stamps(specs), **now}, frozenset()
        if todo:
            code = run(todo)
        rounds -= 1
    return code


def _wait(before: Stamps, poll_s: float) -> frozenset[Path]:
    """Wait until files change and then stay unchanged for one poll, and return them.

    Editors save in several steps.
    """
    last: frozenset[Path] = frozenset()
    while True:
        now = changed(before)
        if now and now == last:
            return now
        last = now
        time.sleep(poll_s)
