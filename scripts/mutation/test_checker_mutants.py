# SPDX-License-Identifier: Apache-2.0
"""Tests of the mutants of the checkers, and that each rule of a checker has a negative twin."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.mutation import checker_mutants, package_run
from scripts.mutation.checker_mutants import CASES, reports


class _Marked(ast.NodeTransformer):
    """Transformer that lets each rule of a source create a file when it reports a finding."""

    def __init__(self, file: str, tree: ast.AST, ran: Path) -> None:
        lines = {id(one): f"{file}:{one.lineno}" for one in reports(tree)}
        self.names = {key: ran / name.replace("/", " ") for key, name in lines.items()}

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        if id(node) not in self.names:
            return node
        return [
            ast.parse(f"__import__('pathlib').Path({str(self.names[id(node)])!r}).touch()"),
            node,
        ]


@pytest.mark.nightly("a minute: all cases of the checkers again, which run in every change")
def test_every_rule_has_a_twin(tmp_path: Path) -> None:
    """Check that a pytest case makes each rule of each checker report a finding.

    Whether the case requires the finding, `nf mutate --part checkers --id '*.report.*'` tells.
    """
    ran, texts, rules = tmp_path / "ran", {}, set[str]()
    ran.mkdir()
    for file, text in checker_mutants.sources().items():
        tree = ast.parse(text.encode("latin-1"))
        marked = _Marked(file, tree, ran)
        rules.update(one.name for one in marked.names.values())
        texts[file] = ast.unparse(marked.visit(tree))
    words = [*checker_mutants.cases("verif"), *CASES["cocotbext"]]
    done, said = package_run.pytest(tmp_path / "copy", texts, words, checker_mutants.TIMEOUT_S)
    assert done.returncode == 0, package_run.first_failure(said)
    assert len(rules) > 90
    missing = ", ".join(sorted(rules - {one.name for one in ran.iterdir()}))
    assert not missing, f"rules without a negative twin: {missing}"


def test_the_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that survivors are listed with their change, and that the floor decides."""
    file = "verif/coverage/inside.py"
    texts = {
        file: "def inside(low: int, high: int, it: int) -> bool:\n    return low <= it <= high\n"
    }
    mutants = checker_mutants.find(texts)
    assert [one.parts[0].new for one in mutants] == ["(low < it <= high)", "(low <= it < high)"]
    seen: list[str] = []

    def judge(_place: Path, changed: dict[str, str], cases: list[str], _limit: float) -> Any:
        seen.append(next(word for word in cases if word.startswith("verif/")))
        killed = "(low < it" in changed.get(file, "")
        return SimpleNamespace(returncode=int(killed), timed_out=False), "E   assert inside"

    monkeypatch.setattr(checker_mutants, "RUNS", tmp_path)
    monkeypatch.setattr(package_run, "pytest", judge)
    assert checker_mutants.run(mutants, texts, jobs=1, floor=50) == 0
    assert checker_mutants.run(mutants, texts, jobs=1, floor=51) == 1
    assert set(seen) == {"verif/recorded", "verif/coverage"}, "without a mutant, then with each"
    out = capsys.readouterr().out
    assert "+    return (low <= it < high)" in out
    assert "1 of 2 mutants of the checkers killed, 50.0 %" in out
