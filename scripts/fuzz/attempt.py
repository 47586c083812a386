# SPDX-License-Identifier: Apache-2.0
"""Runs one case in a folder of its own, and judges what came of it.

No case may: print a traceback, a control character or a forged line; print more than a screenful
and some; take longer than its limit; leave a process behind; change the decoy beside its files; or
fail without a line that says why. What else is allowed, its group says.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO, Any

from neuron_fabric.data import open_file
from neuron_fabric.errors import MAX_LINE
from scripts.common.paths import ROOT
from scripts.fuzz import setup
from scripts.fuzz.table import Case
from scripts.fuzz.values import FORGED

MARK = "NF_FUZZ_CASE"
"""Environment variable that every process of a case inherits: so a stray one is found."""
DECOY = "decoy.txt"
_DECOY_TEXT = "nobody may write here\n"
_DAMAGE = {"json", "row", "damage", "header"}
_MAX_OUTPUT = 200_000
_REFUSED = "this `nf` tests checkout"
_LINGER_S = 5.0
_LIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "fsize": resource.RLIMIT_FSIZE,
    "as": resource.RLIMIT_AS,
    "stack": resource.RLIMIT_STACK,
}
NEVER = re.compile(
    r"Traceback \(most recent call last\)|Fatal Python error|Segmentation fault|Exception ignored"
    r"|^\s+File \".*\", line \d+, in ",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Outcome:
    """What came of a case; ``problems`` is empty when it held. ``code`` None: it was skipped."""

    case: Case
    code: int | None
    seconds: float
    said: str
    problems: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """What the case did, in one line."""
        word = "FAIL" if self.problems else "skip" if self.code is None else "ok"
        what = "; ".join(self.problems) or self.said or "it said nothing"
        return f"{word:4} {self.case.id}: exit {self.code}, {self.seconds:.1f} s: {what}"


@dataclass(frozen=True)
class _Ended:
    code: int | None  # None: it had to be killed
    out: str
    error: str
    seconds: float
    strays: tuple[str, ...]


def attempt(case: Case, seed: int, builds: Path, keep: Path | None = None) -> Outcome:
    """Set the case up, run it, judge it. ``builds``: where cases that simulate build the design;
    ``keep``: a folder that the case's own is moved into when it fails."""
    random = Random(f"{seed} {case.id}")
    with tempfile.TemporaryDirectory(prefix="nf-fuzz-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            outcome = _attempt(case, folder, random, builds)
        except setup.Skip as skip:
            return Outcome(case, None, 0.0, str(skip))
        except Exception as error:  # of the campaign itself: the other cases go on
            problem = f"the case could not be tried: {type(error).__name__}: {error}"
            return Outcome(case, None, 0.0, "", (problem,))
        if outcome.problems and keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            target = keep / re.sub(r"[^\w.-]+", "_", case.id)[:100]
            shutil.rmtree(target, ignore_errors=True)
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(folder, target, symlinks=True, ignore=_only_files)
        return outcome


def _only_files(folder: str, names: list[str]) -> list[str]:
    paths = {name: Path(folder, name) for name in names}
    return [n for n, p in paths.items() if not (p.is_file() or p.is_dir()) or n == "tree"]


def _attempt(case: Case, folder: Path, random: Random, builds: Path) -> Outcome:
    group = case.group
    _set_up(case, folder, random)
    stop = (random, case.word(group.stop)) if group.stop else None
    if group.first:
        first = _run(case, group.first, folder, builds, stop)
        if not stop and first.code != 0:
            problem = f"the command before it failed: {first.error}"
            return Outcome(case, first.code, first.seconds, "", (problem,))
        stop = None
    _set_up(case, folder, random, damage=True)
    ended = _run(case, group.command, folder, builds, stop, limited=True)
    problems = [*_judge(case, ended, bool(stop)), *_files(case, folder, ended, builds)]
    said = next((line for line in (ended.error + ended.out).splitlines() if line), "")
    return Outcome(case, ended.code, ended.seconds, said, tuple(problems))


def _set_up(case: Case, folder: Path, random: Random, damage: bool = False) -> None:
    """The steps of the set-up that do damage, or the others."""
    if not damage:
        (folder / DECOY).write_text(_DECOY_TEXT, encoding="utf-8")
    for step in case.group.setup:
        if bool(set(step) & _DAMAGE) == damage:
            setup.apply(case.fill(step), folder, random)


def _run(
    case: Case,
    words: Sequence[str],
    folder: Path,
    builds: Path,
    stop: tuple[Random, str] | None = None,
    *,
    limited: bool = False,
) -> _Ended:
    group = case.group
    tree = folder / "tree"
    root = tree if tree.is_dir() else ROOT
    token = hashlib.sha256(f"{os.getpid()} {case.id} {folder}".encode()).hexdigest()[:16]
    env = {name: value for name, value in os.environ.items() if not name.startswith("NF_")}
    env |= {"PYTHONPATH": str(root), "NF_BUILD": str(builds if group.build else folder / "build")}
    for name, value in group.env.items():
        env[name] = case.word(value).replace("{folder}", str(folder))
    env[MARK] = token
    limits = case.fill(group.limits) if limited else {}
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        with _stdout(case.word(group.stdout) if limited else "", out) as stdout:
            code = launch(
                [case.word(word) for word in words],
                group.seconds,
                (stop[0].uniform(0.05, 4.0), signal.Signals[f"SIG{stop[1]}"]) if stop else None,
                cwd=root if root == tree else folder,  # `nf` refuses another tree's folder
                env=env,
                stdout=stdout,
                stderr=error,
                preexec_fn=(lambda: _limit(limits)) if limits else None,
            )
        seconds = time.monotonic() - start
        left = tuple(strays(token, _LINGER_S if code is not None else 0.0))
        return _Ended(code, _content(out), _content(error), seconds, left)


def launch(
    words: Sequence[str], limit_s: float, stop: tuple[float, signal.Signals] | None, **how: Any
) -> int | None:
    """Exit code of `nf` with these words; None: it had to be killed after ``limit_s``. ``stop``:
    which signal comes after how many seconds, unless it has ended by then."""
    process = subprocess.Popen(
        [os.fsencode(word) for word in (sys.executable, "-m", "scripts.cli.main", *words)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        **how,
    )
    if stop:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=stop[0])
        process.send_signal(stop[1])  # which does nothing to a process that has ended
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _stdout(kind: str, file: IO[bytes]) -> IO[bytes]:
    """A copy of ``file`` to write to, or a device that is full, or a pipe that nobody reads."""
    if kind == "full":
        return open("/dev/full", "wb")
    if kind == "pipe":
        read, write = os.pipe()
        os.close(read)
        return os.fdopen(write, "wb")
    return os.fdopen(os.dup(file.fileno()), "wb")


def _limit(limits: dict[str, Any]) -> None:
    for name, value in limits.items():
        resource.setrlimit(_LIMITS[name], (int(value), int(value)))


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_OUTPUT + 1).decode("utf-8", "replace")


