# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: cover points, crosses and bins with their reasons, in plain Python.

Each point states the reason for its bins. A run leaves only its hits, {point: {bin: hits}} without
zeros; the points with all bins are defined in the code. Hits of several runs are merged by adding.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Hits = dict[str, dict[str, int]]
FUNCTIONAL = "functional"  # where the hits are among the metrics that a run leaves
BETWEEN = " x "  # the axis values of a cross bin
CHEAP = 10  # `at_least` of a bin that every run of its test hits: once would be luck


@dataclass(slots=True)
class CoverPoint:
    """Cover point: a named set of bins with their hits.

    Attributes:
        name: Name of the point.
        reason: Statement of what a hole would leave untested.
        test: Test that is meant to hit the bins.
        at_least: Number of hits that each bin needs in the merged nightly suite.
        bins: Hits by bin; for a cross a bin is named by its axis values, joined with BETWEEN.
        illegal: Names that are no bins: a hit calls `on_illegal`, which fails the test.
        ignored: Names whose hits count nowhere.
        unexpected: Hits of names that are neither bins nor ignored.
        on_illegal: Called with a line of text for each hit of an illegal name.
    """

    name: str
    reason: str
    test: str = ""
    at_least: int = 1
    bins: dict[str, int] = field(default_factory=dict)
    illegal: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    unexpected: dict[str, int] = field(default_factory=dict)
    on_illegal: Callable[[str], None] = lambda _text: None

    def hit(self, *values: str, times: int = 1) -> None:
        """Count hits of a bin.

        A hit outside the bins is counted in `unexpected`, unless the name is ignored.

        Args:
            values: Name of the bin, or for a cross its value on each axis.
            times: Number of hits.
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
        """Return the bins with fewer than `at_least` hits."""
        return [name for name, hits in self.bins.items() if hits < self.at_least]


@functools.cache  # a process may build many models
def _crossed(
    axes: tuple[tuple[str, ...], ...], rules: tuple[tuple[tuple[int, frozenset[str]], ...], ...]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the bins of a cross, and the names that rules (values by axis number) exclude."""
    wanted: list[str] = []
    ignored: list[str] = []
    for values in itertools.product(*axes):
        never = any(all(values[at] in some for at, some in rule) for rule in rules)
        (ignored if never else wanted).append(BETWEEN.join(values))
    return tuple(wanted), frozenset(ignored)


class CoverModel:
    """All cover points of a run.

    Args:
        on_illegal: Called with a line of text for each hit of an illegal bin.
    """

    def __init__(self, on_illegal: Callable[[str], None] = lambda _text: None) -> None:
        self.points: dict[str, CoverPoint] = {}
        self.on_illegal = on_illegal

    def hit(self, point: str, *values: str, times: int = 1) -> None:
        """Count hits of a bin of the point `point`; see `CoverPoint.hit`."""
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
        """Add a cover point and return it; the arguments are the fields of `CoverPoint`.

        Raises:
            ValueError: The name is taken, or a bin is both wanted and illegal.
        """
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
            on_illegal=lambda text: self.on_illegal(text),  # it is set later
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
        """Add a cover point with one bin for each combination of axis values, and return it.

        Args:
            name: Name of the point.
            reason: See `CoverPoint`.
            axes: Values by name of the axis.
            test: See `CoverPoint`.
            at_least: See `CoverPoint`.
            never: Combinations that are ignored; each entry gives the values on some axes.

        Raises:
            ValueError: The name is taken, or a value contains BETWEEN.
        """
        if any(BETWEEN in value for values in axes.values() for value in values):
            raise ValueError(f"cover cross {name}: {BETWEEN!r} stands between values, not in one")
        order = list(axes)
        rules = tuple(
            tuple((order.index(axis), frozenset(some)) for axis, some in one.items())
            for one in never
        )
        wanted, ignored = _crossed(tuple(map(tuple, axes.values())), rules)
        return self.point(name, reason, wanted, test=test, at_least=at_least, ignored=ignored)

    def hits(self) -> Hits:
        """Return the hits of all points as plain data, {point: {bin: hits}} without zeros, for
        `add`.
        """
        found = {
            name: {b: n for b, n in (point.bins | point.unexpected).items() if n}
            for name, point in self.points.items()
        }
        return {name: bins for name, bins in found.items() if bins}

    def add(self, hits: Mapping[str, Mapping[str, int]]) -> None:
        """Add the hits of another run to this model.

        A point that is not planned is added without bins; hits of names that are no bins are
        counted in `unexpected`. Illegal hits are not reported again, as they have failed their own
        run.
        """
        for name, bins in hits.items():
            point = self.points.setdefault(name, CoverPoint(name, "not planned"))
            for bin_name, times in bins.items():
                target = point.bins if bin_name in point.bins else point.unexpected
                target[bin_name] = target.get(bin_name, 0) + times
