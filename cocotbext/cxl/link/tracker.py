# SPDX-License-Identifier: Apache-2.0
"""Link tracker: checks both directions of the link from the pins alone, without a simulator.

The tracker decodes every flit with its own unpackers, independent of driver and device. It follows
initialisation, acknowledgements, credits, retry and the pairing of requests and responses, and
lists every broken rule in ``errors`` (spec: link spec §1 to §9).

Rules by name: protocol_id, crc, init, static_bits, control, framing (one per IssueKind), message,
credit, credit_field, ack, retry, replay, response, end. A ``waive(rule, direction)`` callback that
returns True moves an error to ``waived``.
"""

from collections import Counter
from collections.abc import Callable, Collection

from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind, Way
from cocotbext.cxl.link.retry import FRAMES
from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    decode_control,
    is_retryable,
)
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, crc16, crc_ok
from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.flits import (
    Direction,
    decode_credit,
    decode_protocol_id,
    is_cache_credit,
    is_control,
)
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    Completion,
    M2SReq,
    M2SRwD,
    Message,
    MetaField,
    S2MMessage,
    completion_of,
)
from cocotbext.cxl.wire.unpack import IssueKind, M2SUnpacker, S2MUnpacker

__all__ = ["FlitEvent", "FlitKind", "LinkTracker"]

_KEPT = 512  # retryable flits that a replay is compared with
_QUIET = 200  # clocks of silence after which every acknowledgement must have come
_IN_FLIGHT = 4  # flits that a falling phy_up may catch between the pins and the receiver


# Pairing of responses with requests: by (tag, LD-ID) within NDR and DRS (spec: link spec §5).

Key = tuple[bool, int, int]
"""True for DRS, False for NDR; tag; LD-ID."""


def key_of(message: S2MMessage) -> Key:
    """Return the key (is DRS, tag, LD-ID) of the request that a response answers."""
    return isinstance(message, S2MDRS), message.tag, message.ldid


def channel(is_drs: bool) -> str:
    """Return the name of the channel of a response."""
    return "DRS" if is_drs else "NDR"


def stray(message: S2MMessage, owed: Collection[Key]) -> str:
    """Return why a response matches none of the requests that are owed one, with the response.

    The reason is the wrong channel (NDR or DRS), the wrong LD-ID, or a tag that no request has.
    """
    is_drs, tag, ldid = key_of(message)
    if (not is_drs, tag, ldid) in owed:
        why = f"{channel(is_drs)} in place of the {channel(not is_drs)} that is owed"
    elif others := sorted(key[2] for key in owed if key[:2] == (is_drs, tag)):
        why = f"wrong LD-ID: {ldid}, where LD-ID {others[0]} is owed this response"
    else:
        why = "wrong tag, or a second response: nobody waits for it"
    return f"{why}: {describe_message(message)}"


