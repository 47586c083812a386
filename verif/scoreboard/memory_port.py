# SPDX-License-Identifier: Apache-2.0
"""Check of the device-memory port: errors and poison, ownership of lines, and the record
initialiser.

The device keeps the record of a line (bookkeeping, and in the low-bit modes count planes) in
memory; when it fetches a record or writes it back is micro-architecture. So this module tells the
model which records were lost (hdl/README.md, Trust): read with an error or poison, or the write
refused. Errors and poison are also counted here, response by response; the registers that count
them must agree exactly.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from models.device import MEMORY_KEY, DeviceModel
from models.modes import Mode
from models.regions import RegionConfig, planes_kept, records, state_lines
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.line_judge import LineJudge
from verif.scoreboard.ranges import Recent, Span

# STATUS.INIT_BUSY against the writes of the record initialiser on the memory port.
#
# A commit that claims a state area has its bookkeeping lines overwritten (hdl/README.md, Trust),
# each by one write with a separate AXI ID, or by an eviction that comes first, which overwrites
# the records of its group. Until the last of them is answered INIT_BUSY is 1; then the initialiser
# may take some clocks to pass the groups that evictions have overwritten.

INIT_ID = 3
"""AXI ID of the initialiser."""


@dataclass(slots=True)
class _Area:
    """Bookkeeping lines of a region that the record initialiser still has to overwrite.

    Only the overwritten ones are stored: an area of 2^30 lines is legal, and never written whole.

    Attributes:
        lines: Number of lines of the region.
        certain: Whether they must be overwritten; if False, they may be.
        written: Indices of the lines already overwritten.
        evicted: Those of them that evictions have overwritten first.
        former: Those that evictions had overwritten before the last commit; the initialiser may
            have passed them.
    """

    lines: int
    certain: bool
    written: set[int] = field(default_factory=set)
    evicted: set[int] = field(default_factory=set)
    former: set[int] = field(default_factory=set)

    def write(self, index: int) -> bool:
        """Record that line `index` was overwritten; return whether it had not been so far."""
        needed = 0 <= index < self.lines and index not in self.written
        if needed:
            self.written.add(index)
        return needed


class Initialiser:
    """Predictor of the record initialiser, which overwrites the bookkeeping lines of a region's
    state area after a commit that claims it (hdl/README.md, Trust).

    It follows commits and the writes of the AXI IDs INIT_ID and EVICTION_ID. STATUS.INIT_BUSY is 1
    until the last line is overwritten.

    Args:
        clock: Returns the present cycle.
    """

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        self._clock = clock
        self._again: dict[int, int] = {}
        """Cycle until which lines evicted before the last commit may be overwritten, by region."""
        self._later: dict[int, int] = {}
        """Lines of regions of which that holds until the walk has passed the areas before."""
        self._to_pass = 0
        """Lines of finished areas that evictions may have overwritten."""
        self._passes_until = 0
        """Cycle until which it may pass those."""
        self._areas: dict[int, list[_Area]] = {}
        """Areas that are not overwritten whole, by region: a certain one, then another."""
        self._early: set[int] = set()
        """Regions with a write while their commit was under way."""
        self._ahead: dict[int, set[int]] = {}
        """Lines written then that no area needed, by region."""
        self._unsure: set[int] = set()
        """Regions with an eviction then: of the round before, or after."""

    def committed(
        self,
        region: int,
        before: RegionConfig | None,
        after: RegionConfig,
        cnt_w: int,
        trusted: bool = False,
    ) -> None:
        """Record an accepted commit: the bookkeeping lines of the region must, or may, be
        overwritten.

        They must be if their place has changed. A write that came before the commit was settled
        leaves it open, unless it can only belong to the new place.

        Args:
            region: Number of the region.
            before: Descriptor before the commit, or None.
            after: Committed descriptor; mode IDENTITY needs no records.
            cnt_w: Width of the device's counters in bits.
            trusted: Whether the region has certainly kept its trust: no write to memory has failed
                and generations have not begun again.
        """
        old, early = self._areas.pop(region, []), region in self._early
        self._early.discard(region)
        self._again.pop(region, None)
        self._later.pop(region, None)
        if after.mode is Mode.IDENTITY:
            return
        # Where the place is the same it may do without, unless the region has lost its trust.
        place = places(after, cnt_w)
        moved = before is None or places(before, cnt_w) != place
        ahead = self._ahead.pop(region, set())
        if region in self._unsure:
            self._unsure.discard(region)
            areas = [_Area(after.lines, certain=False)]
        elif moved and not old and (before is None or _apart(places(before, cnt_w), place)):
            areas = [_Area(after.lines, True, ahead)]
        elif trusted and before == after:
            # A commit forgets which groups evictions have overwritten: those may come again.
            areas = [area for area in old if not area.certain]
            if self._to_pass:
                self._later[region] = after.lines
            elif self._clock() < self._passes_until:
                self._again[region] = self._clock() + PASS_CLOCKS * after.lines + PASS_SLACK
        else:
            areas = [_Area(after.lines, certain=moved and not early)]
        # It goes on, or starts anew if a write was refused.
        if before == after and (trusted or not early):
            for area in old:
                area.former |= area.evicted
                area.evicted.clear()
            areas[:0] = [area for area in old if area.certain]
        if areas:
            self._areas[region] = areas
            self._end(region)

    def write(self, region: int, index: int, committing: bool, ahead: bool = False) -> str | None:
        """Check an answered write of the initialiser.

        Args:
            region: Region of the record.
            index: Index of the line in the region.
            committing: Whether a commit of the region is pending.
            ahead: Whether the record is of the place that this commit claims.

        Returns:
            Text of the finding if the line need not be overwritten, else None.
        """
        if committing:
            self._early.add(region)
        areas = self._areas.get(region, [])
        if any(index in area.evicted for area in areas) and not committing:
            return f"the initialiser overwrites evicted record {index} of region {region}"
        if not ahead and self._written(region, index, evicted=False):
            return None
        if committing:
            self._ahead.setdefault(region, set()).add(index)
        if committing or self._may_again(region):
            return None
        if not all(area.certain and index not in area.former for area in areas):
            return None
        return f"the initialiser writes record {index} of region {region} without need"

    def evicted(self, region: int, index: int, empty: bool, committing: bool) -> str | None:
        """Check an answered write of an eviction to a bookkeeping line.

        Args:
            region: Region of the record.
            index: Index of the line in the region.
            empty: Whether it is an empty record: one of the group of the line that is evicted.
            committing: Whether a commit of the region is pending.

        Returns:
            Text of the finding if an empty record is not needed there, else None.
        """
        if committing:
            self._unsure.add(region)
        if self._written(region, index, evicted=True) or committing or not empty:
            return None
        if self._may_again(region):
            return None
        for area in self._areas.get(region, []):
            if index in area.former:  # a commit has forgotten that it was overwritten
                area.former.discard(index)
                area.evicted.add(index)
                return None
        return f"an eviction overwrites record {index} of region {region} with an empty one"

    def _may_again(self, region: int) -> bool:
        """Return whether all lines of a region may be overwritten again, until it is passed."""
        return region in self._later or self._clock() < self._again.get(region, 0)

    def _written(self, region: int, index: int, evicted: bool) -> bool:
        """Record that line `index` was overwritten; return whether it had not been so far."""
        for area in self._areas.get(region, []):
            if area.write(index):
                if evicted:
                    area.evicted.add(index)
                self._end(region)
                return True
        return False

    def _end(self, region: int) -> None:
        """Forget the areas of a region once one of them is overwritten whole."""
        for area in self._areas[region]:
            if len(area.written) == area.lines:
                self._to_pass += area.lines if area.evicted or area.former else 0
                del self._areas[region]
                if area.former:
                    self._again[region] = self._clock() + PASS_CLOCKS * area.lines + PASS_SLACK
                if not self._certain():
                    clocks = PASS_CLOCKS * (1 + self._to_pass)
                    self._passes_until = max(self._passes_until, self._clock() + clocks)
                    for one, lines in self._later.items():
                        self._again[one] = self._passes_until + PASS_CLOCKS * lines + PASS_SLACK
                    self._to_pass = 0
                    self._later.clear()
                return

    def busy(self) -> Span:
        """Return the range of STATUS.INIT_BUSY: 1 with lines that must be overwritten, 0..1 if they
        may be.
        """
        until = max((self._passes_until, *self._again.values()))
        open_ = bool(self._areas) or self._clock() < until
        return Span(int(self._certain()), int(open_))

    def _certain(self) -> bool:
        return any(area.certain for areas in self._areas.values() for area in areas)


def places(config: RegionConfig, cnt_w: int) -> tuple[int, int, int]:
    """Return where the bookkeeping lines of a region lie in memory.

    Args:
        config: Descriptor.
        cnt_w: Width of the device's counters in bits.

    Returns:
        Number of the first line, distance between two in lines, and their number; zeros for mode
        IDENTITY.
    """
    if config.mode is Mode.IDENTITY:
        return 0, 0, 0
    return *records(config, cnt_w), config.lines


def _apart(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Return whether two results of `places` have no line in common."""
    (first, step, lines), (second, _, _) = sorted((one, other))
    return first + step * lines <= second


