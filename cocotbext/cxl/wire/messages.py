# SPDX-License-Identifier: Apache-2.0
"""CXL.mem messages: fields, bit layouts, legality (spec: link spec §5).

Every message is a frozen dataclass. ``pack()`` gives the header bits as an int with Valid = 1 (data
and byte enables travel in slots of their own and are not part of it); ``unpack(raw)`` is its
inverse and never fails: a reserved opcode stays a plain int, a known one becomes its enum member.
``check()`` lists what a conforming sender may not do, one text each; an empty list means legal.

Addresses are byte addresses (0 .. 2**52 - 1). pack() raises ValueError for what does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from cocotbext.cxl.wire.enums import (
    Completion,
    DevLoad,
    DrsOp,
    MetaField,
    MetaValue,
    NdrOp,
    ReqOp,
    RwdOp,
    SnpType,
)
from cocotbext.cxl.wire.lines import ADDR_BITS, LINE_BYTES

__all__ = [
    "ADDR_BITS",
    "BE_ALL",
    "DRS_BITS",
    "LINE_BYTES",
    "NDR_BITS",
    "REQ_BITS",
    "RWD_BITS",
    "S2MDRS",
    "S2MNDR",
    "ZERO_LINE",
    "Completion",
    "DevLoad",
    "DrsOp",
    "M2SMessage",
    "M2SReq",
    "M2SRwD",
    "Message",
    "MetaField",
    "MetaValue",
    "NdrOp",
    "ReqOp",
    "RwdOp",
    "S2MMessage",
    "SnpType",
    "completion_of",
]

BE_ALL: Final = (1 << 64) - 1
ZERO_LINE: Final = bytes(LINE_BYTES)

REQ_BITS: Final = 87
RWD_BITS: Final = 87
NDR_BITS: Final = 30
DRS_BITS: Final = 40


def _members(kind: type[IntEnum], bits: int) -> tuple[int, ...]:
    known = {int(member): member for member in kind}
    return tuple(known.get(code, code) for code in range(1 << bits))


# Look-up by code: the enum member where there is one, else the plain int (cheaper than Enum()).
_REQ_OPS: Final = _members(ReqOp, 4)
_RWD_OPS: Final = _members(RwdOp, 4)
_NDR_OPS: Final = _members(NdrOp, 3)
_DRS_OPS: Final = _members(DrsOp, 3)
_DEV_LOADS: Final = _members(DevLoad, 2)
_META_FIELDS: Final = _members(MetaField, 2)
_META_VALUES: Final = _members(MetaValue, 2)
_SNP_TYPES: Final = _members(SnpType, 3)


_WIDTHS: Final = {
    "meta_field": 2,
    "meta_value": 2,
    "snp_type": 3,
    "tag": 16,
    "addr": ADDR_BITS,
    "tc": 2,
    "ldid": 4,
    "devload": 2,
}


def _bad_field(message: Message) -> None:
    """Raise the ValueError that names the field which does not fit."""
    widths = dict(_WIDTHS, opcode=4 if isinstance(message, M2SReq | M2SRwD) else 3)
    for name, bits in widths.items():
        value = getattr(message, name, 0)
        if value < 0 or value >> bits:
            raise ValueError(f"{name} = {value:#x} does not fit in {bits} bits")
    raise ValueError(f"the address of {message} is not aligned")


def _check_meta(meta_field: int, meta_value: int) -> list[str]:
    out = []
    if not isinstance(_META_FIELDS[meta_field & 3], MetaField):
        out.append(f"MetaField {meta_field:02b} is reserved")
    elif meta_field == MetaField.META0_STATE and meta_value == 1:
        out.append("MetaValue 01 is reserved")
    return out


@dataclass(frozen=True, slots=True)
class M2SReq:
    """M2S Request without data; ``addr`` is a byte address whose bits [4:0] are not carried."""

    opcode: int
    tag: int
    addr: int
    ldid: int = 0
    snp_type: int = SnpType.NO_OP
    meta_field: int = MetaField.NO_OP
    meta_value: int = MetaValue.INVALID
    tc: int = 0

    def pack(self) -> int:
        """87 header bits with Valid = 1. ValueError: a field does not fit, or addr % 32 != 0."""
        if (
            self.opcode >> 4
            or self.snp_type >> 3
            or self.meta_field >> 2
            or self.meta_value >> 2
            or self.tag >> 16
            or self.addr >> ADDR_BITS
            or self.addr & 31
            or self.tc >> 2
            or self.ldid >> 4
        ):
            _bad_field(self)
        return (
            1
            | self.opcode << 1
            | self.snp_type << 5
            | self.meta_field << 8
            | self.meta_value << 10
            | self.tag << 12
            | self.addr >> 5 << 28
            | self.tc << 75
            | self.ldid << 77
        )

    @staticmethod
    def unpack(raw: int) -> M2SReq:
        """Inverse of pack(); Valid and the reserved bits are not looked at."""
        return M2SReq(
            _REQ_OPS[raw >> 1 & 15],
            raw >> 12 & 0xFFFF,
            (raw >> 28 & 0x7FFF_FFFF_FFFF) << 5,
            raw >> 77 & 15,
            _SNP_TYPES[raw >> 5 & 7],
            _META_FIELDS[raw >> 8 & 3],
            _META_VALUES[raw >> 10 & 3],
            raw >> 75 & 3,
        )

    def with_tag(self, tag: int) -> M2SReq:
        """The same request under another tag."""
        meta = (self.meta_field, self.meta_value)
        return M2SReq(self.opcode, tag, self.addr, self.ldid, self.snp_type, *meta, self.tc)

    def check(self) -> list[str]:
        """Texts of everything that a conforming host would not send."""
        out = _check_meta(self.meta_field, self.meta_value)
        if not isinstance(_REQ_OPS[self.opcode & 15], ReqOp):
            out.append(f"Req opcode {self.opcode} is reserved")
        if self.snp_type > 3:
            out.append(f"SnpType {self.snp_type} is reserved")
        return out


@dataclass(frozen=True, slots=True)
class M2SRwD:
    """M2S Request with Data: one line of 64 bytes, ``be`` bit i enables byte i (MemWrPtl only)."""

    opcode: int
    tag: int
    addr: int
    ldid: int = 0
    snp_type: int = SnpType.NO_OP
    meta_field: int = MetaField.NO_OP
    meta_value: int = MetaValue.INVALID
    tc: int = 0
    data: bytes = field(default=ZERO_LINE)
    be: int = BE_ALL
    poison: bool = False

    @property
    def carries_be(self) -> bool:
        """True if the message owes a byte-enable slot after its four chunks."""
        return self.opcode == RwdOp.MEM_WR_PTL

    def pack(self) -> int:
        """87 header bits with Valid = 1. ValueError: a field does not fit, or addr % 64 != 0."""
        if (
            self.opcode >> 4
            or self.snp_type >> 3
            or self.meta_field >> 2
            or self.meta_value >> 2
            or self.tag >> 16
            or self.addr >> ADDR_BITS
            or self.addr & 63
            or self.tc >> 2
            or self.ldid >> 4
        ):
            _bad_field(self)
        return (
            1
            | self.opcode << 1
            | self.snp_type << 5
            | self.meta_field << 8
            | self.meta_value << 10
            | self.tag << 12
            | self.addr >> 6 << 28
            | self.poison << 74
            | self.tc << 75
            | self.ldid << 77
        )

    @staticmethod
    def unpack(raw: int, data: bytes = ZERO_LINE, be: int = BE_ALL) -> M2SRwD:
        """Inverse of pack(); data and byte enables come from slots of their own."""
        return M2SRwD(
            _RWD_OPS[raw >> 1 & 15],
            raw >> 12 & 0xFFFF,
            (raw >> 28 & 0x3FFF_FFFF_FFFF) << 6,
            raw >> 77 & 15,
            _SNP_TYPES[raw >> 5 & 7],
            _META_FIELDS[raw >> 8 & 3],
            _META_VALUES[raw >> 10 & 3],
            raw >> 75 & 3,
            data,
            be,
            bool(raw >> 74 & 1),
        )

    def with_tag(self, tag: int) -> M2SRwD:
        """The same write under another tag."""
        meta = (self.snp_type, self.meta_field, self.meta_value, self.tc)
        body = (self.data, self.be, self.poison)
        return M2SRwD(self.opcode, tag, self.addr, self.ldid, *meta, *body)

    def check(self) -> list[str]:
        """Texts of everything that a conforming host would not send."""
        out = _check_meta(self.meta_field, self.meta_value)
        if not isinstance(_RWD_OPS[self.opcode & 15], RwdOp):
            out.append(f"RwD opcode {self.opcode} is reserved")
        if self.snp_type > 3:
            out.append(f"SnpType {self.snp_type} is reserved")
        if len(self.data) != LINE_BYTES:
            out.append(f"RwD carries {len(self.data)} bytes, not {LINE_BYTES}")
        if self.be != BE_ALL and not self.carries_be:
            out.append("byte enables on an opcode that has none")
        return out


@dataclass(frozen=True, slots=True)
class S2MNDR:
    """S2M response without data."""

    opcode: int
    tag: int
    ldid: int = 0
    devload: int = DevLoad.LIGHT
    meta_field: int = MetaField.NO_OP
    meta_value: int = MetaValue.INVALID

    def pack(self) -> int:
        """30 header bits with Valid = 1. ValueError: a field does not fit."""
        if (
            self.opcode >> 3
            or self.meta_field >> 2
            or self.meta_value >> 2
            or self.tag >> 16
            or self.ldid >> 4
            or self.devload >> 2
        ):
            _bad_field(self)
        return (
            1
            | self.opcode << 1
            | self.meta_field << 4
            | self.meta_value << 6
            | self.tag << 8
            | self.ldid << 24
            | self.devload << 28
        )

    @staticmethod
    def unpack(raw: int) -> S2MNDR:
        """Inverse of pack(); Valid is not looked at."""
        return S2MNDR(
            _NDR_OPS[raw >> 1 & 7],
            raw >> 8 & 0xFFFF,
            raw >> 24 & 15,
            _DEV_LOADS[raw >> 28 & 3],
            _META_FIELDS[raw >> 4 & 3],
            _META_VALUES[raw >> 6 & 3],
        )

    def check(self) -> list[str]:
        """Texts of everything that a conforming device would not send."""
        out = _check_meta(self.meta_field, self.meta_value)
        if not isinstance(_NDR_OPS[self.opcode & 7], NdrOp):
            out.append(f"NDR opcode {self.opcode} is reserved")
        return out


@dataclass(frozen=True, slots=True)
class S2MDRS:
    """S2M response with data: one line of 64 bytes."""

    opcode: int
    tag: int
    ldid: int = 0
    devload: int = DevLoad.LIGHT
    poison: bool = False
    data: bytes = field(default=ZERO_LINE)
    meta_field: int = MetaField.NO_OP
    meta_value: int = MetaValue.INVALID

    def pack(self) -> int:
        """40 header bits with Valid = 1. ValueError: a field does not fit."""
        if (
            self.opcode >> 3
            or self.meta_field >> 2
            or self.meta_value >> 2
            or self.tag >> 16
            or self.ldid >> 4
            or self.devload >> 2
        ):
            _bad_field(self)
        return (
            1
            | self.opcode << 1
            | self.meta_field << 4
            | self.meta_value << 6
            | self.tag << 8
            | self.poison << 24
            | self.ldid << 25
            | self.devload << 29
        )

    @staticmethod
    def unpack(raw: int, data: bytes = ZERO_LINE) -> S2MDRS:
        """Inverse of pack(); data comes from slots of its own."""
        return S2MDRS(
            _DRS_OPS[raw >> 1 & 7],
            raw >> 8 & 0xFFFF,
            raw >> 25 & 15,
            _DEV_LOADS[raw >> 29 & 3],
            bool(raw >> 24 & 1),
            data,
            _META_FIELDS[raw >> 4 & 3],
            _META_VALUES[raw >> 6 & 3],
        )

    def check(self) -> list[str]:
        """Texts of everything that a conforming device would not send."""
        out = _check_meta(self.meta_field, self.meta_value)
        if not isinstance(_DRS_OPS[self.opcode & 7], DrsOp):
            out.append(f"DRS opcode {self.opcode} is reserved")
        if len(self.data) != LINE_BYTES:
            out.append(f"DRS carries {len(self.data)} bytes, not {LINE_BYTES}")
        return out


M2SMessage = M2SReq | M2SRwD
S2MMessage = S2MNDR | S2MDRS
Message = M2SReq | M2SRwD | S2MNDR | S2MDRS

_READ_LIKE: Final = frozenset((ReqOp.MEM_RD, ReqOp.MEM_RD_DATA, ReqOp.MEM_RD_FWD))


def completion_of(message: M2SMessage) -> Completion:
    """The response that the device owes for a request (spec: link spec §5).

    Unsupported opcodes are answered too: a read-like one (MemRdFwd) by a DRS, others by an NDR.
    """
    if isinstance(message, M2SRwD):
        return Completion.NDR
    if message.opcode in _READ_LIKE:
        return Completion.DRS
    if message.opcode == ReqOp.MEM_SPEC_RD:
        return Completion.NONE
    return Completion.NDR
