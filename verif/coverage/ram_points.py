# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the RAMs of the device (controller, second edition, section 8)."""

from __future__ import annotations

from models.nf_regs import REG_MAP
from verif.coverage.cover_model import CoverModel

_REGISTERS = REG_MAP.expand()
_NAMES = {number: name for name, number in REG_MAP.enums["Ram"].items()}
# A flit is read again only on a link with faults: test_link_ram_flips has it.
_RAMS = tuple(name for name in _NAMES.values() if name != "RETRY")


class RamPoints:
    """Feed it with the reads and writes of registers."""

    def __init__(self, model: CoverModel) -> None:
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
            test="test_ram_flips::flips",
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
