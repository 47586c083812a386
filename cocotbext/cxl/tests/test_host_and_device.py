# SPDX-License-Identifier: Apache-2.0
"""Tests of CxlMemHost with CxlMemDevice on bench_wire, in plain cocotb, checked by a monitor."""

import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.task import Task
from cocotb.triggers import ClockCycles

from cocotbext.cxl import (
    CxlConfig,
    CxlError,
    CxlMemBus,
    CxlMemDevice,
    CxlMemHost,
    CxlMemMonitor,
    CxlPoisonError,
    CxlTimeout,
    LinkConfig,
)
from cocotbext.cxl.conftest import RunCocotb
from cocotbext.cxl.link.broken_device import BrokenDevice, DeviceFault
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.wire.flits import WireFlit
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

SIZE = 1 << 14


@dataclass
class Bench:
    """Host, device and monitor of one test on bench_wire."""

    dut: Any
    host: CxlMemHost
    device: CxlMemDevice
    monitor: CxlMemMonitor
    rng: random.Random

    def check(self) -> None:
        """Check that none of host, device and monitor has an error."""
        self.host.check()
        self.device.check()
        self.monitor.check()

    def random_range(self) -> tuple[int, int]:
        """Return a random (address, length) within the memory, from 0 bytes to ten lines."""
        length = self.rng.choice((0, 1, self.rng.randrange(64), 64, self.rng.randrange(640)))
        return self.rng.randrange(SIZE - length), length


@asynccontextmanager
async def bench(dut: Any, cfg: CxlConfig, stub: DeviceStub | None = None) -> AsyncIterator[Bench]:
    """Yield host, device and monitor with the link up; stop them at the end of the block.

    With a device model ``stub`` the link is only out of reset. After the block the next test can
    use the pins.
    """
    rng = random.Random(5)
    dut.rst_n.value = 0
    clock = Clock(dut.clk, 2, "ns", impl="gpi")
    clock.start()
    pins = CxlMemBus.from_entity(dut), dut.clk, dut.rst_n, False
    host = CxlMemHost(*pins, cfg=cfg)
    monitor = CxlMemMonitor(*pins, cfg=cfg, error_log=host.error_log, records=False)
    pack = PackOptions(dense=cfg.link.pack.dense, rng=rng, multi_header=True)
    link = LinkConfig(rng=rng, pack=pack, retry=cfg.link.retry, retry_timeout=300)
    inner_pins = CxlMemBus.from_prefix(dut, "dev"), dut.clk, dut.rst_n, False
    inner = CxlMemDevice(
        *inner_pins, size=SIZE, link_config=link, latency=(2, 10), rng=rng, stub=stub
    )
    await ClockCycles(dut.clk, 4)
    dut.rst_n.value = 1
    if stub is None:
        await host.wait_up()
    try:
        yield Bench(dut, host, inner, monitor, rng)
    finally:
        for one in (host, inner, monitor):
            one.stop()


async def random_traffic(run: Bench, count: int) -> None:
    """Run ``count`` random reads and writes against a bytearray, then compare the whole memory.

    Up to 16 are in flight if they do not overlap.
    """
    model = bytearray(SIZE)
    busy: list[tuple[int, int, Task[None]]] = []

    async def read(address: int, length: int) -> None:
        expected = bytes(model[address : address + length])
        assert await run.host.read(address, length) == expected

    async def write(address: int, data: bytes) -> None:
        await run.host.write(address, data)

    for _ in range(count):
        address, length = run.random_range()
        first, last = address // 64, (address + length) // 64
        while len(busy) > 16 or any(first <= high and low <= last for low, high, _ in busy):
            await busy.pop(0)[2]
        if run.rng.random() < 0.5:
            task = cocotb.start_soon(read(address, length))
        else:
            data = run.rng.randbytes(length)
            model[address : address + length] = data
            task = cocotb.start_soon(write(address, data))
        busy.append((first, last, task))
    for _, _, task in busy:
        await task
    await run.host.drain()
    await ClockCycles(run.dut.clk, 300)
    assert run.device.read(0, SIZE) == model


