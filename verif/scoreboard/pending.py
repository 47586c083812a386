# SPDX-License-Identifier: Apache-2.0
"""Pending lines, commits and doubts of quiescence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from models.device import DeviceModel
from models.line_packing import Mode
from models.regions import RegionConfig
from verif.scoreboard.linearize import ZERO, Linearizer, OverBudget, Reached, State
from verif.scoreboard.operations import Op


@dataclass(slots=True)
class PendingLine:
    """Line with requests that are not judged yet."""

    key: Hashable
    region: int | None
    ops: list[Op] = field(default_factory=list)
    open: int = 0
    gone: bool = False
    """Its record was needed, and cannot be trusted."""


@dataclass(slots=True)
class Doubt:
    """Lines of a region that may count less, or more, than in the model.

    Each for complete, saturated and illegal.
    """

    fewer: list[int] = field(default_factory=lambda: [0, 0, 0])
    more: list[int] = field(default_factory=lambda: [0, 0, 0])


@dataclass(slots=True, eq=False)
class Commit:
    """Write of EPOCH or of CLOSE, which takes effect at once, between `start` and `end`.

    A close leaves the descriptor as it is. A read that is answered after it has found the round
    closed; not so if it is not `strict`, because the link repeats answers. One that is
    `in_band` came through the control window: its start and end lie on the link. `before`, `after`
    and `rival`, a commit that it races with: see `commit_race`.
    """

    config: RegionConfig
    epoch: int
    start: int
    end: int = -1
    closes: bool = False
    in_band: bool = False
    strict: bool = True
    before: RegionConfig | None = None
    after: RegionConfig | None = None
    rival: Commit | None = None

    @property
    def open(self) -> bool:
        """Return whether the commit is unanswered, or its order is not known yet."""
        return self.end < 0 or self.rival is not None

    def may_follow(self, op: Op) -> bool:
        """Return whether the commit may have come after `op`."""
        final = self.closes and self.strict and op.read and op.end > self.end
        return op.start < self.end and not final

    def must_follow(self, op: Op) -> bool:
        """Return whether the commit came after `op`."""
        return op.end < self.start


@dataclass(slots=True)
class Item:
    """Line whose requests race with a commit."""

    line: PendingLine
    linearizer: Linearizer
    states: Reached
    lost: bool = False
    moved: bool = False
    """A commit has changed what the requests mean."""

    def before_commit(self, model: DeviceModel, commit: Commit) -> None:
        """Apply the operations that came, or may have come, before a commit."""
        if self.lost:
            return
        must = allowed = 0
        for index, op in enumerate(self.line.ops):
            allowed |= commit.may_follow(op) << index
            must |= commit.must_follow(op) << index
        before = model.snapshot(self.line.key)
        try:
            self.states = self.linearizer.run(self.states, allowed, must, True)
        except OverBudget:
            self.lost = True
        finally:
            model.restore(self.line.key, before)

    def after_commit(self, model: DeviceModel, config: RegionConfig) -> None:
        """Follow an accepted commit of `config`: each state becomes that of an untouched line."""
        if self.lost:
            return
        key = self.line.key
        if any(model.line_key(op.msg) != key for op in self.line.ops):
            self.lost = self.moved = True
            return
        if config.mode is Mode.IDENTITY:
            return
        fresh = model.snapshot(key)
        for mask, states in self.states.items():
            low = tuple(map(min, zip(*(state.low for state in states), strict=True)))
            high = tuple(map(max, zip(*(state.high for state in states), strict=True)))
            self.states[mask] = [State(fresh, ZERO, low, high)]


def of_region(keys: Iterable[Hashable], region: int) -> list[tuple[int, int]]:
    """Return the keys (region, line) of a region."""
    return [key for key in keys if isinstance(key, tuple) and key[0] == region]


def doubt_of(
    alternatives: Mapping[Hashable, Sequence[State]], unknown: Iterable[Hashable], region: int
) -> Doubt:
    """Return the doubt about a region: lines with several possible states, or with an unknown
    state.
    """
    out = Doubt()
    for key in of_region(alternatives, region):
        lines = [state.snap.line for state in alternatives[key] if state.snap.line is not None]
        marks = [(line.counted_complete, line.saturated, line.illegal) for line in lines]
        for index, first in enumerate(marks[0]):
            out.fewer[index] += first - min(one[index] for one in marks)
            out.more[index] += max(one[index] for one in marks) - first
    more = len(of_region(unknown, region))
    out.more = [count + more for count in out.more]
    return out
