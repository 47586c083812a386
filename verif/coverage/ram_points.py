# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the RAMs of the device (controller, second edition, section 8).

Registers tell which RAM was damaged; `nf_ram_cover.sv`, under Verilator alone, when and where it
was found. Its codes are listed here in its order.
"""

from __future__ import annotations

from models.nf_regs import REG_MAP
from verif.coverage.cover_model import CoverModel
from verif.coverage.white_box import NO_CODE, WhiteBoxPoints

RAM = "u_ram_cover"

_REGISTERS = REG_MAP.expand()
_NAMES = {number: name for name, number in REG_MAP.enums["Ram"].items()}
# A flit is read again only on a link with faults: test_link_ram_flips has it.
_RAMS = tuple(name for name in _NAMES.values() if name != "RETRY")
_CODES = tuple(name if name in _RAMS else NO_CODE for name in _NAMES.values())
MOMENTS = ("first", "behind another", "while a commit waits", "corrected")
PLACES = (
    "PLANES: of an operation",
    "PLANES: of a victim",
    "BOOK: of an operation",
    "BOOK: of a store that memory has answered",
    "BOOK: of a victim",
    "EVICT: before its burst",
    "EVICT: in its burst",
    "PARKED: goes along with a fill",
    "PARKED: a store that went early",
    "PARKED: taken from its list",
    "DEFERRED: a write",
    "DEFERRED: a read",
)


class RamPoints(WhiteBoxPoints):
    """Feed it with the reads and writes of registers, too."""

    module = RAM

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self.flip = model.point(
            "RAM flip",
            "a bit flips in each RAM: planes, bookkeeping, lines that leave, and data that waits "
            "for a slot, for memory or for the link",
            _RAMS,
            test="test_ram_flips::flips",
        )
        self.error = model.point(
            "RAM error",
            "the flipped bit is found in each RAM, and RAS_ERROR names it: what it costs differs "
            "from RAM to RAM (a lost line, a poisoned write, a poisoned answer)",
            _RAMS,
            test="test_ram_flips::held_data",
        )
        self.add(
            "moment",
            "RAM error moment",
            "a damaged word is found in each RAM: as the first, behind one that RAS_ERROR holds, "
            "and while a commit waits for what is under way (what the link holds is taken "
            "behind it); with SECDED it is corrected",
            {"RAM": _CODES, "moment": MOMENTS},
            ignore=lambda ram, moment: ram == "WRITES" and moment == MOMENTS[2],
            test="test_ram_flips::held_data",
        )
        self.add(
            "place",
            "RAM error place",
            "what a damaged word of the engine was read for: each use loses something else",
            {"use": PLACES},
            test="test_ram_flips::held_data",
        )

    def register(self, name: str, value: int, write: bool) -> None:
        """A register was read, or written."""
        if name == "RAS_INJECT" and write:
            fields = _REGISTERS[name].unpack(value)
            if fields["GO"] and _NAMES.get(fields["RAM"]) in _RAMS:
                self.flip.hit(_NAMES[fields["RAM"]])
        elif name == "RAS_ERROR" and not write:
            fields = _REGISTERS[name].unpack(value)
            if fields["VALID"] and _NAMES.get(fields["RAM"]) in _RAMS:
                self.error.hit(_NAMES[fields["RAM"]])
