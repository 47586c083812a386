# SPDX-License-Identifier: Apache-2.0
"""Data of quiescence: lines with unjudged requests, commits, and doubts about counts of lines."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from models.aggregated_line import AggregatedLine
from models.device import DeviceModel
from models.modes import Mode
from models.regions import RegionConfig
from verif.scoreboard.linearize import ZERO, Linearizer, OverBudget, Reached, State
from verif.scoreboard.operations import Op


@dataclass(slots=True)
class PendingLine:
    """Line of memory with requests that are not judged yet.

    Attributes:
        key: Key of the line.
        region: Its region; None for ordinary memory.
        ops: Requests in order of their start.
        open: Number of them without a response.
        gone: Whether its record was needed and cannot be trusted.
    """

    key: Hashable
    region: int | None
    ops: list[Op] = field(default_factory=list)
    open: int = 0
    gone: bool = False
    """Its record was needed, and cannot be trusted."""


@dataclass(slots=True)
class Doubt:
    """Numbers of lines by which counts of a region may be less, or more, than in the model.

    Attributes:
        fewer: For complete, saturated and illegal lines: by how much the true number may be less.
        more: For the same: by how much it may be more.
    """

    fewer: list[int] = field(default_factory=lambda: [0, 0, 0])
    more: list[int] = field(default_factory=lambda: [0, 0, 0])


@dataclass(slots=True, eq=False)
class Commit:
    """Write of EPOCH, or of 1 to CTRL.CLOSE, which takes effect at once between `start` and `end`.

    Attributes:
        config: Descriptor that is committed; a close leaves it as it is.
        epoch: Value written; of a close, the present epoch.
        start: Time of acceptance.
        end: Time of the response; -1 without one.
        closes: True for a close.
        in_band: Whether it came through the control window: its start and end lie on the link.
        strict: Of a close: a read answered after `end` has found the round closed. False if the
            link may have repeated responses.
        before: Shadow descriptor before the words of the write, see `CommitRaces`.
        after: Shadow descriptor after them.
        rival: Commit or close that it races with, until a read shows their order.
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
        """Return whether the commit is unanswered, or races with another one in unknown order."""
        return self.end < 0 or self.rival is not None

    def may_follow(self, op: Op) -> bool:
        """Return whether the times allow that the commit took effect after `op`."""
        final = self.closes and self.strict and op.read and op.end > self.end
        return op.start < self.end and not final

    def must_follow(self, op: Op) -> bool:
        """Return whether `op` was answered before the commit began."""
        return op.end < self.start


@dataclass(slots=True)
class Item:
    """Line whose requests race with a commit of its region.

    Attributes:
        line: The line with its requests.
        linearizer: Search over these requests.
        states: Possible states by the set of requests applied so far, see `Linearizer.run`.
        lost: Whether the state is unknown, and the requests cannot be judged.
        moved: Whether a commit has changed which line the requests mean.
    """

    line: PendingLine
    linearizer: Linearizer
    states: Reached
    lost: bool = False
    moved: bool = False
    """A commit has changed what the requests mean."""

    def before_commit(self, model: DeviceModel, commit: Commit) -> None:
        """Apply the requests that must or may have taken effect before a commit.

        `states` then holds the possible states at the commit; the model is left unchanged. If the
        search exceeds its budget, the line is lost.
        """
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
        """Reset each possible state to an untouched line, after an accepted commit.

        In mode IDENTITY lines keep their content. The line is lost if a request now belongs to
        another line.

        Args:
            model: Device model after the commit.
            config: Committed descriptor.
        """
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
    """Return the keys (region, line) that belong to a region; keys of other kinds are left out."""
    return [key for key in keys if isinstance(key, tuple) and key[0] == region]


def marks(line: AggregatedLine) -> tuple[bool, bool, bool]:
    """Return whether a line counts as complete, as saturated, and as illegal."""
    return line.counted_complete, line.saturated, line.illegal


def doubt_of(
    alternatives: Mapping[Hashable, Sequence[State]], unknown: Iterable[Hashable], region: int
) -> Doubt:
    """Return by how much counts of lines of a region may differ from those of the model.

    Args:
        alternatives: Possible states of ambiguous lines by key; the model holds the first.
        unknown: Keys of lines of unknown state; each may count in every count.
        region: Number of the region.
    """
    out = Doubt()
    for key in of_region(alternatives, region):
        lines = [state.snap.line for state in alternatives[key] if state.snap.line is not None]
        every = [marks(line) for line in lines]
        for index, first in enumerate(every[0]):
            out.fewer[index] += first - min(one[index] for one in every)
            out.more[index] += max(one[index] for one in every) - first
    more = len(of_region(unknown, region))
    out.more = [count + more for count in out.more]
    return out
