# SPDX-License-Identifier: Apache-2.0
"""Tests of data files of the tree: file lists, testplan, mutants, import directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.build import sources
from scripts.build.filelist import read_filelist
from scripts.common import data
from scripts.common.errors import NfError
from scripts.common.records import Edit, FailureKind
from scripts.plan import listed_mutants, testplan
from scripts.plan.discover import TestCase, discover, select

Write = Callable[[str, str], Path]


def test_filelist(write: Write, tmp_path: Path) -> None:
    for name in ("a.sv", "b.sv", "w.vlt", "inc/h.svh"):
        write(name, "")
    write("sub.f", "b.sv\nw.vlt\n")
    write("top.f", "# comment\n+incdir+inc\na.sv // first\n-f sub.f\na.sv\n")
    files = read_filelist(tmp_path, "top.f")
    assert files.sources == ("a.sv", "b.sv")
    assert files.control == ("w.vlt",)
    assert files.headers(tmp_path) == ["inc/h.svh"]


def test_bound_modules_bring_their_headers(write: Write, tmp_path: Path) -> None:
    for name in ("a.sv", "cover/a_cover.sv", "cover/points.svh"):
        write(name, "")
    write("top.f", "a.sv\n")
    files = read_filelist(tmp_path, "top.f")
    with_bound = files.with_bound({"cover/a_cover.sv": "a.sv"}, tmp_path)
    assert with_bound.sources == ("a.sv", "cover/a_cover.sv")
    assert with_bound.headers(tmp_path) == ["cover/points.svh"]
    elsewhere = {"gone/a_cover.sv": "a.sv", "cover/a_cover.sv": "b.sv"}
    assert files.with_bound(elsewhere, tmp_path) == files


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *(("x.sv", "x.sv"), ("+libext+.v", "not understood")),
        *(("-f top.f", "includes itself"), ("x" * 300, "which does not exist")),
    ],
)
def test_bad_filelist(write: Write, tmp_path: Path, text: str, says: str) -> None:
    write("top.f", text)
    with pytest.raises(NfError, match=says):
        read_filelist(tmp_path, "top.f")


def test_edits_must_fit_once() -> None:
    assert sources.apply_edits({"f": "abc"}, [Edit("f", "b", "x")]) == {"f": "axc"}
    for edit in (Edit("f", "z", ""), Edit("f", "a", ""), Edit("g", "a", ""), Edit("f", " ", "")):
        with pytest.raises(NfError):
            sources.apply_edits({"f": "aa"}, [edit])


BENCH = """
    import cocotb, pyuvm
    @cocotb.test()
    async def one(dut): ...
    @cocotb.test(skip=True)
    async def later(dut): ...
    @cocotb.test(name="renamed")
    @cocotb.parametrize(n=[1])
    async def two(dut, n): ...
    @pyuvm.test()
    class Three: ...
