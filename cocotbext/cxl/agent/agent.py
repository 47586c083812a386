# SPDX-License-Identifier: Apache-2.0
"""CxlMemAgent: sequencer, driver (active only) and monitor of a flit interface."""

from __future__ import annotations

from pyuvm import uvm_agent, uvm_sequencer

from cocotbext.cxl.agent.config import CxlConfig
from cocotbext.cxl.agent.driver import CxlMemDriver
from cocotbext.cxl.agent.errors import ErrorLog
from cocotbext.cxl.agent.items import Transaction
from cocotbext.cxl.agent.monitor import CxlMemMonitor
from cocotbext.cxl.agent.pins import CxlPins
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage


class CxlMemAgent(uvm_agent):
    """Set ``pins``, and ``cfg`` if the defaults will not do, before the build phase.

    ``active`` = False leaves out sequencer and driver: the monitor alone works on any link.
    An error is logged when it is found, and every call that waits raises it as CxlError.
    """

    pins: CxlPins
    cfg: CxlConfig
    active: bool = True

    def build_phase(self) -> None:
        if not hasattr(self, "cfg"):
            self.cfg = CxlConfig()
        error_log = ErrorLog(self.logger.error)
        self.monitor = CxlMemMonitor("monitor", self)
        self.monitor.pins, self.monitor.cfg = self.pins, self.cfg
        self.monitor.error_log = error_log
        self.monitor.records = self.active
        if self.active:
            self.sequencer = uvm_sequencer("sequencer", self)
            self.driver = CxlMemDriver("driver", self)
            self.driver.pins, self.driver.cfg = self.pins, self.cfg
            self.driver.error_log = error_log

    def connect_phase(self) -> None:
        if self.active:
            self.driver.seq_item_port.connect(self.sequencer.seq_item_export)

    def submit(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """See CxlMemDriver.submit."""
        return self.driver.submit(message, keep_tag)

    async def issue(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """See CxlMemDriver.issue."""
        return await self.driver.issue(message, keep_tag)

    async def call(self, message: M2SMessage) -> S2MMessage | None:
        """See CxlMemDriver.call."""
        return await self.driver.call(message)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is owed."""
        return (not self.active or self.driver.idle) and self.monitor.tracker.idle

    async def wait_up(self) -> None:
        """Waits until the link is up and the device has granted credits of both kinds."""
        await self.driver.wait_up()

    async def drain(self) -> None:
        """Waits until every request has its response."""
        await self.driver.drain()

    def finish(self) -> list[str]:
        """End of test: all errors of monitor and driver (check_phase fails on them too)."""
        return [*self.monitor.finish(), *(self.driver.finish() if self.active else [])]
