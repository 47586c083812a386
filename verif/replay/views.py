# SPDX-License-Identifier: Apache-2.0
"""What a replay reads of each line of a region, and the lines that have come back.

spec: controller §2, second edition §7. A route is what becomes of a tensor, the mode is that of the
region it goes through: sums of integer codes may be had of a G_BINARY region, whose count planes
hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.line_packing import LINE_BYTES, U8, Mode
from models.parameters import DeviceParams
from models.regions import PLANE_COUNT, PLANE_SELECTOR, RegionConfig, planes_kept

RESULT_SELECTOR = 0


def carrier(route: Mode) -> Mode:
    """The mode of the region that a route goes through."""
    return Mode.G_BINARY if route.bits else route


def selectors(route: Mode, config: RegionConfig, device: DeviceParams) -> tuple[int, ...]:
    """What is read of each line: its result where there is one, and the planes that count."""
    planes = planes_kept(config.workers, device.cnt_w) if route.low_bit else 0
    counts = tuple(range(PLANE_SELECTOR, PLANE_SELECTOR + planes))
    return counts if route.bits else (RESULT_SELECTOR, *counts)


def result_lines(chosen: Sequence[int]) -> int:
    """How many of the lines that are read of a line make its result."""
    return 1 if RESULT_SELECTOR in chosen else len(chosen)


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

    @staticmethod
    def empty(chosen: tuple[int, ...], lines: int) -> Lines:
        """Zeros, to be filled."""
        return Lines(chosen, np.zeros((len(chosen), lines, LINE_BYTES), dtype=np.uint8))

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

    def differ(self, other: Lines) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """bool[n]: lines of which any view is not the same."""
        return np.asarray((self.stack != other.stack).any(axis=(0, 2)))
