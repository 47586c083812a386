# SPDX-License-Identifier: Apache-2.0
"""The page of all figures: its numbers are those of the result files, and nothing is loaded."""

from __future__ import annotations

import argparse
import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from scripts.common import paths
from scripts.figures import baseline, command, figures_page, result_file
from scripts.figures.result_file import Column, FigureResult, Line, Measured, Plot, Table
from scripts.record.database import History

PLOT = Plot(
    "A plot",
    *("latency, clocks", "overhead, %"),
    (
        Line("measured", ((100.0, 4.0), (200.0, 2.0), (600.0, 1.0))),
        Line("formula", ((100.0, 5.0), (600.0, 0.0)), formula=True),
    ),
)
RESULT = FigureResult(
    *("timing", "nf measure figures timing", "abc", "2026-11-22T18:00:00+00:00", 1.5),
    set_up=(("device", "<b>as it is</b>"),),
    tables=(
        Table("A table", (Column("mode"), Column("clocks", 1)), (("a & b", 3.25), ("c", None))),
    ),
    plots=(PLOT,),
    left_out=("banks",),
    followed={"clocks of a": 3.25, "clocks of b": 11.0},
)
ACCEPTED = {"timing": {"clocks of a": 3.2, "clocks of b": 10.0}}


class Texts(HTMLParser):
    """All texts of a page, and the names of its elements and attributes."""

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
    courses = {"timing": {"clocks of a": [3.0, 3.25], "clocks of b": [11.0]}}
    html = figures_page.page([RESULT], ACCEPTED, courses, 1234.5)
    page = Texts(html)
    assert "1,234 s for all of it, at commit abc." in page.texts
    title = "nf measure figures timing"
    for text in (title, "abc", "a & b", "3.2", "-", "banks", "<b>as it is</b>"):
        assert text in page.texts
    assert "slipped: clocks of b: 11, accepted 10" in page.texts
    assert not any("clocks of a: " in text for text in page.texts)
    assert page.tags.isdisjoint({"script", "img", "link", "iframe"})
    assert page.attributes.isdisjoint({"src", "onclick"})
    assert not re.search(r"https?://", html)
    other = dataclasses.replace(RESULT, figure="other", revision="def, changed")
    both = {"timing": courses["timing"], "other": courses["timing"]}
    two = Texts(figures_page.page([RESULT, other], ACCEPTED, both)).texts
    assert "Not one commit: measure again." in two
    assert "Not one commit: measure again." not in page.texts


def test_what_was_not_measured_is_on_the_page() -> None:
    """A figure that is followed does not vanish without a word."""
    accepted = {"timing": {**ACCEPTED["timing"], "clocks of c": 1.0}}
    courses = {"timing": {name: [value] for name, value in RESULT.followed.items()}}
    page = Texts(figures_page.page([RESULT], accepted, courses))
    assert "slipped: clocks of c: not measured" in page.texts


def test_the_page_has_no_number_of_its_own() -> None:
    """All come of result files: what stands in the template is text."""
    template = Path(figures_page.__file__).with_name("figures_page.html.j2").read_text("utf-8")
    for what in (r"<style>.*?</style>", r"\{[{%#].*?[}%#]\}", r"<[^>]*>"):
        template = re.sub(what, "", template, flags=re.DOTALL)
    assert not re.search(r"\d", template)


def test_places_of_a_plot_by_hand() -> None:
    drawn = figures_page.picture(PLOT)
    assert not drawn.x.log
    assert drawn.x.at(100) == figures_page.MARGIN
    assert drawn.x.at(600) == figures_page.WIDTH - figures_page.MARGIN / 2
    assert drawn.y.at(0) == figures_page.HEIGHT - figures_page.MARGIN
    assert drawn.y.at(5) == figures_page.MARGIN / 2
    assert [text for _, text in drawn.x.ticks()] == ["100", "225", "350", "475", "600"]
    powers = Plot("p", "x", "y", (Line("l", ((1.0, 1.0), (4.0, 1.0), (64.0, -1.0))),))
    log = figures_page.picture(powers)
    assert log.x.log
    assert [text for _, text in log.x.ticks()] == ["1", "4", "64"]
    third = figures_page.MARGIN + (figures_page.WIDTH - 1.5 * figures_page.MARGIN) / 3
    assert log.x.at(4) == pytest.approx(third, abs=0.1)
    assert log.y.at(-1) == figures_page.HEIGHT - figures_page.MARGIN
    same = Line("a", ((1.0, 2.0),)), Line("b", ((1.0, 2.0),)), Line("c", ((1.0, 3.0),))
    both = figures_page.picture(Plot("p", "x", "y", same)).lines
    assert [drawn.line.name for drawn in both] == ["a, b", "c"]
    with pytest.raises(ValueError, match="no point"):
        figures_page.picture(Plot("p", "x", "y", ()))
    assert figures_page.spark([1.0]) == ""
    assert figures_page.spark([1.0, 2.0, 3.0]) == "0.0,22.0 60.0,12.0 120.0,2.0"


def drawn(*values: float) -> ModuleType:
    """Return a figure without options that measures these values in turn."""
    left = iter(values)
    module = ModuleType("drawn_figure")
    module.__dict__["add_arguments"] = lambda _parser: None
    module.__dict__["run"] = lambda _args: Measured((), (), followed={"clocks": next(left)})
    return module


def test_all_figures_end_on_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three figures at two commits, and once between them, one without a baseline; the exit code
    tells a slip of others."""
    now = ["one"]
    for module in (command, result_file):
        monkeypatch.setattr(module, "revision", lambda: now[0])
    monkeypatch.setattr(paths, "HISTORY", tmp_path / "history.sqlite")
    monkeypatch.setattr(baseline, "FILE", tmp_path / "baseline.json")
    figures: dict[str, ModuleType] = {}
    baseline.FILE.write_text('{"a": {"clocks": 1.0}, "b": {"clocks": 2.0}}', encoding="utf-8")
    for name, values in (("a", (1, 4, 1.5)), ("b", (2, 2, 2)), ("c", (9, 9, 12))):
        figures[name] = drawn(*values)
    html = tmp_path / "page.html"
    args = argparse.Namespace(html=str(html), accept=False)
    assert command.run_all(figures, args, tmp_path) == 0
    now[0] = "one, changed"
    assert command.run_all(figures, args, tmp_path) == 1  # 4 for 1
    now[0] = "two"
    assert command.run_all(figures, args, tmp_path) == 1
    assert "slipped: clocks: 1.5, accepted 1" in Texts(html.read_text(encoding="utf-8")).texts
    result = result_file.read("a", tmp_path)
    with History(write=False) as history:
        assert len(history.invocations(9, result_file.title_of("a"))) == 3
    assert figures_page.course(result) == {"clocks": [1.0, 1.5]}
    monkeypatch.chdir(tmp_path)
    args.html = "new/page.html"  # as it is typed, into the folder that the results make
    figures = {name: drawn(1.0) for name in figures}
    assert command.run_all(figures, args, tmp_path / "new") == 0
    assert (tmp_path / "new/page.html").exists()


def test_the_page_has_a_place() -> None:
    """`nf measure figures all --html` without a file was refused."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    there = str(command.PAGE)
    assert parser.parse_args(["all"]).html == there
    assert parser.parse_args(["all", "--html"]).html == there
    assert parser.parse_args(["all", "--html", "a.html"]).html == "a.html"
