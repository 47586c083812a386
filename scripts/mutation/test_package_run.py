# SPDX-License-Identifier: Apache-2.0
"""Tests of mutants of the Python package: judged by pytest cases in a copy of the sources."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.common import folder_locks
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.records import Edit
from scripts.mutation import package_run
from scripts.plan import listed_mutants, package_mutants
from scripts.plan.package_mutants import PackageMutant

FILE = "neuron_fabric/printable.py"
HELD = "neuron_fabric/test_printable.py"
LISTED = package_mutants.read()


def mutant(new: str, test: str) -> PackageMutant:
    """Return a mutant that inserts a line before the function `one_line`."""
    source = (ROOT / FILE).read_text(encoding="utf-8")
    old = next(line for line in source.splitlines() if line.startswith("def one_line("))
    return PackageMutant("short", "of a test", (Edit(FILE, old, f"{new}\n{old}"),), (test,))


@pytest.mark.nightly("25 s: all tests are collected; `nf check` reads the list in every change")
def test_the_list_can_be_run() -> None:
    assert len(LISTED) >= 25
    assert package_mutants.problems(LISTED, [one.id for one in listed_mutants.read()]) == []
    cases = sorted({test for one in LISTED for test in one.tests if "[" in test})
    words = [sys.executable, "-m", "pytest", "-n0", "-q", "--collect-only", *cases]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert "not found" not in found.stderr, found.stderr


@pytest.mark.nightly("25 s; each change runs listed mutants by it, which must be caught")
def test_what_counts_as_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that only a case that fails has caught a mutant.

    One that passes, or that cannot be collected, has not; cases must pass without a mutant.
    """
    monkeypatch.setattr(package_run, "RUNS", tmp_path)
    monkeypatch.setattr(folder_locks, "folder", lambda path: path)
    [real] = [one for one in LISTED if one.id == "sixty-five-workers"]
    assert package_run.run([real], 1, within=60) == 0
    assert "1 of 1 cases caught" in capsys.readouterr().out
    [test] = real.tests
    harmless, broken = mutant("", test), mutant("raise ImportError", test)
    [cpp] = [one for one in LISTED if one.id == "cpp-half-the-stalls"]
    edit = replace(cpp.edits[0], new="no C++;")
    illegal = replace(cpp, edits=(edit,), why="of a test")
    for one, how in ((harmless, "passed"), (broken, "exit code"), (illegal, "exit code")):
        assert package_run.run([one], 1, within=60) == 1
        out = capsys.readouterr().out
        assert f"missed {one.id}: {one.why}" in out
        assert how in out
    assert list(tmp_path.glob("*/")) == [] or not any(tmp_path.glob("*/neuron_fabric"))
    with pytest.raises(NfError, match="do not pass without one"):
        package_run.run([replace(real, tests=(f"{HELD}::test_that_is_not_there",))], 1)


def test_mistakes_in_a_list() -> None:
    good = LISTED[0]
    edit = good.edits[0]
    wrong = [
        replace(good, id="a", tests=("neuron_fabric/test_printable.py::test_that_is_not_there",)),
        replace(good, id="b", edits=(replace(edit, old="that is not there"),)),
        replace(good, id="c", edits=(replace(edit, new="def ("),)),
        replace(good, id="d", edits=(replace(edit, file="neuron_fabric/none.py"),)),
    ]
    lines = package_mutants.problems([*wrong, good], [good.id])
    words = ["no test", "0 times, not once", "invalid syntax", "No such file", "is listed twice"]
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True))
