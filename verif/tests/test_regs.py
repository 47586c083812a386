# SPDX-License-Identifier: Apache-2.0
"""Control and status registers of `nf_controller` against the RDL (spec: controller §7).

Every register's reset value and access type is compared with the map that is generated from
hdl/regs/nf_regs.rdl, scaled to the parameters of the build.
"""

import random
from dataclasses import replace
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from models.commit_check import CommitCode
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from models.register_map import REG_MAP
from models.register_types import FieldAccess, Register
from verif.axi import Resp
from verif.env.base_test import NfBaseTest
from verif.parameters import device_params
from verif.regs.axil import AxiLitePort
from verif.sequences.mixed import PlainMemorySequence
from verif.tests.decorator import nf_test
from verif.tests.ports import clock_and_reset, ports, tie_inputs
from verif.tests.register_checks import RegisterChecks

INIT_LIMIT = 20_000  # reads of STATUS until INIT_BUSY must be 0

PID_CACHEMEM = 0x5555


def registers() -> dict[str, Register]:
    """Return the registers by name that a device with this build's parameters must have."""
    return REG_MAP.expand(device_params())


def identity_region(params: DeviceParams, workers: int) -> RegionConfig:
    """Return a descriptor of an IDENTITY region whose window lies directly above the memory."""
    return RegionConfig(params.mem_lines * 64, 0, 0, workers, Mode.IDENTITY)


async def reset(dut: Any) -> None:
    """Tie every input of the top but the register port to 0 (tx_ready: 1), and reset."""
    tie_inputs(dut, "nf_controller", tx_ready=1)
    for name in ports("nf_axi_ports.svh", "input"):
        if name.startswith("m_axi_"):
            getattr(dut, name).value = 0
    await clock_and_reset(dut, 4)


async def start(dut: Any) -> RegisterChecks:
    """Reset the device, wait for the initialiser, and return the checks of its registers."""
    checks = RegisterChecks(AxiLitePort(dut), registers(), random.Random(cocotb.RANDOM_SEED))
    await reset(dut)
    status = checks.registers["STATUS"]
    for _ in range(INIT_LIMIT):
        data, _ = await checks.port.read(status.address)
        if not status.field("INIT_BUSY").extract(data):
            return checks
    raise AssertionError(f"STATUS.INIT_BUSY is still set after {INIT_LIMIT} reads")


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def reset_values(dut: Any) -> None:
    """Check that every register reads its reset value."""
    await (await start(dut)).reset_values()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def read_write(dut: Any) -> None:
    """Check that RW bits read back what was written, and reserved bits read 0."""
    await (await start(dut)).read_write()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def no_aliases(dut: Any) -> None:
    """Check that all RW registers can hold different values at the same time."""
    await (await start(dut)).no_aliases()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def byte_strobes(dut: Any) -> None:
    """Check that a write changes only the enabled bytes."""
    strobes = (0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100, 0b0110, 0b0111, 0b1110)
    await (await start(dut)).byte_strobes(strobes)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def read_only(dut: Any) -> None:
    """Check that writes to read-only, W1C and command registers change nothing."""
    await (await start(dut)).read_only()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def unmapped(dut: Any) -> None:
    """Check that addresses without a register answer SLVERR and change nothing."""
    await (await start(dut)).unmapped(64)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def write_one_to_clear(dut: Any) -> None:
    """Check that a link error sets its W1C bit, interrupts and counts, and each can be cleared."""
    checks = await start(dut)
    regs = checks.registers
    irq_status, irq_enable = regs["IRQ_STATUS"], regs["IRQ_ENABLE"]
    crc_error, ctrl = regs["CRC_ERROR"], regs["CTRL"]
    link_error = irq_status.field("LINK_ERROR").mask

    dut.phy_up.value = 1
    await RisingEdge(dut.clk)
    dut.rx_protocol_id.value = PID_CACHEMEM
    dut.rx_flit.value = 1  # one bit set and CRC 0: the CRC cannot be right
    dut.rx_valid.value = 1
    await RisingEdge(dut.clk)
    dut.rx_valid.value = 0
    await ClockCycles(dut.clk, 20)

    assert dut.irq.value == 0, "interrupt without an enabled bit"
    await checks.expect(crc_error, 1, "after one bad flit")
    await checks.write(irq_enable, irq_enable.mask() & ~link_error)
    assert dut.irq.value == 0, "interrupt although the bit is not enabled"
    await checks.write(irq_enable, link_error)
    assert dut.irq.value == 1, "no interrupt although the bit is set and enabled"
    await checks.write_one_to_clear(irq_status, link_error)
    assert dut.irq.value == 0, "interrupt stays after the bit was cleared"
    for written, value, count in ((crc_error, 0, 1), (ctrl, 0, 1), (ctrl, 1, 0)):
        await checks.write(written, value)
        await checks.expect(crc_error, count, f"after a write of {value} to {written.name}")
    await checks.expect(ctrl, 0, "after CLEAR_COUNTERS")


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def commit(dut: Any) -> None:
    """Check that EPOCH reads the last accepted commit, and STATUS.CODE the last result."""
    checks, params = await start(dut), device_params()

    def region(name: str) -> Register:
        return checks.registers[f"REGION[{params.regions - 1}].{name}"]

    async def shows(epoch: int, code: CommitCode, committed: int, when: str) -> None:
        await checks.expect(region("EPOCH"), epoch, when)
        status = region("STATUS")
        await checks.expect(status, status.pack(CODE=code, COMMITTED=committed), when)

    await checks.write(region("EPOCH"), 0x1111)  # WORKERS is 0 after reset
    await shows(0, CommitCode.WORKERS, 0, "after a refused commit")

    # No state to initialise, as the memory is tied: IDENTITY.
    for name, value in identity_region(params, workers=2).register_values().items():
        await checks.write(region(name), value)
    await checks.write(region("EPOCH"), 0xCAFE_0001)
    await shows(0xCAFE_0001, CommitCode.OK, 1, "after a commit")

    await checks.write(region("THRESHOLD"), 0)
    await checks.write(region("EPOCH"), 0x2222)
    await shows(0xCAFE_0001, CommitCode.THRESHOLD, 1, "after a commit that is refused")
    await checks.expect(region("THRESHOLD"), 0, "after a commit that is refused")


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def back_pressure(dut: Any) -> None:
    """Check random accesses with random pauses on all channels, reads in parallel with writes."""
    checks = await start(dut)
    port, rng = checks.port, checks.rng
    targets = [r for r in checks.registers.values() if r.mask(FieldAccess.RW) == r.mask()]
    mirror = {reg.name: reg.reset for reg in targets}

    def pauses() -> Any:
        share = rng.choice((0.2, 0.5, 0.8))
        while True:
            yield rng.random() < share

    await port.pause(**{channel: pauses() for channel in ("aw", "w", "b", "ar", "r")})
    for _ in range(150):
        written, other = rng.sample(targets, 2)
        data = rng.getrandbits(32)
        read = cocotb.start_soon(port.read(other.address))
        await port.write(written.address, data)
        mirror[written.name] = written.stored(mirror[written.name], data)
        for reg, got in ((other, await read), (written, await port.read(written.address))):
            want = mirror[reg.name]
            assert got == (want, Resp.OKAY), f"{reg.name}: {got}, not {want:#x}"


