# SPDX-License-Identifier: Apache-2.0
"""Box drawings from `boxes.toml`; every box names a folder or file of the tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neuron_fabric.data import parse_toml, read_text
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.drawings.sheet import FILLS, PALE, Box, Sheet

FILE = Path(__file__).with_suffix(".toml")
_Place = tuple[float, float, float, float]


@dataclass(frozen=True)
class BoxGroup:
    """Frame with a title around some boxes."""

    title: str
    at: _Place


@dataclass(frozen=True)
class TreeBox:
    """Box of a folder or file; `at` is left, top, width and height."""

    name: str
    path: str
    at: _Place
    note: str = ""
    fill: str = "blue"


@dataclass(frozen=True)
class BoxArrow:
    """Arrow between the boxes of two names, with a label of one or more lines."""

    ends: tuple[str, str]
    label: str = ""
    both: bool = False


@dataclass(frozen=True)
class BoxDrawing:
    """Drawing of boxes and arrows."""

    label: str
    height: float
    groups: tuple[BoxGroup, ...]
    boxes: tuple[TreeBox, ...]
    arrows: tuple[BoxArrow, ...]


def draw(name: str, file: Path = FILE, root: Path = ROOT) -> Sheet:
    """Return a drawing of the file.

    Raises:
        NfError: a box names a path that does not exist.
    """
    drawing = typed(dict[str, BoxDrawing], parse_toml(read_text(file)))[name]
    sheet = Sheet(drawing.label, height=drawing.height)
    for group in drawing.groups:
        sheet.rect(Box(*group.at), "#fbfcfe", f'rx="10" stroke="{PALE}" stroke-dasharray="5 4"')
        sheet.text(group.at[0] + 12, group.at[1] + 20, group.title, "pale")
    places = {}
    for one in drawing.boxes:
        if not (root / one.path).exists():
            raise NfError(f"{file.name}: box {one.name!r} names {one.path}, which does not exist.")
        if one.fill not in FILLS:
            raise NfError(f"{file.name}: unknown fill {one.fill!r} of box {one.name!r}.")
        places[one.name] = sheet.box(Box(*one.at), one.name, one.note, one.fill)
    for arrow in drawing.arrows:
        a, b = (places[end] for end in arrow.ends)
        sheet.arrow(a, b, arrow.label.split("\n") if arrow.label else (), arrow.both)
    return sheet
