# SPDX-License-Identifier: Apache-2.0
"""The pyuvm agent on bench_wire with devices that would hang it, and the errors that its calls
raise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from pyuvm import ConfigDB, uvm_root, uvm_test

from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.conftest import RunCocotb
from cocotbext.cxl.device import CxlMemDevice
from cocotbext.cxl.errors import CxlError, CxlTimeout
from cocotbext.cxl.link.broken_device import BrokenDevice, DeviceFault
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.uvm_agent import CxlMemAgent, CxlMemSequence
from cocotbext.cxl.wire.messages import M2SReq, M2SRwD, ReqOp, RwdOp

LIMIT = 400
READ = M2SReq(ReqOp.MEM_RD, 0, 0x40)
OWED = "owed: DRS for M2SReq MEM_RD tag="


class Sends(CxlMemSequence):
    """Sequence with reads and writes in one item."""

    async def body(self) -> None:
        await self.send_all([READ, *writes(80)])


def writes(count: int) -> list[M2SRwD]:
    """Return writes of one line each."""
    return [M2SRwD(RwdOp.MEM_WR, 0, 64 * k, data=bytes(64)) for k in range(count)]


class Broken(uvm_test):
    """Base: a device with a fault; ``wait`` is the call that must not hang."""

    dut: Any
    fault = DeviceFault.LOST_RESPONSE
    kind: type[CxlError] = CxlTimeout
    text = OWED
    waived = False
    error: CxlError | None = None

    def build_phase(self) -> None:
        self.dut = cocotb.top
        cfg = CxlConfig(response_timeout=LIMIT, link_up_timeout=LIMIT)
        cfg.waive = lambda rule, _way: self.waived and rule in ("timeout", "end")
        self.agent = CxlMemAgent("agent", self)
        self.agent.bus, self.agent.cfg = CxlMemBus.from_entity(self.dut), cfg
        self.agent.clock, self.agent.reset = self.dut.clk, self.dut.rst_n

    async def run_phase(self) -> None:
        self.raise_objection()
        dut = self.dut
        dut.break_hold.value = 0
        dut.rst_n.value = 0
        stub = BrokenDevice(DeviceLink(LinkConfig()), self.fault)
        bus = CxlMemBus.from_prefix(dut, "dev")
        device = CxlMemDevice(bus, dut.clk, dut.rst_n, False, stub=stub)
        await ClockCycles(dut.clk, 4)
        dut.rst_n.value = 1
        await self.raises()
        await self.afterwards()
        device.stop()
        self.drop_objection()

    async def raises(self) -> None:
        """Check that the call raises the expected error, after link-up or in place of it."""
        begin = self.agent.monitor.cycle
        error = await error_of(self._up_and_wait)
        self.logger.info("raised: %s", error)
        assert type(error) is self.kind
        assert self.text in str(error)
        assert self.agent.monitor.cycle - begin < 2 * LIMIT

    async def _up_and_wait(self) -> None:
        await self.agent.host.wait_up()
        await self.wait()

    async def wait(self) -> None:
        """Make the call."""
        await self.agent.host.call(READ)

    async def afterwards(self) -> None:
        """Check that every later call raises as well: nothing hangs after an error."""
        agent = self.agent
        calls: list[Callable[[], Awaitable[object]]] = [
            agent.host.drain,
            lambda: agent.host.call(READ),
            lambda: Sends("again").start(agent.sequencer),
        ]
        for call in calls:
            assert self.text in str(await error_of(call))


async def error_of(call: Callable[[], Awaitable[object]]) -> CxlError:
    """Return the error that the call raises."""
    try:
        await call()
    except CxlError as error:
        return error
    raise AssertionError("the call came back")


class WrongTag(Broken):
    fault, kind, text = DeviceFault.WRONG_TAG, CxlError, "wrong tag, or a second response"


class BadCrc(Broken):
    fault, kind, text = DeviceFault.BAD_CRC, CxlError, "S2M crc: the flit has CRC"


class NdrForDrs(Broken):
    fault, kind, text = DeviceFault.NDR_FOR_DRS, CxlError, "NDR in place of the DRS that is owed"


class NoCredits(Broken):
    fault, text = DeviceFault.NO_CREDITS, "no Req and no RwD credits from the device"


class Silent(Broken):
    fault, text = DeviceFault.SILENT, "no flit has come from the device"


class LostInDrain(Broken):
    """Lost response of a request that only drain() waits for."""

    async def wait(self) -> None:
        self.agent.host.submit(READ)
        await self.agent.host.drain()


class LostInSequence(Broken):
    """Lost response whose error the sequence receives, not the task of the driver."""

    async def wait(self) -> None:
        await Sends("sends").start(self.agent.sequencer)


class NoRoom(Broken):
    """issue() waiting for room without credits."""

    fault, text = DeviceFault.NO_CREDIT_RETURN, "no RwD credits from the device"

    async def wait(self) -> None:
        for message in writes(200):
            await self.agent.host.issue(message)


class NoRoomInSequence(NoRoom):
    """The same within an item."""

    async def wait(self) -> None:
        await Sends("sends").start(self.agent.sequencer)


class WaivedAndReset(Broken):
    """Deliberate, waived time-out; after a reset calls wait again."""

    waived = True
    ran: ClassVar[CxlMemAgent]

    async def afterwards(self) -> None:
        dut, agent = self.dut, self.agent
        type(self).ran = agent
        dut.rst_n.value = 0
        await ClockCycles(dut.clk, 3)
        dut.rst_n.value = 1
        await agent.host.wait_up()
        await agent.host.call(READ)  # the fault concerns the first read alone
        await agent.host.drain()


class NeverOutOfReset(Broken):
    """Test that never releases rst_n and does not wait for the link."""

    text = "rst_n is not 1"

    async def _up_and_wait(self) -> None:
        self.dut.rst_n.value = 0
        await ClockCycles(self.dut.clk, 2)
        await self.wait()


BROKEN = [WrongTag, Broken, BadCrc, NdrForDrs, NoCredits]
BROKEN += [Silent, NeverOutOfReset, LostInDrain, LostInSequence, NoRoom, NoRoomInSequence]


async def _run(test: type[uvm_test]) -> None:
    await uvm_root().run_test(test, keep_set={ConfigDB})


@cocotb.test(timeout_time=20, timeout_unit="us")
@cocotb.parametrize(test=[cocotb.Param(value=test, name=test.__name__) for test in BROKEN])
async def broken_device(dut: Any, test: type[Broken]) -> None:
    """Check that the call raises within the time-out and that check_phase fails as well."""
    Clock(dut.clk, 2, "ns", impl="gpi").start()
    text = ""
    try:
        await _run(test)
    except AssertionError as error:
        text = str(error)
    assert " errors, first: clock " in text, text


@cocotb.test(timeout_time=20, timeout_unit="us")
async def waived_time_out(dut: Any) -> None:
    """Check that the test is green, and so is its next run: nothing of the first one continues."""
    Clock(dut.clk, 2, "ns", impl="gpi").start()
    for _ in range(2):
        await _run(WaivedAndReset)
        agent = WaivedAndReset.ran
        before = agent.host.cycle, agent.monitor.cycle
        await ClockCycles(dut.clk, 5)
        assert (agent.host.cycle, agent.monitor.cycle) == before


def test_broken_devices(run_cocotb: RunCocotb) -> None:
    """Check that no call hangs and that each error names the owed response."""
    assert run_cocotb("cocotbext.cxl.tests.test_broken_device_on_pins") == (12, 0)
