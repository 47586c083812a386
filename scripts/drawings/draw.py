# SPDX-License-Identifier: Apache-2.0
"""Drawings and plots of the documents, and the rules of the front page.

    python -m scripts.drawings.draw            write the drawings
    python -m scripts.drawings.draw --check    check them and the length of README.md

Every drawing here shows something that changes with this project: its registers, its accepted
figures. `nf check` runs the second command. The other drawings show what specifications
fix, or an example; they are plain files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from models.register_map import REG_MAP
from models.register_types import FieldAccess, Register
from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.build import slang
from scripts.collectives import show_schedule
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.drawings import plots
from scripts.drawings.sheet import INK, TINTS, Box, Sheet

# ---- bit fields, read from their declarations ----------------------------------------------------
BITS = 32  # of a row
_LEFT, _WIDE, _HIGH = 170, 700, 22
FieldBits = tuple[str, int, int]
"""Name, lowest bit and number of bits of a field."""


def struct_fields(package: str, name: str) -> list[FieldBits]:
    """Return the fields of a packed struct of an RTL package, from bit 0 on, without reserved bits.

    A struct in it is replaced by its fields. NfError is raised if there is no such type.
    """
    return list(_fields_of(slang.package_type(package, name), 0))


def _fields_of(struct: Any, base: int) -> Iterator[FieldBits]:
    for field in reversed([*struct]):
        if field.type.isStruct:
            yield from _fields_of(field.type.canonicalType, base + field.bitOffset)
        elif field.name != "rsvd":  # up to the end of the line
            yield field.name, base + field.bitOffset, field.type.bitWidth


def record() -> Sheet:
    """Draw the bookkeeping line of a record, from the structs of the RTL."""
    places = struct_fields("nf_core_pkg", "record_t")
    tints = dict(zip((name for name, _, _ in places), cycle(TINTS), strict=False))
    title = "Bookkeeping line of a record in device memory; bits after the last field are reserved"
    sheet = Sheet("Bit fields of the bookkeeping line of a record")
    sheet.text(30, 30, title, "title")
    sheet.text(30, 66, "record_t", "head")
    y = 50.0
    for base in range(0, max(low + bits for _, low, bits in places), BITS):
        row = []
        for field, low, bits in places:
            start, end = max(low, base), min(low + bits, base + BITS)
            if start < end:
                cut = bits > end - start
                label = f"{field}[{end - low - 1}:{start - low}]" if cut else field
                row.append((label, start - base, end - start, tints[field]))
        if row:
            sheet.text(_LEFT - 8, y + 15, str(base), "small", "end")
            y += sheet.bits(Box(_LEFT, y, _WIDE, _HIGH), BITS, row) + 10
    sheet.height = y + 10
    return sheet


_COLOURS = {
    FieldAccess.RO: "#e6dff2",
    FieldAccess.RW: "#d3e2f7",
    FieldAccess.W1C: "#fbe2c4",
    FieldAccess.PULSE: "#f3d6d0",
    FieldAccess.COMMIT: "#d9ecd4",
}


def _register_rows(label: str, title: str, registers: Sequence[Register]) -> Sheet:
    """Draw registers, a row each; counters share rows of names."""
    sheet = Sheet(label)
    sheet.text(30, 30, title, "title")
    for number, (access, colour) in enumerate(_COLOURS.items()):
        sheet.rect(Box(30 + 150 * number, 44, 14, 14), colour, f'stroke="{INK}"')
        sheet.text(50 + 150 * number, 56, access.value, "pale")
    y = 76.0
    for register in registers:
        if register.counts is None:
            sheet.text(30, y + 15, f"{register.address:03x}", "pale")
            sheet.text(64, y + 15, register.name, "pale")
            row = [(one.name, one.lsb, one.width, _COLOURS[one.access]) for one in register.fields]
            y += sheet.bits(Box(220, y, 650, _HIGH), BITS, row) + 6
    counters = [one for one in registers if one.counts is not None]
    if counters:
        sheet.text(30, y + 20, "event counters, 32 bits each, read only", "head")
    rows = -(-len(counters) // 4)
    for number, counter in enumerate(counters):
        column, line = divmod(number, rows)
        text = f"{counter.address:03x} {counter.name}"
        sheet.text(30 + 230 * column, y + 42 + 18 * line, text, "pale")
    sheet.height = y + (50 + 18 * rows if counters else 10)
    return sheet


def registers() -> Sheet:
    """Draw the registers of the device, from the register map."""
    return _register_rows(
        "Map of the registers of the device with their bit fields",
        "Registers of the device: offset, name, bit 0 at the left",
        REG_MAP.registers,
    )


def region_registers() -> Sheet:
    """Draw the registers of a region, from the register map."""
    base, stride = REG_MAP.region_base, REG_MAP.region_stride
    return _register_rows(
        "Map of the registers of a region with their bit fields",
        f"Registers of region r: offset from {base:x}h + r * {stride:x}h, name, bit 0 at the left",
        REG_MAP.region_registers,
    )


# ---- all drawings --------------------------------------------------------------------------------
COMMAND = "python -m scripts.drawings.draw"
README_LINES = 200
FRONT = "docs/front.svg"
LARGEST = 60_000
"""Bytes of a drawing, at most."""
SHEETS: dict[str, Callable[[], Sheet]] = {
    "docs/explain/record.svg": record,
    "docs/explain/registers.svg": registers,
    "docs/explain/region-registers.svg": region_registers,
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
