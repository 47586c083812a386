# SPDX-License-Identifier: Apache-2.0
"""CXL.mem host on the pins of a Type-3 device (`CxlMemHost`).

The host sends one flit per clock while it has enough to send; m2s_valid is 0 otherwise. See
`endpoint` for the timing contract and `link.partner` for the behaviour of the link.

Every call that waits raises CxlError at the first error of the host, or of a monitor that shares
its error log, and CxlTimeout if an owed response or credit does not arrive in time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from cocotb.triggers import Event, RisingEdge

from cocotbext.cxl.bus import CxlMemBus, bits_reader
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.endpoint import LinkEndpoint
from cocotbext.cxl.errors import CxlError, CxlPoisonError, CxlTimeout, ErrorLog
from cocotbext.cxl.link.pairing import Key, channel, key_of, stray
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.flits import Direction, ProtocolCode
from cocotbext.cxl.wire.messages import (
    BE_ALL,
    LINE_BYTES,
    S2MDRS,
    Completion,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
    byte_enables,
    completion_of,
    lines_of,
)

# Requests that are owed a response: tags, and pairing of responses with requests.

_TAGS = 1 << 16
_NAMED = 3  # requests that a text names


class Transaction:
    """Request that was queued in a host, and its response once it arrived.

    ``message`` is the request with the tag that is sent, ``expects`` the kind of completion owed.
    """

    __slots__ = ("_errors", "_event", "aborted", "end", "expects", "message", "response", "start")

    def __init__(
        self, message: M2SMessage, expects: Completion, start: int, errors: ErrorLog
    ) -> None:
        self.message = message
        self.expects = expects
        self.start = start
        """Clock in which the request was queued."""
        self.end = -1
        """Clock in which the response was complete; -1 before."""
        self.response: S2MMessage | None = None
        self.aborted = False
        """True if a reset ended the request."""
        self._errors = errors
        self._event: Event | None = None

    @property
    def done(self) -> bool:
        """Return True if the request has ended: by its response or by a reset."""
        return self.end >= 0 or self.aborted

    def finish(self, response: S2MMessage | None, clock: int) -> None:
        """Record the response (None if none is owed) and wake the waiting call, for the host."""
        self.response = response
        self.end = clock
        self.wake()

    def abort(self) -> None:
        """End the request because of a reset. Called by the host."""
        self.aborted = True
        self.wake()

    def wake(self) -> None:
        """Wake the waiting call so that it checks the state again."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> S2MMessage | None:
        """Wait for the end of the request.

        Returns:
            The response; None if none is owed or a reset came first.

        Raises:
            CxlError: the link broke.
            CxlTimeout: the response did not arrive in time.
        """
        while not self.done:
            self._errors.check()
            if self._event is None:
                self._event = Event()
            await self._event.wait()
        return self.response