def strays(token: str, linger: float) -> list[str]:
    """Processes of the case that are still there after ``linger`` seconds, by command line; they
    are killed."""
    late = time.monotonic() + linger
    while (found := _marked(token)) and time.monotonic() < late:
        time.sleep(0.05)
    names = []
    for number in found:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")
            names.append(words.decode("utf-8", "replace")[:200])
            os.kill(number, signal.SIGKILL)
    return names


def _marked(token: str) -> list[int]:
    mark, found = f"{MARK}={token}".encode(), []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if mark in Path(entry.path, "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def _judge(case: Case, ended: _Ended, stopped: bool) -> Iterator[str]:
    allow, both = case.group.allow, ended.out + ended.error
    if ended.code is None:
        yield f"still at work after {case.group.seconds:.0f} s"
    elif ended.code < 0 and not stopped:
        yield f"ended by signal {-ended.code}"
    elif ended.code not in allow.exit and not (stopped and ended.code < 0):
        yield f"exit code {ended.code}, not {' or '.join(map(str, allow.exit))}"
    if ended.strays and ended.code is not None:
        yield f"left behind: {ended.strays[0]}"
    if found := NEVER.search(both):
        yield f"traceback: {(ended.error.strip() or found[0]).splitlines()[-1][:200]}"
    if len(both) > _MAX_OUTPUT:
        yield f"more than {_MAX_OUTPUT:,} characters of output"
    if odd := re.search(r"[^\n\x20-\x7e\u00a1-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", both):
        yield f"control character {odd[0]!r} in the output"
    for line in both.splitlines():
        if line.lstrip().startswith(FORGED):
            yield f"forged line: {line[:60]!r}"
        if len(line) > MAX_LINE + 100:
            yield f"a line of {len(line):,} characters"
    if _REFUSED in both:
        yield "nf took it for a mix-up of checkouts: nothing was tried"
    if ended.code not in (0, None) and not stopped:
        if not both.strip() and case.group.stdout == "":
            yield "it failed and did not say why"
        if allow.says and not re.search(allow.says, both):
            yield f"it does not say {allow.says!r} but {ended.error.strip()[:120]!r}"


def _files(case: Case, folder: Path, ended: _Ended, builds: Path) -> Iterator[str]:
    allow = case.group.allow
    decoy = folder / DECOY
    if not decoy.is_file() or decoy.read_bytes() != _DECOY_TEXT.encode():
        yield f"{DECOY} was changed"
    for name in allow.absent:
        if ended.code != 0 and (folder / name).exists():
            yield f"{name} is there, although it failed"
    for name in allow.same:
        if not (folder / name).is_file():
            if ended.code == 0:
                yield f"{name} is not there, although it did not fail"
        elif _digest(folder / name) != _expected(case, name, builds):
            yield f"{name} is another one than without the damage (exit {ended.code})"


def _digest(path: Path) -> str:
    with open_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_golden: dict[tuple[str, str], str] = {}


def _expected(case: Case, name: str, builds: Path) -> str:
    """The digest of what the command makes where nothing is damaged and nothing stops it."""
    key = (case.group.name, name)
    if key not in _golden:
        with tempfile.TemporaryDirectory(prefix="nf-fuzz-") as place:
            folder = Path(place)
            _set_up(case, folder, Random(0))
            for words in filter(None, (case.group.first, case.group.command)):
                _run(case, words, folder, builds)
            path = folder / name
            _golden[key] = _digest(path) if path.is_file() else "nothing"
    return _golden[key]
