# SPDX-License-Identifier: Apache-2.0
"""Unpackers of flit payloads into messages, for both directions (spec: link spec §3, §4, §6).

The slot formats drive the unpacker: every G0 slot takes the next chunk while data is owed, and if
more than 3 slots are owed the whole flit is data. Decoding never stops: a broken rule is reported
and decoding continues according to the formats.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from cocotbext.cxl.wire.assumptions import BE_SLOT_MASK, slot_to_be
from cocotbext.cxl.wire.flits import G_MASK, H_MASK, HEADER_RESERVED, Direction, line_of_chunks
from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    S2MNDR,
    M2SMessage,
    M2SReq,
    M2SRwD,
    RwdOp,
    S2MMessage,
)
from cocotbext.cxl.wire.slots import (
    LAYOUTS,
    M2S_G_REQ,
    MAX_NDR,
    MAX_REQ,
    S2M_G_2NDR,
    SlotUse,
)

MessageT = TypeVar("MessageT")
_RWD_CODES: Final = frozenset(int(op) for op in RwdOp)


class IssueKind(Enum):
    """Kind of a rule that a flit breaks; the device counts the first three kinds."""

    STRAY_DATA = "stray_data"
    CACHE_MESSAGE = "cache_message"
    PROTOCOL_ERROR = "protocol_error"
    RESERVED_BITS = "reserved_bits"  # a sender's fault that a receiver does not look at
    NOT_EMPTY_FORM = "not_empty_form"  # the same: an empty slot in another form than it should have


@dataclass(frozen=True, slots=True)
class Issue:
    """One rule that a flit breaks."""

    kind: IssueKind
    text: str


@dataclass(slots=True)
class FlitReport(Generic[MessageT]):
    """Result of unpacking one flit.

    Attributes:
        adf: whether it is an all-data flit.
        owed_before: data slots owed before the flit.
        owed_after: data slots owed after the flit.
        messages: messages that are complete with this flit, in order.
        misframed: those of them whose Sz / BE was illegal.
        issues: rules that the flit breaks.
        plain: valid headers without data that started in this flit; each uses a credit.
        data: valid headers with data that started in this flit; each uses a credit.
        header: the 32-bit flit header; 0 for an all-data flit.
        placements: (slot, format) of every slot with a valid header, for coverage.
    """

    adf: bool
    owed_before: int
    owed_after: int = 0
    messages: list[MessageT] = field(default_factory=list)
    misframed: list[MessageT] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    plain: int = 0
    data: int = 0
    header: int = 0
    placements: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Pending:
    """Message with data whose header has arrived, and its data slots so far.

    ``has_be``: a byte-enable slot is among them; ``legal``: Sz and BE of its flit were legal.
    """

    raw: int
    has_be: bool
    legal: bool
    chunks: list[int] = field(default_factory=list)


class Unpacker(Generic[MessageT]):
    """Base of both unpackers; a subclass defines the direction and builds messages with data."""

    direction: Direction
    max_plain: int
    plain_name: str
    _empty: int
    _plain: Callable[[int], MessageT]

    def __init__(self) -> None:
        self._h, self._g = LAYOUTS[self.direction]
        self._pending: deque[_Pending] = deque()
        self.owed = 0
        """Data slots still owed."""

    def reset(self) -> None:
        """Forget the messages whose data slots are still owed."""
        self._pending.clear()
        self.owed = 0

    def feed(self, payload: int) -> FlitReport[MessageT]:
        """Unpack the 512-bit payload of a good protocol or all-data flit; return the report.

        It is taken as all-data if more than 3 data slots are owed.
        """
        owed = self.owed
        report: FlitReport[MessageT] = FlitReport(owed > 3, owed)
        if owed > 3:
            for _ in range(4):
                self._take(payload & G_MASK, report)
                payload >>= 128
        else:
            self._protocol(payload, report)
        report.owed_after = self.owed
        return report

    def _protocol(self, payload: int, report: FlitReport[MessageT]) -> None:
        header = report.header = payload & 0xFFFF_FFFF
        issues = report.issues
        if header & HEADER_RESERVED:
            issues.append(Issue(IssueKind.RESERVED_BITS, "a reserved header bit is 1"))
        must = self.owed
        data_slots = 0
        for slot in range(4):
            code = header >> 5 + 3 * slot & 7
            if slot == 0:
                bits = payload >> 32 & H_MASK
                layout = self._h[code]
            else:
                bits = payload >> 128 * slot & G_MASK
                layout = self._g[code]
                if slot <= must and layout.use is not SlotUse.DATA:
                    text = f"slot {slot} is {layout.name} where {must} data slots are owed"
                    issues.append(Issue(IssueKind.PROTOCOL_ERROR, text))
            if layout.use is SlotUse.DATA:
                if self.owed:
                    self._take(bits, report)
                else:
                    issues.append(Issue(IssueKind.STRAY_DATA, f"slot {slot}: no data is owed"))
                continue
            if layout.use is SlotUse.RESERVED:
                issues.append(Issue(IssueKind.PROTOCOL_ERROR, f"slot {slot}: {layout.name}"))
                continue
            if bits & layout.cache_valid:
                issues.append(Issue(IssueKind.CACHE_MESSAGE, f"slot {slot}: {layout.name}"))
            if bits & layout.reserved:
                wrong = bits & layout.reserved
                text = f"slot {slot}: reserved bits {wrong:#x} of {layout.name} are 1"
                issues.append(Issue(IssueKind.RESERVED_BITS, text))
            valid = starts_data = False
            for entry in layout.fields:
                if bits >> entry.offset & 1:
                    valid = True
                    if not entry.with_data:
                        report.plain += 1
                        report.messages.append(self._plain(entry.extract(bits)))
                    else:
                        starts_data = True
                        report.data += 1
                        self._data_header(entry.extract(bits), header, report)
            if valid:
                report.placements.append((slot, code))
                if starts_data:
                    data_slots += 1
            elif slot and code != self._empty:
                issues.append(Issue(IssueKind.NOT_EMPTY_FORM, f"slot {slot}: empty {layout.name}"))
        if report.plain > self.max_plain:
            text = f"{report.plain} {self.plain_name} in a flit"
            issues.append(Issue(IssueKind.PROTOCOL_ERROR, text))
        if data_slots > 1:
            text = f"{report.data} data headers in {data_slots} slots of a flit"
            issues.append(Issue(IssueKind.PROTOCOL_ERROR, text))

    def _take(self, chunk: int, report: FlitReport[MessageT]) -> None:
        entry = self._pending[0]
        entry.chunks.append(chunk)
        self.owed -= 1
        if len(entry.chunks) == 4 + entry.has_be:
            self._pending.popleft()
            message = self._finish(entry, report)
            report.messages.append(message)
            if not entry.legal:
                report.misframed.append(message)

    def _owe(self, raw: int, has_be: bool, legal: bool) -> None:
        self._pending.append(_Pending(raw, has_be, legal))
        self.owed += 4 + has_be

    def _data_header(self, raw: int, header: int, report: FlitReport[MessageT]) -> None:
        raise NotImplementedError

    def _finish(self, entry: _Pending, report: FlitReport[MessageT]) -> MessageT:
        raise NotImplementedError


class M2SUnpacker(Unpacker[M2SMessage]):
    """Unpacker of the device: unpacks Req and RwD messages."""

    direction = Direction.M2S
    max_plain = MAX_REQ
    plain_name = "Req"
    _empty = M2S_G_REQ
    _plain = M2SReq.unpack

    def _data_header(self, raw: int, header: int, report: FlitReport[M2SMessage]) -> None:
        has_be, sz = bool(header & 8), bool(header & 16)
        opcode = raw >> 1 & 15
        # An unsupported opcode may have byte enables or not: it has no effect.
        wrong_be = has_be != (opcode == RwdOp.MEM_WR_PTL) and opcode in _RWD_CODES
        if not sz or wrong_be:
            text = f"RwD of opcode {opcode} with Sz={sz:d} BE={has_be:d}"
            report.issues.append(Issue(IssueKind.PROTOCOL_ERROR, text))
        # M2S data is always 64 bytes: Sz = 0 does not shorten it.
        self._owe(raw, has_be, sz and not wrong_be)

    def _finish(self, entry: _Pending, report: FlitReport[M2SMessage]) -> M2SMessage:
        be = BE_ALL
        if entry.has_be:
            slot = entry.chunks[4]
            be = slot_to_be(slot)
            if slot & ~BE_SLOT_MASK:
                report.issues.append(
                    Issue(IssueKind.RESERVED_BITS, "reserved bits of a byte-enable slot are 1")
                )
        return M2SRwD.unpack(entry.raw, line_of_chunks(entry.chunks), be)


class S2MUnpacker(Unpacker[S2MMessage]):
    """Unpacker of the host: unpacks NDR and DRS messages."""

    direction = Direction.S2M
    max_plain = MAX_NDR
    plain_name = "NDR"
    _empty = S2M_G_2NDR
    _plain = S2MNDR.unpack

    def _data_header(self, raw: int, header: int, report: FlitReport[S2MMessage]) -> None:
        legal = header & 24 == 16
        if not legal:
            text = f"DRS with Sz={header >> 4 & 1} BE={header >> 3 & 1}"
            report.issues.append(Issue(IssueKind.PROTOCOL_ERROR, text))
        self._owe(raw, False, legal)

    def _finish(self, entry: _Pending, report: FlitReport[S2MMessage]) -> S2MMessage:
        return S2MDRS.unpack(entry.raw, line_of_chunks(entry.chunks))
