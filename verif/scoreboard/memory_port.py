# SPDX-License-Identifier: Apache-2.0
"""Errors and poison on the memory port: which line each belongs to, and what the line loses.

The record of a line (bookkeeping, and in the low-bit modes count planes) is the device's own: when
it is fetched and written back is micro-architecture. So the model is told here what was lost
on that way (hdl/README.md, Trust): a record that was read with an error or poison, or whose write
was refused. Errors and poison are also counted here, response by response: the registers that
count them have to agree exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from models.device import DeviceModel
from models.line_packing import Mode
from models.regions import RegionConfig, record_lines, state_lines
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.quiescence import Quiescence

COUNTED = ("MEM_READ_ERROR", "MEM_WRITE_ERROR", "MEM_POISON")
EVICTION_ID = 0
"""AXI ID of the writes that bring an evicted line back; the initialiser of records has its own."""


@dataclass(frozen=True, slots=True)
class Record:
    """Whose record a line of memory belongs to; `beat` 0 is the bookkeeping, then the planes."""

    region: int
    index: int
    beat: int
    low_bit: bool


class MemoryPort:
    """Feed it with `beat`. `configs` are the committed descriptors, kept by the scoreboard."""

    def __init__(
        self, model: DeviceModel, quiescence: Quiescence, configs: list[RegionConfig | None]
    ) -> None:
        self.model = model
        self.quiescence = quiescence
        self.configs = configs
        self.counts = dict.fromkeys(COUNTED, 0)
        self.errors = 0
        self.poisoned = 0
        self.wrong: str | None = None
        """What the device did that it must not do, set by `beat`."""

    def clear(self) -> None:
        """CTRL.CLEAR_COUNTERS."""
        self.counts = dict.fromkeys(COUNTED, 0)

    def beat(self, beat: MemBeat) -> bool:
        """A beat was seen; True if it was an event (an error, or poison)."""
        self.wrong = None
        record = self.record(beat.line)
        if beat.write:
            if beat.poison and self.place(beat) not in ("MEMORY", "IDENTITY"):
                self.wrong = f"poison written to line {beat.line:#x} of a state area"
            if not beat.error:
                return False
            self.counts["MEM_WRITE_ERROR"] += beat.answered
            self.errors += 1
            if record is not None:
                self.quiescence.distrust(record.region)
                if beat.axi_id == EVICTION_ID and beat.answered:
                    self.quiescence.lose(record.region, record.index)
            return True
        if not (beat.error or beat.poison):
            return False
        self.counts["MEM_READ_ERROR" if beat.error else "MEM_POISON"] += 1
        self.errors += beat.error
        self.poisoned += not beat.error
        if record is not None and (record.beat == 0 or self._has_state(record)):
            self.quiescence.lose(record.region, record.index)
        return True

    def _has_state(self, record: Record) -> bool:
        """False: nothing of this epoch can be in the record, so its planes are nobody's state."""
        line = self.model.line_state(record.region, record.index)
        return line is not None and (bool(line.data) or line.poisoned)

    def _regions(self) -> Iterator[tuple[int, RegionConfig]]:
        """The descriptors that may be in force: also those whose commit is not yet answered."""
        for region, config in enumerate(self.configs):
            if config is not None:
                yield region, config
            for pending in self.quiescence.pending(region):
                yield region, pending

    def record(self, line: int) -> Record | None:
        """The record that a line of memory is part of."""
        for region, config in self._regions():
            offset = line - config.state_line
            if config.mode is Mode.FP32:
                index, beat = offset - config.workers * config.lines, 0
            elif config.mode.low_bit:
                index, beat = divmod(offset, record_lines(config.workers, self.model.params.cnt_w))
            else:
                continue
            if 0 <= index < config.lines:
                return Record(region, index, beat, config.mode.low_bit)
        return None

    def place(self, beat: MemBeat) -> str:
        """What the device did at the line, as the coverage point "memory side-band" names it."""
        return self.place_of(beat, self.record(beat.line))

    def place_of(self, beat: MemBeat, record: Record | None) -> str:
        """As `place`; `record` is what the line of the beat is part of."""
        if record is not None:
            if beat.write:
                return "eviction" if beat.axi_id == EVICTION_ID else "initialiser"
            if record.low_bit:
                return "plane" if record.beat else "bookkeeping"
            return "FP32 bookkeeping"
        for _, config in self._regions():
            size = state_lines(config, self.model.params.cnt_w)
            if 0 <= beat.line - config.state_line < size:
                if config.mode is Mode.FP32 and beat.write and beat.strobe != FULL_STROBE:
                    return "FP32 partial"
                return config.mode.name
        return "MEMORY"
