# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: points, crosses, bins and their reasons, in plain Python.

A bin is there for a reason, and the reason is part of it: a hole that nobody can explain is noise.
What a run leaves are its hits alone, {point: {bin: hits}} without zeros; the points, with every
bin that there should be, are in the code. Merging is a sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Hits = dict[str, dict[str, int]]
FUNCTIONAL = "functional"  # where the hits are among the metrics that a run leaves
BETWEEN = " x "  # the axis values of a cross bin
CHEAP = 10  # `at_least` of a bin that every run of its test hits: once would be luck


def _no_action(text: str) -> None:
    """Ignore hits of illegal bins."""


@dataclass(slots=True)
class CoverPoint:
    """Named set of bins; `reason` says what a hole would leave untested.

    `test` is the one that is meant to hit the bins, each `at_least` times in the merged nightly
    suite. An `illegal` bin is none of the bins: a hit calls `on_illegal`, which fails the test. An
    `ignored` bin counts nowhere.
    """

    name: str
    reason: str
    test: str = ""
    at_least: int = 1
    bins: dict[str, int] = field(default_factory=dict)
    illegal: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    unexpected: dict[str, int] = field(default_factory=dict)
    on_illegal: Callable[[str], None] = _no_action

    def hit(self, *values: str, times: int = 1) -> None:
        """Count hits of a bin, named by its value on each axis.

        Hits of an unplanned bin are kept in `unexpected`.
        """
        name = BETWEEN.join(values)
        if name in self.bins:
            self.bins[name] += times
        elif name not in self.ignored:
            self.unexpected[name] = self.unexpected.get(name, 0) + times
            if name in self.illegal:
                self.on_illegal(f"COVERAGE illegal bin of {self.name!r}: {name} ({self.reason})")

    @property
    def holes(self) -> list[str]:
        """Return the bins with fewer hits than wanted."""
        return [name for name, hits in self.bins.items() if hits < self.at_least]


class CoverModel:
    """All points of a run; `on_illegal` is called with one line for each hit of an illegal bin."""

    def __init__(self, on_illegal: Callable[[str], None] = _no_action) -> None:
        self.points: dict[str, CoverPoint] = {}
        self.on_illegal = on_illegal

    def _heard(self, text: str) -> None:
        self.on_illegal(text)

    def hit(self, point: str, *values: str, times: int = 1) -> None:
        """Count hits of a bin of a point."""
        self.points[point].hit(*values, times=times)

    def point(
        self,
        name: str,
        reason: str,
        bins: Iterable[str],
        *,
        test: str,
        at_least: int = 1,
        illegal: Iterable[str] = (),
        ignored: Iterable[str] = (),
    ) -> CoverPoint:
        """Add a point; ValueError if the name is taken, or a bin is both wanted and illegal."""
        if name in self.points:
            raise ValueError(f"cover point {name} exists")
        planned, never = dict.fromkeys(bins, 0), frozenset(illegal)
        if never & planned.keys():
            raise ValueError(f"cover point {name}: both wanted and illegal: {never & {*planned}}")
        self.points[name] = CoverPoint(
            name,
            reason,
            test,
            at_least,
            planned,
            never,
            frozenset(ignored),
            on_illegal=self._heard,
        )
        return self.points[name]

    def cross(
        self,
        name: str,
        reason: str,
        axes: Mapping[str, Sequence[str]],
        *,
        test: str,
        at_least: int = 1,
        never: Sequence[Mapping[str, Sequence[str]]] = (),
    ) -> CoverPoint:
        """Add a point with one bin for each combination of axis values.

        `never`: combinations that are ignored, by the values that each of them has on some axes.
        ValueError as for `point`, and if a value could be taken for two.
        """
        if any(BETWEEN in value for values in axes.values() for value in values):
            raise ValueError(f"cover cross {name}: {BETWEEN!r} stands between values, not in one")
        bins: dict[bool, list[str]] = {False: [], True: []}
        for values in itertools.product(*axes.values()):
            at = dict(zip(axes, values, strict=True))
            ignored = any(all(at[axis] in some for axis, some in one.items()) for one in never)
            bins[ignored].append(BETWEEN.join(values))
        return self.point(
            name, reason, bins[False], test=test, at_least=at_least, ignored=bins[True]
        )

    def hits(self) -> Hits:
        """Return the hits as plain data; `add` is the inverse."""
        found = {
            name: {b: n for b, n in (point.bins | point.unexpected).items() if n}
            for name, point in self.points.items()
        }
        return {name: bins for name, bins in found.items() if bins}

    def add(self, hits: Mapping[str, Mapping[str, int]]) -> None:
        """Add the hits of another run; keep an unplanned point without bins.

        An illegal bin of that run has failed it already: it is not reported again.
        """
        for name, bins in hits.items():
            point = self.points.setdefault(name, CoverPoint(name, "not planned"))
            for bin_name, times in bins.items():
                target = point.bins if bin_name in point.bins else point.unexpected
                target[bin_name] = target.get(bin_name, 0) + times
