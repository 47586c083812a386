# SPDX-License-Identifier: Apache-2.0
"""Host against a Type-3 device in plain cocotb; CxlMemDevice is the device here."""

from __future__ import annotations

import os
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

from cocotbext.cxl import CxlMemBus, CxlMemDevice, CxlMemHost, CxlMemMonitor
from cocotbext.cxl.link.broken_device import BrokenDevice, DeviceFault
from cocotbext.cxl.link.partner import DeviceLink

FAULT = "CXL_EXAMPLE_FAULT"
"""Environment variable: fault of the device (see cocotbext.cxl.link.broken_device)."""


# [example]
@cocotb.test()
async def write_read(dut: Any) -> None:
    bus = CxlMemBus.from_entity(dut)  # or from_prefix(dut, "cxl"): cxl_rx_valid, cxl_tx_valid
    host = CxlMemHost(bus, dut.clk, dut.rst_n, reset_active_level=False)
    monitor = CxlMemMonitor(bus, dut.clk, dut.rst_n, False, error_log=host.error_log)
    await reset(dut)  # yours: start the clock, drive rst_n
    await host.write(0x1003, b"any length, any alignment")
    assert await host.read(0x1003, 10) == b"any length"
    tasks = [cocotb.start_soon(host.write(300 * k, bytes([k]) * 300)) for k in range(16)]
    for task in tasks:  # all of them are in flight
        await task
    assert await host.read(3000, 600) == bytes([10]) * 300 + bytes([11]) * 300
    host.check()  # CxlError if there was any
    monitor.check()


# [end of example]
async def reset(dut: Any) -> None:
    """Start the clock and reset bench_wire, with a device model on its pins.

    The device is broken as the environment variable CXL_EXAMPLE_FAULT says, if set.
    """
    dut.rst_n.value = 0
    fault = os.environ.get(FAULT)
    stub = BrokenDevice(DeviceLink(), DeviceFault(fault)) if fault else None
    bus = CxlMemBus.from_prefix(dut, "dev")
    CxlMemDevice(bus, dut.clk, dut.rst_n, False, latency=(2, 10), stub=stub)
    Clock(dut.clk, 2, "ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst_n.value = 1
