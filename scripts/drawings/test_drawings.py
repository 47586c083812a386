# SPDX-License-Identifier: Apache-2.0
"""Drawings of the documents, and the rules of the front page: each is broken once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.drawings import draw, plots
from scripts.figures import baseline

STALE: Mapping[str, Callable[[], str]] = {"docs/a.svg": lambda: "<svg/>"}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a copy of the front page, and one drawing."""
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "docs/a.svg").write_text("<svg/>", encoding="utf-8")
    return tmp_path


def test_every_drawing_is_as_its_source_says() -> None:
    assert draw.problems() == []


README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("README.md", README + "\n" * 200, "README.md has "),
        ("README.md", "\n" * 20 + README, "README.md does not show docs/front.svg in its first 20"),
        ("docs/a.svg", "<svg>", f"docs/a.svg is stale: run `{draw.COMMAND}`"),
        ("docs/a.svg", None, f"docs/a.svg is stale: run `{draw.COMMAND}`"),
    ],
    ids=["too long", "late picture", "stale drawing", "no drawing"],
)
def test_a_front_page_that_is_wrong(page: Path, file: str, text: str | None, told: str) -> None:
    (page / file).unlink() if text is None else (page / file).write_text(text, encoding="utf-8")
    assert draw.problems(page, STALE)[0].startswith(told)


def test_a_large_drawing_and_one_that_cannot_be_drawn(page: Path) -> None:
    def broken() -> str:
        raise NfError("a state has no place")

    text = "x" * (draw.LARGEST + 1)
    (page / "docs/a.svg").write_text(text, encoding="utf-8")
    large, no_place = draw.problems(page, {"docs/a.svg": lambda: text, "docs/b.svg": broken})
    assert large == "docs/a.svg has 60,001 bytes: draw less (at most 60,000)"
    assert no_place == "docs/b.svg cannot be drawn: a state has no place"


@pytest.mark.parametrize(("package", "name"), [("nf_core_pkg", "page_t"), ("no_pkg", "record_t")])
def test_a_struct_that_is_not_there(package: str, name: str) -> None:
    with pytest.raises(NfError, match=f"the controller has no type {package}::{name}"):
        draw.struct_fields(package, name)


# ---- plots -------------------------------------------------------------------------------------
def test_every_plot_names_commit_and_date() -> None:
    for name, plot in plots.PLOTS.items():
        origin = baseline.origin()[plot.result]
        text = (ROOT / f"docs/figures/{name}.svg").read_text(encoding="utf-8")
        assert f"accepted {origin['date']}, commit {origin['commit']}; {plot.set_up}" in text


def test_stages_that_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    known = baseline.read()
    for name in known["timing"]:
        known["timing"][name] += 1
    monkeypatch.setattr(baseline, "read", lambda: known)
    with pytest.raises(NfError, match="do not add up to 4 clocks"):
        plots.draw("stages")


def test_a_figure_that_was_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "read", lambda: {"synth": {}})
    with pytest.raises(NfError, match="plot area: no accepted figure 'engine, ECP5 mapped fast"):
        plots.draw("area")


def test_accepting_a_figure_makes_its_plot_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    known = json.loads(json.dumps(baseline.read()))
    known["synth"]["engine, ECP5 mapped fast: LUTs"] += 1
    monkeypatch.setattr(baseline, "read", lambda: known)
    name = "docs/figures/area.svg"
    assert draw.problems(ROOT, {name: draw.DRAWINGS[name]}) == [
        f"{name} is stale: run `{draw.COMMAND}`"
    ]
