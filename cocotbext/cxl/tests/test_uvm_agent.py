# SPDX-License-Identifier: Apache-2.0
"""The pyuvm agent on bench_wire with CxlMemDevice."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Timer
from pyuvm import ConfigDB, uvm_root, uvm_test

from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.conftest import RunCocotb
from cocotbext.cxl.device import CxlMemDevice
from cocotbext.cxl.link.conftest import random_requests
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.uvm_agent import CxlMemAgent, CxlMemSequence
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import FlitHeader
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    M2SMessage,
    M2SReq,
    ReqOp,
    S2MMessage,
)
from cocotbext.cxl.wire.packer import PackOptions


class Batch(CxlMemSequence):
    """Sequence with all messages in one item."""

    def __init__(self, messages: list[M2SMessage]) -> None:
        super().__init__("batch")
        self.messages = messages
        self.responses: list[S2MMessage | None] = []

    async def body(self) -> None:
        self.responses = await self.send_all(self.messages)


class Memory(CxlMemSequence):
    """Sequence that writes, then reads back, one item each."""

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
    """Agent, wire and device; subclasses add ``traffic``."""

    dut: Any

    def configure(self) -> CxlConfig:
        """Return the settings of the host."""
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
        dut.break_hold.value = 0
        dut.rst_n.value = 0
        pack = PackOptions(dense=self.cfg.link.pack.dense, rng=self.rng, multi_header=True)
        link = LinkConfig(rng=self.rng, pack=pack)
        bus = CxlMemBus.from_prefix(dut, "dev")
        self.device = CxlMemDevice(
            bus, dut.clk, dut.rst_n, False, link_config=link, latency=(2, 10), rng=self.rng
        )
        await ClockCycles(dut.clk, 4)
        dut.rst_n.value = 1
        await self.agent.host.wait_up()
        await self.traffic()
        await self.agent.host.drain()
        await ClockCycles(dut.clk, 300)
        monitor = self.agent.monitor
        assert monitor.requests > 0
        assert self.passive.monitor.requests == monitor.requests
        assert self.agent.host.idle
        assert monitor.tracker.idle, monitor.tracker.outstanding
        self.device.stop()
        self.drop_objection()

    async def traffic(self) -> None:
        """Send 500 messages, twice."""
        for _ in range(2):
            batch = Batch(random_requests(self.rng, 500))
            await batch.start(self.agent.sequencer)
            assert None not in batch.responses


class Pattern(AgentTest):
    """A tx_ready pattern and single items."""

    def configure(self) -> CxlConfig:
        cfg = CxlConfig.dense(7)
        cfg.ready = ReadyPattern(pattern=(True, False, False, True))
        cfg.sequential_tags = True
        return cfg

    async def traffic(self) -> None:
        await Memory("memory").start(self.agent.sequencer)


class Injected(AgentTest):
    """Raw flits: a hand-made request is answered, a reserved format is counted by the device."""

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


class BrokenHold(AgentTest):
    """Negative twin of the pin checks; it must fail."""

    def configure(self) -> CxlConfig:
        cfg = CxlConfig.dense(10)
        cfg.ready = ReadyPattern(0.5)
        return cfg

    async def traffic(self) -> None:
        self.dut.break_hold.value = 1
        for message in random_requests(self.rng, 50):
            self.agent.host.submit(message)
        await Timer(500, "ns")
        self.dut.break_hold.value = 0
        texts = self.agent.monitor.errors
        assert any("while s2m_ready was low" in text for text in texts)
        raise RuntimeError("seen")


async def _run(dut: Any, test: type[AgentTest]) -> None:
    Clock(dut.clk, 2, "ns", impl="gpi").start()
    await uvm_root().run_test(test, keep_set={ConfigDB})


@cocotb.test()
@cocotb.parametrize(test=[AgentTest, Pattern, Injected])
async def agent(dut: Any, test: type[AgentTest]) -> None:
    """Run every test above except the negative one."""
    await _run(dut, test)


@cocotb.test(expect_error=RuntimeError)
async def pin_checks_see_a_broken_hold(dut: Any) -> None:
    """Check that the monitor reports the error; RuntimeError is the expected result."""
    await _run(dut, BrokenHold)


def test_uvm_agent(run_cocotb: RunCocotb) -> None:
    """Run all of the above on each simulator."""
    assert run_cocotb("cocotbext.cxl.tests.test_uvm_agent") == (4, 0)
