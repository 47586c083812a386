# SPDX-License-Identifier: Apache-2.0
"""Groups of fuzz cases, and the fixture that runs one case in a separate folder and judges it.

A group is a pytest function: it writes the files of the case and calls `FuzzCase.run` with the
words of a command and the allowed results. `group` gives it axes of values; each combination is a
case. No case may print a traceback, a control character or a forged line, print more than 200,000
characters, run longer than its limit, leave a process, change the decoy file in its folder, or fail
without a message.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import IO, Any, NamedTuple, TypeVar

import psutil
import pytest

from neuron_fabric.data import open_file, read_text
from neuron_fabric.errors import MAX_LINE
from scripts.common.data import parse_yaml
from scripts.common.paths import BUILD, ROOT

MARK = "NF_FUZZ_CASE"
"""Environment variable that every process of a case inherits, so that a stray one is found."""
DECOY = "decoy.txt"
SHARED_BUILDS = BUILD / "fuzz" / "build"
_DECOY_TEXT = "nobody may write here\n"
_MAX_OUTPUT = 200_000
_REFUSED = "this `nf` tests checkout"
_LINGER_S = 5.0
NEVER = re.compile(
    r"Traceback \(most recent call last\)|Fatal Python error|Segmentation fault|Exception ignored"
    r"|^\s+File \".*\", line \d+, in ",
    re.MULTILINE,
)
FORGED = "FORGED"
"""No line of output may begin with it: it follows line breaks in hostile texts."""
_TABLES = parse_yaml(read_text(Path(__file__).with_name("odd_values.yaml")))


def _text(value: Any) -> str:
    """Convert a value of `odd_values.yaml` to a string.

    It is a text, bytes that need not be UTF-8 (as surrogates), or a list of pieces, each a text or
    ``[text, times]``.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return "".join(one if isinstance(one, str) else one[0] * one[1] for one in value)
    return str(value)


JSON, WORDS, YAML = (
    {key: _text(value) for key, value in _TABLES[name].items()}
    for name in ("json", "words", "yaml")
)
Axis = Sequence[str] | Sequence[int] | Mapping[str, Any]
_F = TypeVar("_F", bound=Callable[..., None])


def group(
    kind: str, take: int | None = None, always: Sequence[str] = (), **axes: Axis
) -> Callable[[_F], _F]:
    """Return a decorator that makes a test function a group of cases: all combinations of its axes.

    Args:
        kind: bad input, fault, or hostile.
        take: Number of cases that a seed draws; None for all.
        always: Names of cases that the ordinary tests run too.
        axes: Values by parameter; a mapping gives each value a printable name.
    """
    named = [
        list(axis.items()) if isinstance(axis, Mapping) else [(str(one), one) for one in axis]
        for axis in axes.values()
    ]
    params = []
    for choice in product(*named):
        name = ", ".join(one for one, _ in choice)
        marks = [] if name in always else [pytest.mark.fuzz]
        params.append(pytest.param(*(value for _, value in choice), id=name, marks=marks))

    def mark(function: _F) -> _F:
        vars(function).update(kind=kind, take=take)
        how: Callable[[_F], _F] = pytest.mark.fuzz
        if axes:
            how = pytest.mark.parametrize(list(axes), params)
        return how(function)

    return mark


def is_chosen(case: str, globs: Sequence[str]) -> bool:
    """Return whether globs select a case: by its group, or by its name "group[value, value]"."""
    name = case.partition("[")[0]
    return case in globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def drawn(cases: Sequence[str], take: int | None, seed: int) -> list[str]:
    """Return the names of the cases of a group that a seed draws: `take` of them; all for None."""
    if take is None or take >= len(cases):
        return list(cases)
    return Random(f"{seed} {cases[0].partition('[')[0]}").sample(cases, take)


def name_of(function: str) -> str:
    """Return the printed name of a group or case from its test: "test_a_b[x]" gives "a-b[x]"."""
    head, *values = function.removeprefix("test_").split("[", 1)
    return "[".join([head.replace("_", "-"), *values])


