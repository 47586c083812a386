# SPDX-License-Identifier: Apache-2.0
"""Goals of area and clock: their verdicts by hand, and that each can be judged."""

from __future__ import annotations

from scripts.common.paths import ROOT
from scripts.figures import baseline, synth_figure
from scripts.figures.place_and_route import Route

ROUTE = Route(60.0, "u_a.q", "u_b.line", 9, 4.5, 12.0)


def test_goals_are_judged_by_what_was_measured() -> None:
    """Met and missed, by how much; one whose yardstick is not there is open; none of the rest."""
    first, fp32 = synth_figure.FIRST, synth_figure.FP32
    followed = {
        f"{first}, ECP5: LUTs": 601.0,
        f"{fp32}, ECP5: LUTs": 1000.0,
        f"{first}, ECP5: Fmax, MHz": 120.0,
        f"{synth_figure.LOW_BIT}, ECP5: Fmax, MHz": 90.0,
        f"{synth_figure.ENGINE}, ECP5 for short paths: Fmax, MHz": 50.0,
    }
    clocks = {(synth_figure.LOW_BIT, "ecp5"): ROUTE, (first, "ecp5"): ROUTE}
    [table] = synth_figure.goals(followed, clocks)
    verdicts = [(one[0], one[1], one[-1]) for one in table.rows]
    assert verdicts == [
        (first, "LUTs", "missed by 1.0 LUTs, 0 %"),
        (first, "Fmax, MHz", "met"),
        (synth_figure.LOW_BIT, "Fmax, MHz", "missed by 30.0 MHz, 25 %"),
        (synth_figure.ENGINE, "Fmax, MHz", "open: its reference was not measured"),
    ]
    assert len(table.notes) == 2
    assert "a path of 16.5 ns, of which 9 cells take 4.5 ns" in table.notes[1]
    followed[f"{synth_figure.EARLIER_ENGINE}, ECP5 for short paths: Fmax, MHz"] = 25.0
    followed[f"{first}, ECP5: LUTs"] = 600.0
    [table] = synth_figure.goals(followed, {})
    assert [one[-1] for one in table.rows if one[0] != synth_figure.LOW_BIT] == ["met"] * 3
    assert synth_figure.goals({f"{fp32}, ECP5: LUTs": 1000.0}, {}) == ()


def test_a_goal_is_of_designs_that_are_mapped_so() -> None:
    """Else it would never be judged."""
    for goal in synth_figure.GOALS:
        for name in filter(None, (goal.design, goal.against)):
            design = synth_figure.DESIGNS[name]
            assert goal.target in design.targets
            assert design.routed or goal.figure == synth_figure.LUTS


def test_what_a_line_costs_over_its_slice() -> None:
    whole = synth_figure.LOW_BIT
    narrow = next(one for one, of in synth_figure.NARROW_OF.items() if of == whole)
    fast = Route(120.0, "a", "b", 8, 4.0, 4.25)
    [told] = synth_figure.against_slices({whole: ROUTE, narrow: fast})
    assert told.startswith(f"2.00 times as fast as {whole}: ")
    assert "take 4.2 ns of its path, and 12.0 ns of the whole" in told
    assert synth_figure.against_slices({whole: ROUTE}) == []


def test_docs_say_what_was_accepted() -> None:
    """docs/area-and-clock.md: the datapath meets both goals; with integer sums it misses both."""
    [table] = synth_figure.goals(baseline.read()["synth"], {})
    met = {(one[0], one[1]): one[-1] == "met" for one in table.rows}
    kinds = synth_figure.LUTS, synth_figure.FMAX
    assert [met[synth_figure.FIRST, kind] for kind in kinds] == [True, True]
    assert [met[synth_figure.LOW_BIT, kind] for kind in kinds] == [False, False]
    text = (ROOT / "docs/area-and-clock.md").read_text(encoding="utf-8")
    assert "It meets both. With integer sums it misses both" in " ".join(text.split())
