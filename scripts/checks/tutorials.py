# SPDX-License-Identifier: Apache-2.0
"""Tutorials: a page of the documentation as a shell script, executed and compared with its text.

    python -m scripts.checks.tutorials docs/tutorials/first-test.md    run, and write the times

The fenced blocks of a page are executed in order, in one shell, in a fresh copy of the tree. A
`{code-block}` with a `:caption:` is written to the file that the caption names. A `console` block
holds commands after `$ ` and the output of each. A command must succeed, unless the next one is
`echo $?`. Output is compared line by line: `...` in a line stands for any text, a line `...` for
any lines; indentation and seconds may differ. A command without output in the page may print
anything. `# 12 s` after a command is its processor time, which does not depend on the load of the
machine. This module writes it, and the seconds in the output.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.checks import tracked_files
from scripts.common import git, process
from scripts.common.errors import NfError, run_main
from scripts.common.paths import ROOT, shown

FOLDERS = ("docs/start", "docs/tutorials")
LIMIT_S = 1800.0
"""Time limit of a page in seconds."""
_NOT_FOR_PAGES = ("NF_", "PYTHON", "PYTEST", "MAKE", "MFLAGS")
_FENCE = re.compile(r"^```(\S+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CAPTION = re.compile(r":caption: (\S+)\n(?::\S+:.*\n)*\n")
_COMMAND = re.compile(r"^\$ (.*?)(?: +# \d+ s)?$")
_SECONDS = re.compile(r"\d+(?:\\\.\d+)?(\\ |)s\b")  # in an escaped text
# Exit code and the shell's `times` after the output of a step; its children are the second line.
_ENDED = re.compile(r"\x1e(\d+)\n.*\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s\n")


@dataclass
class PageStep:
    """File to write or command to run.

    Attributes:
        line: Its line in the page, from 1.
        command: Shell text.
        output: Expected lines; empty: any.
        writes: Whether it writes a file, and does not come from a console block.
    """

    line: int
    command: str
    output: list[str]
    writes: bool = False


@dataclass(frozen=True)
class StepResult:
    """Result of a step: its exit code, its output and its processor time in seconds."""

    code: int
    lines: list[str]
    seconds: float


def pages(root: Path = ROOT) -> list[Path]:
    """Return the tutorials, and the pages of the start that have commands."""
    found = [path for folder in FOLDERS for path in sorted((root / folder).glob("*.md"))]
    return [path for path in found if path.parent.name == "tutorials" or steps_of(path)]


def steps_of(page: Path) -> list[PageStep]:
    """Return the steps of a page in order.

    Raises:
        NfError: a console block does not begin with a command.
    """
    text = page.read_text(encoding="utf-8")
    out: list[PageStep] = []
    for fence in _FENCE.finditer(text):
        kind, body = fence.groups()
        first = tracked_files.line_of(text, fence.start()) + 1
        if kind == "{code-block}" and (caption := _CAPTION.match(body)):
            file, content = caption[1], body[caption.end() :]
            folder = Path(file).parent
            write = f"mkdir -p {folder} && cat >{file} <<'END-OF-FILE'\n{content}END-OF-FILE"
            out.append(PageStep(first, write, [], writes=True))
        elif kind == "console":
            out += _commands(page, first, body.splitlines())
    return out


def _commands(page: Path, first: int, lines: Sequence[str]) -> list[PageStep]:
    out: list[PageStep] = []
    for number, line in enumerate(lines, first):
        if found := _COMMAND.match(line):
            out.append(PageStep(number, found[1], []))
        elif out:
            out[-1].output.append(line)
        else:
            raise NfError(f"{shown(page)}:{number}: a console block begins with `$ COMMAND`.")
    return out


def copy_tree(place: Path, installed: bool = True) -> None:
    """Copy the tracked files to `place` as a checkout.

    If `installed`, it gets a `.venv` in which set-up has ended: programs are copied and name the
    copy; the packages are a link.
    """
    for file in git.files(ROOT):
        target = place / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    git.text("init", "--quiet", root=place)
    git.text("add", "--all", root=place)
    who = ("-c", "user.name=tutorial", "-c", "user.email=tutorial@localhost")
    git.text(*who, "commit", "--quiet", "--no-verify", "-m", "the tree", root=place)
    if not installed:
        return
    source, venv = Path(sys.prefix), place / ".venv"
    shutil.copytree(source, venv, symlinks=True, ignore=lambda _, names: {"lib"} & {*names})
    (venv / "lib").symlink_to(source / "lib")
    for file in [*venv.glob("*"), *venv.glob("bin/*")]:
        if file.is_file() and not file.is_symlink():
            data = file.read_bytes()
            file.write_bytes(data.replace(str(ROOT).encode(), str(place).encode()))


def run(steps: Sequence[PageStep], place: Path, **more: str) -> list[StepResult]:
    """Run steps in one shell in `place` until one fails, and return the results.

    Their environment is that of the caller, which may name a proxy or a package index, without what
    directs the project, Python, pytest or make; `more` is added.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_FOR_PAGES)} | more
    script = []
    for step, after in zip(steps, [*steps[1:], None], strict=False):
        may_fail = after is not None and after.command == "echo $?"
        script += [
            step.command,
            "nf_code=$?; printf '\\036%s\\n' $nf_code; times",
            "(exit $nf_code)" if may_fail else "[ $nf_code = 0 ] || exit",
        ]
    with tempfile.TemporaryDirectory(prefix="nf-tutorial-") as folder:
        source, log = Path(folder, "page.sh"), Path(folder, "log")
        output.write_text(source, "\n".join([*script, ""]))
        with log.open("wb") as out, suppress(subprocess.TimeoutExpired):
            child = process.start(["bash", str(source)], out, cwd=place, env=env)
            try:
                child.wait(LIMIT_S)
            finally:
                child.kill()
        pieces = _ENDED.split(log.read_text(encoding="utf-8", errors="replace"))
    results: list[StepResult] = []
    before = 0.0
    for at in range(0, len(pieces) - 1, 6):
        text, code, *used = pieces[at : at + 6]
        user_m, user_s, system_m, system_s = map(float, used)
        total = 60 * (user_m + system_m) + user_s + system_s
        results.append(StepResult(int(code), text.splitlines(), total - before))
        before = total
    if len(results) < len(steps) and not (results and results[-1].code):
        results.append(StepResult(-1, pieces[-1].splitlines(), 0.0))
    return results


