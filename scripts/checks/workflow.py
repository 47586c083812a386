# SPDX-License-Identifier: Apache-2.0
"""Execution of the GitHub pipeline on this machine: the `run:` steps of its job `test`.

    sudo .venv/bin/python -m scripts.checks.workflow ROOT

They run as GitHub runs them in a container: as root, in a checkout of another user, with `sh -e`
and the variables of a job, in the Debian 12 root of `ci/debian-root.sh`. The checkout is a clone of
the last commit. Steps that use an action are left out, but for the checkout.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.common import data, git
from scripts.common.errors import NfError, run_main
from scripts.common.paths import ROOT, WORKFLOW

IMAGE = "debian:12"
"""Container of the job: the one that `ci/debian-root.sh` makes."""
WORKSPACE = "/__w/neuron-fabric/neuron-fabric"
RUNNER_UID = 1001
"""User of GitHub's machines, who owns the checkout; the container has no such user."""
HOME = "/github/home"
_ENV, _SUMMARY, _SCRIPT = "/github/env", "/github/summary", "/github/step"
_VALUE = re.compile(r"\$\{\{ *matrix\.(\w+) *\}\}")
_STARTS = re.compile(r"startsWith\(matrix\.(\w+), '([^']*)'\)")
_THERE = re.compile(r"hashFiles\('([^'*]+)'\) != ''")

Enter = Callable[[Path, Mapping[str, str], str], int]
"""Function that executes a script of a root with these variables, and returns the exit code."""


@dataclass(frozen=True)
class JobStep:
    """Step of a job: a script to run, or an action. `when` is its condition."""

    name: str
    run: str = ""
    uses: str = ""
    when: str = ""


def steps_of(path: Path, job: str = "test", image: str = IMAGE) -> tuple[list[JobStep], Any]:
    """Return the steps of a job of a workflow, and the values of its matrix for an image.

    Raises:
        NfError: The file is no workflow with this job and image; one line.
    """
    try:
        found = data.load(path, dict[str, Any])["jobs"][job]
        [matrix] = [one for one in found["strategy"]["matrix"]["include"] if one["image"] == image]
        steps = [_step(one, matrix) for one in found["steps"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NfError(f"{path.name}: no job {job!r} with image {image} and steps.") from error
    return steps, matrix


def _step(one: Mapping[str, Any], matrix: Mapping[str, str]) -> JobStep:
    run, uses = one.get("run", ""), one.get("uses", "")
    run = _VALUE.sub(lambda found: matrix[found[1]], run)
    if "${{" in run:
        raise NfError(f"step {run!r}: only values of the matrix are known here.")
    name = one.get("name") or uses or run
    return JobStep(name, run, uses, str(one.get("if", "")))


def applies(step: JobStep, matrix: Mapping[str, str], workspace: Path, failed: bool) -> bool:
    """Return whether a step runs, as its `if:` says; after a failure only with `always()`.

    Raises:
        NfError: The condition is of another kind than those of the pipeline; one line.
    """
    terms = [term.strip() for term in step.when.split("&&") if term.strip()]
    runs = "always()" in terms or not failed
    for term in terms:
        if found := _STARTS.fullmatch(term):
            runs = runs and matrix[found[1]].startswith(found[2])
        elif found := _THERE.fullmatch(term):
            runs = runs and (workspace / found[1]).exists()
        elif term != "always()":
            raise NfError(f"step {step.name!r}: `if: {term}` is not known here: add it.")
    return runs


def play(steps: Sequence[JobStep], matrix: Mapping[str, str], root: Path, enter: Enter) -> int:
    """Execute the steps of a job in a root and print a line before each.

    Returns:
        1 if a step failed, else 0.
    """
    workspace = inside(root, WORKSPACE)
    for name in (WORKSPACE, "/github"):
        shutil.rmtree(inside(root, name), ignore_errors=True)
    for name in (WORKSPACE, HOME):
        inside(root, name).mkdir(parents=True)
    for name in (_ENV, _SUMMARY):
        output.write_text(inside(root, name), "")
    variables = {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "HOME": HOME,
        "GITHUB_WORKSPACE": WORKSPACE,
        "GITHUB_ENV": _ENV,
        "GITHUB_STEP_SUMMARY": _SUMMARY,
    }
    failed = False
    for step in steps:
        if not applies(step, matrix, workspace, failed):
            say(f"--- left out: {step.name}", flush=True)
        elif step.run:
            say(f"--- {step.name}", flush=True)
            output.write_text(inside(root, _SCRIPT), step.run)
            code = enter(root, variables, _SCRIPT)
            failed |= code != 0
            say(*([f"FAIL {step.name}: exit code {code}"] if code else []), flush=True)
            added = inside(root, _ENV).read_text(encoding="utf-8").splitlines()
            variables |= dict(line.split("=", 1) for line in added if "=" in line)
        elif step.uses.startswith("actions/checkout@"):
            say(f"--- {step.uses}", flush=True)
            check_out(workspace)
        else:
            say(f"--- left out, an action: {step.name}", flush=True)
    summary = inside(root, _SUMMARY).read_text(encoding="utf-8")
    say(*summary.splitlines(), f"workflow: {'failed' if failed else 'passed'}")
    return int(failed)


def inside(root: Path, path: str) -> Path:
    """Return the path on this machine of an absolute path in a root."""
    return root / path.lstrip("/")


def check_out(workspace: Path) -> None:
    """Clone the last commit into an empty folder, and give it to the user of GitHub's machines."""
    git.text("clone", "--quiet", "--no-hardlinks", str(ROOT), str(workspace))
    for place, folders, names in os.walk(workspace):
        for name in (".", *folders, *names):
            os.chown(Path(place, name), RUNNER_UID, RUNNER_UID, follow_symlinks=False)


def enter_debian(root: Path, variables: Mapping[str, str], script: str) -> int:
    """Execute a script in a root of `ci/debian-root.sh` and return its exit code."""
    given = [f"{name}={value}" for name, value in variables.items()]
    words = [str(ROOT / "ci" / "debian-root.sh"), str(root), *given]
    words += ["env", "-C", variables["GITHUB_WORKSPACE"], "sh", "-e", script]
    return subprocess.run(words, stdin=subprocess.DEVNULL, check=False).returncode


def main(words: Sequence[str]) -> int:
    """Execute the job `test` in a root, which is made first if it is missing."""
    if len(words) != 1:
        raise NfError("usage: python -m scripts.checks.workflow ROOT")
    root = Path(words[0]).absolute()
    steps, matrix = steps_of(ROOT / WORKFLOW)
    if git.text("status", "--porcelain"):
        raise NfError("commit first: the root gets a clone of the last commit.")
    made = [str(ROOT / "ci" / "debian-root.sh"), str(root), "true"]
    if code := subprocess.run(made, stdin=subprocess.DEVNULL, check=False).returncode:
        return code  # it has said why
    return play(steps, matrix, root, enter_debian)


if __name__ == "__main__":
    run_main("workflow", lambda: main(sys.argv[1:]))
