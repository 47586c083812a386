# SPDX-License-Identifier: Apache-2.0
"""Waits for files to be saved and says which runs they affect. By polling: a few hundred files cost
a millisecond, on every file system and without another package."""

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
    """Time and size of every file that a run depends on, of the testplan and of all tests."""
    finder = Dependencies()
    files = {path for spec in specs for path in finder.files(spec)}
    files |= {*TESTPLAN.glob("*.yaml"), *TESTS.glob("test_*.py")}
    return _stamped(files)


def _stamped(files: Iterable[Path]) -> Stamps:
    out: Stamps = {}
    for path in files:
        try:
            facts = path.stat()
        except OSError:  # taken away, or just being replaced by an editor
            out[path] = _GONE
        else:
            out[path] = (facts.st_mtime_ns, facts.st_size)
    return out


def changed(before: Stamps) -> frozenset[Path]:
    """Files that are no longer as they were, new tests among them."""
    now = _stamped({*before, *TESTPLAN.glob("*.yaml"), *TESTS.glob("test_*.py")})
    return frozenset(
        path for path in before.keys() | now.keys() if before.get(path) != now.get(path)
    )


def affected(plan: Plan, old: Iterable[RunSpec], files: frozenset[Path]) -> list[RunSpec]:
    """Runs of the plan as it is now that are new, or that use one of the files."""
    finder, known = Dependencies(), set(old)
    return [spec for spec in plan() if spec not in known or files & finder.files(spec)]


def watch(
    plan: Plan, run: Callable[[list[RunSpec]], int], *, rounds: int = -1, poll_s: float = POLL_S
) -> int:
    """Run the plan, then again and again what a saved file affects; ends with Ctrl-C (code 130).

    A mistake in a file that is being edited (a syntax error, a bad testplan) is shown and waited
    out. `rounds` limits the number of runs, for tests of this.
    """
    specs = plan()
    before = stamps(specs)  # what is saved while the runs go on counts for the next round
    code = run(specs)
    missed: frozenset[Path] = frozenset()  # saved while the plan could not be read
    while code != 130 and rounds != 1:
        say("nf: watching; a saved file starts what it affects, Ctrl-C ends", flush=True)
        files = _wait(before, poll_s) | missed
        now = _stamped(before)  # also what is saved while the plan is made
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
    """Wait until files changed and then stood still for one poll: editors save in steps."""
    last: frozenset[Path] = frozenset()
    while True:
        now = changed(before)
        if now and now == last:
            return now
        last = now
        time.sleep(poll_s)
