# SPDX-License-Identifier: Apache-2.0
"""Tests of the prose check: it reports each mechanical rule that is broken, and no other text."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.checks import prose
from scripts.conftest import git_by_somebody


def written(tmp_path: Path, name: str, text: str) -> list[str]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return prose.violations(tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('"""What comes back."""', 1, "opens with 'What'"),
        ('def f() -> int:\n    """Of a line, its bytes."""', 2, "opens with 'Of'"),
        ('X = 1\n"""Whether it is."""', 2, "opens with 'Whether'"),
        ('"""Line one.\n\nThe flag beside it."""', 3, "'beside'"),
        ("x = 1  # the word goes by its name", 1, "'goes by'"),
        ("# a folder of its own", 1, "'of its own'"),
        ('"""The user is told."""', 1, "'is told'"),
    ],
)
def test_each_rule_is_held(tmp_path: Path, text: str, line: int, what: str) -> None:
    (found,) = written(tmp_path, "scripts/checks/a.py", text)
    assert found.startswith(f"scripts/checks/a.py:{line}: ")
    assert what in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scripts/checks/a.py", '"""Return `behind` and the outlier."""\nsay("beside")'),
        ("scripts/checks/a.md", "Plain.\n```\nbehind\n```"),
    ],
)
def test_plain_prose_passes(tmp_path: Path, name: str, text: str) -> None:
    assert written(tmp_path, name, text) == []


def test_documents_are_read(tmp_path: Path) -> None:
    found = written(tmp_path, "scripts/checks/a.md", "```\nx\n```\nThe slot behind it.")
    assert found == [f"scripts/checks/a.md:4: {'behind'!r}: {found[0].split(': ', 2)[2]}"]


def test_subjects_of_new_commits(tmp_path: Path) -> None:
    def commit(subject: str) -> None:
        git_by_somebody(tmp_path, "commit", "-q", "--allow-empty", "-m", subject)

    git_by_somebody(tmp_path, "init", "-q")
    commit("an old subject " + "x" * 80)
    git_by_somebody(tmp_path, "branch", "base")
    commit("x" * 72)
    assert prose.long_subjects(tmp_path, "base") == []
    commit("y" * 73)
    (found,) = prose.long_subjects(tmp_path, "base")
    assert "subject has 73 characters" in found
    assert prose.long_subjects(tmp_path, "no_such_branch") == []
