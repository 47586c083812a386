# SPDX-License-Identifier: Apache-2.0
"""Tests of printed commands: each works twice, and deletes neither evidence nor input.

The sources are searched for such commands: one that is not in `PASTED` is an error, and so is a
hint (`nf VERB ..` between backticks) that the command line does not accept.
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from neuron_fabric.arguments import intermixed
from neuron_fabric.capture import write_capture
from scripts.checks import tracked_files
from scripts.cli.main import VERBS, OneLineParser, make_parser, verb_of
from scripts.common.paths import ROOT
from scripts.conftest import QUICK, Project
from verif.conftest import gradients

# Each place that prints a command to paste, and the test here that runs it.
PASTED = {
    ("scripts/run/simulate.py", "nf"): "test_a_red_run",
    ("scripts/cli/history.py", "nf rerun {}"): "test_a_recorded_run",
    ("scripts/run/replay_simulators.py", "nf"): "test_a_red_bulk_replay",
    ("scripts/farm/replay_run.py", "{}"): "test_a_red_bulk_replay",  # what `nf rerun` reads
    ("scripts/cli/replay.py", "nf"): "test_a_red_replay",
    ("scripts/cli/regress.py", "nf"): "test_a_red_replay",  # the same words, of another capture
    (
        "scripts/cli/test.py",
        "nf test --only mutate --seed {}",
    ): "test_a_missed_mutant_of_the_package",
    ("scripts/plan/listed_mutants.py", "nf mutate {}"): "test_a_missed_mutant",
    ("scripts/mutation/package_run.py", "nf mutate {}"): "test_a_missed_mutant_of_the_package",
    # It takes the tests of a package: scripts/mutation/test_checker_mutants.py runs it.
    ("scripts/mutation/checker_mutants.py", "nf mutate --part checkers --id {}"): "",
    ("scripts/prove/proof.py", "nf prove {}"): "test_a_broken_proof",
    ("scripts/prove/counterexample.py", "nf prove --replay {}"): "test_a_broken_proof",
    # It takes the build of a pool: scripts/collectives/test_run_collectives.py reads it back.
    ("scripts/collectives/run_collectives.py", "nf collectives run {} --hosts {}{}"): "",
    # It takes a training: docs/tutorials/capture-and-replay.md compares the line, and types it.
    ("scripts/cli/capture.py", "nf replay {}"): "",
    ("scripts/cli/main.py", "nf"): "",  # the name of the program of another checkout
}
_TO_PASTE = re.compile(r"\.venv/bin/((?:nf|\{\})[^`\n]*)")
_HINT = re.compile(rf"(?:`|it: |\bor )(nf (?:{'|'.join(VERBS)})\b(?!:)[^`\n;]*)")
_LINE = re.compile(r"\.venv/bin/nf .*")
_FILE = re.compile(r"\bbuild/[\w./-]+\.\w+")
CAUSE = "AssertionError: q is not 77"
ACCUMULATE = (
    "hdl/engine/nf_accumulate.sv",
    "    if (en) begin\n",
    "    if (en && ternary) begin\n",
)
FIFO = ("hdl/common/nf_fifo.sv", "(count_q != CNT_W'(DEPTH))", "1'b0")


def _texts(path: Path) -> Iterator[str]:
    """Yield the string constants and f-strings of a source, with {} for inserted values.

    Docstrings are left out, since they are not printed.
    """
    nodes = list(ast.walk(ast.parse(path.read_bytes())))
    within = {
        id(part)
        for node in nodes
        for part in (node.values if isinstance(node, ast.JoinedStr) else [])
    }
    within |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and id(node) not in within:
            yield str(node.value)


def _may_print(pattern: re.Pattern[str], source: str) -> bool:
    """Return whether a source may print a text that the pattern matches.

    It is a quick filter before parsing; braces in f-strings are also tried empty.
    """
    return any(pattern.search(text) for text in (source, re.sub(r"\{[^{}]*\}", "{}", source)))


def _printed(pattern: re.Pattern[str]) -> set[tuple[str, str]]:
    sources = [path for path in tracked_files.files(ROOT, ".py") if not tracked_files.is_test(path)]
    return {
        (path.relative_to(ROOT).as_posix(), found.strip())
        for path in sources
        if _may_print(pattern, path.read_text(encoding="utf-8"))
        for text in _texts(path)
        for found in pattern.findall(text)
    }


def test_every_command_to_paste_is_run_here() -> None:
    assert _printed(_TO_PASTE) == PASTED.keys()
    assert {test for test in PASTED.values() if test} <= globals().keys()


def test_every_hint_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the parser of `nf` accepts every hint (`nf VERB ..`) that a message may print.

    A word in capitals or an inserted value stands for any word; a hint may be incomplete.
    """

    def refuse(_parser: argparse.ArgumentParser, message: str) -> None:
        if "are required:" not in message and not message.endswith("expected one argument"):
            raise AssertionError(message)
        raise SystemExit

    hints = sorted(_printed(_HINT))
    assert ("scripts/plan/discover.py", "nf list") in hints
    assert ("neuron_fabric/reducers/server_session.py", "nf serve --socket {}") in hints
    monkeypatch.setattr(OneLineParser, "error", refuse)
    for file, hint in hints:
        words = shlex.split(hint.replace("{}", "1"))[1:]
        parser = make_parser(verb_of(words))
        intermixed(parser)
        try:
            with suppress(SystemExit):
                parser.parse_args(words)
        except AssertionError as error:
            pytest.fail(f"{file}: `{hint}`: {error}")


