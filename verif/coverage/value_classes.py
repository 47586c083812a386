# SPDX-License-Identifier: Apache-2.0
"""Classes of values that several cover points share: workers, thresholds, lines, waiting times."""

from __future__ import annotations

import functools

from models.line_packing import Mode
from models.regions import MAX_WORKERS

LOW_BIT = (Mode.G_BINARY.name, Mode.G_TERNARY.name)
INTS = (Mode.G_INT4.name, Mode.G_INT8.name)
AGGREGATING = (*LOW_BIT, Mode.FP32.name)
MODES = (Mode.IDENTITY.name, *AGGREGATING)
TERN5 = Mode.G_TERN5.name

WORKERS = ("1", "2", "3", "2^k-1", "2^k", "2^k+1", "63", "64", "odd", "even")
THRESHOLDS = ("1", "2", "3..W-1", "W", "W+1..64", "65..254", "255")
LINES = ("0", "1", "2", "3..5", "6..9", "10..13", "14..")
CLOCKS = ("0..3", "4..15", "16..63", "64..")


def own_points(mode: Mode) -> bool:
    """The lines of the mode have points of their own; they go the way of another mode's."""
    return mode.bits > 0 or mode is Mode.G_TERN5


@functools.cache
def workers_class(workers: int) -> str:
    """Class of W: where masks, planes and votes change their shape."""
    if workers in (1, 2, 3, MAX_WORKERS - 1, MAX_WORKERS):
        return str(workers)
    for distance, name in ((1, "2^k-1"), (0, "2^k"), (-1, "2^k+1")):
        if (workers + distance).bit_count() == 1:
            return name
    return "odd" if workers & 1 else "even"


@functools.cache
def threshold_class(threshold: int, workers: int) -> str:
    """Class of T beside W: one that nobody, everybody, or a part of the workers can reach."""
    if threshold in (1, 2, 255):
        return str(threshold)
    if threshold == workers:
        return "W"
    if threshold < workers:
        return "3..W-1"
    return "W+1..64" if threshold <= MAX_WORKERS else "65..254"


def _ranged(limits: tuple[tuple[int, str], ...], beyond: str, value: int) -> str:
    return next((name for most, name in limits if value <= most), beyond)


@functools.cache
def lines_class(lines_log2: int) -> str:
    """Class of LINES_LOG2."""
    limits = ((0, "0"), (1, "1"), (2, "2"), (5, "3..5"), (9, "6..9"), (13, "10..13"))
    return _ranged(limits, "14..", lines_log2)


@functools.lru_cache(4096)
def clocks_class(clocks: int) -> str:
    """Class of a waiting time in clocks."""
    return _ranged(((3, "0..3"), (15, "4..15"), (63, "16..63")), "64..", clocks)