SHAPES = {
    "dense": CxlConfig.dense(1),
    "sparse": CxlConfig.sparse(2),
    "starved": CxlConfig.starved(3),  # few credits and back-pressure
}


@cocotb.test()
@cocotb.parametrize(shape=list(SHAPES))
async def any_length_and_alignment(dut: Any, shape: str) -> None:
    """Check random traffic of any length and alignment on links of three configurations."""
    async with bench(dut, SHAPES[shape]) as run:
        await random_traffic(run, 150)
        run.check()


@cocotb.test()
async def under_retry(dut: Any) -> None:
    """Check random traffic with damaged flits in both directions and with physical retrains."""
    cfg = CxlConfig.starved(4)
    cfg.link.retry, cfg.link.retry_timeout = True, 300
    cfg.waive = lambda rule, way: (rule, way) == ("crc", "M2S")
    rng = random.Random(9)
    damaged = 0

    def damage(wire: WireFlit) -> WireFlit:
        nonlocal damaged
        if rng.random() > 0.02:
            return wire
        damaged += 1
        return wire[0], wire[1] ^ 1 << rng.randrange(528)

    async with bench(dut, cfg) as run:
        cfg.damage_to_device = cfg.damage_to_host = damage
        traffic = cocotb.start_soon(random_traffic(run, 150))
        await ClockCycles(dut.clk, 300)
        run.device.retrain()
        await ClockCycles(dut.clk, 300)
        assert run.host.retrain()
        await traffic
        assert damaged > 10
        assert run.host.link.counters["phy_reinit"] == run.device.link.counters["phy_reinit"] == 2
        assert run.device.link.counters["retry_local"] > 0
        run.check()


@cocotb.test()
async def poison(dut: Any) -> None:
    """Check poison in both directions: reading it raises CxlPoisonError with lines and data."""
    async with bench(dut, CxlConfig.dense(1)) as run:
        host, device = run.host, run.device
        await host.write(0x100, bytes(range(128)), poison=True)
        assert device.poisoned(0, SIZE) == [0x100, 0x140]
        with pytest.raises(CxlPoisonError) as caught:
            await host.read(0xFF, 3)
        assert caught.value.lines == [0x100]
        assert caught.value.data == b"\0\0\1"
        await host.write(0x140, bytes(64))  # a whole line heals it, a part does not
        await host.write(0x100, b"x")
        assert device.poisoned(0, SIZE) == [0x100]
        device.write(0x100, b"y" * 64)
        device.write(0x200, b"z", poison=True)
        assert await host.read(0x100, 64) == b"y" * 64
        with pytest.raises(CxlPoisonError):
            await host.read(0x200, 1)
        run.check()


@cocotb.test()
async def what_the_device_says_of_a_host(dut: Any) -> None:
    """Check that the device reports a wrong host: addresses beyond it, reserved codes, losses."""
    cfg = CxlConfig.dense(1)
    async with bench(dut, cfg) as run:
        host, device = run.host, run.device
        with pytest.raises(CxlPoisonError):
            await host.read(SIZE, 1)
        await host.write(SIZE, b"x")
        assert SIZE // 64 not in device.memory.lines
        await host.call(replace(M2SReq(ReqOp.MEM_RD, 0, 0), snp_type=7))
        texts = "\n".join(device.errors)
        assert texts.count("address beyond the 0x4000 bytes of the device: M2SR") == 2
        assert "SnpType 7 is reserved: M2SReq MEM_RD" in texts
        cfg.damage_to_device = lambda wire: (wire[0], wire[1] ^ 1)
        host.submit(M2SReq(ReqOp.MEM_RD, 0, 0))
        await ClockCycles(dut.clk, 20)
        assert "bad and lost, as link-level retry is off" in device.errors[-1]
        with pytest.raises(CxlError, match=r"device errors, first: clock [0-9]+: address beyond"):
            device.check()


