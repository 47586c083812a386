# SPDX-License-Identifier: Apache-2.0
"""Reads the counters of cover modules that are bound into the design (Verilator builds alone).

A `*_hits` array of such a module is a point: its index is the concatenation of the codes of the
point's axes; bit i of `*_seen` tells whether element i was counted up. They are read over the
simulator's interface when a test ends; a file written in a `final` block would not do, because a
run that was forked from a simulator ends before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from verif.coverage.cover_model import CoverCross, CoverModel

NO_CODE = ""
"""Stands for a code that has no name, in the list of an axis."""


@dataclass(frozen=True)
class WhiteBox:
    """A cross whose hits the array `<array>_hits` of the cover module `module` counts.

    `codes`: for each axis the name of every code, from 0 on; NO_CODE where there is none.
    """

    cross: CoverCross
    module: str
    array: str
    codes: tuple[tuple[str, ...], ...]

    def values(self, index: int) -> tuple[str, ...]:
        """The axis values of an index of the array."""
        out: list[str] = []
        for names in reversed(self.codes):
            width = (len(names) - 1).bit_length()
            code = index & (1 << width) - 1
            index >>= width
            out.append(names[code] if code < len(names) else f"code {code}")
        return tuple(reversed(out))

    def take(self, top: Any) -> None:
        """Adds what the module has counted since the last reset; nothing where it is not bound."""
        module = top
        for name in self.module.split("."):
            module = getattr(module, name, None)
            if module is None:
                return
        seen = int(getattr(module, f"{self.array}_seen").value)
        array = getattr(module, f"{self.array}_hits")
        for index in ones(seen):
            self.cross.hit(*self.values(index), times=int(array[index].value))


class WhiteBoxPoints:
    """Base of points that cover modules count. Call `take` with the top when a test ends."""

    module: ClassVar[str]
    """The cover module, as a path below the top."""

    def __init__(self, model: CoverModel) -> None:
        self.model = model
        self.boxes: list[WhiteBox] = []

    def add(
        self,
        array: str,
        name: str,
        reason: str,
        codes: Mapping[str, Sequence[str]],
        *,
        test: str,
        module: str = "",
        at_least: int = 1,
        ignore: Callable[..., bool] | None = None,
    ) -> None:
        """A cross that `array` of `module` ("": that of the class) counts: see WhiteBox."""
        cross = self.model.cross(
            name, reason, axes(codes), test=test, at_least=at_least, ignore=ignore
        )
        names = tuple(map(tuple, codes.values()))
        self.boxes.append(WhiteBox(cross, module or self.module, array, names))

    def take(self, top: Any) -> None:
        """Adds what the cover modules in the design have counted."""
        for box in self.boxes:
            box.take(top)


def ones(bits: int) -> Iterator[int]:
    """Numbers of the bits that are 1, from bit 0 on."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def axes(named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The axes of a cross from the codes of each, without those that have no name."""
    return {name: [code for code in codes if code] for name, codes in named.items()}
