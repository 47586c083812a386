# SPDX-License-Identifier: Apache-2.0
"""CXL.mem host on the pins of a Type-3 device (`CxlMemHost`).

The host sends one flit per clock while it has enough to send; m2s_valid is 0 otherwise. See
`endpoint` for the timing contract and `link.partner` for the behaviour of the link.

Every call that waits raises CxlError at the first error of the host, or of a monitor that shares
its error log, and CxlTimeout if an owed response or credit does not arrive in time.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from cocotb.triggers import Event, RisingEdge

from cocotbext.cxl.bus import CxlMemBus, bits_reader
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.endpoint import LinkEndpoint
from cocotbext.cxl.errors import CxlError, CxlPoisonError, CxlTimeout, ErrorLog
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.transactions import Outstanding, Transaction, Watchdog
from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.flits import Direction, ProtocolCode
from cocotbext.cxl.wire.messages import (
    BE_ALL,
    LINE_BYTES,
    S2MDRS,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
    byte_enables,
    lines_of,
)


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
        self._look_at = self.cycle
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
