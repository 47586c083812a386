# SPDX-License-Identifier: Apache-2.0
"""Protocol ID, protocol flit header, credit nibbles and slot positions (spec: link spec §1, §3).

A flit is a 528-bit int (payload [511:0], CRC [527:512]), a payload a 512-bit int. Slot k is bits
[128k+127:128k]; slot 0 shares its lowest 32 bits with the header. Slot layouts are in ``slots``,
control flits in ``control``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Final

from cocotbext.cxl.wire.messages import FLAG, Fields

WireFlit = tuple[int, int]
"""Protocol ID and 528-bit flit."""
H_BITS: Final = 96
G_BITS: Final = 128
H_MASK: Final = (1 << H_BITS) - 1
G_MASK: Final = (1 << G_BITS) - 1
CREDIT_SIZES: Final = (0, 1, 2, 4, 8, 16, 32, 64)


class Direction(Enum):
    """Direction of a message: M2S to the device, S2M from the device."""

    M2S = "M2S"
    S2M = "S2M"


# ------------------------------------------------------------------------------ protocol ID


class ProtocolCode(IntEnum):
    """8-bit protocol codes; a Protocol ID is the same code twice. Codes _EDS end a data stream."""

    CACHEMEM = 0x55
    CACHEMEM_EDS = 0x87
    NULL = 0x99
    NULL_EDS = 0x4B
    IO = 0xFF
    IO_EDS = 0xD2
    ALMP = 0xCC
    ALMP_EDS = 0x1E

    @property
    def word(self) -> int:
        """Return the 16-bit Protocol ID: the code in both bytes."""
        return int(self) * 0x101

    @property
    def is_cachemem(self) -> bool:
        """Return True if the flit belongs to the CXL.cachemem link layer."""
        return self in (ProtocolCode.CACHEMEM, ProtocolCode.CACHEMEM_EDS)

    @property
    def is_null(self) -> bool:
        """Return True for NULL and NULL_EDS, whose flits are dropped silently."""
        return self in (ProtocolCode.NULL, ProtocolCode.NULL_EDS)


@dataclass(frozen=True, slots=True)
class ProtocolId:
    """Decoded 16-bit Protocol ID.

    ``code`` is None if it is uncorrectable; ``corrected`` is True if one half was bad.
    """

    code: ProtocolCode | None
    corrected: bool = False


_CODES: Final = {int(code): code for code in ProtocolCode}


@lru_cache(maxsize=4096)
def decode_protocol_id(word: int) -> ProtocolId:
    """Decode a Protocol ID: one good half decides; two bad or two different halves give no code."""
    low, high = _CODES.get(word & 0xFF), _CODES.get(word >> 8)
    if low is not None and high is not None:
        return ProtocolId(low if low is high else None)
    code = low if low is not None else high
    return ProtocolId(code, corrected=code is not None)


# ------------------------------------------------------------------------------ credits


def encode_credit(count: int) -> int:
    """Return the 4-bit credit nibble for ``count`` CXL.mem credits.

    Raises:
        ValueError: ``count`` is none of 0, 1, 2, 4, 8, 16, 32, 64.
    """
    if count == 0:
        return 0
    if count not in CREDIT_SIZES:
        raise ValueError(f"{count} credits have no code")
    return 8 | count.bit_length()


def decode_credit(nibble: int) -> int:
    """Return the number of CXL.mem credits in a credit nibble; 0 for a CXL.cache nibble."""
    return CREDIT_SIZES[nibble & 7] if nibble & 8 else 0


def is_cache_credit(nibble: int) -> bool:
    """Return True if a credit nibble returns CXL.cache credits, which a memory device ignores."""
    return not nibble & 8 and bool(nibble & 7)


def largest_credit(pending: int) -> int:
    """Return the largest number of credits that a nibble can encode and that is <= ``pending``."""
    return 0 if pending <= 0 else min(64, 1 << pending.bit_length() - 1)


# ------------------------------------------------------------------------------ header


@dataclass(frozen=True, slots=True)
class FlitHeader:
    """Header of a protocol flit; the credit fields are 4-bit nibbles of the wire, not counts."""

    ak: bool = False
    be: bool = False
    sz: bool = False
    slots: tuple[int, int, int, int] = (0, 0, 0, 0)
    rsp_crd: int = 0
    req_crd: int = 0
    data_crd: int = 0

    def encode(self) -> int:
        """Return the 32-bit header with Type = 0.

        Raises:
            ValueError: a slot format or a credit nibble does not fit.
        """
        if any(s >> 3 for s in self.slots):
            raise ValueError(f"slot formats {self.slots} do not fit in 3 bits each")
        formats = sum(code << 5 + 3 * slot for slot, code in enumerate(self.slots))
        return formats | _HEADER.pack(self)

    @staticmethod
    def decode(word: int) -> FlitHeader:
        """Invert encode(); Type and the reserved bits are ignored."""
        one, two, three, four = (word >> 5 + 3 * slot & 7 for slot in range(4))
        return FlitHeader(slots=(one, two, three, four), **_HEADER.unpack(word))


_NIBBLE: Final = range(16)
_HEADER: Final = Fields(
    ak=(2, FLAG),
    be=(3, FLAG),
    sz=(4, FLAG),
    rsp_crd=(20, _NIBBLE),
    req_crd=(24, _NIBBLE),
    data_crd=(28, _NIBBLE),
)
HEADER_RESERVED: Final = 1 << 1 | 7 << 17
"""Header bits that a sender leaves 0."""


def is_control(payload: int) -> bool:
    """Return True if the payload's Type bit is 1: a control flit. Not for all-data flits."""
    return bool(payload & 1)


def slot_bits(payload: int, slot: int) -> int:
    """Return the 96 (slot 0) or 128 (slots 1..3) bits of one slot."""
    return payload >> 32 & H_MASK if slot == 0 else payload >> 128 * slot & G_MASK


# ------------------------------------------------------------------------------ data


def chunks_of_line(data: bytes) -> list[int]:
    """Return the four 128-bit chunks of a 64-byte line: byte i of a chunk is byte i of its slot."""
    line = int.from_bytes(data, "little")
    return [line & G_MASK, line >> 128 & G_MASK, line >> 256 & G_MASK, line >> 384]


def line_of_chunks(chunks: list[int]) -> bytes:
    """Return the 64-byte line of the first four 128-bit chunks; inverts chunks_of_line()."""
    line = chunks[0] | chunks[1] << 128 | chunks[2] << 256 | chunks[3] << 384
    return line.to_bytes(64, "little")