def works_twice(project: Project, out: str, code: int = 1) -> list[str]:
    """Execute every printed command of an output twice, and return the commands.

    Each must end with exit code `code`; the files that the output names must exist afterwards, in
    place or in `build/red`.
    """
    lines, files = _LINE.findall(out), _FILE.findall(out)
    assert _gone(project, files) == []
    for line in lines:
        for _ in range(2):
            assert project.shell(line) == code, line
            assert _gone(project, files) == [], line
    return lines


def _gone(project: Project, files: list[str]) -> list[str]:
    """Return the files that exist neither in place nor as evidence in `build/red`."""
    places = [
        (name, re.sub(r"^build/(runs|prove|replay/runs)/", "build/red/", name)) for name in files
    ]
    return [
        name
        for name, aside in places
        if not any((project.folder / p).is_file() for p in (name, aside))
    ]


def _verbs(lines: list[str]) -> list[str]:
    return [shlex.split(line)[1] for line in lines]


def test_a_red_run(project: Project) -> None:
    code, out = project.nf("run", "test_toy::wrong", "--sim", QUICK)
    assert code == 1
    assert "waves: build/runs/" in out
    assert _verbs(works_twice(project, out)) == ["run"]
    assert [record.cause.partition(";")[0] for record in project.records()] == [CAUSE]


@pytest.mark.nightly("four runs; test_a_red_run pastes what it prints")
def test_a_recorded_run(project: Project) -> None:
    out = project.nf("run", "test_toy::wrong", "--sim", QUICK)[1]
    told = project.nf("history", "*wrong", "--last", "1")[1]
    assert _verbs(works_twice(project, told)) == ["rerun"]
    assert _gone(project, _FILE.findall(out)) == []
    assert [record.cause.partition(";")[0] for record in project.records()] == [CAUSE]


