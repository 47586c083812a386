# SPDX-License-Identifier: Apache-2.0
"""Tests of the pyuvm agent on bench_wire with CxlMemDevice."""

import random
from types import SimpleNamespace
from typing import Any, ClassVar

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from pyuvm import ConfigDB, uvm_root, uvm_test

from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.conftest import RunCocotb
from cocotbext.cxl.device import CxlMemDevice
from cocotbext.cxl.errors import CxlTimeout
from cocotbext.cxl.link.broken_device import BrokenDevice, DeviceFault
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.uvm_agent import CxlMemAgent, CxlMemSequence
from cocotbext.cxl.wire.conftest import random_requests
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import FlitHeader
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from cocotbext.cxl.wire.packer import PackOptions

READ = M2SReq(ReqOp.MEM_RD, 0, 0x40)


class Batch(CxlMemSequence):
    """Sequence that sends all messages in one item and keeps the responses."""

    def __init__(self, messages: list[M2SMessage]) -> None:
        super().__init__("batch")
        self.messages = messages
        self.responses: list[S2MMessage | None] = []

    async def body(self) -> None:
        self.responses = await self.send_all(self.messages)


class Memory(CxlMemSequence):
    """Sequence that writes lines, reads them back and compares them, one item each."""

    async def body(self) -> None:
        rng = random.Random(3)
        lines = {64 * i: rng.randbytes(64) for i in range(20)}
        for addr, data in lines.items():
            await self.write(addr, data)
        await self.write(0, bytes(64), be=0xFF)
        lines[0] = bytes(8) + lines[0][8:]
        for addr, data in lines.items():
            answer = await self.read(addr)
            assert isinstance(answer, S2MDRS)
            assert answer.data == data
        assert await self.call(M2SReq(ReqOp.MEM_SPEC_RD, 0, 0)) is None


class AgentTest(uvm_test):
    """uvm_test with an active and a passive agent, the wire and a device.

    Subclasses change ``traffic`` or the whole ``session``.
    """

    dut: Any
    fault: DeviceFault | None = None

    def configure(self) -> CxlConfig:
        """Return the settings of host and monitors."""
        return CxlConfig.dense(1)

    def build_phase(self) -> None:
        self.dut = cocotb.top
        self.rng = random.Random(11)
        self.cfg = self.configure()
        self.agent = CxlMemAgent("agent", self)
        self.passive = CxlMemAgent("passive", self)
        self.passive.active = False
        for one in (self.agent, self.passive):
            one.bus = CxlMemBus.from_entity(self.dut)
            one.clock, one.reset, one.cfg = self.dut.clk, self.dut.rst_n, self.cfg

    async def run_phase(self) -> None:
        self.raise_objection()
        dut = self.dut
        dut.rst_n.value = 0
        pack = PackOptions(dense=self.cfg.link.pack.dense, rng=self.rng, multi_header=True)
        link = LinkConfig(rng=self.rng, pack=pack)
        bus = CxlMemBus.from_prefix(dut, "dev")
        stub = DeviceStub(DeviceLink(link), (2, 10), self.rng)
        if self.fault is not None:
            stub = BrokenDevice(DeviceLink(), self.fault)
        self.device = CxlMemDevice(bus, dut.clk, dut.rst_n, False, stub=stub)
        await ClockCycles(dut.clk, 4)
        dut.rst_n.value = 1
        await self.session()
        self.device.stop()
        self.drop_objection()

    async def session(self) -> None:
        """Bring the link up, send traffic, and check that both monitors saw the same requests."""
        seen: dict[str, list[object]] = {}
        for name in ("request", "response", "link", "phy"):
            take = SimpleNamespace(write=seen.setdefault(name, []).append)
            getattr(self.agent, f"{name}_port").subscribers.append(take)
        await self.agent.host.wait_up()
        await self.traffic()
        await self.agent.host.drain()
        await ClockCycles(self.dut.clk, 300)
        monitor = self.agent.monitor
        assert monitor.requests > 0
        assert (len(seen["request"]), len(seen["response"])) == (
            monitor.requests,
            monitor.responses,
        )
        assert seen["phy"] == [True]
        assert len(seen["link"]) > monitor.requests // 4
        assert self.passive.monitor.requests == monitor.requests
        assert self.agent.host.idle
        assert monitor.tracker.idle, monitor.tracker.outstanding

    async def traffic(self) -> None:
        """Send 500 random messages in one item, twice, then one message in each item."""
        for _ in range(2):
            batch = Batch(random_requests(self.rng, 500))
            await batch.start(self.agent.sequencer)
            assert None not in batch.responses
        await Memory("memory").start(self.agent.sequencer)


