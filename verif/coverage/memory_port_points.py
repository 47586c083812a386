# SPDX-License-Identifier: Apache-2.0
"""Cover points of the device-memory port: kind of access, latency, errors, poison, and RAM
faults.
"""

from __future__ import annotations

from models.modes import Mode
from models.register_map import REG_MAP
from verif.axi import Resp
from verif.coverage.coverage_plan import class_of, codes
from verif.coverage.points import Points
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.memory_port import Record

AGGREGATING = codes("AGGREGATING")


class MemoryPortPoints(Points):
    """Cover points of beats on the device-memory port, sampled by `beat`."""

    def beat(self, beat: MemBeat, place: str, record: Record | None, mode: Mode | None) -> None:
        """Count the bins of a beat on the device-memory port.

        Args:
            beat: The beat.
            place: Name of the access, see `MemoryPort.located`.
            record: Record that the line is a part of, or None.
            mode: Mode of its region, or None.
        """
        way = "write" if beat.write else "read"
        path = f"{way} {place}"
        if beat.answered:
            self.hit("memory latency", path, class_of("CLOCKS", beat.clocks))
        kind = Resp(beat.resp).name if beat.error else "poison" if beat.poison else ""
        if kind:
            self.hit("memory side-band", f"{path} {kind}")
            name = mode.name if mode is not None else ""
            if record is not None and name in AGGREGATING and not beat.write:
                part = f"plane {record.beat - 1}" if record.beat else "bookkeeping"
                self.hit("record error", name, part, kind)
        if beat.error:
            self.hit("memory", f"{way} error")
        elif not beat.write:
            self.hit("memory", "read poison" if beat.poison else "read")
        else:
            self.hit("memory", "write full" if beat.strobe == FULL_STROBE else "write partial")
            if beat.poison:
                self.hit("memory", "write poison")


# Bits that flip in the RAMs of the device (controller, second edition, section 8).
#
# Registers tell which RAM was damaged; the white-box points "RAM error moment" and "RAM error
# place" tell when and where the damage was found.


_REGISTERS = REG_MAP.expand()
_NAMES = {number: name for name, number in REG_MAP.enums["Ram"].items()}
_RAMS = codes("RAMS")


class RamPoints(Points):
    """Cover points of injected and captured RAM errors, from accesses to RAS_INJECT and
    RAS_ERROR.
    """

    def register(self, name: str, value: int, write: bool) -> None:
        """Count the bin of the RAM in a write of RAS_INJECT with GO, or a read of RAS_ERROR with
        VALID.
        """
        point, valid = ("RAM flip", "GO") if write else ("RAM error", "VALID")
        if name == ("RAS_INJECT" if write else "RAS_ERROR"):
            fields = _REGISTERS[name].unpack(value)
            ram = _NAMES.get(fields["RAM"])
            if fields[valid] and ram in _RAMS:
                self.hit(point, ram)
