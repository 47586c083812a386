# SPDX-License-Identifier: Apache-2.0
"""Base of the link tests: a host with retry, injected faults, counters, hand-made flits."""

import os
from typing import Any, ClassVar

import cocotb
from cocotb.triggers import RisingEdge

from cocotbext.cxl import faults
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.link.flit_event import FlitEvent
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.wire.control import ControlFlit, encode_control
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import Direction
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.env.env import Sink
from verif.parameters import build_parameters
from verif.sequences.mixed import PlainMemorySequence

RETRY_TIMEOUT = build_parameters().get("RETRY_TIMEOUT", 4096)
ICARUS = os.environ.get("NF_SIM") == "icarus"


def control(flit: ControlFlit) -> int:
    """Return a control flit of 64 bytes with its CRC, as an int of 528 bits."""
    return seal(encode_control(flit))


class LinkTest(NfBaseTest):
    """Base of pyuvm tests of the link: link-level retry is on, and faults are injected into flits.

    ``rules`` are the faults, injected while ``faults.armed``.
    """

    rules: ClassVar[tuple[faults.FaultRule, ...]] = ()
    waived: ClassVar[tuple[str, ...]] = ()
    """Names of link rules of the link checker that the host breaks on purpose."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.stuck_clocks = max(20_000, 60 * RETRY_TIMEOUT)
        cfg.shape_link = self.shape
        self.faults = faults.FaultInjector(self.plan(), cfg.seed)

    def plan(self) -> tuple[faults.FaultRule, ...]:
        """Return the faults to inject; a subclass may override it."""
        return self.rules

    def shape(self, cfg: CxlConfig) -> None:
        """Set the configuration of the CXL agent: retry, its time-out, waived rules and faults."""
        cfg.link.retry = True
        cfg.link.retry_timeout = RETRY_TIMEOUT
        cfg.device_wrap = self.cfg.hw.retry_depth - 1
        if self.waived:
            cfg.waive = lambda rule, way: way == "M2S" and rule in self.waived
        self.faults.attach(cfg)

    def connect_phase(self) -> None:
        super().connect_phase()
        self.env.cxl.link_port.connect(Sink("fault_sink", self, self.on_flit))

    def on_flit(self, event: FlitEvent) -> None:
        """Pass a flit that was seen at the pins to the fault injector."""
        self.faults.observed(event)

    async def start(self) -> None:
        cxl = self.env.cxl
        self.faults.bind(cxl.host.link, cxl.host.retrain, cxl.monitor.tracker)
        self.faults.on_fault.append(self._injected)
        cocotb.start_soon(self._tick())
        await super().start()

    def _injected(self, kind: faults.FaultKind, _direction: Direction) -> None:
        self.env.coverage.link_fault.fault(kind, self.faults.retrying, str(self.cfg.profile))

    async def _tick(self) -> None:
        edge, tick = RisingEdge(self.dut.clk), self.faults.tick
        while True:
            await edge
            tick()

    # -- the host ---------------------------------------------------------------------------------
    @property
    def host(self) -> HostLink:
        """Link partner of the device in the host agent."""
        link: HostLink = self.env.cxl.host.link
        return link

    def memory(self) -> PlainMemorySequence:
        """Return a sequence whose `read`, `write` and `fetch` access ordinary memory."""
        return PlainMemorySequence(self.env)

    async def some_traffic(self, count: int = 30) -> None:
        """Write and read `count` lines of ordinary memory, and wait for all responses.

        The scoreboard checks them: a link that does not work is noticed.
        """
        run = self.memory()
        for k in range(count):
            await run.write(k << 6, run.rng.randbytes(64), 4)
            await run.read(k << 6, 4)
        await run.drain()

    async def until(self, reached: Any, limit: int, what: str) -> None:
        """Wait until `reached()` is true, for at most ``limit`` clocks.

        Raises:
            AssertionError: With the text `what`, after that.
        """
        edge = RisingEdge(self.dut.clk)
        for _ in range(limit):
            if reached():
                return
            await edge
        raise AssertionError(f"not within {limit} clocks: {what}")

    # -- counters ---------------------------------------------------------------------------------
    async def read(self, *names: str) -> dict[str, int]:
        """Return the values of registers by name."""
        return {name: await self.env.registers.read(name) for name in names}

    async def rise(self, before: dict[str, int]) -> dict[str, int]:
        """Return by how much registers have risen since they were read."""
        return {name: now - before[name] for name, now in (await self.read(*before)).items()}

    async def table(self, flits: tuple[int, int]) -> faults.FaultTable:
        """Return the fault table of the run so far: faults injected, detected and recovered.

        Args:
            flits: numbers of M2S and S2M flits, for the rates in the table.
        """
        device = await self.read(*faults.COUNTERS)
        host = {name: self.host.counters[name.lower()] for name in faults.COUNTERS}
        return faults.judge(self.faults, device, host, flits)

    async def check_faults(self) -> faults.FaultTable:
        """Check that every injected fault was detected and recovered; return the fault table."""
        table = await self.table((0, 0))
        assert not table.problems, table.problems
        return table


class HandMadeTest(LinkTest):
    """Base of link tests that drive data flits made by hand (`link_messages`)."""

    def line(self) -> bytes:
        """Return 64 random bytes."""
        return self.env.rng.randbytes(64)

    async def check(self, *addresses: int) -> None:
        """Read lines at these byte addresses; the scoreboard compares the data."""
        run = self.memory()
        for addr in addresses:
            await run.fetch(addr)