COUNTED = ("MEM_READ_ERROR", "MEM_WRITE_ERROR", "MEM_POISON")
EVICTION_ID = 0
"""AXI ID of the writes that bring an evicted line back, and of the reads that fetch a record."""
PASS_CLOCKS = 8
"""Clocks in which the initialiser passes a line that an eviction has overwritten, at most."""
PASS_SLACK = 1_000
"""Clocks that memory takes to answer the last of these writes, at most."""
INIT_CLOCKS = 300
"""Clocks from a write of the initialiser to the next, at most."""
OWNERS = {
    True: ({"eviction"}, {"MEMORY", "IDENTITY"}, {"FP32", "FP32 partial"}, {"initialiser"}),
    False: (
        {"bookkeeping", "plane", "FP32 bookkeeping", "FP32 kept sum"},
        {"MEMORY", "IDENTITY"},
        {"FP32"},
        set(),
    ),
}
"""Accesses of the device to lines, by direction (True: write) and AXI ID (hdl/README.md, Trust)."""


@dataclass(frozen=True, slots=True)
class Record:
    """Record that a line of device memory is a part of.

    Attributes:
        region: Number of the region.
        index: Index of the recorded line in the region.
        beat: Place of the memory line in the record: 0 is the bookkeeping line, then come the count
            planes, or the kept sum of an FP32 line with KEEP_SUM.
        mode: Mode of the region.
        planes: Number of lines after the bookkeeping line.
    """

    region: int
    index: int
    beat: int
    mode: Mode
    planes: int


