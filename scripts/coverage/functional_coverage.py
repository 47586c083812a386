# SPDX-License-Identifier: Apache-2.0
"""Functional coverage over many runs: holes by name, and waivers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from scripts.common.data import at_least, load_list
from scripts.common.paths import ROOT
from scripts.common.records import FIXED_SEED, RunRecord
from scripts.common.terminal import many
from scripts.coverage.merged import hits_of
from verif.coverage.cover_model import FUNCTIONAL, CoverModel, Hits

WAIVERS = ROOT / "verif" / "waivers.yaml"


@dataclass(frozen=True)
class Waiver:
    """Bin that need not be hit, with the reason."""

    point: str
    bin: str
    reason: Annotated[str, at_least(20)]


@dataclass(frozen=True)
class Bin:
    """Planned bin.

    Attributes:
        reason: purpose of the bin.
        waived: reason why it need not be hit, or None.
        test: test that is meant to hit it.
        at_least: required hits over the merged runs.
        fixed: whether a run with `FIXED_SEED` hits it; None if there is no such run.
    """

    point: str
    name: str
    reason: str
    hits: int
    waived: str | None = None
    test: str = ""
    at_least: int = 1
    fixed: bool | None = None

    @property
    def reached(self) -> bool:
        """Return whether the bin was hit often enough."""
        return self.hits >= self.at_least

    @property
    def hole(self) -> bool:
        """Return whether the bin is neither hit often enough nor waived."""
        return not self.reached and self.waived is None

    @property
    def drawn_only(self) -> bool:
        """Return whether drawn seeds alone reach the bin: those of another day may miss it."""
        return self.reached and self.waived is None and self.fixed is False


@dataclass(frozen=True)
class Functional:
    """Coverage merged over `runs` runs. `unplanned` is (point, bin, hits) outside every plan."""

    runs: int
    bins: tuple[Bin, ...]
    unplanned: tuple[tuple[str, str, int], ...] = ()

    @property
    def wanted(self) -> list[Bin]:
        """Return every bin that is not waived: the base of the share."""
        return [b for b in self.bins if b.waived is None]

    @property
    def holes(self) -> list[Bin]:
        """Return the bins that are neither hit often enough nor waived."""
        return [b for b in self.bins if b.hole]

    @property
    def drawn_only(self) -> list[Bin]:
        """Return the bins that drawn seeds alone reach."""
        return [b for b in self.bins if b.drawn_only]

    @property
    def waived(self) -> list[Bin]:
        """Return the waived bins that the tests do not reach."""
        return [b for b in self.bins if b.waived is not None and not b.reached]

    @property
    def waived_but_hit(self) -> list[Bin]:
        """Return the waived bins that are hit often enough, whose waivers are wrong."""
        return [b for b in self.bins if b.waived is not None and b.reached]

    @property
    def share(self) -> float:
        """Return the bins hit often enough, in percent of the wanted ones."""
        wanted = self.wanted
        return 100 * (len(wanted) - len(self.holes)) / len(wanted) if wanted else 0.0

    def of_tests(self, tests: Collection[str]) -> Functional:
        """Return the part whose points name one of these tests; all of it if `tests` is empty."""
        if not tests:
            return self
        return replace(self, bins=tuple(b for b in self.bins if not b.test or b.test in tests))

    def points(self) -> dict[str, list[Bin]]:
        """Return the bins by point, in the order of the plan."""
        out: dict[str, list[Bin]] = {}
        for b in self.bins:
            out.setdefault(b.point, []).append(b)
        return out


def read_waivers(path: Path = WAIVERS) -> list[Waiver]:
    """Read and check the list of waivers. Raise NfError in one line."""
    return load_list(path, "waivers", Waiver)


def planned() -> CoverModel:
    """Return the cover points of the controller, without hits."""
    from verif.coverage.device_coverage import (
        NfCoverage,  # brings the models in: only when needed
    )

    return NfCoverage().model


def problems(waivers: Iterable[Waiver], model: CoverModel) -> list[str]:
    """Return the waivers of a bin that does not exist or already has one."""
    out: list[str] = []
    seen: set[tuple[str, str]] = set()
    for waiver in waivers:
        key = (waiver.point, waiver.bin)
        point = model.points.get(waiver.point)
        if point is None or waiver.bin not in point.bins:
            out.append(f"waiver of a bin that does not exist: {waiver.point} / {waiver.bin}")
        elif key in seen:
            out.append(f"waived twice: {waiver.point} / {waiver.bin}")
        seen.add(key)
    return out


def unknown_tests(model: CoverModel, tests: Iterable[str]) -> list[str]:
    """Return the points whose test does not exist."""
    known = set(tests)
    return [
        f"cover point {point.name}: there is no test {point.test!r}"
        for point in model.points.values()
        if point.test not in known
    ]


def merge(
    records: Iterable[RunRecord], model: CoverModel | None = None, waivers: Iterable[Waiver] = ()
) -> Functional | None:
    """Return the coverage of the green runs; None if none of them measured any.

    Red runs are left out: their hits come from a design, or a bench, that does not work.
    """
    green = [r for r in records if r.passed and FUNCTIONAL in r.metrics]
    sure = [hits_of(r) for r in green if r.seed == FIXED_SEED]
    fixed = {(point, name) for hits in sure for point, bins in hits.items() for name in bins}
    found = map(hits_of, green)
    return judge(found, len(green), model, waivers, fixed if sure else None) if green else None


def judge(
    found: Iterable[Hits],
    runs: int,
    model: CoverModel | None = None,
    waivers: Iterable[Waiver] = (),
    fixed: Collection[tuple[str, str]] | None = None,
) -> Functional:
    """Compare the hits of `runs` runs with the plan; see `Merged.fixed` for ``fixed``."""
    model = model or planned()
    for hits in found:
        model.add(hits)
    reasons = {(waiver.point, waiver.bin): waiver.reason for waiver in waivers}
    bins, unplanned = [], []
    for point in model.points.values():
        for name, number in point.bins.items():
            key = (point.name, name)
            known, sure = reasons.get(key), None if fixed is None else key in fixed
            bins.append(Bin(*key, point.reason, number, known, point.test, point.at_least, sure))
        unplanned += [(point.name, name, number) for name, number in point.unexpected.items()]
    return Functional(runs, tuple(bins), tuple(unplanned))


_SHOWN = 12  # holes of a point; some have hundreds, and the terminal shows a hundred points


def _named(hole: Bin) -> str:
    """Return the name of a hole, with its hits if any."""
    return f"{hole.name} ({hole.hits} of {hole.at_least})" if hole.hits else hole.name


def warnings(found: Functional | None) -> list[str]:
    """Return one line that lists the bins which drawn seeds alone reach; [] if there are none."""
    bins = found.drawn_only if found else []
    names = ", ".join(f"{b.point} / {b.name}" for b in bins)
    what = f"{many(len(bins), 'bin')} reached by drawn seeds alone, not by seed {FIXED_SEED}"
    return [f"warning: {what}: {names}"] if bins else []


def others(whole: Functional, part: Functional) -> str:
    """Return the line for points that name tests that did not run; "" if there are none."""
    if len(part.bins) == len(whole.bins):
        return ""
    points = len(whole.points()) - len(part.points())
    holes = len(whole.holes) - len(part.holes)
    return f"{many(holes, 'hole')} in {many(points, 'point')} that name tests that did not run"


def lines(found: Functional | None, ran: Collection[str] = ()) -> list[str]:
    """Return the lines for the terminal: total, holes by point with its reason, waivers, and
    oddities. Points of tests that did not run are counted in one line.
    """
    if found is None:
        return []
    whole, found = found, found.of_tests(ran)
    rest = others(whole, found)
    wanted, missing = len(found.wanted), found.holes
    note = f", {len(found.waived)} waived" if found.waived else ""
    out = [
        f"functional coverage{' by the tests that ran' if rest else ''}: "
        f"{wanted - len(missing)} of {wanted} bins ({found.share:.1f} %), "
        f"{many(len(missing), 'hole')}{note}, over {many(found.runs, 'run')}"
    ]
    for point, bins in found.points().items():
        holes = [_named(b) for b in bins if b.hole]
        more = [f"and {len(holes) - _SHOWN} more (`nf cov holes`)"] if len(holes) > _SHOWN else []
        names = ", ".join(holes[:_SHOWN] + more)
        aim = f"; {bins[0].test}" if bins[0].test else ""
        out += [f"  holes in {point} ({bins[0].reason}{aim}): {names}"] if names else []
    out += [f"  waived: {b.point} / {b.name} ({b.waived})" for b in found.waived]
    out += [
        f"  waived but hit {b.hits} times, drop the waiver: {b.point} / {b.name}"
        for b in found.waived_but_hit
    ]
    out += [f"  hit but not planned: {point} / {name}" for point, name, _ in found.unplanned]
    out += [f"  {line}" for line in warnings(found)]
    return [*out, f"  {rest} (`nf cov holes`)"] if rest else out
