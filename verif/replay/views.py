# SPDX-License-Identifier: Apache-2.0
"""What a replay reads of each line of a region, and the lines that have come back.

spec: controller §2, second edition §7. A route is what becomes of a tensor, the mode is that of the
region it goes through. Sums of integer codes are read of a region of their mode, by every view
that it has, or of a G_BINARY region, whose count planes hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.line_packing import U8, Mode
from models.parameters import DeviceParams
from models.regions import (
    PLANE_COUNT,
    PLANE_SELECTOR,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    RegionConfig,
    planes_kept,
    sum_selectors,
)

RESULT_SELECTOR = 0


Sums = Literal["views", "planes"]
"""Integer codes go through a region of their mode, or through a G_BINARY region."""


def carrier(route: Mode, sums: Sums = "views") -> Mode:
    """The mode of the region that a route goes through."""
    return Mode.G_BINARY if route.bits and sums == "planes" else route


def selectors(route: Mode, config: RegionConfig, device: DeviceParams) -> tuple[int, ...]:
    """What is read of each line: its result where there is one, the planes that count, sums."""
    planes = planes_kept(config.workers, device.cnt_w) if route.low_bit else 0
    counts = tuple(range(PLANE_SELECTOR, PLANE_SELECTOR + planes))
    return (*counts, *sum_selectors(config)) if route.bits else (RESULT_SELECTOR, *counts)


def result_lines(chosen: Sequence[int]) -> int:
    """The least of the lines that are read of a line that make its result."""
    if RESULT_SELECTOR in chosen:
        return 1
    kinds = (PLANE_SELECTOR, SUM16_SELECTOR, SUM8_SELECTOR)
    counts = [sum(0 <= selector - first < PLANE_COUNT for selector in chosen) for first in kinds]
    return min(count for count in counts if count)


@dataclass(frozen=True)
class Lines:
    """uint8[v, n, 64]: for each of the selectors the lines that it reads, as views of one array."""

    selectors: tuple[int, ...]
    stack: U8

    @staticmethod
    def of(result: U8, planes: U8) -> Lines:
        """Results uint8[n, 64] and count planes uint8[p, n, 64] together."""
        counts = range(PLANE_SELECTOR, PLANE_SELECTOR + len(planes))
        return Lines((RESULT_SELECTOR, *counts), np.concatenate([result[None], planes]))

    def part(self, lines: slice) -> Lines:
        """A stretch of the lines."""
        return Lines(self.selectors, self.stack[:, lines])

    @property
    def result(self) -> U8:
        """uint8[n, 64]: selector 0. ValueError where it was not read."""
        view: U8 = self.stack[self.selectors.index(RESULT_SELECTOR)]
        return view

    @property
    def planes(self) -> U8:
        """uint8[p, n, 64]: the count planes."""
        return self.between(PLANE_SELECTOR, PLANE_COUNT)

    def between(self, first: int, count: int) -> U8:
        """uint8[v, n, 64]: those of ``count`` selectors from ``first`` on that were read."""
        at = [n for n, selector in enumerate(self.selectors) if 0 <= selector - first < count]
        begin = at[0] if at else 0
        view: U8 = self.stack[begin : begin + len(at)]
        return view

    @property
    def sum16(self) -> U8:
        """uint8[s, n, 64]: the SUM16 lines."""
        return self.between(SUM16_SELECTOR, PLANE_COUNT)

    @property
    def sum8(self) -> U8:
        """uint8[s, n, 64]: the SUM8 lines."""
        return self.between(SUM8_SELECTOR, PLANE_COUNT)

    def differ(self, other: Lines) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """bool[n]: lines of which any view is not the same."""
        return np.asarray((self.stack != other.stack).any(axis=(0, 2)))
