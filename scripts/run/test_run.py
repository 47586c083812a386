# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf` as a user calls it: reports of a failure, one-line errors, shell completion."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.common import process
from scripts.common.paths import ROOT
from scripts.conftest import QUICK, Project

NF = [sys.executable, "-m", "scripts.cli.main"]


def nf(build: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `nf` of this checkout with another build folder and further variables."""
    env = {**os.environ, "NF_BUILD": str(build), "PYTHONPATH": str(ROOT), **variables}
    return process.captured([*NF, *words], env=env)


def test_a_failure_is_shown_everywhere(project: Project) -> None:
    """Check that terminal, JUnit, HTML, history, rerun and reports name the cause of a failure."""
    project.nf("clean", "--all")
    code, out = project.nf("run", "test_toy::wrong", "test_toy::many", "--sim", str(QUICK))
    cause = "q is not 77"
    assert code == 1
    assert f"mismatch: AssertionError: {cause}" in out
    assert "rerun: .venv/bin/nf run test_toy::wrong" in out
    report = project.folder / "build" / "report"
    junit = ElementTree.parse(report / "junit.xml").getroot()
    assert [cause in str(failure.get("message")) for failure in junit.iter("failure")] == [True]
    assert cause in (report / "index.html").read_text(encoding="utf-8")
    shown = project.nf("history", "--result", "failed")[1]
    assert cause in shown
    assert "1      1" in project.nf("history")[1]
    code, again = project.nf("rerun", shown.split()[0])
    assert (code, cause in again) == (1, True)
    assert "wrong" in project.nf("history", "test_toy", "--last", "1")[1]
    assert "test_toy::many" in project.nf("history", "--trend")[1]
    last = "===== 2 passed, 1 failed"
    assert project.nf("report", "1")[1].splitlines()[-1].startswith(last)
    (project.folder / "build/history.sqlite").unlink()
    assert project.nf("report", "--runs", "build/runs")[1].splitlines()[-1].startswith(last)


@pytest.mark.parametrize(
    ("blocked", "words", "says"),
    [
        ("build", ("run", "test_regs::unmapped"), "cannot write to"),
        ("build/mutants", ("mutate", "never-aborts"), "cannot write to"),
        ("", ("measure", "synth", "--top", "nf_vote"), "unset NF_BUILD"),
        ("", ("run", "test_regs::unmapped", "--sim", "icarus"), "icarus is not installed"),
        ("", ("history",), "no history yet"),
        ("", ("report",), "no history yet"),
        ("", ("rerun", "1"), "no history yet"),
        ("", ("run", "--failed"), "no history yet"),
    ],
)
def test_a_missing_condition_is_one_line(
    tmp_path: Path, blocked: str, words: tuple[str, ...], says: str
) -> None:
    """Check one error line and exit code 2 if a condition for a command is not met.

    Conditions are a folder (a file is in its place), a simulator on PATH, or a history.
    """
    if blocked:
        (tmp_path / blocked).parent.mkdir(exist_ok=True)
        (tmp_path / blocked).write_text("", encoding="utf-8")
    path = str(tmp_path) if "icarus" in words else os.environ["PATH"]
    done = nf(tmp_path / "build", *words, PATH=path)
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
    program.write_text(f'#!/bin/sh\nexec {" ".join(NF)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    script = textwrap.dedent(COMPLETE).format(line=line, point=len(line))
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = process.captured(["bash", "-c", script], env=env)
    assert [word.strip() for word in done.stdout.split()] == offers, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(tmp_path: Path, shell: str) -> None:
    done = nf(tmp_path, "completion", shell)
    assert (done.returncode, "nf" in done.stdout) == (0, True)
