# SPDX-License-Identifier: Apache-2.0
"""State of the device model: descriptors, epochs, counters, memory and injected faults.

``models.device`` executes messages on this state. Spec: controller §2, §5, §6.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from models.aggregated_line import AggregatedLine
from models.commit_check import CommitCode, check_commit, check_move
from models.control_window import ControlWindow
from models.expected_response import AccessError
from models.info_status_lines import LineInfo, RegionStatus, StatusView
from models.memory import Memory, MemoryLine
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import MAX_WORKERS, RegionConfig, state_lines
from models.register_map import REG_MAP
from models.register_types import Counts

COUNTERS = REG_MAP.counters(Counts.ACCESS)
"""Event counters that do not depend on the micro-architecture."""


@dataclass
class _Region:
    """Active descriptor of a region, its status counts and lines touched in the current epoch."""

    config: RegionConfig | None = None
    epoch: int = 0
    code: CommitCode = CommitCode.OK
    lines: dict[int, AggregatedLine] = field(default_factory=dict)
    complete: int = 0
    saturated: int = 0
    illegal: int = 0
    closed: bool = False
    generation: int = 0
    """Commits since reset; the number after 2^GEN_W - 1 is 1."""
    refused: int = 0
    poisoned: int = 0
    late: int = 0
    seen: Counter[int] = field(default_factory=Counter)
    """Lines contributed by each worker."""

    def mark(self, line: AggregatedLine) -> None:
        """Mark a line as poisoned by a contribution, and count it if it was not poisoned."""
        if not line.poisoned:
            line.poisoned = line.counted_poisoned = True
            self.poisoned += 1

    def move(self, old: AggregatedLine, new: AggregatedLine) -> None:
        """Update the region's counts when state ``old`` of a line is replaced by ``new``."""
        self.complete += new.counted_complete - old.counted_complete
        self.saturated += new.saturated - old.saturated
        self.illegal += new.illegal - old.illegal
        self.poisoned += new.counted_poisoned - old.counted_poisoned
        self.late += new.late - old.late
        self.seen.update(new.times_seen)
        self.seen.subtract(old.times_seen)


