# SPDX-License-Identifier: Apache-2.0
"""Runner of mutants of `neuron_fabric` and of the C++ host: each in a copy of the sources.

The pytest cases that it names must fail. A case that passes, is skipped, cannot be collected or
exceeds its time limit has not caught the mutant. C++ that does not compile counts as not caught.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from neuron_fabric.errors import say
from neuron_fabric.printable import one_line
from scripts.common import folder_locks, paths, process
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, shown
from scripts.common.terminal import Bars
from scripts.plan import package_mutants
from scripts.plan.package_mutants import PackageMutant

RUNS = BUILD / "mutants-package"
TIMEOUT_S = 600.0  # see `scripts/common/cpu_time.py`
BASE_TIMEOUT_S = 3600.0
_COPIED = ("conftest.py", "pyproject.toml")
_NOT_THERE = (".git", ".venv", "build", BUILD.name)
_PYTEST = (
    *(sys.executable, "-B", "-m", "pytest", "-n0", "-m", "", "--tb=short", "-rf"),
    *("-p", "scripts.mutation.no_shrinking"),
)
_ERRORS = re.compile(r"\b\d+ (errors?|skipped)\b")
_NOT_BUILT = "errors.BuildError: "
_WHY = re.compile(r"^E   +(.+)$", re.MULTILINE)


_Mutant = TypeVar("_Mutant")


@dataclass(frozen=True)
class Judged(Generic[_Mutant]):
    """Result of pytest cases on a mutant: whether they caught it, and how, as text."""

    mutant: _Mutant
    test: str
    caught: bool
    how: str
    log: Path


def own_folder(runs: Path) -> Path:
    """Return the folder below ``runs`` of this command, which holds the lock of the tree."""
    folder_locks.tree()
    paths.writable(runs)
    folder = folder_locks.folder(runs)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def judge_each(
    chosen: Sequence[_Mutant],
    jobs: int,
    judge: Callable[[_Mutant], list[Judged[_Mutant]]],
    line: Callable[[Judged[_Mutant]], str],
) -> list[Judged[_Mutant]]:
    """Judge mutants in parallel, and print a line for each result.

    Args:
        chosen: Mutants.
        jobs: Number of mutants judged in parallel.
        judge: Runs the cases of a mutant.
        line: Returns the line of a result.

    Returns:
        The results in the order in which they came.
    """
    judged: list[Judged[_Mutant]] = []
    pool = ThreadPoolExecutor(max_workers=max(1, jobs))
    try:
        with Bars() as bars:
            work = [pool.submit(judge, mutant) for mutant in chosen]
            for number, done in enumerate(as_completed(work), 1):
                judged += done.result()
                say(*map(line, done.result()), flush=True)
                bars.draw("", mutants=(number, len(chosen)))
    except BaseException:  # Ctrl-C: what runs is ended, or the pool would wait for it
        process.kill_all()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        process.resume()
    return judged


def run(chosen: Sequence[PackageMutant], jobs: int, within: float | None = None) -> int:
    """Run the pytest cases of each mutant of the package `neuron_fabric`, and print the results.

    Args:
        chosen: Mutants of the Python sources.
        jobs: Number of mutants tested in parallel.
        within: Seconds after which no further mutant is started. None for no limit; all cases must
            then first pass on the sources without a mutant.

    Returns:
        Exit code: 0 if each case that ran caught its mutant, else 1. Without `within` it is also 1
        if no case ran.

    Raises:
        NfError: A case fails or is skipped without a mutant (only checked without `within`).
    """
    begin = time.monotonic()
    folder = own_folder(RUNS)
    if within is None:
        _check_base(chosen, folder)

    def one(mutant: PackageMutant) -> list[Judged[PackageMutant]]:
        late = within is not None and time.monotonic() - begin > within
        return [] if late else _judge(folder / mutant.id, mutant)

    def line(found: Judged[PackageMutant]) -> str:
        word, name = "caught" if found.caught else "MISSED", found.test.rpartition("/")[2]
        return f"{word} {found.mutant.id:30} {name:64} {found.how[:90]}"

    judged = judge_each(chosen, jobs, one, line)
    for miss in (found for found in judged if not found.caught):
        say(f"missed {miss.mutant.id}: {miss.mutant.why}", f"  {miss.test}: {miss.how}")
        say(f"  log: {shown(miss.log)}", f"  again: .venv/bin/nf mutate {miss.mutant.id}")
    caught = sum(found.caught for found in judged)
    tried = len({found.mutant.id for found in judged})
    say(
        f"nf mutate: {caught} of {len(judged)} cases caught their mutant of the package "
        f"({tried} of {len(chosen)} mutants, {time.monotonic() - begin:.1f} s)"
    )
    return 0 if caught == len(judged) and (judged or within is not None) else 1


def _check_base(chosen: Sequence[PackageMutant], folder: Path) -> None:
    """Raise NfError unless every case passes without a mutant."""
    tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    done, text = pytest(folder / "base", {}, tests, BASE_TIMEOUT_S)
    if done.returncode or " skipped" in text:
        raise NfError(
            f"cases that are to catch mutants do not pass without one ({_last(text)}); "
            f"log: {shown(folder / 'base.log')}."
        )


def _judge(place: Path, mutant: PackageMutant) -> list[Judged[PackageMutant]]:
    """Run the pytest cases of a mutant in one process in the folder `place`; return each result."""
    texts = package_mutants.edited(mutant.edits)
    done, text = pytest(place, texts, mutant.tests, TIMEOUT_S)
    said = [line.removeprefix("FAILED ") for line in text.splitlines() if line[:7] == "FAILED "]
    valid = done.returncode == 1 and not done.timed_out and not _ERRORS.search(_last(text))
    valid = valid and _NOT_BUILT not in text
    out = []
    for test in mutant.tests:
        caught = valid and any(re.match(re.escape(test) + r"(\[| |$)", line) for line in said)
        if done.timed_out:
            how = f"ended by its time limit: it {done.why}"
        elif caught:
            how = first_failure(text)
        elif valid or not done.returncode:
            how = "passed"
        else:
            how = f"exit code {done.returncode}: {_last(text)}"
        out.append(Judged(mutant, test, caught, how, place.with_suffix(".log")))
    return out


def first_failure(text: str) -> str:
    """Return the first assertion that failed in an output of pytest, or its last line."""
    why = _WHY.search(text)
    return one_line(why[1], 90) if why else _last(text)


def _last(text: str) -> str:
    return one_line(([line for line in text.splitlines() if line.strip()] or ["no output"])[-1])


def pytest(
    place: Path, texts: Mapping[str, str], tests: Sequence[str], timeout_s: float
) -> tuple[process.Finished, str]:
    """Run pytest cases in a copy of the sources with changes; folders without one are links.

    The copy is removed afterwards.

    Args:
        place: Folder of the copy; the log has its name with ".log".
        texts: New text of each changed file, by its path from the root.
        tests: pytest ids, and options.
        timeout_s: Limit in seconds of processor time.

    Returns:
        The end of the process, and its output.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    log = place.with_suffix(".log")
    changed = {name.partition("/")[0] for name in texts}
    if any(name.startswith(package_mutants.HOST) for name in texts):
        changed.add("scripts")  # it compiles the C++ host, and finds its root by its own place
    try:
        for entry in ROOT.iterdir():
            if entry.name in changed:
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(entry, place / entry.name, ignore=ignored)
            elif entry.name in _COPIED:
                shutil.copyfile(entry, place / entry.name)
            elif entry.name not in _NOT_THERE:
                (place / entry.name).symlink_to(entry)
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
        words = [*_PYTEST, "--hypothesis-seed=1", *tests]
        more = {"PYTHONHASHSEED": "0"}  # the order of sets decides no result
        done = process.run_logged(words, log, cwd=place, more=more, timeout_s=timeout_s)
        return done, log.read_text(encoding="utf-8", errors="replace")
    finally:
        shutil.rmtree(place, ignore_errors=True)