@pytest.mark.nightly("the mutants of the toy, four times")
def test_a_missed_mutant(project: Project) -> None:
    folder = project.folder / "verif/mutants"
    (folder / "toy.yaml").write_text(
        "mutants:\n"
        "  - id: toy-adds-two\n    why: nobody looks\n    file: hdl/toy.sv\n    build: toy\n"
        "    old: d + `STEP\n    new: d + 2\n    tests: ['test_toy::many']\n    sim: icarus\n",
        encoding="utf-8",
    )
    code, out = project.nf("mutate", "toy*", "--part", "rtl")
    assert (code, _verbs(works_twice(project, out))) == (1, ["mutate"]), out


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Copy the checkout with a bug in the RTL that loses binary contributions."""
    folder = tmp_path_factory.mktemp("broken")
    for path in tracked_files.files(ROOT):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    nf = folder / ".venv/bin/nf"
    nf.parent.mkdir(parents=True)
    nf.write_text(f'#!/bin/sh\nexec {sys.executable} -m scripts.cli.main "$@"\n', encoding="utf-8")
    nf.chmod(0o755)
    edit(folder, *ACCUMULATE)
    write_capture(folder / "small", "small", {3: gradients(1)})
    return Project(folder)


def edit(folder: Path, name: str, old: str, new: str) -> None:
    """Replace the first occurrence of a text in a file, which must exist."""
    file = folder / name
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.nightly("compiles the controller, and searches for a smaller scenario")
def test_a_reduced_scenario(broken: Project) -> None:
    code, out = broken.nf("run", "test_scenario::mixed", "--sim", QUICK, "--scale", "0.2")
    assert code == 1
    lines = works_twice(broken, out)
    assert any("--scenario build/inputs/" in line for line in lines), out


@pytest.mark.nightly("compiles the controller for bulk replay, and at signal level")
def test_a_red_bulk_replay(broken: Project) -> None:
    words = ("replay", "small", "--transport", "bulk", "--route", "*=G_BINARY", "--sim", QUICK)
    code, out = broken.nf(*words)
    assert code == 1
    assert broken.nf(*words)[0] == 1  # it makes the folder of the first one empty
    told = broken.nf("history", "replay::*", "--last", "1")[1]
    lines = works_twice(broken, out + told)
    assert _verbs(lines) == ["replay", "rerun"], out
    assert "--stimulus build/inputs/" in lines[0]
    assert lines[0].endswith("--waves")


@pytest.mark.nightly("a mutant of the package, six times")
def test_a_missed_mutant_of_the_package(broken: Project) -> None:
    folder = broken.folder / "verif/mutants"
    folder.rename(folder.with_name("others"))
    try:
        (folder / "package").mkdir(parents=True)
        (folder / "package/toy.yaml").write_text(
            "mutants:\n"
            "  - id: toy-text\n    why: nobody looks\n    file: neuron_fabric/errors.py\n"
            "    old: from __future__ import annotations\n"
            "    new: 'from __future__ import annotations  # toy'\n"
            "    tests: ['models/test_expected_response.py::test_devload_is_not_judged']\n",
            encoding="utf-8",
        )
        code, out = broken.nf("test", "--only", "mutate", "--seed", "3")
        assert (code, _verbs(works_twice(broken, out))) == (1, ["mutate", "test"]), out
    finally:
        shutil.rmtree(folder)
        folder.with_name("others").rename(folder)


@pytest.mark.nightly("replays at signal level, with waves")
def test_a_red_replay(broken: Project) -> None:
    code, out = broken.nf("replay", "small", "--route", "*=G_BINARY", "--sim", QUICK)
    assert (code, _verbs(works_twice(broken, out))) == (1, ["replay"]), out


@pytest.mark.nightly("a proof is broken three times")
def test_a_broken_proof(broken: Project) -> None:
    edit(broken.folder, *FIFO)
    try:
        _pastes_of_a_proof(broken)
    finally:
        edit(broken.folder, FIFO[0], FIFO[2], FIFO[1])


def _pastes_of_a_proof(broken: Project) -> None:
    code, out = broken.nf("prove", "fifo/three")
    assert code == 1
    again = [line for line in out.splitlines() if "again:" in line]
    replay = [line for line in out.splitlines() if "rerun:" in line]
    assert len(replay) == 1, out
    assert len(works_twice(broken, "\n".join(again))) == 1
    assert len(works_twice(broken, "\n".join(replay), 0)) == 1  # it shows the failure
    assert all((broken.folder / name).is_file() for name in _FILE.findall(out))


@pytest.mark.nightly("a case of fuzz fails, five times")
def test_a_red_case_of_fuzz(broken: Project) -> None:
    edit(broken.folder, "scripts/fuzz/test_words.py", "parameter, exit=[2]", "parameter, exit=[7]")
    code, out = broken.nf("fuzz", "parameters*", "--cases", "2")
    assert (code, set(_verbs(works_twice(broken, out)))) == (1, {"fuzz"}), out