@cocotb.test()
async def changed_responses(dut: Any) -> None:
    """Check the device's response hook: a changed response is read, a dropped one times out."""
    cfg = CxlConfig(response_timeout=300)
    cfg.waive = lambda rule, _way: rule in ("timeout", "end")
    async with bench(dut, cfg) as run:
        run.device.stub.change_response = flipped
        assert await run.host.read(0, 2) == b"\1\1"
        run.device.stub.change_response = lambda _request, _response: None
        with pytest.raises(CxlTimeout, match="no response to the oldest request"):
            await run.host.read(0, 1)
        run.check()


def flipped(_request: M2SMessage, response: S2MMessage | None) -> S2MMessage | None:
    """Return the response with all data bytes set to 1; other responses unchanged."""
    return replace(response, data=b"\1" * 64) if isinstance(response, S2MDRS) else response


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """Check that a reset ends reads in flight with an error, and that the memory survives it."""
    async with bench(dut, CxlConfig.dense(1)) as run:
        await run.host.write(5, b"kept")
        task = cocotb.start_soon(run.host.read(0, 640))
        await ClockCycles(dut.clk, 3)
        dut.rst_n.value = 0
        with pytest.raises(CxlError, match="a reset came before the response"):
            await task
        await ClockCycles(dut.clk, 3)
        dut.rst_n.value = 1
        assert await run.host.read(5, 4) == b"kept"
        run.check()


@cocotb.test()
async def ranges_that_no_message_can_address(dut: Any) -> None:
    """Check ValueError for ranges beyond 2**52, and errors for signals that a bus does not have.

    Reading 0 bytes returns nothing.
    """
    async with bench(dut, CxlConfig.dense(1)) as run:
        for address, length in ((-1, 4), (0, -1), ((1 << 52) - 1, 2)):
            with pytest.raises(ValueError, match="do not fit in 52 address bits"):
                await run.host.read(address, length)
        assert await run.host.read((1 << 52) - 1, 0) == b""
        assert run.host.idle
        with pytest.raises(AttributeError, match="has no signal cxl_rx_valid, the m2s_valid of"):
            CxlMemBus.from_prefix(dut, "cxl")
        with pytest.raises(TypeError, match="no signal m2s_foo"):
            CxlMemBus.from_entity(dut, m2s_foo="x")


LIMIT = 400
READ = M2SReq(ReqOp.MEM_RD, 0, 0x40)


async def read(run: Bench) -> None:
    await run.host.wait_up()
    await run.host.call(READ)


async def drain(run: Bench) -> None:
    await run.host.wait_up()
    run.host.submit(READ)
    await run.host.drain()


async def fill(run: Bench) -> None:
    """Issue 200 writes, more than the host has room for."""
    await run.host.wait_up()
    for k in range(200):
        await run.host.issue(M2SRwD(RwdOp.MEM_WR, 0, 64 * k, data=bytes(64)))


async def in_reset(run: Bench) -> None:
    run.dut.rst_n.value = 0
    await ClockCycles(run.dut.clk, 2)
    await run.host.call(READ)


