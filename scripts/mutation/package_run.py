# SPDX-License-Identifier: Apache-2.0
"""Runner of the listed mutants of `neuron_fabric`: each in a copy of the sources, judged by the
pytest cases that it names.

A case that fails has caught the mutant; one that passes, is skipped, cannot be collected or
exceeds its time limit has not.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from neuron_fabric.errors import one_line, say
from scripts.common import cpu_time, paths, process, run_folders
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, shown
from scripts.common.records import Edit
from scripts.plan import package_mutants
from scripts.plan.package_mutants import PackageMutant

RUNS = BUILD / "mutants-package"
TIMEOUT_S = 600.0  # see `scripts/common/cpu_time.py`
BASE_TIMEOUT_S = 3600.0
_HOST = Path(__file__).with_name("case_host.py")
_COPIED = ("neuron_fabric", "conftest.py", "pyproject.toml")
_NOT_THERE = (".git", ".venv", "build", BUILD.name)
_WORDS = ("-m", "", "--tb=short", "--hypothesis-seed=1")
# The host has imported hypothesis before pytest could look at it: its assertions are not ours.
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_FAILED, _ERRORS = re.compile(r"\b(\d+) failed\b"), re.compile(r"\b(\d+) errors?\b")
_WHY = re.compile(r"^E   +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Judged:
    """Result of one pytest case on a mutant."""

    mutant: PackageMutant
    test: str
    caught: bool
    how: str
    log: Path


def run(chosen: Sequence[PackageMutant], jobs: int, within: float | None = None) -> int:
    """Judge them, ``jobs`` at a time; the exit code. Without ``within`` (seconds after which no
    case is begun) the cases have to pass without a mutant first."""
    begin = time.monotonic()
    run_folders.tree()
    paths.writable(RUNS)
    folder = run_folders.folder(RUNS)
    folder.mkdir(parents=True, exist_ok=True)
    todo = [(mutant, test) for mutant in chosen for test in mutant.tests]
    judged: list[Judged] = []
    hosts = _Hosts(folder)

    def one(number: int, mutant: PackageMutant, test: str) -> Judged | None:
        if within is not None and time.monotonic() - begin > within:
            return None
        return _judge(hosts.own(), folder / f"{mutant.id}-{number}", mutant, test)

    pool = ThreadPoolExecutor(max_workers=max(1, jobs))
    try:
        if within is None:
            _check_base(hosts.own(), chosen, folder)
        work = [pool.submit(one, n, *both) for n, both in enumerate(todo)]
        for done in as_completed(work):
            found = done.result()
            if found is not None:
                judged.append(found)
                word = "caught" if found.caught else "MISSED"
                name = found.test.rpartition("/")[2]
                say(f"{word} {found.mutant.id:30} {name:64} {found.how[:90]}", flush=True)
    except BaseException:  # Ctrl-C: what runs is ended, or the pool would wait for it
        process.kill_all()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        hosts.close()
        process.resume()
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


class _Host:
    """A process that has imported the large packages and runs one case after the other, each in
    a fork."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: process.Child | None = None
        self._link: socket.socket | None = None

    def run(self, place: Path, log: Path, words: Sequence[str], timeout_s: float) -> int | str:
        """Run pytest in that folder.

        Returns:
            The exit code, or the limit that ended it; then this host has ended too, and a new one
                starts next time.

        Raises:
            Interrupted: all processes are being ended.
        """
        link, why = self._link or self._start(), ""
        assert self._process is not None
        try:
            link.sendall(("\x1f".join([str(place), str(log), *words]) + "\n").encode())
            why, _ = cpu_time.watch(
                *(self._process.pid, timeout_s, log), lambda seconds: bool(wait([link], seconds))
            )
            answer = b"" if why else link.recv(64)
        except OSError:
            answer = b""
        process.check_stopping()
        if not answer:
            self.close()
        return why or (int(answer) if answer else -1)

    def _start(self) -> socket.socket:
        self._link, theirs = socket.socketpair()
        with theirs, self._log.open("wb") as out:
            words = [sys.executable, str(_HOST), str(theirs.fileno())]
            more = {"PYTHONDONTWRITEBYTECODE": "1"}
            fds = [theirs.fileno()]
            self._process = process.start(words, out, cwd=ROOT, more=more, pass_fds=fds)
        return self._link

    def close(self) -> None:
        """End it, and what its cases have left."""
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._process is not None:
            process.kill_group(self._process.pid)
            self._process.wait()
            self._process = None


class _Hosts:
    """A host for each thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._made: dict[int, _Host] = {}

    def own(self) -> _Host:
        """Return the host of the calling thread."""
        with self._lock:
            made = _Host(self._folder / f"host-{len(self._made)}.log")
            return self._made.setdefault(threading.get_ident(), made)

    def close(self) -> None:
        """End all."""
        with self._lock:
            for host in self._made.values():
                host.close()


def _check_base(host: _Host, chosen: Sequence[PackageMutant], folder: Path) -> None:
    """Raise NfError unless every case passes without a mutant."""
    tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    code, text = _pytest(host, folder / "base", (), tests, BASE_TIMEOUT_S)
    if code or " skipped" in text:
        raise NfError(
            f"cases that are to catch mutants do not pass without one ({_last(text)}); "
            f"log: {shown(folder / 'base.log')}."
        )


def _judge(host: _Host, place: Path, mutant: PackageMutant, test: str) -> Judged:
    code, text = _pytest(host, place, mutant.edits, [test], TIMEOUT_S)
    failed, errors = _FAILED.search(text), _ERRORS.search(_last(text))
    caught = code == 1 and failed is not None and errors is None
    if isinstance(code, str):
        how = f"ended by its time limit: it {code}"
    elif caught:
        why = _WHY.search(text)
        how = one_line(why[1], 90) if why else "failed"
    else:
        how = "passed" if code == 0 else f"exit code {code}: {_last(text)}"
    return Judged(mutant, test, caught, how, place.with_suffix(".log"))


def _last(text: str) -> str:
    return one_line(([line for line in text.splitlines() if line.strip()] or ["no output"])[-1])


def _pytest(
    host: _Host, place: Path, edits: Sequence[Edit], tests: Sequence[str], timeout_s: float
) -> tuple[int | str, str]:
    """Return the exit code, or which limit ended it, and the output; run in a copy of the sources,
    which is removed afterwards. Unchanged files are links."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    log = place.with_suffix(".log")
    log.unlink(missing_ok=True)
    try:
        for entry in ROOT.iterdir():
            if entry.name in _COPIED:
                _copy(entry, place / entry.name)
            elif entry.name not in _NOT_THERE:
                (place / entry.name).symlink_to(entry)
        for name, text in package_mutants.edited(edits).items():
            (place / name).write_text(text, encoding="utf-8")
        code = host.run(place, log, [*_WORDS, *_QUIET, *tests], timeout_s)
        return code, log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy(entry: Path, to: Path) -> None:
    if entry.is_dir():
        shutil.copytree(entry, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(entry, to)