def _is_empty(beat: MemBeat, record: Record) -> bool:
    """Return whether a beat writes an empty record: the mark of a generation is never 0."""
    return record.beat == 0 and beat.data == 0


@dataclass(eq=False)
class MemoryPort:
    """Check of each beat on the device-memory port by `beat`; at first no region is committed.

    Args:
        model: Device model.
        judge: Receives lost records and failed accesses.
        configs: Committed descriptor by region; the list of the scoreboard.
        clock: Returns the present cycle.
        may_poison: See `Scoreboard.may_poison`.
    """

    model: DeviceModel
    judge: LineJudge
    configs: list[RegionConfig | None]
    clock: Callable[[], int]
    may_poison: Callable[[], bool]
    wrong: str | None = None
    """Illegal access of the device, set by `beat`; `rule` names the rule that forbids it."""
    rule: str = ""

    def __post_init__(self) -> None:
        self.initialiser = Initialiser(self.clock)
        self.ports = {name: Recent(self.clock) for name in COUNTED}
        self.evictions, self.fills = Recent(self.clock), Recent(self.clock)
        self.errors, self.poisoned = Recent(self.clock), Recent(self.clock)
        self.initialised = Recent(self.clock)
        self._last_initialised = -INIT_CLOCKS
        self._located: tuple[MemBeat | None, tuple[Record | None, str]] = (None, (None, ""))

    @property
    def initialising(self) -> bool:
        """Return whether the record initialiser has work, or wrote within the last INIT_CLOCKS
        cycles.

        Evictions may have to wait for it.
        """
        recent = self.clock() - self._last_initialised < INIT_CLOCKS
        return recent or self.initialiser.busy().low > 0

    def _forbidden(self, rule: str, text: str) -> None:
        self.rule, self.wrong = rule, text

    def beat(self, beat: MemBeat) -> bool:
        """Check a beat on the device-memory port, and pass what it loses to `judge`.

        A breach of the rules is left in `wrong` and `rule`, else `wrong` is None.

        Returns:
            True for an error response or poison.
        """
        self.wrong = None
        record, place = self.located(beat)
        self._owned(beat, record, place)
        if beat.write:
            if beat.poison and place not in ("MEMORY", "IDENTITY") and not self.may_poison():
                self._forbidden("poison", f"poison written to line {beat.line:#x} of a state area")
            if not beat.error:
                return False
            self.ports["MEM_WRITE_ERROR"].add(beat.answered)
            self.errors.add()
            if record is None:
                self._failed(beat.line)
                return True
            self.judge.distrust(record.region)
            if beat.axi_id == EVICTION_ID and beat.answered and not _is_empty(beat, record):
                self.judge.lose(record.region, record.index, written=True)
            return True
        if not (beat.error or beat.poison):
            return False
        self.ports["MEM_READ_ERROR" if beat.error else "MEM_POISON"].add()
        (self.errors if beat.error else self.poisoned).add()
        if record is not None and (record.beat == 0 or self._has_state(record)):
            self.judge.lose(record.region, record.index)
        elif record is None and beat.error:
            self._failed(beat.line)
        return True

    def _failed(self, line: int) -> None:
        """Pass a failed access to host data (ordinary memory or an FP32 line) on to `judge`.

        Args:
            line: Number of the line of device memory.
        """
        key: tuple[int, int] = (MEMORY_KEY, line)
        for region, config in self._regions():
            offset = line - config.state_line
            if config.mode is Mode.FP32 and 0 <= offset < config.workers * config.lines:
                key = (region, offset % config.lines)
        self.judge.failed(key, line)

    def _owned(self, beat: MemBeat, record: Record | None, place: str) -> None:
        """Check that the AXI ID of a beat may access its line, and that records are moved as
        specified.

        Args:
            beat: Beat on the port.
            record: Record that the line is a part of, or None.
            place: Name of the access, see `located`.
        """
        users = OWNERS[beat.write]
        if beat.axi_id >= len(users) or place not in users[beat.axi_id]:
            if self._settled():
                text = f"{'writes' if beat.write else 'reads'} line {beat.line:#x}, {place}"
                self._forbidden("AXI ID", f"AXI ID {beat.axi_id} {text}")
            return
        if beat.write and beat.axi_id in (EVICTION_ID, INIT_ID) and beat.strobe != FULL_STROBE:
            self._forbidden("WSTRB", f"a record is written with WSTRB {beat.strobe:#x}")
        if record is None:
            return
        if beat.axi_id == INIT_ID and beat.write:
            self._initialised(beat, record)
            return
        if beat.axi_id == EVICTION_ID and beat.write and not record.beat:
            committing = bool(self.judge.pending(record.region))
            empty = _is_empty(beat, record)
            wrong = self.initialiser.evicted(record.region, record.index, empty, committing)
            if wrong is not None:
                self._forbidden("initialiser", wrong)
            if empty:
                return
        if beat.axi_id == EVICTION_ID and beat.last:
            (self.evictions if beat.write else self.fills).add()
            if beat.write:
                self.judge.evicted(record.region, record.index)
            # Planes that no worker has reached yet may stay where they are.
            if self._settled() and record.beat > record.planes:
                text = f"{'written' if beat.write else 'read'} up to plane {record.beat}"
                self._forbidden("record length", f"a record of {record.planes} planes is {text}")

    def _initialised(self, beat: MemBeat, record: Record) -> None:
        """Check an answered write of the record initialiser: zeros, to a bookkeeping line that
        needs it.
        """
        self.initialised.add()
        self._last_initialised = self.clock()
        committing = bool(self.judge.pending(record.region))
        config = self.configs[record.region]
        ahead = committing and config is not None and not self._is_record(beat.line, config)
        wrong = self.initialiser.write(record.region, record.index, committing, ahead)
        # Under a commit the record may be one of the old shape or of the new one.
        if beat.data or (record.beat and not committing):
            wrong = f"the initialiser writes {beat.data:#x} to beat {record.beat} of a record"
        if wrong is not None:
            self._forbidden("initialiser", wrong)

    def _is_record(self, line: int, config: RegionConfig) -> bool:
        """Return whether a line of memory is a bookkeeping line of a region."""
        first, step, lines = places(config, self.model.params.cnt_w)
        return lines > 0 and line in range(first, first + step * lines, step)

    def _settled(self) -> bool:
        """Return whether no commit of any region is pending, so that the descriptors in force are
        known.
        """
        return not any(self.judge.pending(region) for region in range(len(self.configs)))

    def _has_state(self, record: Record) -> bool:
        """Return whether a part of a record, after its bookkeeping line, holds state of this epoch.

        False for a count plane that no contribution has reached, and for the sum of an FP32 line,
        which can be gathered again.
        """
        if not record.mode.low_bit:
            return False
        line = self.model.line_state(record.region, record.index)
        if line is None:
            return False
        most = record.mode.counts_to(len(line.data))
        return record.beat <= planes_kept(most, self.model.params.cnt_w)

    def _regions(self) -> Iterator[tuple[int, RegionConfig]]:
        """Yield region number and descriptor of each region: the committed one, and those of
        pending commits.
        """
        for region, config in enumerate(self.configs):
            if config is not None:
                yield region, config
            for pending in self.judge.pending(region):
                yield region, pending.config

    def record(self, line: int) -> Record | None:
        """Return the record that a line of device memory is a part of, or None."""
        for region, config in self._regions():
            cnt_w = self.model.params.cnt_w
            if config.mode is Mode.IDENTITY:
                continue
            first, distance = records(config, cnt_w)
            index, beat = divmod(line - first, distance)
            if config.mode.low_bit:
                planes = planes_kept(config.most, cnt_w)
            else:
                planes = distance - 1
            if 0 <= index < config.lines:
                return Record(region, index, beat, config.mode, planes)
        return None

    def located(self, beat: MemBeat) -> tuple[Record | None, str]:
        """Return the record of a beat's line, and the name of the access.

        Coverage and scoreboard ask for the same beat, so the last result is kept.

        Returns:
            The record or None, and the name as in the coverage point "memory side-band": eviction,
            initialiser, bookkeeping, plane, FP32 bookkeeping, FP32 kept sum, FP32 partial, MEMORY
            (ordinary memory), or the mode of the region.
        """
        if beat is not self._located[0]:
            record = self.record(beat.line)
            self._located = (beat, (record, self._place(beat, record)))
        return self._located[1]

    def _place(self, beat: MemBeat, record: Record | None) -> str:
        if record is not None:
            if beat.write:
                return "eviction" if beat.axi_id == EVICTION_ID else "initialiser"
            if record.mode.low_bit:
                return "plane" if record.beat else "bookkeeping"
            return "FP32 kept sum" if record.beat else "FP32 bookkeeping"
        for _, config in self._regions():
            size = state_lines(config, self.model.params.cnt_w)
            if 0 <= beat.line - config.state_line < size:
                if config.mode is Mode.FP32 and beat.write and beat.strobe != FULL_STROBE:
                    return "FP32 partial"
                return config.mode.name
        return "MEMORY"