class Outstanding:
    """Table of the requests that are owed a response: tags, expected responses and ages."""

    def __init__(self, errors: ErrorLog, rng: random.Random, sequential: bool = False) -> None:
        self._errors = errors
        self._rng = rng
        self._sequential = sequential
        self._waiting: dict[Key, deque[Transaction]] = {}
        self._by_age: deque[Transaction] = deque()
        self._tags: set[int] = set()
        self._last_tag = -1
        self.count = 0
        """Requests without their response."""
        self.completed = 0

    def new_tag(self) -> int:
        """Return a tag that no request in flight uses. Raise CxlError if all are in use."""
        if len(self._tags) == _TAGS:
            raise CxlError(
                f"all {_TAGS:,} tags are in flight: wait for responses, or send with keep_tag"
            )
        tag = self._last_tag
        while True:
            tag = (tag + 1) & 0xFFFF if self._sequential else self._rng.getrandbits(16)
            if tag not in self._tags:
                self._last_tag = tag
                return tag

    def expect(self, message: M2SMessage, clock: int) -> Transaction:
        """Record a queued request and return its transaction.

        A request that is owed no response ends at once and is not kept in the table.
        """
        kind = completion_of(message)
        transaction = Transaction(message, kind, clock, self._errors)
        if kind is Completion.NONE:
            transaction.finish(None, clock)
        else:
            key = (kind is Completion.DRS, message.tag, message.ldid)
            self._waiting.setdefault(key, deque()).append(transaction)
            self._by_age.append(transaction)
            self._tags.add(message.tag)
            self.count += 1
        return transaction

    def respond(self, message: S2MMessage, clock: int) -> str:
        """Pair a response with its request and finish the transaction.

        Returns:
            "", or why the response matches no request.
        """
        key = key_of(message)
        queue = self._waiting.get(key)
        if not queue:
            return stray(message, self._waiting.keys())
        transaction = queue.popleft()
        if not queue:
            del self._waiting[key]
            self._tags.discard(message.tag)
        self.count -= 1
        self.completed += 1
        transaction.finish(message, clock)
        return ""

    def abort(self) -> None:
        """End all requests because of a reset."""
        for transaction in self.open():
            transaction.abort()
        self._waiting.clear()
        self._by_age.clear()
        self._tags.clear()
        self.count = 0

    def open(self) -> list[Transaction]:
        """Return the requests that are owed a response, oldest first."""
        return [transaction for transaction in self._by_age if not transaction.done]

    @property
    def oldest(self) -> Transaction | None:
        """Return the oldest request that is owed a response, or None."""
        by_age = self._by_age
        while by_age and by_age[0].done:
            by_age.popleft()
        return by_age[0] if by_age else None

    def owed(self, clock: int) -> str:
        """Describe the responses owed to the oldest requests, with ages in clocks; "" if none.

        At most 3 requests are described; others are counted.
        """
        waiting = self.open()
        if not waiting:
            return ""
        parts = [
            f"{channel(one.expects is Completion.DRS)} for {describe_message(one.message)}, "
            f"{clock - one.start} clocks old"
            for one in waiting[:_NAMED]
        ]
        if len(waiting) > _NAMED:
            parts.append(f"{len(waiting) - _NAMED} more")
        return "owed: " + ", ".join(parts)

    def wake(self) -> None:
        """Wake all waiting calls after an error."""
        for transaction in self.open():
            transaction.wake()


# Time-outs: link-up, responses, and requests that cannot be sent. No simulator is needed.

_RETRIES = ("retry_local", "retry_remote", "retry_timeout", "phy_reinit")
_OFTEN = 64  # clocks between two looks, at most


