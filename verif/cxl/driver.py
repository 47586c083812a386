# SPDX-License-Identifier: Apache-2.0
"""Driver: a host link partner on the pins of a Type-3 device.

Timing contract: once a clock, right after RisingEdge(clk), the driver samples tx_* (what the
device drove before that edge) and then drives rx_*, tx_ready and phy_up, which the device samples
at the next edge. One flit a clock leaves when there is enough to send; rx_valid is 0 otherwise.
``clk`` must be the clock that cocotb drives itself. All link behaviour is in models.cxl.link; here
are pins, tags and the pairing of responses, by (tag, LD-ID) in order within a channel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import cocotb
from cocotb.triggers import Event, FallingEdge, RisingEdge
from pyuvm import uvm_driver

from models.cxl.describe import describe_message
from models.cxl.flits import ProtocolCode
from models.cxl.link import HostLink
from models.cxl.messages import S2MDRS, Completion, M2SMessage, S2MMessage, completion_of
from verif.cxl.config import CxlConfig
from verif.cxl.items import Transaction
from verif.cxl.pins import CxlPins, bits_reader


class CxlMemDriver(uvm_driver):
    """Takes CxlMemItem and CxlBatchItem, or messages by submit() and issue()."""

    pins: CxlPins
    cfg: CxlConfig

    def start_of_simulation_phase(self) -> None:
        self.link = HostLink(self.cfg.link)
        self.errors: list[str] = []
        self.clock = 0
        self.completed = 0
        self.up = Event()
        """Set once the link is up and credits have come."""
        self._waiting: dict[tuple[bool, int, int], deque[Transaction]] = {}
        self._tags: set[int] = set()
        self._last_tag = -1
        self.outstanding = 0
        """Requests without their response."""
        self._room = Event()
        self._drained = Event()
        self._in_reset = True
        self._retrain = False

    # -------------------------------------------------------------------------- requests

    def submit(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """Queue a request without waiting; it gets a tag that is unique among those in flight."""
        if not keep_tag:
            message = message.with_tag(self._new_tag())
        transaction = self._expect(message)
        self.link.send(message)
        return transaction

    async def issue(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """submit() after waiting until the driver has room for it."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()
        return self.submit(message, keep_tag)

    async def call(self, message: M2SMessage) -> S2MMessage | None:
        """Send a request and wait for its response (None where none is owed)."""
        return await (await self.issue(message)).wait()

    @property
    def has_room(self) -> bool:
        """issue() would not wait."""
        cfg = self.cfg
        return self.link.packer.waiting < cfg.queue_depth and self.outstanding < cfg.max_outstanding

    @property
    def idle(self) -> bool:
        """No request waits, none is without its response."""
        return not self.outstanding and self.link.tx_idle

    async def drain(self) -> None:
        """Waits until idle."""
        while not self.idle:
            self._drained.clear()
            await self._drained.wait()

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
        return [self._expect(message) for message in expect]

    def retrain(self) -> bool:
        """Take the physical layer down at the next clock, for CxlConfig.retrain_clocks.

        False, and nothing more, when that was asked for already or the layer is down.
        """
        if self._retrain or not self.link.phy:
            return False
        self._retrain = True
        return True

    def _expect(self, message: M2SMessage) -> Transaction:
        kind = completion_of(message)
        transaction = Transaction(message, kind, self.clock)
        if kind is Completion.NONE:
            transaction.finish(None, self.clock)
        else:
            key = (kind is Completion.DRS, message.tag, message.ldid)
            self._waiting.setdefault(key, deque()).append(transaction)
            self._tags.add(message.tag)
            self.outstanding += 1
        return transaction

    def _new_tag(self) -> int:
        tag = self._last_tag
        while True:
            if self.cfg.sequential_tags:
                tag = (tag + 1) & 0xFFFF
            else:
                tag = self.cfg.rng.getrandbits(16)
            if tag not in self._tags:
                self._last_tag = tag
                return tag

    def _respond(self, message: S2MMessage) -> None:
        key = (isinstance(message, S2MDRS), message.tag, message.ldid)
        queue = self._waiting.get(key)
        if not queue:
            self.errors.append(f"clock {self.clock}: nobody waits for {describe_message(message)}")
            return
        transaction = queue.popleft()
        if not queue:
            del self._waiting[key]
            self._tags.discard(message.tag)
        self.outstanding -= 1
        self.completed += 1
        transaction.finish(message, self.clock)

    # -------------------------------------------------------------------------- pins

    async def run_phase(self) -> None:
        pins, cfg, link = self.pins, self.cfg, self.link
        pins.rx_valid.value = 0
        pins.rx_protocol_id.value = 0
        pins.rx_flit.value = 0
        pins.tx_ready.value = 0
        pins.phy_up.value = 0
        cocotb.start_soon(self._follow_reset())
        cocotb.start_soon(self._take_items())
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
            self.errors.append(f"clock {self.clock}: X or Z in a valid tx flit")
            return
        if self.cfg.damage_to_host is not None:
            out = self.cfg.damage_to_host(out)
        for message in self.link.receive(*out):
            self._respond(message)
        if not self.up.is_set() and self.link.credits.plain and self.link.credits.data:
            self.up.set()

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
            for queue in self._waiting.values():
                for transaction in queue:
                    transaction.abort()
            self._waiting.clear()
            self._tags.clear()
            self.outstanding = 0

    async def _take_items(self) -> None:
        while True:
            item = await self.seq_item_port.get_next_item()
            for message in item.messages:
                item.transactions.append(await self.issue(message, item.keep_tag))
            self.seq_item_port.item_done()

    # -------------------------------------------------------------------------- the end

    def finish(self) -> list[str]:
        """End of test: all errors, with what the link says and what never got its response."""
        errors = [*self.errors, *(f"host link: {text}" for text in self.link.issues)]
        for queue in self._waiting.values():
            errors += [f"no response for {describe_message(t.message)}" for t in queue]
        if self.link.failed:
            errors.append("the link is in ABORT")
        return errors

    def check_phase(self) -> None:
        errors = self.finish()
        assert not errors, f"{len(errors)} driver errors, first: {errors[0]}"
