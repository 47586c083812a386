# SPDX-License-Identifier: Apache-2.0
"""Types of the register map (spec: controller §7; the registers come from one RDL source).

`models.register_map.REG_MAP` is the map for the default parameters; `RegMap.expand` returns the
registers of a device with other parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from models.parameters import DeviceParams

WORD_BYTES = 4
WORD_MASK = 0xFFFF_FFFF


class Counts(StrEnum):
    """Kind of an event counter: the part of the device whose events it counts."""

    ACCESS = "access"  # the accesses and the memory's answers: the device model counts it as well
    SLOTS = "slots"  # the micro-architecture: hits, misses and traffic of the slots
    LINK = "link"  # the flits on the link
    RETRY = "retry"  # link-level retry
    RAM = "ram"  # stored bits that flip


class FieldAccess(Enum):
    """Kind of software access to a field of a register."""

    RO = "RO"  # read only; a write changes nothing
    RW = "RW"  # reads back what was written
    W1C = "W1C"  # writing 1 clears, writing 0 keeps
    PULSE = "W1P"  # writing 1 triggers, reads 0
    COMMIT = "RW (commit)"  # writing commits the region, reads the last accepted value


@dataclass(frozen=True)
class Field:
    """One field of a register; `reset` is the value of the field, not shifted."""

    name: str
    lsb: int
    width: int
    access: FieldAccess
    reset: int = 0
    volatile: bool = False  # the hardware changes it
    enum: str | None = None  # name of the enumeration of its values
    reset_parameter: str | None = None  # RTL parameter that gives the reset value
    width_parameter: str | None = None  # RTL parameter that gives the width
    maximum: int | None = None  # a greater value is taken as this one

    @property
    def mask(self) -> int:
        """Return the mask of the register bits that the field occupies."""
        return ((1 << self.width) - 1) << self.lsb

    def extract(self, word: int) -> int:
        """Return the value of the field in a register value."""
        return (word & self.mask) >> self.lsb

    def insert(self, word: int, value: int) -> int:
        """Return `word` with the field set to `value`.

        Raises:
            ValueError: `value` does not fit the field.
        """
        if value < 0 or value >> self.width:
            raise ValueError(f"{value:#x} does not fit field {self.name} of {self.width} bits")
        return (word & ~self.mask) | (value << self.lsb)

    def scaled(self, params: DeviceParams) -> Field:
        """Return the field with reset value and width as in a device with these parameters."""
        out = self
        if out.reset_parameter is not None:
            out = replace(out, reset=params.as_rtl()[out.reset_parameter])
        if out.width_parameter is not None:
            out = replace(out, width=params.as_rtl()[out.width_parameter])
        return out


@dataclass(frozen=True)
class Register:
    """One 32-bit register.

    `address` is a byte address; for a register of a region it is the offset from the start of the
    region's registers.
    """

    name: str
    address: int
    fields: tuple[Field, ...]
    counts: Counts | None = None  # an event counter, cleared by CTRL.CLEAR_COUNTERS

    @property
    def reset(self) -> int:
        """Return the value of the register after reset, with reserved bits 0."""
        return sum(f.reset << f.lsb for f in self.fields)

    def mask(self, *access: FieldAccess) -> int:
        """Return the mask of the bits with one of these accesses; no arguments: all fields."""
        return sum(f.mask for f in self.fields if not access or f.access in access)

    def stored(self, old: int, data: int, lanes: int = WORD_MASK) -> int:
        """Return the value of the register after a write.

        Only read-write fields change; fields with a maximum saturate.

        Args:
            old: Value before the write.
            data: Written word.
            lanes: Mask of the written bits.
        """
        lanes &= self.mask(FieldAccess.RW)
        word = (old & ~lanes) | (data & lanes)
        for f in self.fields:
            if f.maximum is not None:
                word = f.insert(word, min(f.extract(word), f.maximum))
        return word

    @property
    def parametric(self) -> bool:
        """Return True if a build parameter of the device determines the reset value of a field."""
        return any(f.reset_parameter for f in self.fields)

    @property
    def volatile_mask(self) -> int:
        """Return the mask of the bits that the hardware may change."""
        return sum(f.mask for f in self.fields if f.volatile)

    @property
    def access(self) -> FieldAccess:
        """Return the widest access of any field: COMMIT, PULSE, RW, W1C or RO, in this order."""
        for kind in (FieldAccess.COMMIT, FieldAccess.PULSE, FieldAccess.RW, FieldAccess.W1C):
            if self.mask(kind):
                return kind
        return FieldAccess.RO

    def pack(self, **values: int) -> int:
        """Return a word with these field values, by name of field; other fields are 0.

        Raises:
            KeyError: The register has no such field.
            ValueError: A value does not fit its field.
        """
        word = 0
        for name, value in values.items():
            word = self.field(name).insert(word, value)
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Return the value of every field in a word, by name."""
        return {f.name: f.extract(word) for f in self.fields}

    def field(self, name: str) -> Field:
        """Return a field by name.

        Raises:
            KeyError: The register has no such field.
        """
        for f in self.fields:
            if f.name == name:
                return f
        raise KeyError(f"register {self.name} has no field {name}")


@dataclass(frozen=True)
class RegMap:
    """Register map: registers of the device, and those that every region has."""

    registers: tuple[Register, ...]
    region_registers: tuple[Register, ...]
    region_base: int  # byte address of region 0
    region_stride: int  # bytes from a region to the next
    enums: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Values of the fields with an `enum`: {enumeration: {member: value}}."""

    def named(self) -> dict[str, Register]:
        """Return the registers of the device, then those of every region ("REGION.STATUS")."""
        of_region = {f"REGION.{reg.name}": reg for reg in self.region_registers}
        return {reg.name: reg for reg in self.registers} | of_region

    def counters(self, *kinds: Counts) -> tuple[str, ...]:
        """Return the names of the event counters of these kinds, by address; no arguments: all."""
        return tuple(
            reg.name
            for reg in self.registers
            if reg.counts is not None and (not kinds or reg.counts in kinds)
        )

    def region_register(self, name: str) -> Register:
        """Return the register `name` of the set that every region has.

        Its address is an offset in bytes from the start of a region's registers.

        Raises:
            KeyError: Regions have no register of this name.
        """
        for reg in self.region_registers:
            if reg.name == name:
                return reg
        raise KeyError(f"a region has no register {name}")

    def expand(self, params: DeviceParams | None = None) -> dict[str, Register]:
        """Return every register of a device by name ("IRQ_STATUS", "REGION[2].STATUS").

        Addresses are absolute byte addresses; reset values and widths follow `params` (None: the
        defaults).
        """
        hw = params or DeviceParams()
        out: dict[str, Register] = {}
        for reg in self.registers:
            out[reg.name] = replace(reg, fields=tuple(f.scaled(hw) for f in reg.fields))
        for index in range(hw.regions):
            base = self.region_base + index * self.region_stride
            for reg in self.region_registers:
                name = f"REGION[{index}].{reg.name}"
                scaled = tuple(f.scaled(hw) for f in reg.fields)
                out[name] = Register(name, base + reg.address, scaled)
        return out


def byte_mask(strobe: int, lanes: int = WORD_BYTES) -> int:
    """Return the mask of the bits in the bytes that the byte strobes enable."""
    return sum(0xFF << (8 * lane) for lane in range(lanes) if strobe >> lane & 1)
