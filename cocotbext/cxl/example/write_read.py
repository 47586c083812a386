# SPDX-License-Identifier: Apache-2.0
"""Twenty lines against any Type-3 device; here the device is played by Python behind a wire."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from pyuvm import uvm_root, uvm_test

from cocotbext.cxl.agent.agent import CxlMemAgent
from cocotbext.cxl.agent.config import CxlConfig
from cocotbext.cxl.agent.pins import CxlPins
from cocotbext.cxl.example.device import start_device
from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp


# [example]
class WriteRead(uvm_test):
    def build_phase(self) -> None:
        self.agent = CxlMemAgent("agent", self)
        self.agent.pins = CxlPins.from_dut(cocotb.top)  # or name every handle
        self.agent.cfg = CxlConfig.sparse(seed=1)

    async def run_phase(self) -> None:
        self.raise_objection()
        await reset(cocotb.top)  # yours: drive rst_n
        await self.agent.wait_up()  # INIT is over, credits are there
        write = M2SRwD(RwdOp.MEM_WR, tag=0, addr=0x40, data=bytes(range(64)))
        await self.agent.call(write)  # waits for the NDR
        answer = await self.agent.call(M2SReq(ReqOp.MEM_RD, tag=0, addr=0x40))
        assert isinstance(answer, S2MDRS)
        assert answer.data == write.data
        flying = [await self.agent.issue(m) for m in many_messages()]
        await self.agent.drain()  # every one has its response
        assert all(t.response for t in flying)
        self.drop_objection()


# [end of example]
async def reset(dut: Any) -> None:
    """Clock and reset of this device."""
    dut.rst_n.value = 0
    Clock(dut.clk, 2, "ns").start()
    start_device(dut)
    await ClockCycles(dut.clk, 4)
    dut.rst_n.value = 1


def many_messages() -> list[M2SReq | M2SRwD]:
    """100 writes and 100 reads."""
    rng = random.Random(1)
    lines = range(0, 6400, 64)
    writes = [M2SRwD(RwdOp.MEM_WR, 0, addr, data=rng.randbytes(64)) for addr in lines]
    return [*writes, *(M2SReq(ReqOp.MEM_RD, 0, addr) for addr in lines)]


@cocotb.test()
async def write_read(_dut: Any) -> None:
    """The example."""
    await uvm_root().run_test(WriteRead)
