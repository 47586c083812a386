# SPDX-License-Identifier: Apache-2.0
"""Points of code coverage by their place in the source, which is equal in every build.

A key of Verilator is a sequence of 0x01, a short name, 0x02 and a value. Names used here: f
file, t kind (line, branch, expr, toggle), l and n line and column, o comment, S the source lines
of the block ("70-74,80"). Instances of a module, and builds with other parameters, share the
places of their points: a place that one of them reaches is reached.
"""

from __future__ import annotations

import functools
import gc
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

_HEX = re.compile(r"%([0-9A-F]{2})")
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)
_MAX_LINES = 100_000  # of a source file: a range beyond is damage
LINE, BRANCH, EXPR, TOGGLE = KINDS = ("line", "branch", "expr", "toggle")
DESIGN = "hdl/"  # what coverage is asked of


class Place(NamedTuple):
    """A coverage point in the source; equal in every build and instance.

    `name` is, for a branch "if", "else", ..; for an expression the values of its terms and the
    result; for a toggle the bit and its edge, "q[3]:0->1". `kind` is one of `KINDS`.
    """

    file: str
    line: int
    column: int
    kind: str
    name: str


class Point(NamedTuple):
    """An entry of a key table: its place, and the source lines of its block ("70-74,80")."""

    place: Place
    lines: str


@functools.lru_cache(maxsize=64)
def points(keys: bytes) -> tuple[Point | None, ...]:
    """Return the point of each key in a key table; None for keys outside the design (`hdl/`).

    ``keys`` are Verilator's keys, one a line.
    """
    collecting = gc.isenabled()
    gc.disable()  # it would look again and again through a million tuples that all stay
    try:
        return tuple(_points(keys))
    finally:
        if collecting:
            gc.enable()


def _points(keys: bytes) -> Iterator[Point | None]:
    known: dict[tuple[str, str], Point | None] = {}  # the bits of a bus differ in their name alone
    for key in keys.decode("ascii", "replace").split("\n"):
        head, _, tail = key.partition("\x01o\x02")
        name, _, rest = tail.partition("\x01")
        if (head, rest) not in known:
            known[head, rest] = _unnamed(f"{head}\x01{rest}")
        found = known[head, rest]
        if found is None:
            yield None
            continue
        if "%" in name:
            name = _HEX.sub(lambda found: chr(int(found[1], 16)), name)
        yield Point(Place(*found.place[:-1], name), found.lines)


def _unnamed(key: str) -> Point | None:
    """Return the point of a key without its name; None if it is outside the design."""
    fields = dict(part.split("\x02", 1) for part in key.split("\x01") if "\x02" in part)
    file, kind = fields.get("f", ""), fields.get("t", "")
    if kind not in KINDS or not file.startswith(DESIGN):
        return None
    lines = fields.get("S", fields.get("l", "")) if kind in (LINE, BRANCH) else ""
    return Point(Place(file, _int(fields.get("l")), _int(fields.get("n")), kind, ""), lines)


def _int(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 8 else 0


def numbers(text: str) -> Iterator[int]:
    """Yield the line numbers of a text of ranges: "70-74,80" gives 70, 71, 72, 73, 74, 80."""
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found:
            first, last = int(found[1]), int(found[2] or found[1])
            yield from range(first, min(last, _MAX_LINES) + 1)


def ranges(values: Iterable[int]) -> Iterator[str]:
    """Yield the ranges of numbers as texts ("70-74", "80"): the inverse of `numbers`."""
    for _, run in groupby(enumerate(sorted(values)), lambda one: one[1] - one[0]):
        (_, first), *more = run
        yield f"{first}-{more[-1][1]}" if more else str(first)
