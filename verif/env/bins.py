# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: points, bins and their reasons, in plain Python.

A bin is there for a reason, and the reason is part of it: a hole that nobody can explain is noise.
Results are dictionaries {point: {bin: hits}}; merging is a sum.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Hits = dict[str, dict[str, int]]


@dataclass(slots=True)
class CoverPoint:
    """A named set of bins; `reason` tells what a hole would leave untested."""

    name: str
    reason: str
    bins: dict[str, int] = field(default_factory=dict)
    unexpected: dict[str, int] = field(default_factory=dict)

    def hit(self, bin_name: str) -> None:
        """Counts a hit; a bin that nobody planned is kept apart, not lost."""
        target = self.bins if bin_name in self.bins else self.unexpected
        target[bin_name] = target.get(bin_name, 0) + 1

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

    def to_json(self) -> dict[str, object]:
        """Plain data: hits, reasons and holes of every point."""
        return {
            name: {
                "reason": point.reason,
                "bins": dict(point.bins),
                "unexpected": dict(point.unexpected),
            }
            for name, point in self.points.items()
        }

    def write(self, path: Path) -> None:
        """Writes the JSON file of the run."""
        path.write_text(json.dumps(self.to_json(), indent=1))


def merge(runs: Iterable[Mapping[str, object]]) -> dict[str, CoverPoint]:
    """Sums the files of several runs."""
    out: dict[str, CoverPoint] = {}
    for run in runs:
        for name, data in run.items():
            assert isinstance(data, dict)
            point = out.setdefault(name, CoverPoint(name, data["reason"]))
            for bin_name, hits in data["bins"].items():
                point.bins[bin_name] = point.bins.get(bin_name, 0) + hits
            for bin_name, hits in data["unexpected"].items():
                point.unexpected[bin_name] = point.unexpected.get(bin_name, 0) + hits
    return out


def report(points: Mapping[str, CoverPoint]) -> str:
    """Covered share of every point, with its holes by name."""
    lines = []
    hit_all = total_all = 0
    for name in sorted(points):
        point = points[name]
        total, hit = len(point.bins), len(point.bins) - len(point.holes)
        hit_all, total_all = hit_all + hit, total_all + total
        lines.append(f"{name:<24} {hit:>3}/{total:<3} {point.reason}")
        lines += [f"    hole: {hole}" for hole in point.holes]
    share = 100 * hit_all / total_all if total_all else 0.0
    lines.append(f"{'all points':<24} {hit_all:>3}/{total_all:<3} {share:.1f} %")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """`python -m verif.env.bins FOLDER`: merges every functional-*.json below it and reports."""
    if len(arguments) != 1:
        print("usage: python -m verif.env.bins FOLDER")
        return 2
    files = sorted(Path(arguments[0]).rglob("functional-*.json"))
    if not files:
        print(f"no functional-*.json below {arguments[0]}")
        return 1
    points = merge(json.loads(path.read_text()) for path in files)
    print(f"{len(files)} runs\n{report(points)}")
    for name, point in points.items():
        for bin_name, hits in point.unexpected.items():
            print(f"unplanned bin: {name} / {bin_name} ({hits})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