class Watchdog:
    """Detector of time-outs; call ``check`` every ``interval`` clocks.

    The response time-out starts when a request becomes the oldest one, so that a slow device may
    have any number of requests queued. A link-level retry restarts it, because retries have their
    own limits; beyond these limits a retrying device is not waited for.
    """

    def __init__(self, cfg: CxlConfig, link: HostLink, requests: Outstanding) -> None:
        self._cfg = cfg
        self._link = link
        self._requests = requests
        limits = [n for n in (cfg.response_timeout, cfg.link_up_timeout) if n]
        self.interval = max(1, min([_OFTEN, *(n // 16 for n in limits)]))
        self._state: object = None
        self._since = 0
        self._retries = 0
        self._spare = 0
        self._told = False

    def check(self, clock: int, up: bool, in_reset: bool = False, awaited: bool = True) -> str:
        """Check for a time-out.

        Args:
            clock: current clock.
            up: credits of both kinds have been received.
            in_reset: the reset is active.
            awaited: a call is waiting; if so, time-outs also count during reset.

        Returns:
            The text of a time-out that expires in this clock, or "".
        """
        state, limit, what = self._look(up, in_reset, awaited)
        retries = sum(self._link.counters[name] for name in _RETRIES)
        if state != self._state:
            config = self._link.config
            self._state, self._since, self._told = state, clock, False
            self._spare = 2 * config.max_retry * (config.max_phy_reinit + 1)
        elif retries != self._retries and self._spare > 0:
            self._spare -= 1
            self._since = clock
        self._retries = retries
        if not limit or self._told or clock - self._since < limit:
            return ""
        self._told = True
        return f"time-out: {what} within {limit:,} clocks; {self._link_text(in_reset)}"

    def _look(self, up: bool, in_reset: bool, awaited: bool) -> tuple[object, int, str]:
        """Return what the host waits for: the state, its limit in clocks (0: none), and a text.

        The state is compared with that of the previous check; a change of state restarts the
        time-out.
        """
        cfg, oldest = self._cfg, self._requests.oldest
        if in_reset and not awaited:
            return None, 0, ""
        if not up:
            return ("link-up", in_reset), cfg.link_up_timeout, "no link-up"
        if oldest is not None:
            return oldest, cfg.response_timeout, "no response to the oldest request"
        if not self._link.tx_idle:
            return self._link.unsent, cfg.response_timeout, "nothing could be sent"
        return None, 0, ""

    def _link_text(self, in_reset: bool) -> str:
        """Describe the state of the link for a time-out message, credits first."""
        link = self._link
        if in_reset:
            return "rst_n is not 1"
        credits = {"Req": link.credits.plain, "RwD": link.credits.data}
        missing = [name for name, count in credits.items() if count <= 0]
        parts = [
            f"no {' and no '.join(missing)} credits from the device"
            if missing
            else f"credits from the device: {credits['Req']} Req, {credits['RwD']} RwD"
        ]
        granted = {"NDR": link.returns.peer.plain, "DRS": link.returns.peer.data}
        if link.active:
            parts += [f"the device has no {name} credits" for name, n in granted.items() if n <= 0]
        if link.packer.waiting:
            parts.append(f"requests not sent: {link.packer.waiting}")
        if not link.phy:
            parts.append("phy_up is low")
        if not link.counters["rx_flit"]:
            parts.append("no flit has come from the device")
        elif not link.initialised:
            parts.append("no INIT.Param has come from the device")
        if bad := link.counters["crc_error"] + link.counters["pid_uncorrectable"]:
            parts.append(f"bad flits from the device: {bad}")
        if link.retry.lrsm is not Lrsm.NORMAL:
            parts.append(f"RETRY.Req {link.retry.num_retry} of the host is not acknowledged")
        if retrains := link.counters["phy_reinit"]:
            parts.append(f"retrains: {retrains}")
        if link.config.retry and link.buffer.free <= 2:
            parts.append(f"flits that the device has not acknowledged: {link.unacknowledged}")
        return ", ".join(parts)


class CxlMemHost(LinkEndpoint[M2SMessage, S2MMessage]):
    """CXL.mem host: read() and write() move bytes, issue() and call() send single messages.

    Args:
        cfg: packing, credits, back-pressure, retry and time-outs (CxlConfig).
        error_log: error log that is shared with a monitor.
        start: False to leave the pins untouched until start().
    """

    role = "host"
    peer = "device"
    link: HostLink

    def __init__(
        self,
        bus: CxlMemBus,
        clock: Any,
        reset: Any = None,
        reset_active_level: bool = True,
        *,
        cfg: CxlConfig | None = None,
        error_log: ErrorLog | None = None,
        start: bool = True,
    ) -> None:
        super().__init__(bus, clock, reset, reset_active_level, error_log)
        self.cfg = cfg = cfg or CxlConfig()
        log = self.error_log
        self.link = HostLink(cfg.link)
        self.up = Event()
        """Set once the link is up and credits have been received."""
        self.requests = Outstanding(log, cfg.rng, cfg.sequential_tags)
        self.watchdog = Watchdog(cfg, self.link, self.requests)
        self._look_at = 0
        self._awaits_up = 0
        self._woken = Event()
        self._room = Event()
        self._drained = Event()
        self._retrain = False
        self._aborted = False
        log.owed = lambda: self.requests.owed(self.cycle)
        log.wake += [self.requests.wake, self._woken.set, self._room.set, self._drained.set]
        if start:
            self.start()

    # -------------------------------------------------------------------------- bytes

    async def read(self, address: int, length: int, *, ldid: int = 0) -> bytes:
        """Read ``length`` bytes from byte ``address`` on, with one MemRd per line, all in flight at
        once.

        Raises:
            CxlPoisonError: some of the lines are poisoned.
            CxlError: the link broke, or a reset came first.
        """
        lines = list(lines_of(address, length))
        reads = [M2SReq(ReqOp.MEM_RD, 0, line, ldid) for line, _, _ in lines]
        answers = await self.call_all(reads)
        data = b""
        poisoned = []
        for (line, first, size), answer in zip(lines, answers, strict=True):
            assert isinstance(answer, S2MDRS)  # responses are paired with their requests
            data += answer.data[first : first + size]
            if answer.poison:
                poisoned.append(line)
        if poisoned:
            raise CxlPoisonError(poisoned, data)
        return data

    async def write(
        self, address: int, data: bytes, *, ldid: int = 0, poison: bool = False
    ) -> None:
        """Write bytes from byte ``address`` on: MemWr for whole lines, MemWrPtl for parts of a
        line.

        The call returns when all completions have arrived; a later read returns the data.

        Args:
            address: first byte.
            data: bytes to write.
            ldid: logical device.
            poison: mark all written lines as poisoned.

        Raises:
            CxlError: the link broke, or a reset came first.
        """
        writes: list[M2SMessage] = []
        at = 0
        for line, first, size in lines_of(address, len(data)):
            whole = data[at : at + size].rjust(first + size, b"\0").ljust(LINE_BYTES, b"\0")
            at += size
            be = byte_enables(first, size)
            opcode = RwdOp.MEM_WR if be == BE_ALL else RwdOp.MEM_WR_PTL
            writes.append(M2SRwD(opcode, 0, line, ldid=ldid, data=whole, be=be, poison=poison))
        await self.call_all(writes)

    async def call_all(self, messages: Iterable[M2SMessage]) -> list[S2MMessage | None]:
        """Send requests as fast as the link accepts them.

        Returns:
            The responses, in the order of the requests.

        Raises:
            CxlError: the link broke, or a reset came before the last response.
        """
        flying = [await self.issue(message) for message in messages]
        responses = [await transaction.wait() for transaction in flying]
        if any(transaction.aborted for transaction in flying):
            raise CxlError("a reset came before the response")
        return responses

    # -------------------------------------------------------------------------- requests

    def submit(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """Queue a request without waiting, and return its transaction.

        The request gets a tag that is unique among the requests in flight, unless ``keep_tag`` is
        set.
        """
        if not keep_tag:
            message = message.with_tag(self.requests.new_tag())
        transaction = self.requests.expect(message, self.cycle)
        self.link.send(message)
        return transaction

    async def issue(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """Wait until the host has room, then submit() the request and return its transaction."""
        await self._until(lambda: self.has_room, self._room)
        return self.submit(message, keep_tag)

    async def call(self, message: M2SMessage) -> S2MMessage | None:
        """Send a request and wait for its response (None if none is owed)."""
        return await (await self.issue(message)).wait()

    @property
    def outstanding(self) -> int:
        """Return the number of requests that are owed a response."""
        return self.requests.count

    @property
    def has_room(self) -> bool:
        """Return True if issue() would not wait."""
        cfg = self.cfg
        return self.link.packer.waiting < cfg.queue_depth and self.outstanding < cfg.max_outstanding

    @property
    def idle(self) -> bool:
        """Return True if no request is owed a response and the link has nothing to send."""
        return not self.outstanding and self.link.tx_idle

    async def wait_up(self) -> None:
        """Wait until the link is up and the device has granted credits of both kinds."""
        self._awaits_up += 1
        try:
            await self._until(self.up.is_set, self._woken)
        finally:
            self._awaits_up -= 1

    async def drain(self) -> None:
        """Wait until the host is idle."""
        await self._until(lambda: self.idle, self._drained)

    async def _until(self, reached: Callable[[], bool], event: Event) -> None:
        """Wait for a condition; ``event`` is set when it may hold, and at an error, which is
        raised.
        """
        self.error_log.check()
        while not reached():
            event.clear()
            await event.wait()
            self.error_log.check()

    def inject(
        self,
        flit: int,
        protocol_id: int = ProtocolCode.CACHEMEM.word,
        *,
        retryable: bool = False,
        plain: int = 0,
        data: int = 0,
        expect: Iterable[M2SMessage] = (),
    ) -> list[Transaction]:
        """Queue a raw 528-bit flit of any content; consecutive raw flits stay together.

        Args:
            flit: 528 bits.
            protocol_id: 16-bit Protocol ID.
            retryable: the device acknowledges the flit.
            plain: Req credits that the flit uses.
            data: RwD credits that the flit uses.
            expect: requests in the flit whose responses will arrive, under the tags that they
                carry.

        Returns:
            The transactions of ``expect``, in the same order.
        """
        self.link.inject(protocol_id, flit, retryable, plain, data)
        return [self.requests.expect(message, self.cycle) for message in expect]

    def retrain(self) -> bool:
        """Take the physical layer down at the next clock, for CxlConfig.retrain_clocks clocks.

        Returns:
            False, without any effect, if a retrain is already pending, the layer is down, or the
            bus has no phy_up.
        """
        if self._retrain or not self.link.phy or self.bus.phy_up is None:
            return False
        self._retrain = True
        return True

    # -------------------------------------------------------------------------- errors

    @property
    def _timeouts_waived(self) -> bool:
        waive = self.cfg.waive
        return waive is not None and waive("timeout", Direction.S2M.value)

    def _look(self) -> None:
        """Report a time-out that expires in this clock, or an ABORT of the link, as an error."""
        self._look_at = self.cycle + self.watchdog.interval
        awaited = self._awaits_up > 0 or not self.idle
        text = self.watchdog.check(self.cycle, self.up.is_set(), self._in_reset, awaited)
        if text:
            self._error(text, CxlTimeout, self._timeouts_waived)
        if self.link.failed and not self._aborted:
            self._aborted = True
            self._error("the link is in ABORT: the device has not acknowledged any retry")

    def finish(self) -> list[str]:
        """Return all errors, including requests never answered; call it at the end of a test."""
        errors = list(self.errors)
        if not self._timeouts_waived:
            texts = (describe_message(one.message) for one in self.requests.open())
            errors += [f"no response for {text}" for text in texts]
        if self.link.failed and not self._aborted:
            errors.append("the link is in ABORT")
        return errors

    # -------------------------------------------------------------------------- pins

    def _reset_entered(self) -> None:
        self.up.clear()
        super()._reset_entered()
        self._aborted = False
        self.requests.abort()

    async def _run(self) -> None:
        bus, cfg, link = self.bus, self.cfg, self.link
        valid, protocol_id, flit = bus.m2s_valid, bus.m2s_protocol_id, bus.m2s_flit
        s2m_valid, s2m_id, s2m_flit, retrain = (
            bits_reader(pin)
            for pin in (bus.s2m_valid, bus.s2m_protocol_id, bus.s2m_flit, bus.retrain_request)
        )

        stalls = bus.s2m_ready is not None

        def drive_ready(ready: bool) -> None:
            if stalls:
                bus.s2m_ready.value = int(ready)

        def drive_phy(up: bool) -> None:
            link.set_phy(up)
            if bus.phy_up is not None:
                bus.phy_up.value = int(up)

        valid.value = protocol_id.value = flit.value = 0
        drive_ready(False)
        drive_phy(False)
        edge = RisingEdge(self.clock)
        patterns = cfg.ready.values(cfg.rng) if stalls else repeat(True)
        ready = driving = False
        last_id = -1
        phy_at = self.cycle + cfg.phy_up_delay
        while True:
            await edge
            self.cycle += 1
            if self.cycle >= self._look_at:
                self._look()
            if self._in_reset:
                if driving or ready:
                    valid.value = 0
                    drive_ready(False)
                drive_phy(False)
                driving = ready = False
                phy_at = self.cycle + cfg.phy_up_delay
                continue
            if ready and s2m_valid() == "1":
                self._receive(s2m_id(), s2m_flit())
            if not link.phy:
                if self.cycle >= phy_at:
                    drive_phy(True)
            elif self._retrain or (
                cfg.link.retry and (link.retry.retrain_request or retrain() == "1")
            ):
                self._retrain = False
                drive_phy(False)
                phy_at = self.cycle + cfg.retrain_clocks
            now_ready = next(patterns)
            if now_ready is not ready:
                ready = now_ready
                drive_ready(ready)
            if cfg.idle_rate and cfg.rng.random() < cfg.idle_rate:
                link.stall()
                out = None
            else:
                out = link.next_flit()
            if out is None:
                if driving:
                    valid.value = 0
                    driving = False
            else:
                if cfg.damage_to_device is not None:
                    out = cfg.damage_to_device(out)
                if not driving:
                    valid.value = 1
                    driving = True
                if out[0] != last_id:
                    last_id = out[0]
                    protocol_id.value = last_id
                flit.value = out[1]
            if not self._room.is_set() and self.has_room:
                self._room.set()
            if not self._drained.is_set() and self.idle:
                self._drained.set()

    def _receive(self, protocol_id: str, flit: str) -> None:
        wire = self._words(protocol_id, flit)
        if wire is None:
            return
        if self.cfg.damage_to_host is not None:
            wire = self.cfg.damage_to_host(wire)
        link = self.link
        for message in link.receive(*wire):
            wrong = self.requests.respond(message, self.cycle)
            if wrong:
                self._error(wrong)
        self._judge_link()
        if not self.up.is_set() and link.credits.plain and link.credits.data:
            self.up.set()
            self._woken.set()
