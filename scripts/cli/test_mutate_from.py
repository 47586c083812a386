# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf mutate --from`: lists that are refused, rows, and the step that kills."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.build import registry
from scripts.cli import mutate_source
from scripts.cli.conftest import Nf
from scripts.common.records import SOLVER, FailureKind, RunRecord, RunSpec
from scripts.conftest import record
from scripts.run import simulate

COUNTER = "hdl/regs/nf_counter.sv"
POSSIBLE = any(one.links_c and one.available() for one in registry.simulators())
ONE = """
  - id: {id}
    why: the count is another one
    file: hdl/regs/nf_counter.sv
    old: "{old}"
    new: "{new}"
"""
WRAPS = ONE.format(id="wraps", old="? '1 :", new="? '0 :")
SAME = ONE.format(id="same", old="else if (inc != '0) count_q", new="else if (|inc) count_q")
BAD = ONE.format(id="bad", old="assign count = count_q;", new="assign count = nothing;")
SCHEMA = {"id": str, "result": str, "killed_by": str, "runs": int, "seconds": float}


@pytest.fixture
def listed(tmp_path: Path) -> Callable[[str], list[str]]:
    """Return a function that writes a list of mutants, and returns the words of a command."""

    def write(text: str) -> list[str]:
        path = tmp_path / "list.yaml"
        path.write_text(f"mutants:{text}", encoding="utf-8")
        words = ("mutate", "--from", str(path), "--rows", str(tmp_path / "rows.jsonl"))
        return [*words, "--no-prove", "--jobs", "1", "--again"]

    return write


def _rows(folder: Path) -> dict[str, dict[str, object]]:
    lines = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert all({key: type(one) for key, one in row.items()} == SCHEMA for row in rows)
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            ONE.format(id="twice", old="count_q", new="x"),
            ("mutant twice: edit of", COUNTER, "times, not once"),
        ),
        (ONE.format(id="gone", old="no such text", new="x"), ("mutant gone: edit of", "0 times")),
        (WRAPS.replace("nf_counter", "nf_nothing"), ("mutant wraps", "nf_nothing.sv", "not part")),
        (WRAPS + WRAPS, ("mutant wraps is listed twice",)),
        (WRAPS + '    tests: ["test_counter::nothing"]', ("no test test_counter::nothing",)),
        (WRAPS + "    colour: red", ("colour",)),
        (WRAPS.replace("why", "who"), ("who",)),
        (" []", ("list 'mutants' is empty",)),
        ("\n  - [", ("list.yaml:",)),
    ],
)
def test_a_bad_list(
    text: str,
    said: tuple[str, ...],
    listed: Callable[[str], list[str]],
    tmp_path: Path,
    nf: Nf,
) -> None:
    error = nf(*listed(text), code=2)
    assert [one for one in said if one not in error] == []
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--sample 2", "--sample: of other mutants"),
        ("--sim icarus", "--sim: of other mutants"),
        ("--prove --cluster tcp://nowhere:1", "--prove runs on this machine"),
        ("--rows /nowhere/rows", "its folder does not exist"),
        ("nothing*", "no mutant matches 'nothing*'"),
    ],
)
def test_words_that_do_not_fit(
    words: str, said: str, listed: Callable[[str], list[str]], nf: Nf
) -> None:
    assert said in nf(*listed(WRAPS), *words.split(), code=2)


@pytest.mark.nightly("14 s: two suites and a proof; test_faults_are_killed is the quick part")
@pytest.mark.skipif(not POSSIBLE, reason="no simulator that builds many mutants")
def test_the_step_that_kills(
    listed: Callable[[str], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nf: Nf,
) -> None:
    """Check that smoke runs before nightly, a proof last, and that a listed test runs first."""
    tests = '    tests: ["test_regs_block::counters"]\n    build: regs'
    names = ("by-smoke", "by-nightly", "by-proof", "alive", "faulty")
    text = "".join(ONE.format(id=one, old="? '1 :", new=f"? {n} :") for n, one in enumerate(names))
    ran: list[RunSpec] = []

    def run(spec: RunSpec, *_: object) -> RunRecord:
        """Kill mutant 1 by all, 2 by runs of nightly, 3 by proofs; 5 does not build."""
        ran.append(spec)
        number = int(spec.build_name.rpartition("-m")[2])
        later, proves = ":" in spec.build_name, spec.build.sim == SOLVER
        killed = {1: True, 2: later, 3: proves}.get(number, False)
        kind = FailureKind.BUILD if number == 5 else FailureKind.ASSERTION if killed else None
        return record(id=spec.id, passed=kind is None, kind=kind, cause="no wheel")

    monkeypatch.setattr(simulate, "run", run)
    monkeypatch.setattr(mutate_source, "_proved", run)
    words = ("--no-probe", "--suite", "nightly", "--prove", "--tests", "test_*::*count*")
    out = nf(*listed(text + tests), *words, code=1)
    rows = _rows(tmp_path)
    results = {name: row["result"] for name, row in rows.items()}
    assert [*results.values()] == ["killed", "killed", "killed", "survived", "broken"]
    assert rows["by-proof"]["killed_by"] == "counter::narrow proof"
    assert rows["by-smoke"]["runs"] == 1
    assert "killed by smoke 1 (25 %), and nightly 2 (50 %), and proofs 3 (75 %)" in out
    assert "broken faulty" in out
    assert "no wheel" in out
    first = [spec for spec in ran if spec.build_name.endswith("-m5")]
    assert [spec.name for spec in first] == ["test_regs_block::counters"]
    of_alive = [one for one in ran if one.build_name.endswith("-m4")]
    ranks = [(":" in one.build_name) + 2 * (one.build.sim == SOLVER) for one in of_alive]
    assert ranks == sorted(ranks)


@pytest.mark.nightly("25 s of compiler; test_faults_are_killed builds mutants in every change")
@pytest.mark.skipif(not POSSIBLE, reason="no simulator that builds many mutants")
def test_killed_survived_and_broken(
    listed: Callable[[str], list[str]], tmp_path: Path, nf: Nf
) -> None:
    words = ("--tests", "test_counter::*", "--build", "counter")
    out = nf(*listed(WRAPS + SAME + BAD), *words, code=1)
    rows = _rows(tmp_path)
    assert rows["wraps"]["result"] == "killed"
    assert rows["wraps"]["killed_by"] == "test_counter::saturates counter"
    assert (rows["same"]["result"], rows["same"]["runs"]) == ("survived", 0)  # no test sees it
    assert (rows["bad"]["result"], rows["bad"]["killed_by"]) == ("broken", "")
    assert "2 mutants share a build, 0 have separate builds, 1 are no SystemVerilog" in out
    assert "of 2 mutants killed by smoke 1 (50 %); 0 proved, 1 broken, 0 open" in out