class CommandResult(NamedTuple):
    """Result of an `nf` command in a fuzz case.

    Attributes:
        code: Exit code; None: killed after its limit.
        out: Standard output, at most 200,001 characters.
        error: Standard error, likewise.
        strays: Command lines of processes that it left running.
    """

    code: int | None
    out: str
    error: str
    strays: Sequence[str] = ()


@dataclass(frozen=True)
class FuzzCase:
    """Folder and random numbers of one fuzz case, and methods to run and judge its command."""

    folder: Path
    random: Random

    def __post_init__(self) -> None:
        (self.folder / DECOY).write_text(_DECOY_TEXT, encoding="utf-8")

    def execute(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        stop: str = "",
        limits: Mapping[int, int] | None = None,
        stdout: str = "",
        build: bool = True,
        seconds: float = 60.0,
    ) -> CommandResult:
        """Run `nf` with these words in the folder (in its copy of the tree, if there is one).

        Args:
            words: Command line.
            env: Additional environment variables.
            stop: Name of a signal ("INT") that is sent at a random moment; "" for none.
            limits: Limits by resource (`resource.RLIMIT_...`).
            stdout: "full" or "pipe" (without a reader) in place of a file.
            build: Use the builds that all cases share, in place of the folder.
            seconds: Kill the command after this time.
        """
        tree = self.folder / "tree"
        root = tree if tree.is_dir() else ROOT
        token = hashlib.sha256(f"{os.getpid()} {self.folder}".encode()).hexdigest()[:16]
        full = {name: value for name, value in os.environ.items() if not name.startswith("NF_")}
        builds = SHARED_BUILDS if build else self.folder / "build"
        full |= {"PYTHONPATH": str(root), "NF_BUILD": str(builds), **(env or {}), MARK: token}

        def limit() -> None:
            for name, value in (limits or {}).items():
                resource.setrlimit(name, (value, value))

        end = (self.random.uniform(0.05, 4.0), signal.Signals[f"SIG{stop}"]) if stop else None
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            with _stdout(stdout, out) as stream:
                code = launch(
                    words,
                    seconds,
                    end,
                    cwd=root if root == tree else self.folder,  # `nf` refuses another tree's folder
                    env=full,
                    stdout=stream,
                    stderr=error,
                    preexec_fn=limit if limits else None,
                )
            left = strays(token, _LINGER_S if code is not None else 0.0)
            return CommandResult(code, _content(out), _content(error), left)

    def run(
        self,
        *words: str,
        exit: Sequence[int] = (0, 2),
        says: str = "",
        same: Mapping[str, str] | None = None,
        absent: Sequence[str] = (),
        **how: Any,
    ) -> None:
        """Run a command and raise AssertionError that lists all breaches of the rules.

        Args:
            words: Command line.
            exit: Allowed exit codes; one that is sent a signal may end by it, too.
            says: Regular expression that the output contains if the exit code is not 0.
            same: Digest of a result file by its name: the file has it, or is absent after a
                failure.
            absent: Files that are absent if the exit code is not 0.
            how: Arguments of `execute`; by default the case has its own builds. A broken ``stdout``
                allows a failure without a message.
        """
        how = {"build": False, "seconds": 60.0, "stop": "", "stdout": "", **how}
        result = self.execute(*words, **how)
        stopped, silent = bool(how["stop"]), bool(how["stdout"])
        problems = [
            *judge(result, exit, says, stopped=stopped, silent=silent, seconds=how["seconds"]),
            *judge_files(result, self.folder, same or {}, absent),
        ]
        assert not problems, f"exit {result.code}: {'; '.join(problems)} (in {self.folder})"


