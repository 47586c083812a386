# SPDX-License-Identifier: Apache-2.0
"""Tests of the choice of a suite: it loses nothing, and the most kills a second join first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scripts.coverage import suite_choice
from scripts.coverage.suite_choice import Place, joining, leaving
from scripts.plan import testplan
from scripts.plan.discover import discover
from scripts.plan.run_order import Memory

A, B, C, D = (
    ("test_a::x", "one"),
    ("test_a::x", "two"),
    ("test_b::y", "one"),
    ("test_c::z", "one"),
)
MARKS = st.dictionaries(st.sampled_from([A, B, C, D]), st.sets(st.sampled_from("pqrs")), max_size=4)


def test_a_place_leaves_if_others_do_its_work() -> None:
    suite = {A: 5.0, B: 2.0, C: 9.0}
    bins = {A: {1}, B: {1, 2}, C: {1}}
    assert [one.place for one in leaving(suite, {}, bins)] == [A]  # C: nothing else runs its test
    assert leaving(suite, {A: {"only here"}}, bins) == []
    assert leaving(suite, {}, {**bins, A: {1, 3}}) == []
    assert leaving(suite, {}, {B: {1, 2}, C: {1}}) == []  # the bins of A were not measured
    both = {A: {"m"}, B: {"m"}}
    assert [one.place for one in leaving(suite, both, {A: {1}, B: {1}, C: {1}})] == [A]


def test_most_new_kills_a_second_join_first() -> None:
    kills = {A: {"m"}, B: {"m", "n", "o"}, C: {"o", "p", "q"}, D: {"n"}}
    found = joining([A], {B: 4.0, C: 2.0, D: 0.0}, kills)
    assert [(one.place, one.kills) for one in found] == [(D, ("n",)), (C, ("o", "p", "q"))]


@given(MARKS, MARKS, st.permutations([A, B, C, D]), st.integers(0, 4))
def test_nothing_is_lost(
    kills: dict[Place, set[str]], bins: dict[Place, set[str]], order: list[Place], cut: int
) -> None:
    """Check that a changed suite kills and reaches all that the old one did, or can."""

    def worth(some: list[Place], marks: dict[Place, set[str]]) -> set[str]:
        return {mark for place in some for mark in marks.get(place, ())}

    suite, others = order[:cut], order[cut:]
    gone = [one.place for one in leaving(dict.fromkeys(suite, 1.0), kills, bins)]
    left = [place for place in suite if place not in gone]
    for marks in (kills, bins):
        assert worth(left, marks) == worth(suite, marks)
    assert {test for test, _ in left} == {test for test, _ in suite}
    new = [one.place for one in joining(left, dict.fromkeys(others, 1.0), kills)]
    assert worth([*left, *new], kills) == worth(order, kills)


def test_places_of_smoke_are_places_of_the_night() -> None:
    plan, tests = testplan.read(), discover()
    memory = Memory({("test_regs::reset_values", "icarus", "small"): 3.0})
    smoke, night = (suite_choice.places(plan, one, tests, memory) for one in ("smoke", "nightly"))
    assert smoke.keys() < night.keys()
    assert smoke["test_regs::reset_values", "small"]["icarus"] == 3.0
    assert set(night["test_systematic::pairs", "edge_crowded"].values()) == {None}
