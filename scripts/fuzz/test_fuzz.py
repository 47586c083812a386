# SPDX-License-Identifier: Apache-2.0
"""Tests of the fuzzer: its judge reports each breach of the rules; groups are repeatable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from scripts.cli.main import main
from scripts.fuzz import fuzz_case
from scripts.fuzz.fuzz_case import CommandResult, drawn, is_chosen, judge, judge_files


def test_a_seed_draws_the_same_cases() -> None:
    cases = [f"words[{n}]" for n in range(100)]
    assert drawn(cases, None, 1) == cases
    assert drawn(cases, 9, 1) == drawn(cases, 9, 1) != drawn(cases, 9, 2)
    assert is_chosen("words[1]", ["w*"])
    assert is_chosen("words[1]", ["words[1]"])
    assert not is_chosen("words[1]", ["words[2]", "value"])


@pytest.mark.nightly("10 s: every case is collected twice")
def test_an_unknown_case_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "nothing*"]) == 2
    assert "no case matches 'nothing*'" in capsys.readouterr().err


TRACE = "Traceback (most recent call last):\n  File ...\nKeyError: 'x'"
BAD = {
    "hang": (CommandResult(None, "", ""), "still at work"),
    "signal": (CommandResult(-11, "", "nf: x"), "ended by signal 11"),
    "code": (CommandResult(0, "fine", ""), "exit code 0, not 2"),
    "stray": (CommandResult(2, "", "nf: x", ("vvp",)), "left behind: vvp"),
    "traceback": (CommandResult(2, "", TRACE), "traceback: KeyError: 'x'"),
    "escape": (CommandResult(2, "", "nf: \x1b[2J"), "control character"),
    "forged": (CommandResult(2, "", "nf: x\nFORGED"), "forged line"),
    "long": (CommandResult(2, "", "x" * 9000), "a line of 9,000"),
    "much": (CommandResult(2, "", "x\n" * 150_000), "more than 200,000"),
    "silent": (CommandResult(2, "", ""), "did not say why"),
    "other": (CommandResult(2, "", "nf: y"), "does not say 'x'"),
    "another tree": (CommandResult(2, "", "nf: this `nf` tests checkout /x, but"), "mix-up"),
}


@pytest.mark.parametrize(("result", "says"), BAD.values(), ids=BAD.keys())
def test_the_judge_sees(result: CommandResult, says: str) -> None:
    assert any(says in problem for problem in judge(result, [2], "x"))


def test_the_judge_accepts_allowed_results(tmp_path: Path) -> None:
    result = CommandResult(2, "", "nf: x is wrong\n")
    fuzz_case.FuzzCase(tmp_path, Random(1))  # writes the decoy
    assert [*judge(result), *judge_files(result, tmp_path, {}, ())] == []
    assert list(judge(CommandResult(-9, "", ""), stopped=True)) == []
    assert list(judge(CommandResult(2, "", ""), silent=True)) == []


def test_the_judge_sees_changed_files(tmp_path: Path) -> None:
    result, digest = CommandResult(2, "", "nf: x\n"), "the right digest"
    assert list(judge_files(result, tmp_path, {}, ())) == ["decoy.txt was changed"]
    fuzz_case.FuzzCase(tmp_path, Random(1))
    (tmp_path / "out").write_text("wrong", encoding="utf-8")
    assert list(judge_files(result, tmp_path, {"out": digest, "none": digest}, ["out"])) == [
        "out is there, although it failed",
        "out is another one than without the damage (exit 2)",
    ]
    good = CommandResult(0, "", "")
    found = list(judge_files(good, tmp_path, {"none": digest}, ["out"]))
    assert found == ["none is not there, although it did not fail"]


def test_strays_are_found_and_killed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={fuzz_case.MARK: "of this test"}
    )
    try:
        assert "sleep(60)" in fuzz_case.strays("of this test", 0.2)[0]
        assert process.wait(timeout=120) == -9
    finally:
        process.kill()
        process.wait()
