# SPDX-License-Identifier: Apache-2.0
"""Cover point "pair": feature B arrives at a shared resource in the state that feature A left.

Only pins decide: requests, responses, credits, commits, registers and bursts on the memory port.
They tell for certain that

- a line with a contribution that was not written back has a slot (or is on its way out of it);
- the line that is written back for a lone request had the slot that this request takes;
- a commit frees a slot if every slot held such a line, one of them of its region;
- a line was evicted before if its record was written back in this epoch and is now fetched;
- an operation is parked from the fetch of its record to its end, in entry 0 if it is alone;
- a line that is new in this epoch has a mark if its record is fetched;
- two responses of a class in turn that leave the device without a credit used the same credit.

What they leave open is not counted. Each resource has one method, which hits its bins.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from models.access_decode import Kind
from models.modes import Mode
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Points
from verif.mem.memory_config import MemBeat
from verif.scoreboard.operations import Op

Key = tuple[int, int]
"""Number of a region, and index of a line in it."""
_RAS_ERROR = REG_MAP.expand()["RAS_ERROR"]
_RAMS = REG_MAP.enums["Ram"]
_SLOT_RAMS = (-1, _RAMS["BOOK"], _RAMS["PLANES"])
_OTHER_RAMS = {"marks": (-1, _RAMS["MARKS"]), "pool": (-1, _RAMS["PARKED"])}
_ROW_LOG2 = 5
"""Marks in a row of their RAM, as power of two."""
_KEPT = 32
"""Bursts and arrivals that are remembered, for those that overlap in time."""


class Left(NamedTuple):
    """Feature that used a resource last, with number and mode of its region."""

    feature: str
    region: int
    mode: Mode


@dataclass(eq=False, slots=True)
class Line:
    """Line that was accessed in this epoch.

    Attributes:
        left: Feature that used it last.
        since: Cycle in which that began.
        former: Feature before.
        workers: Workers that have contributed.
        dirty: Whether a contribution was not written back.
        written: Whether memory has its record.
    """

    left: Left
    since: int = 0
    former: Left | None = None
    workers: set[int] = field(default_factory=set)
    dirty: bool = False
    written: bool = False

    def use(self, left: Left, now: int) -> None:
        """Set the feature that uses the line from cycle `now` on."""
        self.left, self.former, self.since = left, self.left, now

    def left_at(self, cycle: int) -> Left:
        """Return the feature that had used the line last in a cycle."""
        return self.left if self.former is None or self.since <= cycle else self.former


@dataclass(eq=False, slots=True)
class Arrival:
    """Request, commit or close of a region.

    Attributes:
        by: Its feature ("" for none), with the region.
        start: Cycle of its arrival.
        key: Line of a request.
        left: Feature that had used the line; None if the epoch has not accessed it.
        alone: Whether nothing else was in flight with it.
        others: What was in flight at `start`.
        resident: Whether the line was in a slot at `start`.
        written: Whether memory had its record at `start`.
        worker: Worker that contributes, or -1.
        asked: Cycle in which the fetch of its record began, or -1.
        came: Cycle in which that ended.
        owed: Feature whose response waited for a credit at `start`.
        evicted: What had used the lines that were written back since `start`.
        took: What had freed the slot that it takes: a commit, or None.
        ram: RAM in which it has found a damaged word.
    """

    by: Left
    start: int
    key: Key | None = None
    left: Left | None = None
    alone: bool = True
    others: tuple[Arrival, ...] = ()
    resident: bool = False
    written: bool = False
    worker: int = -1
    asked: int = -1
    came: int = -1
    owed: Left | None = None
    evicted: list[Left] = field(default_factory=list)
    took: Left | None = None
    ram: int = -1

    @property
    def fetched(self) -> bool:
        """Return whether its record was fetched."""
        return self.asked >= 0

    @property
    def access(self) -> str:
        """Return how it found its line; "" if the pins do not tell."""
        if self.key is None:
            return "held"
        if self.fetched:
            return "evicted before" if self.written else "miss"
        if self.left is None:
            return "miss"
        return "hit" if self.resident else ""


class Burst(NamedTuple):
    """Record on its way: cycles of its address and of its end, and the feature that left it."""

    begin: int
    end: int
    left: Left


def feature_of(kind: Kind, mode: Mode, poison: bool) -> str:
    """Return the feature that a request is a use of; "" for none (INFO, a worker's FP32 line)."""
    if kind not in (Kind.CONTRIBUTION, Kind.RESULT, Kind.PLANE, Kind.SUM):
        return ""
    if poison:
        return "poison"
    if mode is Mode.FP32:
        return "FP32 store" if kind is Kind.CONTRIBUTION else "sum"
    return "TERN5" if mode is Mode.G_TERN5 else "vote"


def relation(one: Left, other: Left) -> str:
    """Return the bin of two regions: "same region", "same mode" or "other mode"."""
    if one.mode is not other.mode:
        return "other mode"
    return "same region" if one.region == other.region else "same mode"


class PairPoints(Points):
    """Cover point "pair"; an observer of the scoreboard calls the methods, in order of time.

    Args:
        model: Coverage model.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self.slots: int = 0
        """Slots of the device, set before the first event, as are the next three."""
        self.marks_log2: int = 0
        """Marks of a region, as power of two."""
        self.generations: int = 0
        """Commits after which a generation begins again."""
        self.credits: Callable[[bool], int] = lambda _drs: 1
        """Function that returns the device's credits for NDR, or DRS."""
        self._lines: dict[Key, Line] = {}
        self._configs: dict[int, RegionConfig] = {}
        self._flying: dict[Op, Arrival] = {}
        self._answered: list[Arrival] = []
        self._begun: dict[int, Arrival] = {}
        self._settled: deque[Arrival] = deque(maxlen=_KEPT)
        self._leaving: deque[Burst] = deque(maxlen=_KEPT)
        self._closed: set[int] = set()
        self._freed: Left | None = None
        self._marks: dict[Key, Left] = {}
        self._records: dict[Key, tuple[Left, int]] = {}
        self._dropped: dict[Key, Left] = {}
        self._commits: Counter[int] = Counter()
        self._entry: Left | None = None
        self._last: dict[bool, tuple[Left, int] | None] = {}

    # -- events -------------------------------------------------------------------------------
    def requested(self, op: Op, config: RegionConfig | None, now: int) -> None:
        """Receive a request; `config`: descriptor of its region."""
        self.settle()
        access = op.access
        if config is None or op.inert or access.kind is Kind.IDENTITY:
            return
        key: Key = access.region, access.line
        name = feature_of(access.kind, config.mode, bool(getattr(op.msg, "poison", False)))
        line = self._lines.get(key)
        one = self._arrival(Left(name, access.region, config.mode), now, key)
        if line is not None:
            one.left, one.resident, one.written = line.left, line.dirty, line.written
        if access.kind is Kind.CONTRIBUTION:
            one.worker = access.selector
        if not one.resident:
            one.took, self._freed = self._freed, None
        for other in self._flying.values():
            other.alone = False
        self._flying[op] = one

    def _arrival(self, by: Left, now: int, key: Key | None = None) -> Arrival:
        alone = not (self._flying or self._begun)
        return Arrival(by, now, key, alone=alone, others=tuple(self._flying.values()))

    def answered(self, op: Op, now: int) -> None:
        """Receive the response to a request."""
        drs = not op.access.write
        spent = not self.credits(drs)
        last, self._last[drs] = self._last.get(drs), None
        one = self._flying.pop(op, None)
        if one is None:
            return
        assert one.key is not None
        if last is not None and spent and one.start <= last[1] < now:
            self._hit("credits", last[0], one, "DRS" if drs else "NDR")
        if spent:
            self._last[drs] = one.by, now
        self._answered.append(one)
        line = self._lines.setdefault(one.key, Line(one.by))
        if one.by.feature:
            line.use(one.by, one.start)
        if one.worker >= 0 and one.worker not in line.workers:
            line.workers.add(one.worker)
            line.dirty |= one.by.region not in self._closed

    def register(self, name: str, value: int) -> None:
        """Receive a read of a register.

        If RAS_ERROR reports a damaged word, the last request, if it was alone, has found it.
        """
        if name != "RAS_ERROR" or len(self._answered) != 1:
            return
        one, error = self._answered[0], _RAS_ERROR.unpack(value)
        if error["VALID"] and one.alone:
            one.ram = error["RAM"]
            one.by = one.by._replace(feature="RAM flip")
            if one.key in self._lines and one.ram in _SLOT_RAMS:
                self._lines[one.key].left = one.by

    def begun(self, region: int, closes: bool, now: int) -> None:
        """Receive the start of a commit, or of a close."""
        self.settle()
        config = self._configs.get(region)
        if config is not None:
            left = Left("close" if closes else "commit", region, config.mode)
            one = self._begun[region] = self._arrival(left, now)
            for op, other in self._flying.items():
                if not self.credits(not op.access.write):
                    one.owed = other.by

    def closed(self, region: int, now: int) -> None:
        """Receive a settled close."""
        self._ended(region, meets=True)
        self._closed.add(region)
        config = self._configs[region]
        for key, line in self._lines.items():
            if key[0] == region:
                line.use(Left("close", region, config.mode), now)

    def committed(self, region: int, config: RegionConfig, accepted: bool) -> None:
        """Receive a settled commit."""
        self._ended(region, meets=accepted)
        if not accepted:
            return
        held = [key for key, line in self._lines.items() if line.dirty]
        if len(held) == self.slots and any(key[0] == region for key in held):
            self._freed = Left("commit", region, config.mode)
        if self._configs.get(region) != config:
            self._records = {key: one for key, one in self._records.items() if key[0] != region}
        self._dropped = {key: left for key, left in self._dropped.items() if key[0] != region}
        self._dropped |= {key: self._lines[key].left for key in held if key[0] == region}
        self._marks |= {
            key: Left("commit", region, config.mode) for key in self._marks if key[0] == region
        }
        self._commits.update([region])
        self._configs[region] = config
        self._closed.discard(region)
        self._lines = {key: line for key, line in self._lines.items() if key[0] != region}

    def beat(self, beat: MemBeat, key: Key, now: int) -> None:
        """Receive a beat of the record of a line: of a fetch, or of a write-back."""
        if not beat.write:
            for one in self._flying.values():
                if one.key == key:
                    one.asked, one.came = now - beat.clocks, now
        elif beat.answered:  # the last beat of the burst
            self._written_back(key, now - beat.clocks, now)

    def _written_back(self, key: Key, begin: int, now: int) -> None:
        line = self._lines.get(key)
        if line is None:
            return
        line.dirty, line.written = False, True
        burst = Burst(begin, now, line.left_at(begin))
        self._leaving.append(burst)
        self._marks[self._mark_of(key)] = burst.left
        self._records[key] = burst.left, self._commits[key[0]]
        for one in (*self._answered, *self._flying.values()):
            if one.key == key:
                one.written = True
            elif one.start <= begin:
                one.evicted.append(burst.left)
        for one in self._settled:
            self._eviction_buffer(burst, one)

    # -- resources ----------------------------------------------------------------------------
    def _hit(self, resource: str, left: Left | None, one: Arrival, access: str = "") -> None:
        if left is None or not left.feature or not one.by.feature:
            return
        if (access := access or one.access) and one.ram in _OTHER_RAMS.get(resource, _SLOT_RAMS):
            values = left.feature, one.by.feature, relation(left, one.by)
            self.hit("pair", f"{resource}: {access}", *values)

    def _slots(self, one: Arrival) -> None:
        """Slots: the slot that B takes, hits or must leave alone was last used by A."""
        if one.key is None:
            for line in self._lines.values():
                if line.dirty:
                    self._hit("slots", line.left, one)
        elif one.access == "hit":
            self._hit("slots", one.left, one)
        elif not one.evicted:
            self._hit("slots", one.took, one)
        elif len(one.evicted) == 1:
            self._hit("slots", one.evicted[0], one)

    def _eviction_buffer(self, burst: Burst, one: Arrival) -> None:
        """Eviction buffer: B arrives while memory has not answered the write-back of A's line."""
        if one.alone and burst.begin < one.start <= burst.end:
            self._hit("eviction buffer", burst.left, one)

    def _mark_of(self, key: Key) -> Key:
        """Return region and number of the mark of a line, which large regions share."""
        lines_log2 = self._configs[key[0]].lines_log2
        return key[0], key[1] >> max(0, lines_log2 - self.marks_log2)

    def _marks_found(self, one: Arrival) -> None:
        """Marks: B needs that of a line of A, or a place where A has left none in B's region."""
        if one.key is None:
            for mark in {*self._marks.values()}:
                self._hit("marks", mark if mark.feature != "commit" else None, one)
            return
        own, number = self._mark_of(one.key)
        if one.fetched and not one.written:
            self._hit("marks", self._marks.get((own, number)), one, "marked")
        elif not one.fetched and one.left is None:
            for region in self._configs:
                left = self._marks.get((region, number))
                if left is not None and (left.feature == "commit") == (region == own):
                    self._hit("marks", left, one, "unmarked")
        if one.ram == _RAMS["MARKS"]:  # its row is written anew: every line may have a record
            row = number >> _ROW_LOG2 << _ROW_LOG2
            for place in range(row, min(row + (1 << _ROW_LOG2), 1 << self.marks_log2)):
                self._marks[own, place] = one.by

    def _pool(self, one: Arrival) -> None:
        """Pool of parked operations: B takes the entry of A, or comes while A is parked."""
        others, one.others = one.others, ()
        lines = {other.key for other in others if other.came >= one.start}
        parked = next((a.by for a in others if a.asked < one.start <= a.came), None)
        if one.key in lines:
            self._hit("pool", parked, one, "same list")
        elif len(lines) == self.slots:
            self._hit("pool", parked, one, "deferred")
        elif len(others) == 1 and (one.fetched or one.key is None):
            self._hit("pool", parked, one, "other list" if one.key else "held")
        if one.alone and one.fetched:
            self._hit("pool", self._entry, one, "entry left")
            self._entry = one.by
        elif not one.alone:
            self._entry = None

    def _record(self, one: Arrival) -> None:
        """Records: B is the first on a line of this epoch that A has used in an older one."""
        if one.key is None or one.left is not None:
            return
        left = self._dropped.pop(one.key, None)
        if left is not None:
            if not one.fetched:
                self._hit("record", left, one, "dropped")
        elif one.key in self._records:
            left, number = self._records[one.key]
            age = (self._commits[one.key[0]] - number) % self.generations
            access = "unread" if not one.fetched else "older" if age else "wrapped"
            self._hit("record", left, one, access)

    # -- state --------------------------------------------------------------------------------
    def _meet(self, one: Arrival) -> None:
        if one.alone:
            self._slots(one)
            self._marks_found(one)
            self._record(one)
        for burst in self._leaving:
            self._eviction_buffer(burst, one)
        self._pool(one)
        self._hit("credits", one.owed, one)
        self._settled.append(one)

    def _ended(self, region: int, meets: bool) -> None:
        self.settle()
        one = self._begun.pop(region, None)
        if one is not None and meets:
            self._meet(one)

    def settle(self) -> None:
        """Count the bins of answered requests."""
        for one in self._answered:
            self._meet(one)
        self._answered.clear()
