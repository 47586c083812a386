# SPDX-License-Identifier: Apache-2.0
"""Hints of `nf close`: choices of knobs that make a coverage bin likelier, from
`bin_hints.toml`.
"""

import fnmatch
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Template
from typing import Final

import msgspec

from verif.coverage.cover_model import BETWEEN


class Hint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hints for the bins of some cover points.

    Attributes:
        points: Globs of names of cover points.
        words: For a word of a bin's name, choices as `knob=choice; knob=choice`.
    """

    points: list[str]
    words: dict[str, str]


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    texts: dict[str, str]
    hints: list[Hint]


def _read() -> list[Hint]:
    source = Path(__file__).with_name("bin_hints.toml").read_bytes()
    table = msgspec.toml.decode(source, type=_Table)
    hints = [
        Hint(one.points, {w: Template(t).substitute(table.texts) for w, t in one.words.items()})
        for one in table.hints
    ]
    return [*hints, Hint(["workers"], {str(n): f"workers={n}" for n in range(1, 65)})]


HINTS: Final = _read()


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield (knob, choice) for each part of a text `knob=choice; knob=choice`."""
    for part in text.split("; "):
        knob, _, choice = part.partition("=")
        yield knob, choice


CHEAP: Final = frozenset(
    pairs(
        "lines=1; lines=2..8; lines=16..64; latency=1..3; latency=2..12; stalls=none; stalls=some; "
        "host_gaps=none; ready=always; credits=many"
    )
)
"""Choices that cost few cycles, for knobs without a hint."""


@cache
def hints(point: str, bin_name: str) -> frozenset[tuple[str, str]]:
    """Return (knob, choice) pairs that make a bin likelier and the run short; empty without a hint.

    The words of a bin are its axis values and their parts between spaces. Knobs without a hint get
    the choices of CHEAP.

    Args:
        point: Name of the cover point.
        bin_name: Name of the bin.
    """
    values = bin_name.split(BETWEEN)
    words = {"", *values, *(word for value in values for word in value.split())}
    found = {
        pair
        for hint in HINTS
        if any(fnmatch.fnmatch(point, glob) for glob in hint.points)
        for word in words & hint.words.keys()
        for pair in pairs(hint.words[word])
    }
    if not found:
        return frozenset()
    knobs = {knob for knob, _ in found}
    return frozenset(found | {(knob, choice) for knob, choice in CHEAP if knob not in knobs})
