# SPDX-License-Identifier: Apache-2.0
"""Cover points of the device-memory port: beats, waiting times, errors and poison, by the path of
the device.
"""

from __future__ import annotations

from models.line_packing import Mode
from models.nf_regs import REG_MAP
from verif.axi import Resp
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Planned
from verif.coverage.transaction_points import AGGREGATING, CLOCKS, LOW_BIT, clocks_class
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.memory_port import Record

ERRORS = (Resp.SLVERR.name, Resp.DECERR.name)
KINDS = (*ERRORS, "poison")
READ_PLACES = (
    "MEMORY",
    "IDENTITY",
    "FP32",
    "FP32 bookkeeping",
    "FP32 kept sum",
    "bookkeeping",
    "plane",
)
WRITE_PLACES = ("MEMORY", "IDENTITY", "FP32", "FP32 partial", "eviction", "initialiser")
BEATS = ("bookkeeping", *(f"plane {plane}" for plane in range(7)))


class MemoryPortPoints:
    """Beats on the device-memory port, sampled by `beat`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.memory = plan.point(
            "memory",
            [
                "read",
                "write full",
                "write partial",
                "write poison",
                "read poison",
                "read error",
                "write error",
            ],
        )
        self.side_band = plan.point(
            "memory side-band",
            [f"read {place} {kind}" for place in READ_PLACES for kind in KINDS]
            + [f"write {place} {kind}" for place in WRITE_PLACES for kind in ERRORS]
            + [f"write {place} poison" for place in ("MEMORY", "IDENTITY")],
            illegal=[f"write {place} poison" for place in WRITE_PLACES[2:]],
        )
        self.record = plan.cross(
            "record error",
            {"mode": AGGREGATING, "beat": BEATS, "kind": KINDS},
            ignore=lambda mode, beat, kind: mode not in LOW_BIT and beat not in BEATS[:2],
        )
        self.wait = plan.cross(
            "memory latency",
            {
                "path": [f"read {p}" for p in READ_PLACES] + [f"write {p}" for p in WRITE_PLACES],
                "clocks": CLOCKS,
            },
        )

    def beat(self, beat: MemBeat, place: str, record: Record | None, mode: Mode | None) -> None:
        """Sample a beat on the device-memory port.

        `place`: as `MemoryPort.located` names it; `record`: whose it is part of, in the `mode` of
        its region.
        """
        path = f"{'write' if beat.write else 'read'} {place}"
        if beat.answered:
            self.wait.hit(path, clocks_class(beat.clocks))
        kind = Resp(beat.resp).name if beat.error else "poison" if beat.poison else ""
        if kind:
            self.side_band.hit(f"{path} {kind}")
            name = mode.name if mode is not None else ""
            if record is not None and name in AGGREGATING and not beat.write:
                self.record.hit(name, BEATS[record.beat], kind)
        if beat.error:
            self.memory.hit(f"{'write' if beat.write else 'read'} error")
        elif not beat.write:
            self.memory.hit("read poison" if beat.poison else "read")
        else:
            self.memory.hit("write full" if beat.strobe == FULL_STROBE else "write partial")
            if beat.poison:
                self.memory.hit("write poison")


# Bits that flip in the RAMs of the device (controller, second edition, section 8).
#
# Registers tell which RAM was damaged; the white-box points "RAM error moment" and "RAM error
# place" tell when and where the damage was found.


_REGISTERS = REG_MAP.expand()
_NAMES = {number: name for name, number in REG_MAP.enums["Ram"].items()}
# A flit is read again only on a link with faults: test_link_ram_flips has it.
_RAMS = tuple(name for name in _NAMES.values() if name != "RETRY")


class RamPoints:
    """Injections and captures of RAM errors, from accesses to RAS_INJECT and RAS_ERROR."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.flip = plan.point("RAM flip", _RAMS)
        self.error = plan.point("RAM error", _RAMS)

    def register(self, name: str, value: int, write: bool) -> None:
        """Sample a register access."""
        if name == "RAS_INJECT" and write:
            fields = _REGISTERS[name].unpack(value)
            if fields["GO"] and _NAMES.get(fields["RAM"]) in _RAMS:
                self.flip.hit(_NAMES[fields["RAM"]])
        elif name == "RAS_ERROR" and not write:
            fields = _REGISTERS[name].unpack(value)
            if fields["VALID"] and _NAMES.get(fields["RAM"]) in _RAMS:
                self.error.hit(_NAMES[fields["RAM"]])
