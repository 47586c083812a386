# SPDX-License-Identifier: Apache-2.0
"""Drawings and plots of the documents, and the rules of the front page.

    python -m scripts.drawings.draw            write the drawings
    python -m scripts.drawings.draw --check    check them and the length of README.md

Every drawing here shows something that changes with this project: its tree, its registers, its
accepted figures. `nf check` runs the second command. The other drawings show what specifications
fix, or an example; they are plain files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import parse_toml, read_text
from neuron_fabric.errors import say
from neuron_fabric.typed import typed
from scripts.collectives import show_schedule
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.drawings import bits, plots
from scripts.drawings.sheet import FILLS, PALE, Box, Sheet

# ---- boxes -------------------------------------------------------------------------------------
BOXES = Path(__file__).with_name("boxes.toml")
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


def draw_boxes(name: str, file: Path = BOXES, root: Path = ROOT) -> Sheet:
    """Return a drawing of `boxes.toml`, in which every box names a folder or file of the tree.

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


# ---- all drawings ------------------------------------------------------------------------------
COMMAND = "python -m scripts.drawings.draw"
README_LINES = 200
FRONT = "docs/front.svg"
LARGEST = 60_000
"""Bytes of a drawing, at most."""
SHEETS: dict[str, Callable[[], Sheet]] = {
    "docs/architecture.svg": partial(draw_boxes, "architecture"),
    "docs/explain/training.svg": partial(draw_boxes, "training"),
    "docs/explain/record.svg": bits.record,
    "docs/explain/registers.svg": bits.registers,
    "docs/explain/region-registers.svg": bits.region_registers,
    "docs/explain/collectives.svg": show_schedule.example,
}
DRAWINGS: dict[str, Callable[[], str]] = {
    **{name: lambda make=make: make().svg() for name, make in SHEETS.items()},  # type: ignore[misc]
    **{f"docs/figures/{name}.svg": partial(plots.draw, name) for name in plots.PLOTS},
}


def problems(root: Path = ROOT, drawings: Mapping[str, Callable[[], str]] = DRAWINGS) -> list[str]:
    """Return a line for each rule of the front page that is broken and each stale drawing."""
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    out = []
    if len(lines) > README_LINES:
        out.append(f"README.md has {len(lines)} lines: move some to docs/ (at most {README_LINES})")
    if not any(f"({FRONT})" in line for line in lines[:20]):
        out.append(f"README.md does not show {FRONT} in its first 20 lines")
    for name, draw in drawings.items():
        file = root / name
        try:
            text = draw()
        except NfError as error:
            out.append(f"{name} cannot be drawn: {error}")
            continue
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            out.append(f"{name} is stale: run `{COMMAND}`")
        if len(text) > LARGEST:
            out.append(f"{name} has {len(text):,} bytes: draw less (at most {LARGEST:,})")
    return out


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        say(*(found := problems()))
        sys.exit(bool(found))
    for name, draw in DRAWINGS.items():
        output.write_text(ROOT / name, draw())
        say(f"wrote {name}")
