# SPDX-License-Identifier: Apache-2.0
"""Tests of every failure kind in a separate project: its printed line, command and rerun."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts.common.cause_key import key_of
from scripts.common.records import FailureKind, RunRecord
from scripts.conftest import QUICK, Project

ONE_BY_ONE = ("--sim", str(QUICK), "--jobs", "1")


def only(project: Project) -> RunRecord:
    """Return the record of the last command of the project, which must have one run."""
    (record,) = project.records()
    return record


def fails(project: Project, *words: str, sim: str = QUICK) -> RunRecord:
    """Run tests that must fail; return the record, after a check that its lines were printed."""
    code, text = project.nf("run", *words, "--sim", str(sim), "--jobs", "1")
    assert code == 1, text
    record = only(project)
    assert not record.passed
    for line in (f"{record.kind}: {record.cause}", f"log:   {record.log}", record.rerun):
        assert line in text
    return record


def pasted_fails_the_same_way(project: Project, record: RunRecord) -> None:
    """Execute the rerun command of a record in a shell; check that kind and cause are equal."""
    shutil.rmtree(project.folder / "build/report")
    assert project.shell(record.rerun) == 1
    again = only(project)
    assert again.kind is record.kind
    assert key_of(again) == key_of(record)
    assert (again.seed, again.sim, again.name) == (record.seed, record.sim, record.name)
    if record.kind is not FailureKind.INFRASTRUCTURE:  # what it left, moved by the second run
        assert (project.folder / "build/red" / record.id / "record.json").is_file()


@pytest.mark.parametrize(
    ("words", "kind", "cause"),
    [
        (("test_toy::wrong", "--seed", "7"), FailureKind.MISMATCH, "AssertionError: q is not 77"),
        (("test_toy::spins", "--timeout", "1.5"), FailureKind.TIME_OUT, "processor time"),
        (("test_toy::no_clock",), FailureKind.CRASH, "ended early"),
        (("test_toy::wrong", "--build", "broken"), FailureKind.BUILD, "syntax error"),
    ],
)
def test_kind(project: Project, words: tuple[str, ...], kind: FailureKind, cause: str) -> None:
    record = fails(project, *words, "--no-rerun")
    assert record.kind is kind
    assert cause in record.cause
    assert "\n" not in record.cause
    assert (project.folder / record.log).is_file()
    pasted_fails_the_same_way(project, record)


@pytest.mark.nightly("25 s: two builds with waves; Icarus cuts waves in every change")
def test_assertion_by_name_with_waves(project: Project) -> None:
    record = fails(project, "test_toy::sva", "--seed", "3", sim="verilator")
    assert record.kind is FailureKind.ASSERTION
    assert "NeverThirteen" in record.cause
    assert record.note == "failed the same way when it was run again"
    assert record.waves is not None
    assert (project.folder / record.waves).is_file()
    pasted_fails_the_same_way(project, record)


def test_infrastructure(project: Project) -> None:
    folder = project.folder / "build/runs" / f"test_toy.adds_one-{QUICK}-toy-s1"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way", encoding="utf-8")  # also root cannot write there
    try:
        record = fails(project, "test_toy::adds_one")
        assert record.kind is FailureKind.INFRASTRUCTURE
        assert "cannot write" in record.cause
        pasted_fails_the_same_way(project, record)
    finally:
        folder.unlink()


def test_flaky_is_not_green(project: Project) -> None:
    for left in (project.folder / "verif/tests").glob("*.tried"):
        left.unlink()
    record = fails(project, "test_toy::flaky")
    assert record.status == "flaky"
    assert record.kind is FailureKind.MISMATCH
    assert "only the first time" in record.cause


@pytest.mark.parametrize(
    "sim",
    [
        pytest.param("verilator", marks=pytest.mark.nightly("a build; Icarus is the quick part")),
        "icarus",
    ],
)
def test_waves_are_cut_around_the_failure(project: Project, sim: str) -> None:
    record = fails(project, "test_toy::late", sim=sim)
    assert record.note == "failed the same way when it was run again"
    assert record.waves is not None
    waves = project.folder / record.waves
    assert waves.parent == (project.folder / record.log).parent
    first, last = fst_span(waves)
    assert 18_000_000 < first < 18_500_000  # ps; the failure is at 20.1 us
    assert last == pytest.approx(20_115_000, abs=30_000)
    assert not [*waves.parent.rglob("waves.vcd")]


def fst_span(path: Path) -> tuple[int, int]:
    """Return the first and last time of an FST file, from its header block."""
    head = path.read_bytes()[:25]
    assert head[0] == 0  # FST_BL_HDR, then its length, then the two times
    return int.from_bytes(head[9:17], "big"), int.from_bytes(head[17:25], "big")


def test_only_the_first_of_one_cause_are_run_again(project: Project) -> None:
    _, text = project.nf("run", "test_toy::checker", "--seeds", "5", *ONE_BY_ONE)
    notes = [record.note for record in project.records()]
    assert sum(note.startswith("not run again") for note in notes) == 2
    assert len({record.cause for record in project.records()}) == 5  # each has a different value
    assert "  5 x mismatch: the toy's checker" in text.splitlines()


def test_what_does_not_load_is_not_run_again(project: Project) -> None:
    project.nf("run", "test_toy::not_installed", "test_toy::debugs", *ONE_BY_ONE)
    for record in project.records():
        assert record.kind is FailureKind.CRASH
        assert "(verif/tests/test_toy.py:" in record.cause
        assert (record.note, record.waves, record.rerun_log) == ("", None, None)
