# SPDX-License-Identifier: Apache-2.0
"""Link partner: initialisation, credits, acknowledgements and retry at one end of the link.

One call of ``next_flit`` or ``stall`` is one clock of the sender. ``receive`` takes a flit from the
wire and returns the messages that it completes. Both ends are the same machine with the channels
swapped, so a HostLink and a DeviceLink can be connected directly, without a simulator. Spec: link
spec §6 to §9.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.retry import Lrsm, RetryBuffer, RetryMachine
from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryIdle,
    UnknownControl,
    decode_control,
    encode_control,
)
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, crc_ok, seal
from cocotbext.cxl.wire.flits import (
    ProtocolCode,
    WireFlit,
    decode_credit,
    decode_protocol_id,
    encode_credit,
    is_cache_credit,
    is_control,
    largest_credit,
)
from cocotbext.cxl.wire.messages import M2SMessage, Message, S2MMessage
from cocotbext.cxl.wire.packer import Credits, M2SPacker, Packed, Packer, PackOptions, S2MPacker
from cocotbext.cxl.wire.unpack import FlitReport, IssueKind, M2SUnpacker, S2MUnpacker, Unpacker

TxT = TypeVar("TxT", bound=Message)
RxT = TypeVar("RxT")

_PID = ProtocolCode.CACHEMEM.word
_PID_EDS = ProtocolCode.CACHEMEM_EDS.word
_MAX_NUM_ACK = 255


class LinkPartner(Generic[TxT, RxT]):
    """Base of HostLink and DeviceLink: protocol state of one end of a link.

    The methods ``hold_*`` and ``repeat_*`` inject faults that damage no flit. ``hold_*(True)`` may
    be repeated; ``hold_*(False)`` releases everything that was held. A reset ends these faults.
    """

    # Bit positions of the nibble that returns plain credits and of the one that receives them. Data
    # credits use DataCrd.
    _return_shift: int
    _grant_shift: int
    _packer: Callable[[PackOptions], Packer[TxT]]
    _unpacker: Callable[[], Unpacker[RxT]]

    def __init__(self, config: LinkConfig | None = None) -> None:
        self.config = config or LinkConfig()
        self.packer = self._packer(self.config.pack)
        self.unpacker = self._unpacker()
        self.reset()

    def reset(self) -> None:
        """Return to the state after reset: nothing queued, link down."""
        config = self.config
        self.packer.reset()
        self.unpacker.reset()
        self.counters: Counter[str] = Counter()
        self.issues: list[str] = []
        self.now = 0
        self.credits = Credits()
        """Credits that this end may spend."""
        self.returns = CreditReturn(config)
        self.buffer = RetryBuffer(config.retry_depth)
        self.retry = RetryMachine(self.buffer, self.counters, config)
        self.num_ack = 0
        self._clean_seen = False
        self._param_sent = False
        self._param_received = False
        self._flush = 0
        self._in_adf_run = False
        self._raw: deque[tuple[int, int, bool, int, int]] = deque()
        self.phy = True
        self._phy_seen = False  # it has been up in some clock
        self._acks: int | None = None  # what is held; None: nothing is
        self._peer_acks: int | None = None
        self._peer_credits: Credits | None = None
        self._repeat_tx = self._repeat_rx = False
        self._again: WireFlit | None = None

    # -------------------------------------------------------------------------- status

    @property
    def active(self) -> bool:
        """Return True if INIT.Param was sent and received."""
        return self._param_sent and self._param_received

    @property
    def initialised(self) -> bool:
        """Return True if the peer's INIT.Param was received."""
        return self._param_received

    @property
    def failed(self) -> bool:
        """Return True if the link is in ABORT."""
        return self.retry.lrsm is Lrsm.ABORT

    @property
    def tx_idle(self) -> bool:
        """Return True if no message is queued or partly sent."""
        return not (any(self.unsent) or self.buffer.replaying)

    @property
    def unsent(self) -> tuple[int, int, int]:
        """Return the numbers of unsent messages, data slots and raw flits, as a tuple."""
        return self.packer.waiting, self.packer.owed, len(self._raw)

    @property
    def unacknowledged(self) -> int:
        """Return the number of retryable flits that the peer has not acknowledged."""
        return self.buffer.depth - self.buffer.free

    def send(self, message: TxT) -> None:
        """Queue a message; it is sent once the link is up and has credits for it."""
        self.packer.push(message)

    def inject(
        self, protocol_id: int, flit: int, retryable: bool, plain: int = 0, data: int = 0
    ) -> None:
        """Queue a raw flit; it is sent before new flits, once the link is up and no data is owed.

        Args:
            protocol_id: 16-bit Protocol ID.
            flit: 528 bits.
            retryable: the peer acknowledges the flit.
            plain: credits without data that it uses.
            data: credits with data that it uses.
        """
        self._raw.append((protocol_id, flit, retryable, plain, data))

    def set_phy(self, up: bool) -> None:
        """Set the state of the physical layer; any drop after its first training starts a retry."""
        if up == self.phy:
            return
        self.phy = up
        if self.config.retry and self._phy_seen:
            if up:
                self.retry.phy_up()
            else:
                self.retry.phy_down()

    # -------------------------------------------------------------------------- hooks

    def hold_acks(self, held: bool) -> None:
        """Hold back (or release) the acknowledgements that this end owes for the peer's flits."""
        self.num_ack += self._acks or 0
        self._acks = None
        if held:
            self._acks, self.num_ack = self.num_ack, 0

    def hold_peer_acks(self, held: bool) -> None:
        """Ignore acknowledgements from the peer until released, as if they arrived late."""
        late, self._peer_acks = self._peer_acks, None
        if held:
            self._peer_acks = late or 0
        elif late:
            self._acknowledged(late)

    def hold_credits(self, held: bool) -> None:
        """Return no credits to the peer until released."""
        self.returns.held = held

    def hold_peer_credits(self, held: bool) -> None:
        """Act as if this end had no credits, also none that the peer grants, until released."""
        if held and self._peer_credits is None:
            self._peer_credits, self.credits = self.credits, Credits()
        elif not held and self._peer_credits is not None:
            self.credits, self._peer_credits = self._peer_credits, None

    def repeat_sent(self) -> None:
        """Inject a fault: send the next protocol or all-data flit (any but a control flit) twice.

        The copy is sent directly after the flit. It has a valid CRC, so the peer processes the same
        messages twice.
        """
        self._repeat_tx = True

    def repeat_received(self) -> None:
        """Process the next received protocol or all-data flit twice."""
        self._repeat_rx = True

    # -------------------------------------------------------------------------- sender

    def stall(self) -> None:
        """Advance by one clock in which the wire accepts nothing."""
        self.now += 1
        self._flush += 1
        self._phy_seen = self._phy_seen or self.phy

    def next_flit(self) -> WireFlit | None:
        """Return the flit of this clock, or None for an idle clock."""
        self.stall()
        if self._again is not None:
            out, self._again = self._again, None
            return out
        wire = self._next()
        if self._repeat_tx and wire is not None and not wire[1] & 1:
            self._repeat_tx, self._again = False, wire
        return wire

    def _next(self) -> WireFlit | None:
        if not self.phy or self.retry.lrsm in (Lrsm.PHY_REINIT, Lrsm.ABORT):
            return None
        self.returns.tick(self.now)
        if self._raw and self._may_inject:
            return self._next_raw()
        flit = self._choose()
        if flit is None:
            return None
        self.counters["tx_flit"] += 1
        if self.config.retry:
            self.retry.transmitted()
        config = self.config
        if config.eds_rate and config.rng.random() < config.eds_rate:
            return _PID_EDS, flit
        return _PID, flit

    @property
    def _may_inject(self) -> bool:
        quiet = not (self.retry.busy or self.buffer.replaying)
        return self.active and quiet and not self.packer.owed

    def _next_raw(self) -> WireFlit:
        protocol_id, flit, retryable, plain, data = self._raw.popleft()
        self.credits.plain -= plain
        self.credits.data -= data
        if retryable:
            self.buffer.store(flit, False)
        return protocol_id, flit

    def _choose(self) -> int | None:
        retry = self.config.retry
        if not self._clean_seen:
            return _IDLE
        if retry and not self._in_adf_run:
            control = self.retry.next()
            if control is not None:
                # A replay that starts with an all-data flit must follow its RETRY.Ack immediately:
                # the receiver is in NORMAL and owed data, and would take a RETRY.Req for that data.
                self._in_adf_run = isinstance(control, RetryAck) and self.buffer.next_is_adf
                return seal(encode_control(control))
        if retry and self.buffer.replaying:
            flit = self.buffer.replay()
            self._in_adf_run = self.buffer.next_is_adf
            return flit
        if not self._param_sent:
            self._param_sent = True
            return self._store(encode_control(InitParam(self.config.retry_depth - 1)))
        if not self._param_received:
            return _IDLE
        fresh = self._new_flit()
        if fresh is None and self.retry.lrsm is Lrsm.LOCAL_IDLE:
            return _IDLE  # TIMEOUT counts flits, so there must be some
        return fresh

    def _new_flit(self) -> int | None:
        config = self.config
        free = self.buffer.free if config.retry else self.buffer.depth
        packed: Packed | None = None
        if self._in_adf_run:
            packed = self.packer.next(self.credits)
        elif free > 2 or (free == 2 and self.num_ack >= 8 and config.ak_in_headers):
            # A run of all-data flits must end before NumFreeBuf = 2.
            packed = self.packer.next(self.credits, free - 3 >= self.packer.WORST_ADFS)
        if packed is None:
            if self._llcrd_is_due(free):
                return self._store(self._make_llcrd())
            rate = config.idle_flit_rate
            if rate and free > 2 and not self.packer.owed and config.rng.random() < rate:
                packed = self.packer.empty()
            else:
                return None
        payload = packed.payload
        if not packed.adf:
            self.credits.plain -= packed.plain
            self.credits.data -= packed.data
            payload |= self._header_extras()
        self._in_adf_run = packed.owed > 3
        return self._store(payload, packed.adf)

    def _store(self, payload: int, adf: bool = False) -> int:
        flit = seal(payload)
        self.buffer.store(flit, adf)
        return flit

    def _header_extras(self) -> int:
        extras = 0
        config = self.config
        if config.ak_in_headers and self.num_ack >= 8:
            extras |= 1 << 2
            self.num_ack -= 8
        if config.credits_in_headers:
            extras |= self._credit_nibbles()
        if extras:
            self._flush = 0
        return extras

    def _credit_nibbles(self) -> int:
        plain, data = self.returns.take()
        return plain << self._return_shift | data << 28

    def _llcrd_is_due(self, free: int) -> bool:
        if free < 2 or (free == 2 and not self.num_ack):
            return False
        if self.returns.initial or self.num_ack >= self.config.ack_force_threshold:
            return True
        if self.num_ack > 1 or any(self.returns.ready):
            return self._flush >= self.config.flush_retimer
        self._flush = 0
        return False

    def _make_llcrd(self) -> int:
        nibbles = self._credit_nibbles()
        ack = min(self.num_ack, _MAX_NUM_ACK)
        self.num_ack -= ack
        self._flush = 0
        return encode_control(Llcrd(ack)) | nibbles

    # -------------------------------------------------------------------------- receiver

    def receive(self, protocol_id: int, flit: int) -> list[RxT]:
        """Process a flit from the wire; return the messages that it completes.

        The flit also drives retry and credits; its errors are counted, and broken rules are added
        to ``issues``.
        """
        self.counters["rx_flit"] += 1
        pid = decode_protocol_id(protocol_id)
        if pid.corrected:
            self.counters["pid_correctable"] += 1
        if pid.code is None:
            return self._lost("pid_uncorrectable")
        if not pid.code.is_cachemem:
            if not pid.code.is_null:
                self.counters["pid_unexpected"] += 1
            return []
        if not crc_ok(flit):
            return self._lost("crc_error")
        self._clean_seen = True
        payload = flit & PAYLOAD_MASK
        lrsm = self.retry.lrsm
        if lrsm is Lrsm.PHY_REINIT or lrsm is Lrsm.ABORT:
            return []
        normal = lrsm is Lrsm.NORMAL
        if is_control(payload) and not (normal and self.unpacker.owed > 3):
            self._control(payload, normal)
            return []
        self.retry.other()
        if not normal:
            return []
        if not self._param_received:
            self._issue("protocol_error", "a protocol flit before INIT.Param")
            return []
        messages = self._protocol(payload)
        if self._repeat_rx:
            self._repeat_rx = False
            messages += self.receive(protocol_id, flit)
        return messages

    def _lost(self, counter: str) -> list[RxT]:
        # This includes the time before the first clean flit: the peer may already have received one
        # and sent its INIT.Param.
        self.counters[counter] += 1
        if self.config.retry:
            self.retry.error()
        return []

    def _issue(self, counter: str, text: str) -> None:
        self.counters[counter] += 1
        self.issues.append(text)

    def _control(self, payload: int, normal: bool) -> None:
        control, wrong = decode_control(payload)
        if wrong:
            # After an error this may be an all-data flit. Otherwise it cannot be known whether the
            # flit was retryable, so it counts as lost.
            self.retry.other()
            if normal:
                self._issue("protocol_error", "; ".join(wrong))
                if self.config.retry:
                    self.retry.error()
            return
        if isinstance(control, Llcrd | InitParam):
            self.retry.other()
            if normal:
                self._retryable_control(control, payload)
        elif self.config.retry and not isinstance(control, UnknownControl):
            self.retry.control(control)

    def _retryable_control(self, control: ControlFlit, payload: int) -> None:
        if isinstance(control, InitParam):
            if self._param_received:
                self._issue("protocol_error", "a second INIT.Param")
            else:
                self._param_received = True
                self.retry.wrap = control.wrap
                self.returns.grant_initial()
        elif not self._param_received:
            self._issue("protocol_error", "LLCRD before INIT.Param")
            return
        elif isinstance(control, Llcrd):
            self._acknowledged(control.ack)
            self._granted(payload)
        self._good_retryable()

    def _good_retryable(self) -> None:
        self.num_ack += 1
        self.retry.good_retryable()
        if self._acks is not None:
            self.hold_acks(True)

    def _acknowledged(self, count: int) -> None:
        if self._peer_acks is not None:
            self._peer_acks += count
        elif not self.buffer.acknowledge(count):
            self._issue("protocol_error", f"{count} acknowledged, fewer were outstanding")

    def _granted(self, header: int) -> None:
        credits = self._peer_credits or self.credits
        for shift in (20, 24, 28):
            nibble = header >> shift & 15
            if is_cache_credit(nibble):
                self.counters["cache_credit"] += 1
            elif shift == self._grant_shift:
                credits.plain += decode_credit(nibble)
            elif shift == 28:
                credits.data += decode_credit(nibble)

    def _protocol(self, payload: int) -> list[RxT]:
        report: FlitReport[RxT] = self.unpacker.feed(payload)
        if not report.adf:
            self._acknowledged(8 * (report.header >> 2 & 1))
            self._granted(report.header)
        for issue in report.issues:
            if issue.kind not in (IssueKind.RESERVED_BITS, IssueKind.NOT_EMPTY_FORM):
                self._issue(issue.kind.value, issue.text)
        if not self.returns.spent(report.plain, report.data):
            self._issue("protocol_error", "the peer spent credits that it did not have")
        self.returns.release(self.now, report.plain, report.data)
        self._good_retryable()
        return report.messages


