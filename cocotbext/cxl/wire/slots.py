# SPDX-License-Identifier: Apache-2.0
"""Slot formats of both directions (spec: link spec §4).

``LAYOUTS[direction][position][code]`` describes a slot; position 0 is slot 0 (an H format of 96
bits), position 1 is slots 1..3 (a G format of 128 bits). Bit numbers count from the start of the
slot.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from cocotbext.cxl.wire.flits import G_MASK, H_MASK, Direction
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, Message


class SlotUse(Enum):
    """Meaning of a slot's format code: CXL.mem headers, data, CXL.cache, or reserved."""

    MEM = "mem"
    DATA = "data"
    CACHE = "cache"
    RESERVED = "reserved"


_NDR_LOW: Final = (1 << 28) - 1


@dataclass(frozen=True, slots=True)
class Field:
    """Place of a message header in a slot: kind of message and lowest bit.

    With ``devload`` it is an NDR of 28 bits, whose DevLoad is at bit ``devload`` of the slot.
    """

    part: type[Message]
    offset: int
    devload: int = 0

    def extract(self, slot: int) -> int:
        """Return the header bits in a slot; bit 0 is Valid."""
        raw = slot >> self.offset
        if self.devload:
            return raw & _NDR_LOW | (slot >> self.devload & 3) << 28
        return raw & (1 | self.part.FIELDS.live)

    @property
    def with_data(self) -> bool:
        """Return True if data slots follow the header."""
        return self.part in (M2SRwD, S2MDRS)

    def insert(self, raw: int) -> int:
        """Return a slot with the header bits ``raw`` in place; other bits are 0."""
        if self.devload:
            return (raw & _NDR_LOW) << self.offset | raw >> 28 << self.devload
        return raw << self.offset

    @property
    def live(self) -> int:
        """Return the mask of slot bits that this header may set."""
        return self.insert(1 | self.part.FIELDS.live)


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """Slot format: the headers in it; ``cache_valid`` and ``reserved`` are masks of slot bits.

    ``cache_valid`` are the Valid bits of its CXL.cache parts.
    """

    name: str
    use: SlotUse
    fields: tuple[Field, ...] = ()
    cache_valid: int = 0
    reserved: int = 0

    @property
    def multi_header(self) -> bool:
        """Return True if several messages with data can start in the slot: H5 and G6 of S2M."""
        return sum(f.with_data for f in self.fields) > 1


def _mem(name: str, *fields: Field, cache: range = range(0)) -> SlotLayout:
    live = sum(entry.live for entry in fields) | sum(1 << bit for bit in cache)
    full = H_MASK if name[0] == "H" else G_MASK
    valid = 1 << cache.start if cache else 0
    return SlotLayout(name, SlotUse.MEM, fields, valid, full & ~live)


def _cache(name: str) -> SlotLayout:
    # The layout of CXL.cache is out of scope: any set bit means that a cache message is present.
    return SlotLayout(name, SlotUse.CACHE, (), H_MASK if name[0] == "H" else G_MASK)


def _reserved(name: str) -> SlotLayout:
    return SlotLayout(name, SlotUse.RESERVED)


_H_RESERVED: Final = _reserved("H6 reserved"), _reserved("H7 reserved")
_G_CACHE: Final = _cache("G1 cache"), _cache("G2 cache"), _cache("G3 cache")
_DATA: Final = SlotLayout("G0 data", SlotUse.DATA)

_M2S_H: Final = (
    _cache("H0 cache"),
    _cache("H1 cache"),
    _cache("H2 cache"),
    _cache("H3 cache"),
    _mem("H4 RwD", Field(M2SRwD, 0)),
    _mem("H5 Req", Field(M2SReq, 0)),
    *_H_RESERVED,
)
_M2S_G: Final = (
    _DATA,
    *_G_CACHE,
    _mem("G4 Req", Field(M2SReq, 0), cache=range(88, 112)),
    _mem("G5 RwD", Field(M2SRwD, 0), cache=range(88, 120)),
    _reserved("G6 reserved"),
    _reserved("G7 reserved"),
)
_S2M_H: Final = (
    _cache("H0 cache + NDR"),
    _cache("H1 cache"),
    _cache("H2 cache"),
    _mem("H3 DRS + NDR", Field(S2MDRS, 0), Field(S2MNDR, 40)),
    _mem("H4 2 NDR", Field(S2MNDR, 0, 58), Field(S2MNDR, 28)),
    _mem("H5 2 DRS", Field(S2MDRS, 0), Field(S2MDRS, 40)),
    *_H_RESERVED,
)
_S2M_G: Final = (
    _DATA,
    *_G_CACHE,
    _mem("G4 DRS + 2 NDR", Field(S2MDRS, 0), Field(S2MNDR, 40, 98), Field(S2MNDR, 68)),
    _mem("G5 2 NDR", Field(S2MNDR, 0, 58), Field(S2MNDR, 28)),
    _mem("G6 3 DRS", Field(S2MDRS, 0), Field(S2MDRS, 40), Field(S2MDRS, 80)),
    _reserved("G7 reserved"),
)
LAYOUTS: Final = {Direction.M2S: (_M2S_H, _M2S_G), Direction.S2M: (_S2M_H, _S2M_G)}

# Codes of the formats that a memory device and its host send.
DATA: Final = 0
M2S_H_RWD: Final = 4
M2S_H_REQ: Final = 5
M2S_G_REQ: Final = 4
M2S_G_RWD: Final = 5
S2M_H_DRS_NDR: Final = 3
S2M_H_2NDR: Final = 4
S2M_H_2DRS: Final = 5
S2M_G_DRS_2NDR: Final = 4
S2M_G_2NDR: Final = 5
S2M_G_3DRS: Final = 6
EMPTY_G: Final = {Direction.M2S: M2S_G_REQ, Direction.S2M: S2M_G_2NDR}
"""Format of an empty slot 1..3, every Valid = 0."""

MAX_NDR: Final = 2
MAX_DRS: Final = 3
MAX_REQ: Final = 2
MAX_RWD: Final = 1