class Injected(AgentTest):
    """Test of raw flits: a valid request is answered, a reserved format is a protocol error."""

    def configure(self) -> CxlConfig:
        cfg = CxlConfig.dense(9)
        cfg.waive = lambda rule, direction: (rule, direction) == ("framing", "M2S")
        return cfg

    async def traffic(self) -> None:
        request = M2SReq(ReqOp.MEM_RD, 0xABCD, 64)
        payload = FlitHeader(slots=(5, 4, 4, 4)).encode() | request.pack() << 32
        transactions = self.agent.host.inject(
            seal(payload), retryable=True, plain=1, expect=[request]
        )
        self.agent.host.inject(seal(FlitHeader(slots=(6, 4, 4, 4)).encode()), retryable=True)
        assert isinstance(await transactions[0].wait(), S2MDRS)
        await ClockCycles(self.dut.clk, 50)
        assert self.device.link.counters["protocol_error"] == 1
        assert self.agent.monitor.tracker.counters["PROTOCOL_ERROR"] == 1


class LostInSequence(AgentTest):
    """Test of a lost response: the sequence gets the error, not the driver's task."""

    fault = DeviceFault.LOST_RESPONSE
    text = "owed: DRS for M2SReq MEM_RD tag="

    def configure(self) -> CxlConfig:
        return CxlConfig(response_timeout=400, link_up_timeout=400)

    async def session(self) -> None:
        await self.agent.host.wait_up()
        writes = [M2SRwD(RwdOp.MEM_WR, 0, 64 * k, data=bytes(64)) for k in range(80)]
        for _ in range(2):  # every later item raises as well
            with pytest.raises(CxlTimeout, match=self.text):
                await Batch([READ, *writes]).start(self.agent.sequencer)


class NoRoomInSequence(LostInSequence):
    """Test of a device that returns no credits: an item that waits for room gets the error."""

    fault, text = DeviceFault.NO_CREDIT_RETURN, "no RwD credits from the device"


class WaivedAndReset(LostInSequence):
    """Test of a waived time-out, after which a reset makes the host usable again."""

    ran: ClassVar[CxlMemAgent]

    def configure(self) -> CxlConfig:
        cfg = super().configure()
        cfg.waive = lambda rule, _way: rule in ("timeout", "end")
        return cfg

    async def session(self) -> None:
        dut, host = self.dut, self.agent.host
        type(self).ran = self.agent
        await host.wait_up()
        with pytest.raises(CxlTimeout):
            await host.call(READ)
        dut.rst_n.value = 0
        await ClockCycles(dut.clk, 3)
        dut.rst_n.value = 1
        await host.wait_up()
        await host.call(READ)  # the fault concerns the first read alone
        await host.drain()


async def _run(dut: Any, test: type[AgentTest], clock: bool = True) -> None:
    if clock:
        Clock(dut.clk, 2, "ns", impl="gpi").start()
    await uvm_root().run_test(test, keep_set={ConfigDB})


@cocotb.test()
@cocotb.parametrize(test=[AgentTest, Injected])
async def agent(dut: Any, test: type[AgentTest]) -> None:
    """Run the UVM tests that must pass."""
    await _run(dut, test)


@cocotb.test(timeout_time=20, timeout_unit="us")
@cocotb.parametrize(test=[LostInSequence, NoRoomInSequence])
async def broken_device(dut: Any, test: type[AgentTest]) -> None:
    """Check that items of a sequence raise in time with a broken device, and check_phase fails."""
    with pytest.raises(AssertionError, match=" errors, first: clock "):
        await _run(dut, test)


@cocotb.test(timeout_time=20, timeout_unit="us")
async def waived_time_out(dut: Any) -> None:
    """Check that a UVM test with a waived time-out passes twice; no task of the first run stays."""
    for first in (True, False):
        await _run(dut, WaivedAndReset, clock=first)
        agent = WaivedAndReset.ran
        before = agent.host.cycle, agent.monitor.cycle
        await ClockCycles(dut.clk, 5)
        assert (agent.host.cycle, agent.monitor.cycle) == before


def test_uvm_agent(run_cocotb: RunCocotb) -> None:
    """Run the cocotb tests of this module on each simulator."""
    assert run_cocotb("cocotbext.cxl.tests.test_uvm_agent") == (5, 0)