_IDLE = seal(encode_control(RetryIdle()))


class HostLink(LinkPartner[M2SMessage, S2MMessage]):
    """Host end of the link: sends Req and RwD, receives NDR and DRS."""

    _return_shift = 20
    _grant_shift = 24
    _packer = M2SPacker
    _unpacker = S2MUnpacker


class DeviceLink(LinkPartner[S2MMessage, M2SMessage]):
    """Device end of the link: sends NDR and DRS, receives Req and RwD."""

    _return_shift = 24
    _grant_shift = 20
    _packer = S2MPacker
    _unpacker = M2SUnpacker


class CreditReturn:
    """Credits that one end returns to its peer: held (delay), free (to be sent), granted.

    Granted credits belong to the peer. Plain credits are for messages without data (Req or NDR),
    data credits for RwD or DRS. Spec: link spec §3, §9.
    """

    def __init__(self, config: LinkConfig) -> None:
        self._config = config
        self._free = [0, 0]  # plain, data
        self._held: list[tuple[int, bool]] = []
        self._initial = False
        self.held = False
        """True if no credit is returned (a test starves the peer)."""
        self.peer = Credits()
        """Credits that the peer may still spend."""

    def grant_initial(self) -> None:
        """Grant the initial credits of the configuration, as fast as possible, at the end of
        INIT.
        """
        self._free[0] += self._config.grant_plain
        self._free[1] += self._config.grant_data
        self._initial = True

    @property
    def initial(self) -> bool:
        """Return True if part of the first grant is unsent and no hook holds credits back."""
        return self._initial and not self.held

    def release(self, now: int, plain: int, data: int) -> None:
        """Schedule the return of the credits of messages that were consumed at clock ``now``.

        Each credit becomes free after a random delay (LinkConfig.return_delay).
        """
        low, high = self._config.return_delay
        for is_data, count in ((False, plain), (True, data)):
            for _ in range(count):
                due = now + self._config.rng.randint(low, high) if high else now
                heapq.heappush(self._held, (due, is_data))
        if not high:
            self.tick(now)

    def tick(self, now: int) -> None:
        """Make the held credits free whose delay has ended at clock ``now``."""
        while self._held and self._held[0][0] <= now:
            self._free[heapq.heappop(self._held)[1]] += 1

    @property
    def ready(self) -> tuple[bool, bool]:
        """Return whether plain and data credits may be sent now, a bool each."""
        config = self._config
        grants = config.grant_plain, config.grant_data
        plain, data = (
            not self.held and free >= (1 if self._initial else max(1, min(config.return_batch, n)))
            for free, n in zip(self._free, grants, strict=True)
        )
        return plain, data

    def take(self) -> tuple[int, int]:
        """Grant credits with the flit that is sent now; return their nibbles (plain, data)."""
        plain, data = (
            largest_credit(free) * ready for free, ready in zip(self._free, self.ready, strict=True)
        )
        self._free[0] -= plain
        self._free[1] -= data
        self.peer.plain += plain
        self.peer.data += data
        self._initial = self._initial and any(self._free)
        return encode_credit(plain), encode_credit(data)

    def spent(self, plain: int, data: int) -> bool:
        """Subtract credits that the peer used; return False if it used more than it owned.

        Its credits then become 0.
        """
        left = self.peer.plain - plain, self.peer.data - data
        self.peer.plain, self.peer.data = max(left[0], 0), max(left[1], 0)
        return min(left) >= 0