def launch(
    words: Sequence[str], limit_s: float, stop: tuple[float, signal.Signals] | None, **how: Any
) -> int | None:
    """Run `nf` with these words and return its exit code, or None if it was killed for time.

    Args:
        words: Command line.
        limit_s: Seconds until the process group is killed, counted after `stop`.
        stop: Seconds until a signal is sent, and the signal; None for no signal.
        how: Arguments of `subprocess.Popen`.
    """
    process = subprocess.Popen(
        [os.fsencode(word) for word in (sys.executable, "-m", "scripts.cli.main", *words)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        **how,
    )
    if stop:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=stop[0])
        process.send_signal(stop[1])  # no effect on a process that has ended
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _stdout(kind: str, file: IO[bytes]) -> IO[bytes]:
    """Return a copy of ``file`` to write to, a full device, or a pipe without a reader."""
    if kind == "full":
        return open("/dev/full", "wb")
    if kind == "pipe":
        read, write = os.pipe()
        os.close(read)
        return os.fdopen(write, "wb")
    return os.fdopen(os.dup(file.fileno()), "wb")


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_OUTPUT + 1).decode("utf-8", "replace")


def strays(token: str, linger: float) -> list[str]:
    """Kill processes of a case that exist after ``linger`` seconds; return their command lines.

    ``token`` is the value of the variable MARK by which they are found.
    """

    def marked() -> list[psutil.Process]:
        every = psutil.process_iter(["environ"])  # None: of another user, or gone
        return [one for one in every if (one.info["environ"] or {}).get(MARK) == token]

    _, left = psutil.wait_procs(marked(), timeout=linger)
    names = []
    for one in {*left, *marked()}:  # those that were started meanwhile, too
        with contextlib.suppress(psutil.Error):
            names.append(" ".join(one.cmdline())[:200])
            one.kill()
    return names


def judge(
    result: CommandResult,
    exit: Sequence[int] = (0, 2),
    says: str = "",
    *,
    stopped: bool = False,
    silent: bool = False,
    seconds: float = 60.0,
) -> Iterator[str]:
    """Yield an error text for each rule that the exit code, the time or the output breaks.

    Args:
        result: Result of the command.
        exit: Allowed exit codes.
        says: Regular expression that the output of a failure must contain.
        stopped: Whether a signal was sent.
        silent: Whether a failure without a message is allowed.
        seconds: Limit of time, for the text.
    """
    code, both = result.code, result.out + result.error
    if code is None:
        yield f"still at work after {seconds:.0f} s"
    elif code < 0 and not stopped:
        yield f"ended by signal {-code}"
    elif code >= 0 and code not in exit:
        yield f"exit code {code}, not {' or '.join(map(str, exit))}"
    if result.strays and code is not None:
        yield f"left behind: {result.strays[0]}"
    if found := NEVER.search(both):
        yield f"traceback: {(result.error.strip() or found[0]).splitlines()[-1][:200]}"
    yield from _judge_text(both)
    if code not in (0, None) and not stopped:
        if not both.strip() and not silent:
            yield "it failed and did not say why"
        if says and not re.search(says, both):
            yield f"it does not say {says!r} but {result.error.strip()[:120]!r}"


def _judge_text(both: str) -> Iterator[str]:
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


def judge_files(
    result: CommandResult, folder: Path, same: Mapping[str, str], absent: Sequence[str]
) -> Iterator[str]:
    """Yield an error text for each file that was changed, is missing or must not exist.

    Arguments are as in `FuzzCase.run`.
    """
    decoy = folder / DECOY
    if not decoy.is_file() or decoy.read_bytes() != _DECOY_TEXT.encode():
        yield f"{DECOY} was changed"
    for name in absent:
        if result.code != 0 and (folder / name).exists():
            yield f"{name} is there, although it failed"
    for name, digest in same.items():
        if not (folder / name).is_file():
            if result.code == 0:
                yield f"{name} is not there, although it did not fail"
        elif digest_of(folder / name) != digest:
            yield f"{name} is another one than without the damage (exit {result.code})"


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a regular file."""
    with open_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