OWED = r"owed: DRS for M2SReq MEM_RD tag=[0-9A-F]{4} ld=0 addr=0x40, \d+ clocks old"
LATE = r"^time-out: no response to the oldest request within 400 clocks; credits from the device: 6"
DOWN = "^time-out: no link-up within 400 clocks; "
BROKEN: dict[str, tuple[DeviceFault, Callable[[Bench], Awaitable[None]], str]] = {
    "wrong_tag": (
        DeviceFault.WRONG_TAG,
        read,
        f"^wrong tag, or a second response: nobody waits for it: S2MDRS MEM_DATA tag=.*; {OWED}$",
    ),
    "ndr_for_drs": (
        DeviceFault.NDR_FOR_DRS,
        read,
        f"^NDR in place of the DRS that is owed: S2MNDR CMP tag=.*; {OWED}$",
    ),
    "bad_crc": (
        DeviceFault.BAD_CRC,
        read,
        f"^a flit of the device is bad and lost, as link-level retry is off, .*; {OWED}$",
    ),
    "lost_response": (DeviceFault.LOST_RESPONSE, read, f"{LATE}.*; {OWED}$"),
    "lost_in_drain": (DeviceFault.LOST_RESPONSE, drain, f"{LATE}.*; {OWED}$"),
    "no_credits": (DeviceFault.NO_CREDITS, read, f"{DOWN}no Req and no RwD credits from the dev"),
    "silent": (
        DeviceFault.SILENT,
        read,
        f"{DOWN}no Req and no RwD credits .*, no flit has come from the device",
    ),
    "no_room": (
        DeviceFault.NO_CREDIT_RETURN,
        fill,
        r"time-out: .*no RwD credits from the device, .*requests not sent: \d+.*; owed: NDR for ",
    ),
    "never_out_of_reset": (DeviceFault.LOST_RESPONSE, in_reset, f"{DOWN}rst_n is not 1"),
}
"""(fault of the device, call of the host that must not hang, its error) by name."""


@cocotb.test(timeout_time=20, timeout_unit="us")
@cocotb.parametrize(name=list(BROKEN))
async def broken_device(dut: Any, name: str) -> None:
    """Check that a call on a broken device raises in time, as do later calls and check()."""
    fault, call, text = BROKEN[name]
    kind = CxlTimeout if "time-out" in text else CxlError
    cfg = CxlConfig(response_timeout=LIMIT, link_up_timeout=LIMIT)
    async with bench(dut, cfg, BrokenDevice(DeviceLink(), fault)) as run:
        begin = run.monitor.cycle
        with pytest.raises(kind, match=text) as caught:
            await call(run)
        assert type(caught.value) is kind
        assert "\n" not in str(caught.value)
        assert run.monitor.cycle - begin < 2 * LIMIT
        for later in (run.host.drain, lambda: run.host.call(READ)):
            with pytest.raises(kind, match=text):
                await later()
        with pytest.raises(CxlError, match=r"errors, first: clock \d+: "):
            run.check()


def test_host_and_device(run_cocotb: RunCocotb) -> None:
    """Run the cocotb tests of this module on each simulator."""
    assert run_cocotb("cocotbext.cxl.tests.test_host_and_device") == (18, 0)


def fresh_python(code: str) -> None:
    """Run code in a new Python process and check that its exit code is 0."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr


def test_wire_and_link_need_no_cocotb() -> None:
    """Check that wire and link import without cocotb, and that other names raise clear errors."""
    fresh_python("""
import sys
sys.modules.update(dict.fromkeys(("cocotb", "pyuvm", "numpy")))  # importing these now fails
import cocotbext.cxl, cocotbext.cxl.link.tracker, cocotbext.cxl.link.broken_device
assert cocotbext.cxl.LinkConfig().grant_data
assert "CxlMemHost" in dir(cocotbext.cxl)
for name, error in (("CxlMemHost", ModuleNotFoundError), ("NoSuchName", AttributeError)):
    try:
        getattr(cocotbext.cxl, name)
    except error:
        continue
    raise SystemExit(name)
""")


def test_plain_use_needs_no_pyuvm() -> None:
    """Check that all public names, faults and traces import without pyuvm and numpy."""
    fresh_python("""
import sys
sys.modules.update(dict.fromkeys(("pyuvm", "numpy")))
import cocotbext.cxl, cocotbext.cxl.faults, cocotbext.cxl.trace
for name in cocotbext.cxl.__all__:
    getattr(cocotbext.cxl, name)
""")