@nf_test(shows="test_regs::register_agent")
async def register_agent(test: NfBaseTest) -> None:
    """Check that the register agent reaches every register and field by name, and its extremes."""
    regs, scoreboard, params = test.env.registers, test.env.scoreboard, test.cfg.hw
    while await regs.read("STATUS.INIT_BUSY"):
        pass
    for name, register in registers().items():
        value = await regs.read(name)
        for f in () if register.counts else register.fields:
            assert await regs.read(f"{name}.{f.name}") == f.extract(value), f"{name}.{f.name}"
    for name, register in registers().items():
        stored = (f for f in register.fields if f.access is FieldAccess.RW and not f.volatile)
        if writable := sum(f.mask for f in stored):
            for value in (writable, 0, register.reset):
                await regs.write(name, value)
                await regs.read(name)

    await regs.write("DEVLOAD_THRESHOLD.MODERATE", 0x77)  # the other fields stay
    assert await regs.read("DEVLOAD_THRESHOLD") == 0x60_77_10
    assert scoreboard.devload.thresholds == (0x10, 0x77, 0x60)
    await regs.write("CTRL.MULTI_HEADER", 1)
    await regs.write("CTRL.CLEAR_COUNTERS", 1)
    assert await regs.read("CTRL.MULTI_HEADER"), "a write of another field took the bit away"
    assert set((await regs.read_counters()).values()) == {0}

    too_many = identity_region(params, workers=65)
    assert await regs.commit(0, too_many, epoch=5) is CommitCode.WORKERS
    good = replace(too_many, workers=64)
    assert await regs.commit(0, good, epoch=6) is CommitCode.OK
    assert await regs.read("REGION[0].EPOCH") == 6
    assert await regs.read("REGION[0].STATUS.COMMITTED") == 1
    assert scoreboard.configs[0] == good, "the predictor saw another descriptor"
    assert test.env.axil.monitor.accesses > 100, "the monitor saw no accesses"
    assert test.env.predictor.reads > 100, "the predictor saw no reads"
    await PlainMemorySequence(test.env, transactions=10).run()