class LinkTracker:
    """Checker of the link rules, from the flits on the pins alone.

    Pass it every valid flit of both directions in order of time; of two flits in one clock, the M2S
    one first.
    """

    def __init__(
        self,
        retry: bool = False,
        waive: Callable[[str, str], bool] | None = None,
        device_wrap: int | None = None,
        on_error: Callable[[int, str, str], None] | None = None,
    ) -> None:
        self.retry = retry
        self.device_wrap = device_wrap
        self._waive = waive
        self._on_error = on_error  # (clock, explanation, data), when it is found
        self.errors: list[str] = []
        self.waived: list[str] = []
        self.cycle = 0
        self.reset()

    def reset(self) -> None:
        """Forget the state of the link and the device counters; lists of errors stay."""
        m2s = Way(Direction.M2S, M2SUnpacker())
        s2m = Way(Direction.S2M, S2MUnpacker())
        self.m2s, self.s2m = m2s, s2m
        self.outstanding: Counter[Key] = Counter()
        """Owed responses, by (True for DRS, tag, LD-ID)."""
        self.counters: Counter[str] = Counter()
        """Expected link counters of the device, by register name (flits, not slots)."""

    def _error(self, way: Way, rule: str, text: str, data: str = "") -> None:
        text = f"{way.direction.value} {rule}: {text}"
        line = f"clock {self.cycle}: {text}" + (f": {data}" if data else "")
        if self._waive is not None and self._waive(rule, way.direction.value):
            self.waived.append(line)
            return
        self.errors.append(line)
        if self._on_error is not None:
            self._on_error(self.cycle, text, data)

    def phy_down(self) -> None:
        """Record that phy_up fell: the device then accepts nothing before a RETRY.Ack."""
        way = self.m2s
        if self.retry and way.clean_seen:
            way.frozen = way.uncertain = True
            way.frames = way.since_loss = 0
            way.requests.clear()  # the device asks again before it takes anything

    # -------------------------------------------------------------------------- flits

    def observe(self, direction: Direction, protocol_id: int, flit: int, cycle: int) -> FlitEvent:
        """Check a flit that was transferred in clock ``cycle``; return it as an event."""
        self.cycle = cycle
        way, other = self.m2s, self.s2m
        if direction is Direction.S2M:
            way, other = other, way
        event = FlitEvent(direction, cycle, protocol_id, flit, FlitKind.PROTOCOL, way.unpacker.owed)
        self._count(way, "RX_FLIT" if way is self.m2s else "TX_FLIT")
        pid = decode_protocol_id(protocol_id)
        if pid.corrected:
            self._error(way, "protocol_id", f"{protocol_id:04X} has one bad half")
            self._count(way, "PID_CORRECTABLE")
        if pid.code is None:
            self._error(way, "protocol_id", f"{protocol_id:04X} is no Protocol ID")
            self._count(way, "PID_UNCORRECTABLE")
            return self._lost(way, event, FlitKind.BAD_ID)
        if not pid.code.is_cachemem:
            event.kind = FlitKind.NULL
            if not pid.code.is_null:
                event.kind = FlitKind.UNEXPECTED
                self._error(way, "protocol_id", f"{pid.code.name} on a CXL.mem link")
                self._count(way, "PID_UNEXPECTED")
            return event
        if not crc_ok(flit):
            text = f"the flit has CRC {flit >> 512:04X}, not {crc16(flit & PAYLOAD_MASK):04X}"
            self._error(way, "crc", text, f"{flit:0132x}")
            self._count(way, "CRC_ERROR")
            return self._lost(way, event, FlitKind.BAD_CRC)
        way.clean_seen = True
        way.since_loss += 1
        payload = flit & PAYLOAD_MASK
        if not way.frozen and way.cursor < way.accepted and way.log.get(way.cursor) == flit:
            # This comes first because a replayed all-data flit may look like a control flit.
            event.number = way.cursor
            way.cursor += 1
            way.frames = 0
            event.kind = FlitKind.REPLAYED
            return event
        if is_control(payload) and (way.frozen or way.unpacker.owed <= 3):
            return self._control(way, other, payload, event)
        self._end_of_frames(way)
        if way.frozen:
            event.kind = FlitKind.DISCARDED
            return event
        if self._accept(way, other, flit, None):
            event.number = way.accepted - 1
            self._protocol(way, other, payload, event)
        return event

    def _count(self, way: Way, name: str) -> None:
        if way is self.m2s or name == "TX_FLIT":
            self.counters[name] += 1

    def _lost(self, way: Way, event: FlitEvent, kind: FlitKind) -> FlitEvent:
        event.kind = kind
        way.frames = way.since_loss = 0
        if self.retry:
            way.frozen = True
        return event

    def _accept(self, way: Way, other: Way, flit: int, control: ControlFlit | None) -> bool:
        """Record a good retryable flit; False if it breaks a replay or precedes INIT.Param."""
        if way.cursor < way.accepted:
            text = f"flit {way.cursor} is another one than when it was sent first"
            self._error(
                way, "replay", text, f"{way.log.get(way.cursor, 0):0132x}, now {flit:0132x}"
            )
            way.cursor = way.accepted
            return False
        if isinstance(control, InitParam):
            if way.param_seen:
                self._error(way, "init", f"a second INIT.Param, {control}")
                self._count(way, "PROTOCOL_ERROR")
            if not other.clean_seen:
                self._error(way, "init", "INIT.Param before a clean flit has come")
        elif not (way.param_seen and other.param_seen):
            self._error(way, "init", "neither RETRY nor INIT.Param before the end of INIT")
            if not way.param_seen:
                self._count(way, "PROTOCOL_ERROR")
                return False  # its receiver does not take it
        way.log[way.accepted] = flit
        way.log.pop(way.accepted - _KEPT, None)
        way.accepted += 1
        way.cursor = way.accepted
        way.last = self.cycle
        return True

    # -------------------------------------------------------------------------- protocol flits

    def _protocol(self, way: Way, other: Way, payload: int, event: FlitEvent) -> None:
        report = event.report = way.unpacker.feed(payload)
        if report.adf:
            event.kind = FlitKind.DATA
        else:
            self._acknowledge(way, other, 8 * (payload >> 2 & 1))
            self._credits(way, other, payload)
            if way is self.s2m and payload & 8 and not report.data:
                self._error(
                    way, "framing", "BE = 1 on a flit without data header", f"{payload:0128x}"
                )
        kinds = set()
        for issue in report.issues:
            kinds.add(issue.kind)
            self._error(way, "framing", f"{issue.kind.value}: {issue.text}")
        if way is self.m2s:
            for kind in (IssueKind.STRAY_DATA, IssueKind.CACHE_MESSAGE, IssueKind.PROTOCOL_ERROR):
                if kind in kinds:
                    self._count(way, kind.value.upper())
        way.plain -= report.plain
        way.data -= report.data
        if way.plain < 0 or way.data < 0:
            text = f"{report.plain} + {report.data} headers leave {way.plain} / {way.data} credits"
            self._error(way, "credit", text)
            way.plain, way.data = max(way.plain, 0), max(way.data, 0)
        for message in report.messages:
            self._message(way, message)

    def _message(self, way: Way, message: Message) -> None:
        if isinstance(message, M2SReq | M2SRwD):
            kind = completion_of(message)
            if kind is not Completion.NONE:
                self.outstanding[kind is Completion.DRS, message.tag, message.ldid] += 1
            return
        for text in message.check():
            self._error(way, "message", f"{text}: {describe_message(message)}")
        if message.meta_field != MetaField.NO_OP:
            self._error(way, "message", f"MetaField is not No-Op: {describe_message(message)}")
        key = key_of(message)
        if not self.outstanding[key]:
            self._error(way, "response", stray(message, self.outstanding.keys()))
            return
        self.outstanding[key] -= 1
        if not self.outstanding[key]:
            del self.outstanding[key]

    def _acknowledge(self, way: Way, other: Way, count: int) -> None:
        other.acked += count
        if other.acked > other.accepted:
            text = f"{other.acked} flits acknowledged, {other.accepted} were sent"
            self._error(way, "ack", text)
            other.acked = other.accepted

    def _credits(self, way: Way, other: Way, header: int) -> None:
        foreign, own = (24, 20) if way is self.m2s else (20, 24)
        for shift in (20, 24, 28):
            nibble = header >> shift & 15
            if not nibble & 7:
                continue
            if is_cache_credit(nibble):
                self._error(way, "credit_field", f"CXL.cache credits, nibble {nibble:X}")
            elif shift == foreign:
                self._error(way, "credit_field", f"credits of no channel, nibble {nibble:X}")
            elif shift == own:
                other.plain += decode_credit(nibble)
            else:
                other.data += decode_credit(nibble)

    # -------------------------------------------------------------------------- control flits

    def _control(self, way: Way, other: Way, payload: int, event: FlitEvent) -> FlitEvent:
        control, wrong = decode_control(payload)
        event.kind, event.control = FlitKind.CONTROL, control
        if way.frozen and (wrong or is_retryable(control)):
            event.kind = FlitKind.DISCARDED
            way.frames = 0
            return event
        for text in wrong:
            self._error(way, "static_bits", text)
        if wrong:
            self._count(way, "PROTOCOL_ERROR")
            return self._lost(way, event, FlitKind.CONTROL)
        if isinstance(control, RetryIdle):
            self._end_of_frames(way)
        elif isinstance(control, RetryFrame | RetryReq | RetryAck):
            if not self.retry:
                self._error(way, "retry", f"{control} on a link without retry")
            self._retry(way, other, control)
        else:
            self._end_of_frames(way)
            if self._accept(way, other, event.flit, control):
                event.number = way.accepted - 1
                self._retryable(way, other, control, payload)
        return event

    def _retryable(self, way: Way, other: Way, control: ControlFlit, payload: int) -> None:
        if isinstance(control, InitParam):
            way.param_seen = True
            way.wrap = control.wrap
            if way is self.s2m and self.device_wrap not in (None, control.wrap):
                self._error(way, "init", f"wrap {control.wrap}, not {self.device_wrap}")
        elif isinstance(control, Llcrd):
            self._acknowledge(way, other, control.ack)
            self._credits(way, other, payload)

    def _end_of_frames(self, way: Way) -> None:
        frames, way.frames = way.frames, 0
        if frames and way.since_loss > FRAMES + 1:
            self._error(way, "retry", f"{frames} RETRY.Frame without RETRY.Req or RETRY.Ack")

    def _retry(self, way: Way, other: Way, control: ControlFlit) -> None:
        if isinstance(control, RetryFrame):
            way.frames += 1
            return
        frames, way.frames = way.frames, 0
        if frames < FRAMES:
            # It was never sent, unless a RETRY.Frame was lost on the wire.
            if way.since_loss > FRAMES + 1:
                self._error(way, "retry", f"{control} after {frames} RETRY.Frame")
            return
        if isinstance(control, RetryReq):
            other.requests.append(control)
            expected = other.accepted % (other.wrap + 1)
            # The tracker knows what the device received, because it sees the device's pins.
            late = (expected - control.eseq) % (other.wrap + 1)
            if way is self.s2m and control.num_retry > 1 and control.eseq == other.asked:
                other.frozen, late = True, 0  # the last RETRY.Ack came too late for the device
            other.asked = control.eseq
            if way is self.s2m and late > (_IN_FLIGHT if other.uncertain else 0):
                text = f"RETRY.Req from {control.eseq}, the device has accepted up to {expected}"
                self._error(way, "retry", text)
        elif isinstance(control, RetryAck):
            self._replay_from(way, control)

    def _replay_from(self, way: Way, ack: RetryAck) -> None:
        if not way.requests:
            self._error(way, "retry", f"{ack} without a RETRY.Req")
            return
        # A request that a time-out or a retrain has superseded may still be answered.
        echo = (ack.eseq, ack.num_retry)
        matching = [r for r in way.requests if (r.eseq, r.num_retry) == echo]
        request = matching[-1] if matching else way.requests[-1]
        if not matching:
            self._error(way, "retry", f"{ack} answers {request}")
        del way.requests[: way.requests.index(request) + 1]
        way.uncertain = False
        way.frozen = False
        back = (way.accepted - request.eseq) % (way.wrap + 1)
        way.cursor = max(way.accepted - back, 0)
        if ack.empty != (ack.wr_ptr == ack.eseq):
            self._error(way, "retry", f"Empty = {ack.empty:d} in {ack}")

    # -------------------------------------------------------------------------- the end

    @property
    def idle(self) -> bool:
        """Return True if no response is owed and no data slot is owed in either direction."""
        return not self.outstanding and not self.m2s.unpacker.owed and not self.s2m.unpacker.owed

    def finish(self, cycle: int) -> None:
        """Add an error for everything still owed at the end of a test, in clock ``cycle``."""
        self.cycle = cycle
        for (is_drs, tag, ldid), count in self.outstanding.items():
            text = f"{count} {channel(is_drs)} owed for tag {tag:04X} LD-ID {ldid}"
            self._error(self.s2m, "end", text)
        for way, other in ((self.m2s, self.s2m), (self.s2m, self.m2s)):
            if way.unpacker.owed:
                self._error(way, "end", f"{way.unpacker.owed} data slots are owed")
            quiet = cycle - max(way.last, other.last)
            if quiet > _QUIET and way.accepted - way.acked > 1:
                text = f"{way.accepted - way.acked} flits are not acknowledged"
                self._error(other, "ack", text)
