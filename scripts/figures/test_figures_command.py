# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure figures`: the page of all figures, and the baseline with its slips."""

from __future__ import annotations

import argparse
import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from scripts.cli.main import make_parser
from scripts.figures import baseline, figures_command, result_file, traffic_figure
from scripts.figures.result_file import Column, FigureResult, Line, Measured, Plot, Table

POINTS = ((100.0, 4.0), (200.0, 2.0), (600.0, 1.0))
PLOT = Plot(
    *("A plot", "latency, clocks", "overhead, %"),
    (Line("one <a>", POINTS), Line("two", POINTS), Line("a formula", POINTS[:2], formula=True)),
)
RESULT = FigureResult(
    set_up=(("device", "<b>as it is</b>"),),
    tables=(
        Table("A table", (Column("mode"), Column("clocks", 1)), (("a & b", 3.25), ("c", None))),
    ),
    plots=(PLOT,),
    left_out=("banks",),
    followed={"clocks of a": 3.25, "clocks of b": 11.0},
    figure="timing",
    command="nf measure figures timing",
    revision="abc",
    started="2026-11-22T18:00:00+00:00",
    seconds=1.5,
)
ACCEPTED = {"timing": {"clocks of a": 3.2, "clocks of b": 10.0, "clocks of c": 1.0}}


class Texts(HTMLParser):
    """Parser that collects all texts of an HTML page, and the names of elements and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts += [data.strip()] if data.strip() else []


def test_page_shows_the_result() -> None:
    """Check that the page shows the values of a result, and names slipped and missing figures."""
    html = figures_command.page([RESULT], ACCEPTED, 1234.5)
    page = Texts(html)
    assert "1,234 s for all of it, at commit abc." in page.texts
    for text in (RESULT.command, "abc", "a & b", "3.2", "-", "banks", "<b>as it is</b>"):
        assert text in page.texts
    slips = [text for text in page.texts if text.startswith("slipped: ")]
    assert slips == ["slipped: clocks of b: 11, accepted 10", "slipped: clocks of c: not measured"]
    assert page.tags.isdisjoint({"script", "img", "link", "iframe"})
    assert page.attributes.isdisjoint({"src", "onclick"})
    assert not re.search(r"https?://", html)
    other = dataclasses.replace(RESULT, figure="other", revision="def, changed")
    both = Texts(figures_command.page([RESULT, other], ACCEPTED))
    assert "Not one commit: measure again." in both.texts
    assert "Not one commit: measure again." not in page.texts


def test_the_page_has_no_number_of_its_own() -> None:
    """Check that the template has no digit in its text: all numbers are from result files."""
    template = Path(figures_command.__file__).with_name("figures_page.html.j2").read_text("utf-8")
    for what in (r"<style>.*?</style>", r"\{[{%#].*?[}%#]\}", r"<[^>]*>"):
        template = re.sub(what, "", template, flags=re.DOTALL)
    assert not re.search(r"\d", template)


def test_pictures_of_plots() -> None:
    """Check that identical lines of a plot become one.

    On a logarithmic axis each value has a tick.
    """
    texts = Texts(figures_command.picture(PLOT)).texts
    assert {PLOT.x, PLOT.y, "one <a>, two", "a formula"} <= set(texts)
    assert figures_command.picture(PLOT) == figures_command.picture(PLOT)
    powers = Plot("p", "x", "y", (Line("l", ((1.0, 1.0), (4.0, 1.0), (64.0, -1.0))),))
    assert {"1", "4", "64"} <= set(Texts(figures_command.picture(powers)).texts)
    with pytest.raises(ValueError, match="no point"):
        figures_command.picture(Plot("p", "x", "y", ()))


def drawn(*values: float) -> ModuleType:
    """Return a figure module without options that measures these values, one a run."""
    left = iter(values)
    module = ModuleType("drawn_figure")
    module.__dict__["add_arguments"] = lambda _parser: None
    module.__dict__["run"] = lambda _args: Measured((), (), followed={"clocks": next(left)})
    return module


def test_all_figures_end_on_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check `run_all` on three fake figures: exit codes, the page, and its folder.

    Figures slip, the commit changes between and during runs, and one figure has no baseline.
    """
    now = ["one"]
    for module in (figures_command, result_file):
        monkeypatch.setattr(module, "revision", lambda: now[0])
    monkeypatch.setattr(baseline, "FILE", tmp_path / "baseline.json")
    figures: dict[str, ModuleType] = {}
    baseline.FILE.write_text('{"a": {"clocks": 1.0}, "b": {"clocks": 2.0}}', encoding="utf-8")
    for name, values in (("a", (1, 4, 1.5)), ("b", (2, 2, 2)), ("c", (9, 9, 12))):
        figures[name] = drawn(*values)
    html = tmp_path / "page.html"
    args = argparse.Namespace(html=str(html), accept=False)
    assert figures_command.run_all(figures, args, tmp_path) == 0
    now[0] = "one, changed"
    assert figures_command.run_all(figures, args, tmp_path) == 1  # 4 for 1
    now[0] = "two"
    assert figures_command.run_all(figures, args, tmp_path) == 1
    assert "slipped: clocks: 1.5, accepted 1" in Texts(html.read_text(encoding="utf-8")).texts
    monkeypatch.chdir(tmp_path)
    args.html = "new/page.html"  # as it is typed, into the folder that the results make
    figures = {name: drawn(1.0) for name in figures}
    assert figures_command.run_all(figures, args, tmp_path / "new") == 0
    assert (tmp_path / "new/page.html").exists()


