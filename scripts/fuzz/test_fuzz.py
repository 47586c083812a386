# SPDX-License-Identifier: Apache-2.0
"""A sample of `nf fuzz`, and its judge: what no case may do is seen when a case does it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.errors import NfError
from scripts.fuzz import attempt as judge
from scripts.fuzz import table
from scripts.fuzz.table import Allow, Case, Group

SEED = 1
# One of each class that needs no simulator; `nf fuzz` runs all of them.
SAMPLE = (
    "manifest-value[tensors/0/name, escape]",
    "worker-file[fifo]",
    "history-record[cause, line break, report]",
    "trace-file[device]",
)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.id: case for group in table.read() for case in table.every_case(group)}


def test_the_campaign_is_large_and_repeatable() -> None:
    groups = table.read()
    drawn = table.choose(groups, [], SEED)
    assert len({case.id for case in drawn}) == len(drawn) >= 600
    assert {group.kind for group in groups} == {"bad input", "fault", "hostile"}
    group = next(group for group in groups if group.take)
    first, again, other = (table.cases_of(group, seed) for seed in (1, 1, 2))
    assert [case.id for case in first] == [case.id for case in again]
    assert [case.id for case in first] != [case.id for case in other]


@pytest.mark.parametrize("name", SAMPLE)
def test_sample(cases: dict[str, Case], name: str, tmp_path: Path) -> None:
    outcome = judge.attempt(cases[name], SEED, tmp_path)
    assert outcome.code is not None, outcome.line
    assert not outcome.problems, outcome.line


def test_an_unknown_case_is_one_line() -> None:
    with pytest.raises(NfError, match="no case matches"):
        table.choose(table.read(), ["nothing*"], SEED)


def _case(allow: Allow | None = None) -> Case:
    return Case(Group("x", "fault", "for the judge", ("list",), allow=allow or Allow()), {})


TRACE = "Traceback (most recent call last):\n  File ...\nKeyError: 'x'"
BAD = {
    "hang": (judge._Ended(None, "", "", 60.0, ()), "still at work"),
    "signal": (judge._Ended(-11, "", "nf: x", 1.0, ()), "ended by signal 11"),
    "code": (judge._Ended(0, "fine", "", 1.0, ()), "exit code 0, not 2"),
    "stray": (judge._Ended(2, "", "nf: x", 1.0, ("vvp",)), "left behind: vvp"),
    "traceback": (judge._Ended(2, "", TRACE, 1.0, ()), "traceback: KeyError: 'x'"),
    "escape": (judge._Ended(2, "", "nf: \x1b[2J", 1.0, ()), "control character"),
    "forged": (judge._Ended(2, "", "nf: x\nFORGED", 1.0, ()), "forged line"),
    "long": (judge._Ended(2, "", "x" * 9000, 1.0, ()), "a line of 9,000"),
    "much": (judge._Ended(2, "", "x\n" * 150_000, 1.0, ()), "more than 200,000"),
    "silent": (judge._Ended(2, "", "", 1.0, ()), "did not say why"),
    "other": (judge._Ended(2, "", "nf: y", 1.0, ()), "does not say 'x'"),
    "another tree": (
        judge._Ended(2, "", "nf: this `nf` tests checkout /x, but", 1.0, ()),
        "mix-up",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_the_judge_sees(name: str) -> None:
    ended, says = BAD[name]
    assert any(says in problem for problem in judge._judge(_case(Allow(says="x")), ended, False))


def test_the_judge_lets_pass_what_is_allowed(tmp_path: Path) -> None:
    ended = judge._Ended(2, "", "nf: x is wrong\n", 1.0, ())
    assert list(judge._judge(_case(), ended, False)) == []
    (tmp_path / judge.DECOY).write_text(judge._DECOY_TEXT, encoding="utf-8")
    assert list(judge._files(_case(), tmp_path, ended, tmp_path)) == []


def test_the_judge_sees_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = judge._Ended(2, "", "nf: x\n", 1.0, ())
    assert list(judge._files(_case(), tmp_path, ended, tmp_path)) == ["decoy.txt was changed"]
    (tmp_path / judge.DECOY).write_text(judge._DECOY_TEXT, encoding="utf-8")
    (tmp_path / "out").write_text("wrong", encoding="utf-8")
    found = list(judge._files(_case(Allow(absent=("out",))), tmp_path, ended, tmp_path))
    assert found == ["out is there, although it failed"]
    monkeypatch.setattr(judge, "_golden", {("x", "out"): "the digest of the right one"})
    found = list(judge._files(_case(Allow(same=("out",))), tmp_path, ended, tmp_path))
    assert found == ["out is another one than without the damage (exit 2)"]


def test_strays_are_found_and_killed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={judge.MARK: "of this test"}
    )
    try:
        assert "sleep(60)" in judge.strays("of this test", 0.2)[0]
        assert process.wait(timeout=120) == -9
    finally:
        process.kill()
        process.wait()