"""


@pytest.fixture
def tests(write: Write, tmp_path: Path) -> list[TestCase]:
    write("t/test_x.py", BENCH)
    return discover(tmp_path / "t", "t")


def test_select(tests: list[TestCase]) -> None:
    assert [t.name for t in select(tests, ["*"])] == ["one", "renamed", "Three"]
    assert [t.name for t in select(tests, ["test_x::later"])] == ["later"]
    assert [t.name for t in select(tests, ["test_x::renamed/n=1"])] == ["renamed/n=1"]
    assert [t.name for t in select(tests, ["Three", "test_x::o*"])] == ["one", "Three"]
    with pytest.raises(NfError, match="no test matches"):
        select(tests, ["one", "nothing"])
    for glob in ("renamed/n=*", "renamed/*", "renamed/n=2", "test_x::renamed/(a+)+"):
        with pytest.raises(NfError, match=r"has no such values; it has: n=1\."):
            select(tests, [glob])
    with pytest.raises(NfError, match="no test matches 'one/n=1'"):
        select(tests, ["one/n=1"])


PLAN = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")


def test_plan(write: Write, tmp_path: Path, tests: list[TestCase]) -> None:
    write("p/plan.yaml", PLAN)
    plan = testplan.read(tmp_path / "p")
    assert testplan.problems(plan, tests) == ["test_x::later has no entry in the testplan"]
    assert testplan.problems(plan, tests[2:]) == [
        "the testplan names test_x::one, which no file defines"
    ]
    write("p/plan.yaml", PLAN.replace("values: n=1", "values: other=1"))
    assert testplan.problems(testplan.read(tmp_path / "p"), tests)[1:] == [
        "suite skips narrows what is not there: the other values take long"
    ]
    write("p/plan.yaml", PLAN.replace("; nightly", ""))
    assert testplan.problems(testplan.read(tmp_path / "p"), tests)[1:] == [
        "suite skips runs test_x::Three nowhere, and no reason says nightly: it takes long"
    ]
    chosen = testplan.of_suite(plan, plan.suite("smoke"), tests)
    assert [t.name for t in chosen] == ["one", "Three"]
    options = testplan.Options(("icarus", "verilator"), (1, 2))
    specs = testplan.expand(plan, chosen, options)
    assert len(specs) == 2 * 2 * (2 + 1)
    assert {dict(s.build.parameters).get("SLOTS") for s in specs} == {None, 4}
    grouped = testplan.expand(plan, chosen, testplan.Options(("icarus",), (1,), group=True))
    assert sorted(s.tests for s in grouped) == [("one",), ("one", "Three")]
    with pytest.raises(NfError, match="unknown suite"):
        plan.suite("night")
    with pytest.raises(NfError, match="unknown build"):
        testplan.expand(plan, chosen, testplan.Options(("icarus",), (1,), builds=("big",)))
    left = replace(options, seeds=(1,), skip=plan.suite("skips").skip)
    assert sorted(
        (s.tests, s.build.sim, s.build_name) for s in testplan.expand(plan, chosen, left)
    ) == [
        (("one",), "icarus", "default"),
        (("one",), "icarus", "small"),
        (("one",), "verilator", "default"),
    ]
    once = testplan.expand(plan, chosen, replace(left, once=True))
    assert [(s.tests, s.build.sim, s.build_name) for s in once] == [(("one",), "icarus", "default")]
    narrow = replace(options, seeds=(1,), narrow=plan.suite("skips").narrow)
    one_value = testplan.expand(plan, [tests[2]], narrow)
    assert [(s.tests, s.build.sim) for s in one_value] == [(("renamed/n=1",), "verilator")]
    many = testplan.Options(("icarus",), range(1, 10**9))  # a typing error; no list is made
    with pytest.raises(NfError, match="1,999,999,998 runs, more than 100,000"):
        testplan.expand(plan, chosen, many)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("stage: V2", "stage: V9", "stage: 'V9' is not one of V1, V2, V3"),
        ("[default, small]", "[tiny]", "unknown build"),
        ('"test_x::renamed"', '"test_x::one"', "twice"),
        ("seeds: 2, ", "", "seeds"),
        (
            "suites:",
            "kept: [{test: a::b, seed: 1, why: once was red}]\nsuites:",
            r"kept\[0\]\.test: 'a::b' is not like",
        ),
        ("builds:\n", "builds: [\n", "not YAML"),
        ("seeds: 2", "seeds: 1000000000", "suites.smoke.seeds: 1000000000 is not from 1 to 10000"),
        (", why: it takes long; nightly", "", r"skips\.skip\[1\]: field 'why' is missing"),
        (" values: n=1,", "", r"skips\.narrow\[0\]: field 'values' is missing"),
        ("seeds: 2", "seeds: .nan", "nan is no number"),
        ("seeds: 2", "seeds: " + "9" * 5000, "not YAML"),
        ("seeds: 2", "seeds: 2, seeds: 3", "plan.yaml:6: key 'seeds' stands twice"),
        ("seeds: 2", "seeds: 2026-13-45", "not YAML"),
        ("seeds: 2", "? [1] : 2", "is no text; write it"),
        ("goal: every", "goal: &a [every", "plan.yaml"),
        ("V1, builds: [default, small]", "&a V1, builds: [*a]", "an alias"),
        ("goal: every", f"goal: {'[' * 5000}", "nested deeper than 20"),
        ("goal: every", "goal: \x1b", "not YAML"),
        ("goal: every", "goal: !!python/object/apply:os.system [x]", "not YAML"),
    ],
)
def test_bad_plan(write: Write, tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in PLAN
    write("p/plan.yaml", PLAN.replace(old, new))
    with pytest.raises(NfError, match=says):
        testplan.read(tmp_path / "p")


def test_the_night_runs_what_smoke_leaves_out() -> None:
    """Check that the nightly suite has each test on each planned build, simulator and value."""
    plan, tests = testplan.read(), discover()
    night = plan.suite("nightly")
    assert testplan.of_suite(plan, night, tests) == [test for test in tests if not test.skip]
    assert not night.skip
    assert not night.narrow


def test_mutants(write: Write, tests: list[TestCase]) -> None:
    path = write(
        "mutants.yaml",
        """
        mutants:
          - id: one
            why: the first of them all
            file: no/such.sv
            old: a
            new: b
            tests: ["test_x::one", "test_x::gone"]
            caught_by: [assertion]
        """,
    )
    (mutant,) = listed_mutants.read(path)
    assert mutant.caught_by == (FailureKind.ASSERTION,)
    plan = testplan.Plan({}, {"default": testplan.NamedBuild("", "t", "no.f")}, {})
    lines = listed_mutants.problems([mutant, mutant], plan, tests)
    assert any("no test test_x::gone" in line for line in lines)
    assert any("twice" in line for line in lines)
    assert any("no.f" in line for line in lines)


def test_an_empty_list_is_refused_where_it_must_not_be(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("mutants: []\n", encoding="utf-8")
    assert data.load_list(path, "mutants", dict) == []
    with pytest.raises(NfError, match=r"x\.yaml: the list 'mutants' is empty\."):
        data.load_list(path, "mutants", dict, least=1)
