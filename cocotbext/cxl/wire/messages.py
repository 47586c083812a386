# SPDX-License-Identifier: Apache-2.0
"""CXL.mem messages: fields, field codes, bit layouts, legality (spec: link spec §5).

Every message is a frozen dataclass. ``pack()`` returns the header bits as an int with Valid = 1;
data and byte enables travel in separate slots. ``unpack(raw)`` is its inverse and never fails: a
reserved opcode stays a plain int, a known one becomes its enum member. ``check()`` lists violations
by a sender, one text each; an empty list means legal.

Addresses are byte addresses (0 .. 2**52 - 1). pack() raises ValueError for values that do not fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Any, ClassVar, Final, Self

# Byte ranges of any alignment as lines of 64 bytes with byte enables (spec: link spec §5).

LINE_BYTES: Final = 64
ADDR_BITS: Final = 52


def lines_of(address: int, length: int) -> Iterator[tuple[int, int, int]]:
    """Yield the 64-byte lines that ``length`` bytes from byte ``address`` on touch.

    Each is (address of the line, first byte in the line, number of bytes).

    Raises:
        ValueError: the range exceeds the 2**52 bytes that a message can address.
    """
    end = address + length
    if address < 0 or length < 0 or end > 1 << ADDR_BITS:
        raise ValueError(f"{length} bytes from {address:#x} do not fit in {ADDR_BITS} address bits")
    return _lines(address, end)


def _lines(address: int, end: int) -> Iterator[tuple[int, int, int]]:
    while address < end:
        first = address % LINE_BYTES
        size = min(LINE_BYTES - first, end - address)
        yield address - first, first, size
        address += size


def byte_enables(first: int, size: int) -> int:
    """Return the 64-bit byte enables of ``size`` bytes from byte ``first`` of a line on."""
    return ((1 << size) - 1) << first


# Bit fields of headers as a table (spec: link spec §3, §5, §7).

FLAG: Final = (False, True)


class Fields:
    """Table of named bit fields in an integer: lowest bit of each, and the value of each code.

    ``range(16)`` is a field of 4 bits, ``range(0, 1 << 52, 32)`` an address whose bits [4:0] are
    not sent, FLAG a bool.
    """

    def __init__(self, **places: tuple[int, Sequence[int]]) -> None:
        self._reads = [
            (name, low, len(values) - 1, values) for name, (low, values) in places.items()
        ]
        self._writes = [
            (name, low, values[-1].bit_length(), int(values[1]).bit_length() - 1)
            for name, (low, values) in places.items()
        ]
        self.live = sum(len(values) - 1 << low for low, values in places.values())
        """Mask of the bits that may be 1."""

    def places(self) -> list[tuple[str, int, int]]:
        """Return name, lowest bit and number of bits of each field."""
        return [(name, low, mask.bit_length()) for name, low, mask, _ in self._reads]

    def pack(self, holder: object) -> int:
        """Return an integer with the attributes of ``holder`` in their fields.

        Raises:
            ValueError: an attribute does not fit or is not aligned; the text names it.
        """
        raw = 0
        for name, low, bits, shift in self._writes:
            value: int = getattr(holder, name)
            if value >> bits:
                raise ValueError(f"{name} = {value:#x} does not fit in {bits} bits")
            if shift and value & (1 << shift) - 1:
                raise ValueError(f"{name} = {value:#x} is not aligned to {1 << shift} bytes")
            raw |= value >> shift << low
        return raw

    def unpack(self, raw: int) -> dict[str, Any]:
        """Return the values of the fields by name; bits between the fields are ignored."""
        return {name: values[raw >> low & mask] for name, low, mask, values in self._reads}


BE_ALL: Final = (1 << 64) - 1
ZERO_LINE: Final = bytes(LINE_BYTES)


class ReqOp(IntEnum):
    """M2S Req opcodes (4 bits)."""

    MEM_INV = 0
    MEM_RD = 1
    MEM_RD_DATA = 2
    MEM_RD_FWD = 3
    MEM_WR_FWD = 4
    MEM_SPEC_RD = 8
    MEM_INV_NT = 9


class RwdOp(IntEnum):
    """M2S RwD opcodes (4 bits)."""

    MEM_WR = 1
    MEM_WR_PTL = 2


class NdrOp(IntEnum):
    """S2M NDR opcodes (3 bits)."""

    CMP = 0
    CMP_S = 1
    CMP_E = 2


class DrsOp(IntEnum):
    """S2M DRS opcodes (3 bits)."""

    MEM_DATA = 0


class DevLoad(IntEnum):
    """Load of the device, reported in every response."""

    LIGHT = 0
    OPTIMAL = 1
    MODERATE = 2
    SEVERE = 3


class MetaField(IntEnum):
    """Metadata field that a message accesses."""

    META0_STATE = 0
    NO_OP = 3


class MetaValue(IntEnum):
    """Metadata value (a coherence state)."""

    INVALID = 0
    ANY = 2
    SHARED = 3


class SnpType(IntEnum):
    """Snoop type of an M2S message."""

    NO_OP = 0
    SNP_DATA = 1
    SNP_CUR = 2
    SNP_INV = 3


class Completion(Enum):
    """Kind of response that a request is owed."""

    NONE = "none"
    NDR = "ndr"
    DRS = "drs"


def _codes(kind: type[IntEnum], bits: int) -> tuple[int, ...]:
    """Return a table of all codes of ``bits`` bits: the enum member if it exists, else the int."""
    known = {int(member): member for member in kind}
    return tuple(known.get(code, code) for code in range(1 << bits))


def _fields(meta: int, /, **places: tuple[int, Sequence[int]]) -> Fields:
    """Return the fields of a message; the common fields start at bit ``meta``."""
    return Fields(
        meta_field=(meta, _codes(MetaField, 2)),
        meta_value=(meta + 2, _codes(MetaValue, 2)),
        tag=(meta + 4, range(1 << 16)),
        **places,
    )


class _Message:
    """Base of all four kinds of messages; ``FIELDS`` are the header fields without Valid."""

    __slots__ = ()
    NAME: ClassVar[str]
    OPCODES: ClassVar[frozenset[int]]
    FIELDS: ClassVar[Fields]
    opcode: int
    tag: int
    ldid: int
    meta_field: int
    meta_value: int

    def pack(self) -> int:
        """Return the header bits as an integer with Valid = 1, without data and byte enables.

        Raises:
            ValueError: a field does not fit or addr is not aligned.
        """
        return 1 | self.FIELDS.pack(self)

    @classmethod
    def unpack(cls, raw: int, *slots: bytes | int) -> Self:
        """Return the message of the header bits ``raw``; Valid and the reserved bits are ignored.

        ``slots`` are its data (64 bytes) and byte enables, which travel in separate slots.
        """
        fields = cls.FIELDS.unpack(raw)
        if slots:
            fields.update(zip(("data", "be"), slots, strict=False))
        return cls(**fields)

    def check(self) -> list[str]:
        """Return the rules that a sender of this message breaks, one text each; [] if legal."""
        out = []
        if self.meta_field not in frozenset(MetaField):
            out.append(f"MetaField {self.meta_field:02b} is reserved")
        elif self.meta_field == MetaField.META0_STATE and self.meta_value == 1:
            out.append("MetaValue 01 is reserved")
        if self.opcode not in self.OPCODES:
            out.append(f"{self.NAME} opcode {self.opcode} is reserved")
        snp_type: int = getattr(self, "snp_type", SnpType.NO_OP)
        if snp_type > 3:
            out.append(f"SnpType {snp_type} is reserved")
        size = len(getattr(self, "data", ZERO_LINE))
        if size != LINE_BYTES:
            out.append(f"{self.NAME} carries {size} bytes, not {LINE_BYTES}")
        return out


@dataclass(frozen=True, slots=True)
class _M2S(_Message):
    opcode: int
    tag: int
    addr: int
    ldid: int = 0
    snp_type: int = SnpType.NO_OP
    meta_field: int = MetaField.NO_OP
    meta_value: int = MetaValue.INVALID
    tc: int = 0

    def with_tag(self, tag: int) -> Self:
        """Return the same request with another tag."""
        return replace(self, tag=tag)


_M2S_PLACES: Final = {
    "snp_type": (5, _codes(SnpType, 3)),
    "tc": (75, range(4)),
    "ldid": (77, range(16)),
}


@dataclass(frozen=True, slots=True)
class M2SReq(_M2S):
    """M2S Request without data; ``addr`` is a byte address whose bits [4:0] are not sent."""

    NAME = "Req"
    OPCODES = frozenset(ReqOp)
    FIELDS = _fields(
        8, opcode=(1, _codes(ReqOp, 4)), addr=(28, range(0, 1 << ADDR_BITS, 32)), **_M2S_PLACES
    )


@dataclass(frozen=True, slots=True)
class M2SRwD(_M2S):
    """M2S Request with Data: one line of 64 bytes; ``be`` bit i enables byte i (MemWrPtl only)."""

    NAME = "RwD"
    OPCODES = frozenset(RwdOp)
    FIELDS = _fields(
        8,
        opcode=(1, _codes(RwdOp, 4)),
        addr=(28, range(0, 1 << ADDR_BITS, LINE_BYTES)),
        poison=(74, FLAG),
        **_M2S_PLACES,
    )
    data: bytes = field(default=ZERO_LINE)
    be: int = BE_ALL
    poison: bool = False

    @property
    def carries_be(self) -> bool:
        """Return True for MemWrPtl, whose data chunks are followed by a byte-enable slot."""
        return self.opcode == RwdOp.MEM_WR_PTL

    def check(self) -> list[str]:
        # Not super(): with slots=True the decorator creates a new class.
        out = _M2S.check(self)
        if self.be != BE_ALL and not self.carries_be:
            out.append("byte enables on an opcode that has none")
        return out


@dataclass(frozen=True, slots=True)
class S2MNDR(_Message):
    """S2M response without data."""

    NAME = "NDR"
    OPCODES = frozenset(NdrOp)
    FIELDS = _fields(
        4, opcode=(1, _codes(NdrOp, 3)), ldid=(24, range(16)), devload=(28, _codes(DevLoad, 2))
    )
    opcode: int
    tag: int
    ldid: int = 0
    devload: int = DevLoad.LIGHT
    meta_field: int = MetaField.NO_OP
    meta_value: int = MetaValue.INVALID


@dataclass(frozen=True, slots=True)
class S2MDRS(_Message):
    """S2M response with data: one line of 64 bytes."""

    NAME = "DRS"
    OPCODES = frozenset(DrsOp)
    FIELDS = _fields(
        4,
        opcode=(1, _codes(DrsOp, 3)),
        poison=(24, FLAG),
        ldid=(25, range(16)),
        devload=(29, _codes(DevLoad, 2)),
    )
    opcode: int
    tag: int
    ldid: int = 0
    devload: int = DevLoad.LIGHT
    poison: bool = False
    data: bytes = field(default=ZERO_LINE)
    meta_field: int = MetaField.NO_OP
    meta_value: int = MetaValue.INVALID


M2SMessage = M2SReq | M2SRwD
S2MMessage = S2MNDR | S2MDRS
Message = M2SReq | M2SRwD | S2MNDR | S2MDRS

_READ_LIKE: Final = frozenset((ReqOp.MEM_RD, ReqOp.MEM_RD_DATA, ReqOp.MEM_RD_FWD))


def completion_of(message: M2SMessage) -> Completion:
    """Return the kind of response that the device owes for a request (spec: link spec §5).

    MemSpecRd is owed none. Unsupported opcodes are answered too: a read-like one (MemRdFwd) by a
    DRS, others by an NDR.
    """
    if isinstance(message, M2SRwD):
        return Completion.NDR
    if message.opcode in _READ_LIKE:
        return Completion.DRS
    if message.opcode == ReqOp.MEM_SPEC_RD:
        return Completion.NONE
    return Completion.NDR
