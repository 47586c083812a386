# SPDX-License-Identifier: Apache-2.0
"""Tests of the local execution of the pipeline: its steps, their conditions and variables."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts.checks import workflow
from scripts.checks.workflow import JobStep, applies, inside, play, steps_of
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, WORKFLOW

MATRIX = {"image": "debian:12", "python": "3.11"}


def on_this_machine(root: Path, variables: Mapping[str, str], script: str) -> int:
    """Execute a script with the paths of the root on this machine: no chroot, which needs root."""
    here = {
        name: str(inside(root, value)) if value.startswith("/") else value
        for name, value in variables.items()
    }
    words = ["sh", "-e", str(inside(root, script))]
    done = subprocess.run(words, env=here, cwd=here["GITHUB_WORKSPACE"], check=False)
    return done.returncode


def test_the_steps_of_the_pipeline() -> None:
    steps, matrix = steps_of(ROOT / WORKFLOW)
    assert matrix == MATRIX
    scripts = [step.run for step in steps if step.run]
    assert len(scripts) == len([step for step in steps if not step.uses]) >= 7
    assert scripts[0].startswith("apt-get update")
    assert any('== "3.11"' in script for script in scripts)
    assert ".ci/run" in scripts
    [summary] = [step for step in steps if "scripts.report.ci_summary" in step.run]
    assert "always()" in summary.when
    for step in steps:  # every condition is known
        applies(step, matrix, ROOT, failed=True)


def test_a_job_is_played_as_on_github(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Check order, checkout, variables of earlier steps, and what runs after a failure."""

    def check_out(workspace: Path) -> None:
        (workspace / "file").write_text("tree", encoding="utf-8")

    monkeypatch.setattr(workflow, "check_out", check_out)
    steps = [
        JobStep("empty", "test ! -e file"),
        JobStep("checkout", uses="actions/checkout@1"),
        JobStep("cache", uses="actions/cache/save@1", when="always()"),
        JobStep("set", 'echo "NAME=a=b" >>"$GITHUB_ENV"'),
        JobStep("get", 'echo "$(cat file) $NAME $CI"\nfalse\necho not reached'),
        JobStep("next", "echo not reached"),
        JobStep("summary", "echo failed >>$GITHUB_STEP_SUMMARY", when="always()"),
        JobStep("there", "echo seen", when="always() && hashFiles('file') != ''"),
        JobStep("not there", "echo not reached", when="always() && hashFiles('x') != ''"),
    ]
    assert play(steps, MATRIX, tmp_path, on_this_machine) == 1
    out = capfd.readouterr().out
    assert "tree a=b true" in out
    assert "FAIL get: exit code 1" in out
    assert "not reached" not in out
    assert [line for line in ("seen", "--- left out: next") if line in out.splitlines()] == [
        *("seen", "--- left out: next")
    ]
    assert out.endswith("failed\nworkflow: failed\n")
    assert play(steps[:4], MATRIX, tmp_path, on_this_machine) == 0  # from the beginning again


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jobs: {}", "no job 'test'"),
        ("jobs: {test: {strategy: {matrix: {include: [{image: a}]}}, steps: []}}", "no job"),
        ("on: push", "no text"),
    ],
)
def test_another_file_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "ci.yml").write_text(text, encoding="utf-8")
    with pytest.raises(NfError, match=says):
        steps_of(tmp_path / "ci.yml")


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(NfError, match="not known here"):
        applies(JobStep("x", when="github.actor == 'a'"), MATRIX, ROOT, failed=False)
    with pytest.raises(NfError, match="only values of the matrix"):
        workflow._step({"run": "echo ${{ github.sha }}"}, MATRIX)
    with pytest.raises(NfError, match="usage"):
        workflow.main([])
