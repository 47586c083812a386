# SPDX-License-Identifier: Apache-2.0
"""Waivers of code coverage (`verif/coverage_waivers.yaml`): unreachable points with reasons.

A waiver names a source file, the text of the line (not its number), the kind of point and, for a
toggle, the bits. A waiver that matches no point, or one that was reached, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from neuron_fabric.data import DataError
from neuron_fabric.typed import FieldRule
from scripts.common.data import Listed, at_least, like, load_list
from scripts.common.paths import ROOT
from scripts.coverage.places import Place

FILE = ROOT / "verif" / "coverage_waivers.yaml"
_BIT = re.compile(r"(.*)\[(\d+)\]")
_BITS = "^[0-9]{1,5}(:[0-9]{1,5})?(,[0-9]{1,5}(:[0-9]{1,5})?)*$"


@dataclass(frozen=True)
class CodeWaiver:
    """Rule for coverage points that need not be reached.

    Attributes:
        file: Source file.
        source: Regular expression, searched in the text of the point's line.
        kind: "line", "branch", "expr" or "toggle".
        reason: Why the points cannot be reached.
        name: Regular expression that the whole name must match (`Place.name`; of a toggle the
            signal, without its edge, and without its last index where there are `bits`); None for
            every name.
        bits: Bits of a toggle, as `nf cov holes` prints them ("7:4,0"); None for all.
        every: With this, `bits` are those of each field of so many bits.
        edge: Edge of a toggle, "0->1" or "1->0"; None for both.
    """

    file: Annotated[str, like("^hdl/")]
    source: Annotated[str, at_least(3)]
    kind: Literal["line", "branch", "expr", "toggle"]
    reason: Annotated[str, at_least(20)]
    name: str | None = None
    bits: Annotated[str, like(_BITS)] | None = None
    every: Annotated[int, FieldRule(lambda width: width > 1, "2 or more")] | None = None
    edge: Literal["0->1", "1->0"] | None = None

    def __post_init__(self) -> None:
        """Raise DataError for a `source` or `name` that is no regular expression."""
        try:
            re.compile(self.source)
            re.compile(self.name or "")
        except re.error as error:
            raise DataError(f"{self.label}: no regular expression ({error})") from None

    @cached_property
    def _source(self) -> re.Pattern[str]:
        return re.compile(self.source)

    @cached_property
    def _name(self) -> re.Pattern[str]:
        return re.compile(self.name or ".*")

    @cached_property
    def _bits(self) -> tuple[tuple[int, int], ...]:
        """(Last bit, first bit) of each range of `bits`."""
        parts = [part.partition(":") for part in (self.bits or "").split(",")]
        return tuple((int(last), int(first or last)) for last, _, first in parts)

    @property
    def label(self) -> str:
        """Text of the waiver in one line, without its reason."""
        bits = f" [{self.bits}]" if self.bits else ""
        bits += f" of each {self.every}" if self.every else ""
        return f"{self.file}: {self.kind} {self.name or 'all'}{bits} on /{self.source}/"

    def fits_text(self, text: str) -> bool:
        """Return whether the text of a source line matches `source`."""
        return self._source.search(text) is not None

    def fits(self, place: Place, text: str) -> bool:
        """Return whether the waiver covers a point of its file; `text` is the point's line."""
        if place.kind != self.kind or not self.fits_text(text):
            return False
        name, edge = place.name, ""
        if self.kind == "toggle":
            name, _, edge = place.name.rpartition(":")
        if self.bits is not None:
            found = _BIT.fullmatch(name)
            if found is None:
                return False
            bit = int(found[2]) % self.every if self.every else int(found[2])
            if not any(first <= bit <= last for last, first in self._bits):
                return False
            name = found[1]
        return (self.edge in (None, edge)) and self._name.fullmatch(name) is not None


def read(path: Path = FILE) -> list[CodeWaiver]:
    """Read and check the waivers of a YAML file; an entry with several files becomes one for each.

    Raises:
        NfError: The file is not valid; one line.
    """
    return load_list(path, "waivers", CodeWaiver, _of_each_file)


def _of_each_file(value: Listed) -> Iterable[Listed]:
    files = value.get("file")
    several = files if files and isinstance(files, list) else [files]
    return [{**value, "file": one} for one in several]


def source_lines(file: str, root: Path = ROOT) -> list[str]:
    """Return the text lines of a source file; [] if it cannot be read."""
    try:
        return (root / file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def problems(waivers: Sequence[CodeWaiver], root: Path = ROOT) -> list[str]:
    """Return an error line for each waiver whose file or text is missing, and each duplicate."""
    out = []
    for number, waiver in enumerate(waivers):
        lines = source_lines(waiver.file, root)
        if not any(waiver.fits_text(line) for line in lines):
            out.append(f"coverage waiver of a line that does not exist: {waiver.label}")
        if waiver in waivers[:number]:
            out.append(f"coverage waived twice: {waiver.label}")
    return out


def judge(
    waivers: Iterable[CodeWaiver], counts: Mapping[Place, int], whole: bool = True
) -> tuple[dict[Place, CodeWaiver], tuple[str, ...]]:
    """Apply waivers to measured coverage; report those that match nothing or a reached point.

    Waivers of a file without points are not judged: no build has that file.

    Args:
        waivers: Waivers.
        counts: Hits by place.
        whole: Whether a build with all points of the design was measured. If not, waivers that
            match nothing are not reported: builds with fewer regions or slots have fewer points.

    Returns:
        The waiver of each waived place, and a text for each waiver that is not needed.
    """
    by_file: dict[str, list[Place]] = {}
    for place in counts:
        by_file.setdefault(place.file, []).append(place)
    waived: dict[Place, CodeWaiver] = {}
    unneeded: list[str] = []
    for waiver in waivers:
        places = by_file.get(waiver.file)
        if places is None:
            continue
        texts = dict(enumerate(source_lines(waiver.file), 1))
        found = [place for place in places if waiver.fits(place, texts.get(place.line, ""))]
        hit = [place for place in found if counts[place]]
        if not found and whole:
            unneeded.append(f"{waiver.label}: matches nothing")
        elif hit:
            names = ", ".join(f"{place.line} {place.name}" for place in sorted(hit)[:3])
            unneeded.append(f"{waiver.label}: {len(hit)} of {len(found)} are reached ({names})")
        waived.update((place, waiver) for place in found if not counts[place])
    return waived, tuple(unneeded)
