# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: points, bins and their reasons, in plain Python.

A bin is there for a reason, and the reason is part of it: a hole that nobody can explain is noise.
What a run leaves are its hits alone, {point: {bin: hits}} without zeros; the points, with every
bin that there should be, are in the code. Merging is a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Hits = dict[str, dict[str, int]]
FUNCTIONAL = "functional"  # where the hits are among the metrics that a run leaves


@dataclass(slots=True)
class CoverPoint:
    """A named set of bins; `reason` tells what a hole would leave untested."""

    name: str
    reason: str
    bins: dict[str, int] = field(default_factory=dict)
    unexpected: dict[str, int] = field(default_factory=dict)

    def hit(self, bin_name: str, times: int = 1) -> None:
        """Counts hits; a bin that nobody planned is kept apart, not lost."""
        target = self.bins if bin_name in self.bins else self.unexpected
        target[bin_name] = target.get(bin_name, 0) + times

    @property
    def holes(self) -> list[str]:
        """Bins that were never hit."""
        return [name for name, hits in self.bins.items() if not hits]


class CoverModel:
    """All points of a run."""

    def __init__(self) -> None:
        self.points: dict[str, CoverPoint] = {}

    def point(self, name: str, reason: str, bins: Iterable[str]) -> CoverPoint:
        """Adds a point; ValueError if the name is taken."""
        if name in self.points:
            raise ValueError(f"cover point {name} exists")
        self.points[name] = CoverPoint(name, reason, dict.fromkeys(bins, 0))
        return self.points[name]

    def hits(self) -> Hits:
        """What was hit, as plain data; `add` is the inverse."""
        found = {
            name: {b: n for b, n in (point.bins | point.unexpected).items() if n}
            for name, point in self.points.items()
        }
        return {name: bins for name, bins in found.items() if bins}

    def add(self, hits: Mapping[str, Mapping[str, int]]) -> None:
        """Adds the hits of another run; a point that nobody planned is kept, without bins."""
        for name, bins in hits.items():
            point = self.points.setdefault(name, CoverPoint(name, "not planned"))
            for bin_name, times in bins.items():
                point.hit(bin_name, times)
