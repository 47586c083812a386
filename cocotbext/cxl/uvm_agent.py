# SPDX-License-Identifier: Apache-2.0
"""pyuvm agent: sequencer, driver and monitor, built on CxlMemHost and CxlMemMonitor.

pyuvm is an extra of the package: ``pip install './cocotbext/cxl[uvm]'``.
"""

from collections.abc import Iterable
from typing import Any

import cocotb
from cocotb.task import Task
from pyuvm import (
    uvm_agent,
    uvm_analysis_port,
    uvm_driver,
    uvm_sequence,
    uvm_sequence_item,
    uvm_sequencer,
)

from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.errors import CxlError, ErrorLog
from cocotbext.cxl.host import CxlMemHost
from cocotbext.cxl.monitor import CxlMemMonitor
from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp, S2MMessage


class CxlMemAgent(uvm_agent):
    """CXL.mem agent. Set ``bus``, ``clock`` and ``reset``, and ``cfg`` to change the defaults,
    before the build phase. ``host`` and ``monitor`` exist from the start_of_simulation phase on.

    Analysis ports: ``request_port`` (ObservedRequest), ``response_port`` (ObservedResponse),
    ``link_port`` (a FlitEvent per flit) and ``phy_port`` (each new level of phy_up). With
    ``active`` = False there is no sequencer, driver or host: the monitor alone works on any link.
    An error is logged when found, and every call that waits raises it as CxlError. check_phase
    fails if there was an error, unless ``judged`` is False: an environment that contains the agent
    then calls finish() and reports the errors with those of its other checkers.
    """

    bus: CxlMemBus
    clock: Any
    reset: Any = None
    reset_active_level: bool = False
    cfg: CxlConfig
    active: bool = True
    judged: bool = True
    host: CxlMemHost
    monitor: CxlMemMonitor

    def build_phase(self) -> None:
        if not hasattr(self, "cfg"):
            self.cfg = CxlConfig()
        self.request_port = uvm_analysis_port("request_port", self)
        self.response_port = uvm_analysis_port("response_port", self)
        self.link_port = uvm_analysis_port("link_port", self)
        self.phy_port = uvm_analysis_port("phy_port", self)
        if self.active:
            self.sequencer = uvm_sequencer("sequencer", self)
            self.driver = CxlMemDriver("driver", self)

    def connect_phase(self) -> None:
        if self.active:
            self.driver.seq_item_port.connect(self.sequencer.seq_item_export)

    def start_of_simulation_phase(self) -> None:
        pins = self.bus, self.clock, self.reset, self.reset_active_level
        log = ErrorLog(self.logger.error)
        self.monitor = CxlMemMonitor(
            *pins, cfg=self.cfg, error_log=log, records=self.active, start=False
        )
        self.monitor.on_request.append(self.request_port.write)
        self.monitor.on_response.append(self.response_port.write)
        self.monitor.on_flit.append(self.link_port.write)
        self.monitor.on_phy.append(self.phy_port.write)
        if self.active:
            self.host = CxlMemHost(*pins, cfg=self.cfg, error_log=log, start=False)
            self.driver.host = self.host

    async def run_phase(self) -> None:
        self.monitor.start()
        if self.active:
            self.host.start()

    def extract_phase(self) -> None:
        # A monitor that keeps running would see the next run of this cocotb test, drive its pins,
        # and write to a closed trace.
        self.monitor.stop()
        if self.active:
            self.host.stop()

    def finish(self) -> list[str]:
        """Return all errors of monitor and host at the end of a test; check_phase fails on them."""
        return [*self.monitor.finish(), *(self.host.finish() if self.active else [])]

    def check_phase(self) -> None:
        if not self.judged:
            return
        errors = self.finish()
        assert not errors, f"{len(errors)} link errors, first: {errors[0]}"


class CxlMemDriver(uvm_driver):
    """Driver that submits the requests of each CxlMemItem to ``host``, which the agent sets."""

    host: CxlMemHost

    async def run_phase(self) -> None:
        self._task: Task[None] = cocotb.start_soon(self._take_items())

    def extract_phase(self) -> None:
        self._task.cancel()

    async def _take_items(self) -> None:
        while True:
            item = await self.seq_item_port.get_next_item()
            try:
                for message in item.messages:
                    item.taken.append(await self.host.issue(message, item.keep_tag))
            except CxlError as error:
                item.error = error  # for the sequence, which looks at its transactions
            self.seq_item_port.item_done()


class CxlMemItem(uvm_sequence_item):
    """Sequence item: a list of requests that the driver turns into transactions.

    finish_item() returns when the driver has accepted all of them; one item for many requests costs
    far less than one item each.
    """

    def __init__(
        self, messages: Iterable[M2SMessage], keep_tag: bool = False, name: str = "cxl"
    ) -> None:
        super().__init__(name)
        self.messages = list(messages)
        self.keep_tag = keep_tag
        self.error: CxlError | None = None
        """Error that kept the driver from accepting all requests."""
        self.taken: list[Transaction] = []
        """Transactions that the driver has started."""

    @property
    def transactions(self) -> list[Transaction]:
        """Return one transaction per message; valid once the driver has accepted the item.

        Raises:
            CxlError: the link broke before all messages were accepted.
        """
        if self.error is not None:
            raise self.error
        return self.taken


class CxlMemSequence(uvm_sequence):
    """Base of sequences, with methods for traffic; subclasses define ``body``."""

    async def issue_all(
        self, messages: Iterable[M2SMessage], keep_tag: bool = False
    ) -> list[Transaction]:
        """Pass requests to the driver in one item; return their transactions when all are accepted.

        Await ``.wait()`` of a transaction for its response.
        """
        item = CxlMemItem(messages, keep_tag)
        await self.start_item(item)
        await self.finish_item(item)
        return item.transactions

    async def call(self, message: M2SMessage) -> S2MMessage | None:
        """Send one request; return its response, or None if none is owed."""
        return (await self.send_all([message]))[0]

    async def send_all(self, messages: Iterable[M2SMessage]) -> list[S2MMessage | None]:
        """Send requests as fast as the link accepts them; return all responses in request order."""
        return [await one.wait() for one in await self.issue_all(messages)]

    async def read(self, addr: int, ldid: int = 0) -> S2MMessage | None:
        """Read the 64-byte line at a byte address (MemRd); return the response."""
        return await self.call(M2SReq(ReqOp.MEM_RD, 0, addr, ldid))

    async def write(
        self, addr: int, data: bytes, ldid: int = 0, be: int = BE_ALL, poison: bool = False
    ) -> S2MMessage | None:
        """Write the enabled bytes of the line at a byte address; return the response.

        MemWr is used if all 64 byte enables are set, else MemWrPtl.
        """
        opcode = RwdOp.MEM_WR if be == BE_ALL else RwdOp.MEM_WR_PTL
        message = M2SRwD(opcode, 0, addr, ldid=ldid, data=data, be=be, poison=poison)
        return await self.call(message)
