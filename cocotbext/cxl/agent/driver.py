# SPDX-License-Identifier: Apache-2.0
"""Driver: a host link partner on the pins of a Type-3 device.

Timing contract: once a clock, right after RisingEdge(clk), the driver samples tx_* (what the
device drove before that edge) and then drives rx_*, tx_ready and phy_up, which the device samples
at the next edge. One flit a clock leaves when there is enough to send; rx_valid is 0 otherwise.
``clk`` must be the clock that cocotb drives itself. Link behaviour is in ``link.link``, tags
and the pairing of responses are in ``requests``, time-outs in ``watchdog``; here are the pins.

Every call that waits raises CxlError at the first error of the agent, CxlTimeout where something
that is owed does not come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cocotb
from cocotb.task import Task
from cocotb.triggers import Event, FallingEdge, RisingEdge
from pyuvm import uvm_driver

from cocotbext.cxl.agent.config import CxlConfig
from cocotbext.cxl.agent.errors import CxlError, CxlTimeout, ErrorLog
from cocotbext.cxl.agent.items import Transaction
from cocotbext.cxl.agent.pins import CxlPins, bits_reader
from cocotbext.cxl.agent.requests import Outstanding
from cocotbext.cxl.agent.watchdog import Watchdog
from cocotbext.cxl.link.link import HostLink
from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.flits import Direction, ProtocolCode
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage


class CxlMemDriver(uvm_driver):
    """Takes CxlMemItem and CxlBatchItem, or messages by submit() and issue()."""

    pins: CxlPins
    cfg: CxlConfig
    error_log: ErrorLog

    def start_of_simulation_phase(self) -> None:
        cfg, log = self.cfg, self.error_log
        self.link = HostLink(cfg.link)
        self.errors: list[str] = []
        self.clock = 0
        self.up = Event()
        """Set once the link is up and credits have come."""
        self.requests = Outstanding(log, cfg.rng, cfg.sequential_tags)
        self.watchdog = Watchdog(cfg, self.link, self.requests)
        self._look_at = 0
        self._awaits_up = 0
        self._woken = Event()
        self._room = Event()
        self._drained = Event()
        self._in_reset = True
        self._retrain = False
        self._issues = self._lost = 0  # that were told since the last reset
        self._aborted = False
        self._tasks: list[Task[None]] = []
        log.owed = lambda: self.requests.owed(self.clock)
        log.wake += [self.requests.wake, self._woken.set, self._room.set, self._drained.set]

    # -------------------------------------------------------------------------- requests

    def submit(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """Queue a request without waiting; it gets a tag that is unique among those in flight."""
        if not keep_tag:
            message = message.with_tag(self.requests.new_tag())
        transaction = self.requests.expect(message, self.clock)
        self.link.send(message)
        return transaction

    async def issue(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """submit() after waiting until the driver has room for it."""
        self.error_log.check()
        while not self.has_room:
            self._room.clear()
            await self._room.wait()
            self.error_log.check()
        return self.submit(message, keep_tag)

    async def call(self, message: M2SMessage) -> S2MMessage | None:
        """Send a request and wait for its response (None where none is owed)."""
        return await (await self.issue(message)).wait()

    @property
    def outstanding(self) -> int:
        """Requests without their response."""
        return self.requests.count

    @property
    def has_room(self) -> bool:
        """issue() would not wait."""
        cfg = self.cfg
        return self.link.packer.waiting < cfg.queue_depth and self.outstanding < cfg.max_outstanding

    @property
    def idle(self) -> bool:
        """No request waits, none is without its response."""
        return not self.outstanding and self.link.tx_idle

    async def wait_up(self) -> None:
        """Waits until the link is up and the device has granted credits of both kinds."""
        self._awaits_up += 1
        try:
            self.error_log.check()
            while not self.up.is_set():
                self._woken.clear()
                await self._woken.wait()
                self.error_log.check()
        finally:
            self._awaits_up -= 1

    async def drain(self) -> None:
        """Waits until idle."""
        self.error_log.check()
        while not self.idle:
            self._drained.clear()
            await self._drained.wait()
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
        """Queue a raw 528-bit flit, whatever is in it; consecutive ones stay together.

        ``retryable``: the device will acknowledge it. ``plain`` / ``data``: Req / RwD credits that
        it costs. ``expect``: requests in it whose responses will come (under their own tags).
        """
        self.link.inject(protocol_id, flit, retryable, plain, data)
        return [self.requests.expect(message, self.clock) for message in expect]

    def retrain(self) -> bool:
        """Take the physical layer down at the next clock, for CxlConfig.retrain_clocks.

        False, and nothing more, when that was asked for already or the layer is down.
        """
        if self._retrain or not self.link.phy:
            return False
        self._retrain = True
        return True

    # -------------------------------------------------------------------------- errors

    def _error(self, text: str, kind: type[CxlError] = CxlError) -> None:
        """An error that ends every wait; a time-out that is waived is no error of the test."""
        quiet = kind is CxlTimeout and self._timeouts_waived
        if not quiet:
            self.errors.append(f"clock {self.clock}: {text}")
        self.error_log.report(self.clock, text, kind=kind, quiet=quiet)

    @property
    def _timeouts_waived(self) -> bool:
        waive = self.cfg.waive
        return waive is not None and waive("timeout", Direction.S2M.value)

    def _look(self) -> None:
        """Looks for what will never come."""
        self._look_at = self.clock + self.watchdog.interval
        awaited = self._awaits_up > 0 or not self.idle
        text = self.watchdog.check(self.clock, self.up.is_set(), self._in_reset, awaited)
        if text:
            self._error(text, CxlTimeout)
        if self.link.failed and not self._aborted:
            self._aborted = True
            self._error("the link is in ABORT: the device has not acknowledged any retry")

    # -------------------------------------------------------------------------- pins

    async def run_phase(self) -> None:
        loops = self._drive(), self._follow_reset(), self._take_items()
        self._tasks = [cocotb.start_soon(loop) for loop in loops]

    def extract_phase(self) -> None:
        # What runs on would drive the pins of the next run of this cocotb test.
        for task in self._tasks:
            task.cancel()

    async def _drive(self) -> None:
        pins, cfg, link = self.pins, self.cfg, self.link
        pins.rx_valid.value = 0
        pins.rx_protocol_id.value = 0
        pins.rx_flit.value = 0
        pins.tx_ready.value = 0
        pins.phy_up.value = 0
        edge = RisingEdge(pins.clk)
        tx_valid, tx_id, tx_flit, retrain = (
            bits_reader(pin)
            for pin in (pins.tx_valid, pins.tx_protocol_id, pins.tx_flit, pins.retrain_request)
        )
        rx_valid, rx_id, rx_flit = pins.rx_valid, pins.rx_protocol_id, pins.rx_flit
        patterns = cfg.ready.values(cfg.rng)
        ready = driving = False
        last_id = -1
        phy_at = 0
        while True:
            await edge
            self.clock += 1
            if self.clock >= self._look_at:
                self._look()
            if self._in_reset:
                if driving or ready:
                    rx_valid.value = pins.tx_ready.value = 0
                pins.phy_up.value = 0
                driving = ready = False
                link.set_phy(False)
                phy_at = self.clock + cfg.phy_up_delay
                continue
            if ready and tx_valid() == "1":
                self._receive(tx_id(), tx_flit())
            if not link.phy:
                if self.clock >= phy_at:
                    pins.phy_up.value = 1
                    link.set_phy(True)
            elif self._retrain or (
                cfg.link.retry and (link.retry.retrain_request or retrain() == "1")
            ):
                self._retrain = False
                pins.phy_up.value = 0
                link.set_phy(False)
                phy_at = self.clock + cfg.retrain_clocks
            now_ready = next(patterns)
            if now_ready is not ready:
                ready = now_ready
                pins.tx_ready.value = int(ready)
            if cfg.idle_rate and cfg.rng.random() < cfg.idle_rate:
                link.stall()
                out = None
            else:
                out = link.next_flit()
            if out is None:
                if driving:
                    rx_valid.value = 0
                    driving = False
            else:
                if cfg.damage_to_device is not None:
                    out = cfg.damage_to_device(out)
                if not driving:
                    rx_valid.value = 1
                    driving = True
                if out[0] != last_id:
                    last_id = out[0]
                    rx_id.value = last_id
                rx_flit.value = out[1]
            if not self._room.is_set() and self.has_room:
                self._room.set()
            if not self._drained.is_set() and self.idle:
                self._drained.set()

    def _receive(self, tx_id: str, tx_flit: str) -> None:
        try:
            out = int(tx_id, 2), int(tx_flit, 2)
        except ValueError:
            self._error("X or Z in a valid tx flit")
            return
        if self.cfg.damage_to_host is not None:
            out = self.cfg.damage_to_host(out)
        link = self.link
        for message in link.receive(*out):
            wrong = self.requests.respond(message, self.clock)
            if wrong:
                self._error(wrong)
        if len(link.issues) > self._issues:
            for text in link.issues[self._issues :]:
                self._error(f"host link: {text}")
            self._issues = len(link.issues)
        if not link.config.retry:
            lost = link.counters["crc_error"] + link.counters["pid_uncorrectable"]
            if lost > self._lost:
                self._lost = lost
                self._error("a flit of the device is bad and lost, as link-level retry is off")
        if not self.up.is_set() and link.credits.plain and link.credits.data:
            self.up.set()
            self._woken.set()

    async def _follow_reset(self) -> None:
        rst_n: Any = self.pins.rst_n
        while True:
            if rst_n.value != 1:
                await RisingEdge(rst_n)
            self._in_reset = False
            await FallingEdge(rst_n)
            self._in_reset = True
            self.up.clear()
            self.link.reset()
            self._issues = self._lost = 0
            self._aborted = False
            self.error_log.clear()
            self.requests.abort()

    async def _take_items(self) -> None:
        while True:
            item = await self.seq_item_port.get_next_item()
            try:
                for message in item.messages:
                    item.taken.append(await self.issue(message, item.keep_tag))
            except CxlError as error:
                item.error = error  # for the sequence, which looks at its transactions
            self.seq_item_port.item_done()

    # -------------------------------------------------------------------------- the end

    def finish(self) -> list[str]:
        """End of test: all errors, with what never got its response."""
        errors = list(self.errors)
        if not self._timeouts_waived:
            texts = (describe_message(one.message) for one in self.requests.open())
            errors += [f"no response for {text}" for text in texts]
        if self.link.failed and not self._aborted:
            errors.append("the link is in ABORT")
        return errors

    def check_phase(self) -> None:
        errors = self.finish()
        assert not errors, f"{len(errors)} driver errors, first: {errors[0]}"
