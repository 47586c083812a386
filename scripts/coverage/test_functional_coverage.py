# SPDX-License-Identifier: Apache-2.0
"""Functional and code coverage over the runs of a report; what is not covered shows by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.common.errors import NfError
from scripts.common.records import FIXED_SEED, CaseResult, FailureKind, RunRecord
from scripts.conftest import record
from scripts.coverage import functional_coverage
from scripts.coverage.functional_coverage import Functional, Waiver
from scripts.report import write_report
from verif.coverage.cover_model import FUNCTIONAL, CoverModel

REASON = "the port is tied off in this device"


def _model() -> CoverModel:
    model = CoverModel()
    model.point("colour", "every colour was seen", ["red", "green", "blue"], test="test_x::paint")
    return model


def _run(**hits: int) -> RunRecord:
    return record(metrics={FUNCTIONAL: {"colour": hits}, "cycles": 5})


def _merged(
    runs: list[RunRecord], model: CoverModel | None = None, waivers: Iterable[Waiver] = ()
) -> Functional:
    """Return the coverage of runs, one of which measured some."""
    found = functional_coverage.merge(runs, model or _model(), waivers)
    assert found is not None
    return found


def test_hits_of_all_runs_are_summed() -> None:
    found = _merged([_run(red=1), _run(red=2, green=1), record()])
    assert (found.runs, {b.name: b.hits for b in found.bins}) == (
        2,
        {"red": 3, "green": 1, "blue": 0},
    )
    assert functional_coverage.lines(found) == [
        "functional coverage: 2 of 3 bins (66.7 %), 1 hole, over 2 runs",
        "  holes in colour (every colour was seen; test_x::paint): blue",
    ]


def test_no_measurement_is_not_zero() -> None:
    assert functional_coverage.merge([record()], _model()) is None
    assert functional_coverage.lines(None) == []


def test_a_red_run_covers_nothing() -> None:
    red = record(
        passed=False, kind=FailureKind.MISMATCH, metrics={FUNCTIONAL: {"colour": {"blue": 1}}}
    )
    found = _merged([red, _run(red=1)])
    assert [b.name for b in found.holes] == ["green", "blue"]


def test_a_bin_below_its_floor_is_a_hole() -> None:
    model = CoverModel()
    model.point("colour", "every shade", ["red", "blue"], test="test_x::paint", at_least=3)
    waived = [Waiver("colour", "blue", REASON)]
    found = _merged([_run(red=1, blue=2), _run(red=1)], model, waived)
    assert [b.name for b in found.holes] == ["red"]
    assert found.waived_but_hit == []
    assert (
        "  holes in colour (every shade; test_x::paint): red (2 of 3)"
        in functional_coverage.lines(found)
    )


def test_a_bin_that_drawn_seeds_alone_reach_is_a_warning() -> None:
    model = CoverModel()
    model.point("colour", "every shade", ["red", "blue", "pink"], test="test_x::y", at_least=2)
    waived = [Waiver("colour", "pink", REASON)]
    runs = [_run(red=2), replace(_run(red=1, blue=2, pink=2), seed=77)]
    assert [one.seed for one in runs] == [FIXED_SEED, 77]
    line = "warning: 1 bin reached by drawn seeds alone, not by seed 1: colour / blue"
    found = _merged(runs, model, waived)
    assert not found.holes
    assert functional_coverage.warnings(found) == [line]
    assert f"  {line}" in functional_coverage.lines(found)
    red = replace(runs[0], passed=False, kind=FailureKind.MISMATCH)  # counts as no run
    for none in ([replace(one, seed=77) for one in runs], [red, replace(runs[0], seed=77)]):
        assert functional_coverage.warnings(functional_coverage.merge(none, model)) == []


def test_the_test_of_a_point_must_exist() -> None:
    assert functional_coverage.unknown_tests(_model(), ["test_x::paint"]) == []
    assert functional_coverage.unknown_tests(_model(), ["test_x::point"]) == [
        "cover point colour: there is no test 'test_x::paint'"
    ]


def test_a_waived_bin_is_no_hole_and_a_hit_one_is_reported() -> None:
    waivers = [Waiver("colour", "blue", REASON), Waiver("colour", "red", REASON)]
    found = _merged([_run(red=4)], waivers=waivers)
    assert [b.name for b in found.holes] == ["green"]
    text = "\n".join(functional_coverage.lines(found))
    assert "0 of 1 bins (0.0 %), 1 hole, 1 waived" in text
    assert f"waived: colour / blue ({REASON})" in text
    assert "waived but hit 4 times, drop the waiver: colour / red" in text


def test_an_unplanned_bin_is_told() -> None:
    found = _merged([_run(red=1, pink=2)])
    assert "  hit but not planned: colour / pink" in functional_coverage.lines(found)


def test_waivers_must_name_bins(write: Callable[[str, str], Path]) -> None:
    text = f"""
        waivers:
          - {{point: colour, bin: blue, reason: {REASON}}}
          - {{point: colour, bin: blue, reason: {REASON}}}
          - {{point: colour, bin: pink, reason: {REASON}}}
    """
    waivers = functional_coverage.read_waivers(write("waivers.yaml", text))
    assert functional_coverage.problems(waivers, _model()) == [
        "waived twice: colour / blue",
        "waiver of a bin that does not exist: colour / pink",
    ]
    bad = write("bad.yaml", "waivers: [{point: colour, bin: red, reason: because}]\n")
    with pytest.raises(NfError, match="because"):
        functional_coverage.read_waivers(bad)


def test_a_point_shows_a_few_of_its_holes() -> None:
    model = CoverModel()
    model.point("many", "every number", [str(n) for n in range(30)], test="test_x::count")
    found = functional_coverage.merge([record(metrics={FUNCTIONAL: {"many": {"29": 1}}})], model)
    names = ", ".join(map(str, range(12)))
    assert functional_coverage.lines(found)[1].endswith(f": {names}, and 17 more (`nf cov holes`)")


def test_a_filtered_run_shows_the_points_of_its_tests(tmp_path: Path) -> None:
    """And its shares are of the tests that ran: other holes and stages are one line."""
    model = functional_coverage.planned()
    whole = _merged([record(metrics={FUNCTIONAL: {"memory": {"read": 2}}})], model)
    (test,) = {b.test for b in whole.bins if b.point == "memory"}
    module, _, name = test.partition("::")
    run = record(
        name=test,
        id=f"{module}.{name}-icarus-default-s1",
        cases=(CaseResult(name, "passed", 1.0, 5.0),),
        metrics={FUNCTIONAL: {"memory": {"read": 20}}},
    )
    found = write_report.write_all([run], "x", tmp_path)
    head, *lines, last = write_report.coverage_lines(found)
    own = {b.point for b in whole.bins if b.test == test}
    assert head.startswith("functional coverage by the tests that ran: 1 of ")
    assert own >= {line.split()[2] for line in lines if line.startswith("  holes in ")} > set()
    number = len([b for b in whole.holes if b.test != test])
    assert last.startswith(f"  {number} holes in ")
    assert last.endswith("points that name tests that did not run (`nf cov holes`)")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "1 planned test ran; shares are of these" in page
    assert f"{number} holes in " in page
    others = {b.point for b in whole.bins} - own
    assert others
    assert not [point for point in others if f"<dt>{point}</dt>" in page]
    stopped = write_report.write_all([run], "x", tmp_path, expected=2)  # not filtered: interrupted
    assert not stopped.filtered


@pytest.mark.parametrize("hits", [[], {"colour": 1}, {"colour": {"red": "x"}}, {"colour": None}])
def test_damaged_coverage_is_one_line(hits: object) -> None:
    with pytest.raises(NfError, match=r"the coverage of .* is damaged"):
        functional_coverage.merge([record(metrics={FUNCTIONAL: hits})], _model())
