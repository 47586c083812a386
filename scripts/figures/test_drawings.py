# SPDX-License-Identifier: Apache-2.0
"""Tests of the drawings of the documents, and of the rules of the front page."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.line_packing import Mode
from scripts.common.paths import ROOT
from scripts.figures import drawings


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a folder with a copy of the front page and of the drawings."""
    (tmp_path / "docs").mkdir()
    for name in ("README.md", *drawings.DRAWINGS):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_the_page_is_as_it_should_be(page: Path) -> None:
    assert drawings.problems(page) == []


def test_a_page_that_is_too_long(page: Path) -> None:
    readme = page / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8") + "\n" * 200, encoding="utf-8")
    [line] = drawings.problems(page)
    assert line.startswith("README.md has ")


def test_a_picture_that_comes_late(page: Path) -> None:
    readme = page / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text("\n" * 20 + text, encoding="utf-8")
    assert "does not show docs/front.svg in its first 20 lines" in drawings.problems(page)[0]


@pytest.mark.parametrize("name", drawings.DRAWINGS)
@pytest.mark.parametrize("gone", [False, True])
def test_a_stale_drawing(page: Path, name: str, gone: bool) -> None:
    file = page / name
    file.unlink() if gone else file.write_text("<svg/>", encoding="utf-8")
    assert drawings.problems(page) == [f"{name} is stale: run `python -m scripts.figures.drawings`"]


@pytest.mark.parametrize(
    ("mode", "bits"),
    [(Mode.G_BINARY, 1), (Mode.G_TERNARY, 2), (Mode.G_INT4, 4), (Mode.G_INT8, 8), (Mode.FP32, 32)],
)
def test_elements_take_bits_in_order(mode: Mode, bits: int) -> None:
    """Check the element that owns each bit of a line, by the line formats (controller spec §1)."""
    assert drawings._owners(mode) == [bit // bits for bit in range(drawings.BITS)]


def test_five_elements_share_a_byte() -> None:
    assert drawings._owners(Mode.G_TERN5) == [5 * (bit // 8) for bit in range(drawings.BITS)]