def execute(page: Path, place: Path, **more: str) -> tuple[list[PageStep], list[StepResult]]:
    """Copy the tree to `place`, run a page there, and return its steps and their results.

    Pages of the start install the packages; the others find them installed.
    """
    steps = steps_of(page)
    copy_tree(place, installed=page.parent.name != "start")
    return steps, run(steps, place, **more)


def problems(steps: Sequence[PageStep], results: Sequence[StepResult]) -> Iterator[str]:
    """Yield faults of a page: line, command, and what differs."""
    if not steps:
        yield "1: no command: a tutorial has at least one ```console block"
    for step, result, after in zip(steps, results, [*steps[1:], None], strict=False):
        where = f"{step.line}: `{step.command.splitlines()[0]}`"
        said = "".join(f"\n    {line}" for line in result.lines[-20:])
        if result.code == -1:
            yield f"{where} did not end within {LIMIT_S:.0f} s, or ended the shell{said}"
        elif result.code and (after is None or after.command != "echo $?"):
            yield f"{where} ended with exit code {result.code}{said}"
        elif wrong := compare(step.output, result.lines)[1]:
            yield f"{where} {wrong}{said}"


def compare(wanted: Sequence[str], lines: Sequence[str]) -> tuple[list[str], str]:
    """Compare expected lines with printed ones.

    Args:
        wanted: Lines of a page.
        lines: Lines that the command has printed.

    Returns:
        The expected lines, those without `...` as they were printed; and the first difference,
        which is empty if there is none.
    """
    place, gap, out = 0, not wanted, []
    for text in wanted:
        if text == "...":
            gap = True
            out.append(text)
            continue
        pattern = re.escape(text.strip()).replace(r"\.\.\.", ".*")
        pattern = _SECONDS.sub(r"\\d+(?:\\.\\d+)?\1s", pattern)
        found = (n for n in range(place, len(lines)) if re.fullmatch(pattern, lines[n].strip()))
        at = next(found, None)
        if at is None or (at > place and not gap):
            return out, f"does not print {text!r}" + (" next" if at else "")
        out.append(text if "..." in text else lines[at])
        place, gap = at + 1, False
    return out, "" if gap or place == len(lines) else f"prints {lines[place]!r} too"


def write(page: Path, steps: Sequence[PageStep], results: Sequence[StepResult]) -> None:
    """Write the processor time of each command, and the seconds that it printed, into a page."""
    lines = page.read_text(encoding="utf-8").split("\n")
    for step, result in zip(steps, results, strict=True):
        if not step.writes:
            timed = f"$ {step.command}  # {result.seconds:.0f} s"
            lines[step.line - 1] = timed if result.seconds >= 0.5 else f"$ {step.command}"
            after = slice(step.line, step.line + len(step.output))
            lines[after] = compare(step.output, result.lines)[0]
    output.write_text(page, "\n".join(lines))


def main(words: Sequence[str]) -> int:
    """Run pages, write the times into those that pass; return 1 if one fails."""
    bad = False
    for name in words:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory(prefix="nf-tree-") as folder:
            steps, results = execute(page, Path(folder), CCACHE_DISABLE="1")
        for step, result in zip(steps, results, strict=False):
            say(f"$ {step.command}", *result.lines, f"# {result.seconds:.1f} s", flush=True)
        if found := list(problems(steps, results)):
            bad = True
            say(*(f"{shown(page)}:{line}" for one in found for line in one.splitlines()))
        else:
            write(page, steps, results)
    return int(bad)


if __name__ == "__main__":
    run_main("tutorials", lambda: main(sys.argv[1:]))