class DeviceState:
    """State of the device and its changes other than by messages: commits, counters, faults."""

    def __init__(
        self,
        params: DeviceParams | None = None,
        initial_memory: Callable[[int], MemoryLine] | None = None,
    ) -> None:
        """Create the state after reset.

        Args:
            params: build parameters; None for the defaults.
            initial_memory: returns the content of an unwritten line of memory; None for zeros.
        """
        self.params = params or DeviceParams()
        self.memory = Memory(initial_memory)
        self.counters: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self.refused: list[AccessError] = []
        """Refused accesses since the last clear, in order."""
        self.first_error: AccessError | None = None
        """Content of ERR_INFO; None before the first error and after ``rearm_error``."""
        self._regions = [_Region() for _ in range(self.params.regions)]
        self._configs: list[RegionConfig | None] = [None] * self.params.regions
        self.control = ControlWindow()
        """Control window: its position and write permissions."""
        self._tallies: dict[Hashable, dict[str, int]] = {}
        self._commits = 0
        self.read_errors: set[int] = set()
        """Lines of device memory whose reads return an AXI error at present."""
        self.write_errors: set[int] = set()
        """Lines of device memory whose writes return an AXI error at present."""

    # -- control ----------------------------------------------------------------------------------

    def commit(self, region: int, config: RegionConfig, epoch: int) -> CommitCode:
        """Apply a write of EPOCH of ``region`` with ``config`` in its shadow registers.

        A successful commit starts a new epoch, whatever its number; a refused one changes only the
        status code.

        Returns:
            The result code.
        """
        target = self._region(region)
        others = [c for r, c in enumerate(self._configs) if c is not None and r != region]
        target.code = check_commit(self.params, config, others, self.control.base_line)
        if target.code != CommitCode.OK:
            return target.code
        self._retire(target)
        self._commits += 1
        self._configs[region] = config
        generation = target.generation % ((1 << self.params.gen_w) - 1) + 1
        self._regions[region] = _Region(config=config, epoch=epoch, generation=generation)
        start, size = config.state_line, state_lines(config, self.params.cnt_w)
        if config.mode.low_bit:
            self.memory.forget(start, size)
        elif config.mode == Mode.FP32:
            # The records that follow the data belong to the device.
            data_lines = config.workers * config.lines
            self.memory.forget(start + data_lines, size - data_lines)
        return CommitCode.OK

    def move_control(self, place: int) -> CommitCode:
        """Apply a write of CTRL_WINDOW; return the result code.

        The control window moves to byte address ``place`` (0: off) if the code is OK.
        """
        regions = [config for config in self._configs if config is not None]
        code = check_move(self.params, place, regions)
        if code == CommitCode.OK:
            self.control = replace(self.control, base=place)
        return code

    def close(self, region: int) -> None:
        """Apply a write of REGION.CTRL.CLOSE: the region is closed until its next commit.

        An uncommitted region and plain memory (IDENTITY) are not changed. Spec: second edition §5.
        """
        state = self._region(region)
        if state.config is not None and state.config.mode != Mode.IDENTITY:
            state.closed = True

    def _retire(self, region: _Region) -> None:
        """Write the stored contributions of an FP32 region to memory, as its epoch ends."""
        if region.config is not None and region.config.mode == Mode.FP32:
            for i, line in region.lines.items():
                self._flush(region.config, i, line)

    def _flush(self, config: RegionConfig, i: int, line: AggregatedLine) -> None:
        """Write the contributions of an FP32 line to the state area."""
        for worker, data in line.data.items():
            entry = MemoryLine(data, poison=worker in line.marked)
            self.memory.store(config.state_line + worker * config.lines + i, entry)

    def clear_counters(self) -> None:
        """Apply a write of CTRL.CLEAR_COUNTERS: counters get 0; regions and error capture stay."""
        self.counters = dict.fromkeys(COUNTERS, 0)
        self._tallies.clear()
        self.refused.clear()

    def rearm_error(self) -> None:
        """Apply a write of 1 to ERR_INFO.valid: the next refused access is captured."""
        self.first_error = None

    def region_status(self, region: int) -> RegionStatus:
        """Return the status registers of a region without FALLBACK, which depends on the slots."""
        state = self._region(region)
        lines = state.config.lines if state.config else 0
        return RegionStatus(
            committed=state.config is not None,
            code=int(state.code),
            epoch=state.epoch,
            done=state.config is not None
            and state.config.mode != Mode.IDENTITY
            and (state.closed or state.complete == lines),
            complete_lines=state.complete,
            saturated=state.saturated > 0,
            illegal_seen=state.illegal > 0,
            closed=state.closed,
        )

    def status_view(self, region: int) -> StatusView:
        """Return the status line of a region, as a host reads it.

        FALLBACK is 0, because it depends on the slots.
        """
        state, status = self._region(region), self.region_status(region)
        return StatusView(
            epoch=status.epoch,
            complete_lines=status.complete_lines,
            done=int(status.done),
            fallback=0,
            refused=state.refused,
            late=state.late,
            poisoned_lines=state.poisoned,
        )

    def worker_lines(self, region: int) -> list[int]:
        """Return how many lines each of the 64 possible workers has contributed in this epoch."""
        seen = self._region(region).seen
        return [seen[worker] for worker in range(MAX_WORKERS)]

    def line_info(self, region: int, line: int) -> LineInfo:
        """Return the INFO line of a region's line: its bookkeeping, as a host reads it."""
        state, found = self._region(region), self._line(region, line)
        config = state.config
        assert config is not None
        cnt_max = self.params.cnt_max
        full = config.mode.low_bit and len(found.data) > cnt_max
        return LineInfo(
            epoch=state.epoch,
            generation=state.generation,
            bitmap=sum(1 << worker for worker in found.data),
            m=len(found.data),
            complete=found.all_seen(config.workers) and not found.lost,
            poisoned=found.poisoned,
            lost=found.lost,
            saturated=full and bool(found.reduced(config, cnt_max).saturated[0]),
            closed=state.closed,
        )

    def flagged_lines(self, region: int) -> tuple[int, int]:
        """Return the numbers of a region's lines with saturation and with an illegal code."""
        state = self._region(region)
        return state.saturated, state.illegal

    def config(self, region: int) -> RegionConfig | None:
        """Return the active descriptor of ``region``, or None if it was never committed."""
        return self._region(region).config

    # -- faults of device memory ------------------------------------------------------------------

    def poison_line(self, memory_line: int) -> None:
        """Mark ``memory_line`` as poisoned in memory, until the whole line is written.

        FP32 contributions stored there are marked in their line. State records in memory are not
        modelled: see ``lose_line``.
        """
        entry = self.memory.load(memory_line)
        self.memory.store(memory_line, replace(entry, poison=True, poison_known=True))
        for state in self._regions:
            config = state.config
            if config is None or config.mode != Mode.FP32:
                continue
            worker, i = divmod(memory_line - config.state_line, config.lines)
            line = state.lines.get(i)
            if line is not None and line.seen(worker):
                line.marked.add(worker)

    def lose_line(self, region: int, line: int) -> None:
        """Apply the loss of a line's state record by an AXI error or poison on its read or write.

        The time of the loss depends on the micro-architecture, so the testbench reports it. The
        line becomes empty, and poisoned for the rest of the epoch.
        """
        state = self._line(region, line)
        config = self._regions[region].config
        if config is not None and config.mode == Mode.FP32:
            self._flush(config, line, state)
        state.lose()

    def line_state(self, region: int, line: int) -> AggregatedLine | None:
        """Return the state of a region's line in this epoch, or None if it was not touched."""
        return self._region(region).lines.get(line)

    # -- helpers ----------------------------------------------------------------------------------

    def _region(self, region: int) -> _Region:
        if not 0 <= region < self.params.regions:
            raise ValueError(f"no region {region}: the device has {self.params.regions}")
        return self._regions[region]

    def _line(self, region: int, line: int) -> AggregatedLine:
        state = self._region(region)
        if state.config is None or not 0 <= line < state.config.lines:
            raise ValueError(f"region {region} has no line {line}")
        found = state.lines.get(line)
        if found is None:
            found = state.lines[line] = AggregatedLine()
        return found

    def _count(self, name: str, key: Hashable, amount: int = 1) -> None:
        if not amount:
            return
        self.counters[name] += amount
        tally = self._tallies.setdefault(key, {})
        tally[name] = tally.get(name, 0) + amount

    def _restore_tally(self, key: Hashable, old: dict[str, int]) -> None:
        now = self._tallies.get(key, {})
        for name, value in now.items():
            self.counters[name] += old.get(name, 0) - value
        # Keep names that the old tally lacks, so that a later tally with them moves the counter.
        self._tallies[key] = dict.fromkeys(now, 0) | old