def test_the_page_has_a_place() -> None:
    """Check that `nf measure figures all --html` without a file uses the default file."""
    parser = argparse.ArgumentParser()
    figures_command.add_arguments(parser)
    for words, file in (
        ([], figures_command.PAGE),
        (["--html"], figures_command.PAGE),
        (["--html", "a"], "a"),
    ):
        assert parser.parse_args(["all", *words]).html == str(file)


# ---- baseline ----------------------------------------------------------------------------------
KNOWN = {"area: LUTs": 1000.0, "clock: MHz": 60.0}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"area: LUTs": 1000.0, "clock: MHz": 60.0}, []),
        ({"area: LUTs": 1050.0, "clock: MHz": 57.0}, []),
        ({"area: LUTs": 1051.0}, ["area: LUTs: 1051, accepted 1000"]),
        ({"area: LUTs": 500.0, "clock: MHz": 90.0}, []),  # better
        ({"clock: MHz": 56.9}, ["clock: MHz: 56.9, accepted 60"]),
        ({"new: LUTs": 1.0}, ["new: LUTs: 1, no value was accepted yet (--accept)"]),
    ],
)
def test_slips(found: dict[str, float], told: list[str]) -> None:
    assert baseline.slipped(found, KNOWN) == told


def test_what_was_not_measured_is_told_of_a_whole_run() -> None:
    assert baseline.slipped({"area: LUTs": 1000.0}, KNOWN, whole=True) == [
        "clock: MHz: not measured"
    ]


def test_accepting_keeps_what_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "FILE", tmp_path / "baseline.json")
    for figure, followed in (
        ("synth", KNOWN),
        ("synth", {"area: LUTs": 900.0}),
        ("timing", {"clocks": 3.5}),
    ):
        baseline.accept(dataclasses.replace(RESULT, figure=figure, followed=followed))
    assert baseline.read()["synth"] == {"area: LUTs": 900.0, "clock: MHz": 60.0}
    text = baseline.FILE.read_text(encoding="utf-8")
    assert '"area: LUTs": 900,' in text  # a count stays one, whatever is accepted after it
    assert '"clocks": 3.5' in text
    measured = {"commit": "abc", "date": "2026-11-22"}
    assert baseline.origin() == {"synth": measured, "timing": measured}


def test_the_shipped_baseline_of_traffic() -> None:
    """Check that the counted traffic equals the shipped baseline within 5 %.

    Traffic is counted, not measured, so it is compared here; other figures are at night.
    """
    args = make_parser("measure figures").parse_args(["measure", "figures", "traffic"])
    followed = traffic_figure.run(args).followed
    assert not baseline.slipped(followed, baseline.read()["traffic"], whole=True)
