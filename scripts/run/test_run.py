# SPDX-License-Identifier: Apache-2.0
"""`nf run` as a user meets it, each time as a process of its own: a bug is shown wherever one
looks, Ctrl-C and kill leave what finished, and what cannot be done is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from scripts import report
from scripts.common.paths import ROOT
from scripts.conftest import QUICK, Toy
from scripts.report import document

# Runs tests of the toy as `nf run` would, with everything that it makes in a folder of its own.
SCRIPT = """
import sys
from pathlib import Path
from scripts.common.records import BuildSpec, Edit, RunSpec
from scripts.cli.run import execute
sim, root, old, new, *tests = sys.argv[1:]
edits = (Edit("toy.sv", old, new),) if old else ()
build = BuildSpec(sim, "toy", "toy.f", root=Path(root), edits=edits, opt="-O0")
specs = [RunSpec(build, "toy_bench", (test,), timeout_s=300) for test in tests]
sys.exit(execute(specs, 2, "nf run: the toy"))
"""


class User:
    """Types commands; `home` is what NF_BUILD names."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "NF_BUILD": str(home), "PYTHONPATH": str(ROOT)}

    def nf(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One `nf`."""
        return subprocess.run(
            [sys.executable, "-m", "scripts.cli.main", *words],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            encoding="utf-8",
            timeout=600,
            check=False,
        )

    def toy(self, toy: Toy, *tests: str, edit: tuple[str, str] = ("", "")) -> subprocess.Popen[str]:
        """Run tests of the toy."""
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(QUICK), str(toy.folder), *edit, *tests],
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    yield User(tmp_path / "home")
    late = time.monotonic() + 120
    while found := _strays(tmp_path):
        assert time.monotonic() < late, found
        time.sleep(0.05)


def _strays(folder: Path) -> list[str]:
    """Processes that still work for a run below `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in word for word in process.info["cmdline"] or ()):
            found.append(" ".join(process.info["cmdline"]))
    return found


def test_a_seeded_bug_is_shown_everywhere(user: User, toy: Toy) -> None:
    done = user.toy(toy, "adds_one", "many", edit=("d + `STEP", "d + 2"))
    out, _ = done.communicate(timeout=600)
    cause = "q is not d + 1"
    assert done.returncode == 1
    assert f"mismatch: AssertionError: {cause}" in out
    assert "rerun: .venv/bin/nf run toy_bench::adds_one" in out
    junit = ElementTree.parse(user.home / "report" / "junit.xml").getroot()
    assert [cause in str(failure.get("message")) for failure in junit.iter("failure")] == [True]
    assert cause in (user.home / "report" / "index.html").read_text(encoding="utf-8")
    shown = user.nf("history", "--result", "failed").stdout
    assert cause in shown
    number = shown.split()[0]
    assert "1      1" in user.nf("history").stdout
    again = user.nf("rerun", number)  # with the bug, as it was recorded
    assert again.returncode == 1
    assert cause in again.stdout
    assert "adds_one" in user.nf("history", "toy_bench", "--last", "1").stdout
    assert "toy_bench::many" in user.nf("history", "--trend").stdout
    assert user.nf("report", "1").stdout.splitlines()[-1].startswith("===== 2 passed, 1 failed")
    (user.home / "history.sqlite").unlink()
    folder = user.nf("report", "--runs", str(user.home / "runs"))
    assert folder.stdout.splitlines()[-1].startswith("===== 2 passed, 1 failed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_what_finished(user: User, toy: Toy, number: signal.Signals) -> None:
    process = user.toy(toy, "adds_one", "hang")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("PASS"):
            break
    time.sleep(0.5)
    process.send_signal(number)
    rest, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "1 of 2 runs did not finish" in rest
    records = document.read_records(user.home / "report" / report.JSON)
    assert [record.name for record in records] == ["toy_bench::adds_one"]
    assert "1 of 2 runs missing" in user.nf("history").stdout


def test_a_killed_command_leaves_what_finished(user: User, toy: Toy) -> None:
    process = user.toy(toy, "adds_one", "hang")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("PASS"):
            break
    _kill_tree(process.pid)
    process.communicate()
    assert "killed" in user.nf("history").stdout
    assert user.nf("report").stdout.splitlines()[-1].startswith("===== 1 passed, 0 failed")


def _kill_tree(pid: int) -> None:
    """SIGKILL to the command first, so that it can do nothing, then to its simulators."""
    children = psutil.Process(pid).children(recursive=True)
    for process in [psutil.Process(pid), *children]:
        process.kill()
    psutil.wait_procs(children, timeout=120)


def test_what_cannot_be_written_is_one_line(user: User, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    user.env["NF_BUILD"] = str(blocked / "build")
    _one_line(user.nf("run", "test_regs::unmapped"), "cannot write to")


def test_synth_and_mutate_say_where_they_cannot_write(user: User, tmp_path: Path) -> None:
    user.env["NF_BUILD"] = str(tmp_path)
    _one_line(user.nf("measure", "synth", "--top", "nf_vote"), "unset NF_BUILD")
    (tmp_path / "mutants").write_text("", encoding="utf-8")
    _one_line(user.nf("mutate", "never-aborts"), "cannot write to")


def test_a_missing_simulator_is_one_line(user: User) -> None:
    user.env["PATH"] = str(user.home)
    _one_line(user.nf("run", "test_regs::unmapped", "--sim", "icarus"), "icarus is not installed")


def test_no_history_is_one_line(user: User) -> None:
    for words in (["history"], ["report"], ["rerun", "1"], ["run", "--failed"]):
        _one_line(user.nf(*words), "no history yet")


def _one_line(done: subprocess.CompletedProcess[str], says: str) -> None:
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert says in done.stderr


COMPLETE = """
eval "$(python -m scripts.cli.main completion bash)"
export COMP_LINE='{line}' COMP_POINT={point} COMP_TYPE=9
COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_python_argcomplete nf '' ''
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("nf hist", ["history"]),
        ("nf run --until", ["--until-fail"]),
        ("nf run --suite smo", ["smoke"]),
        ("nf run --build link_l", ["link_lrsm"]),
        ("nf run test_counter", ["test_counter::saturates"]),
        ("nf list test_counter", ["test_counter::saturates"]),
        ("nf history --result fl", ["flaky"]),
    ],
)
def test_bash_completes(tmp_path: Path, line: str, offers: list[str]) -> None:
    program = tmp_path / "nf"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -m scripts.cli.main "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", textwrap.dedent(COMPLETE).format(line=line, point=len(line))],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert [word.strip() for word in done.stdout.split()] == offers, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(user: User, shell: str) -> None:
    done = user.nf("completion", shell)
    assert done.returncode == 0
    assert "nf" in done.stdout
