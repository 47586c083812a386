# SPDX-License-Identifier: Apache-2.0
"""A memory behind bench_wire, played by cocotbext.cxl.link: take your own device instead."""

from __future__ import annotations

import os
import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from cocotbext.cxl.link.broken_device import BrokenDevice, DeviceFault
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link import DeviceLink
from cocotbext.cxl.link.link_config import LinkConfig

FAULT = "CXL_EXAMPLE_FAULT"
"""Environment variable: the device has this fault (see cocotbext.cxl.link.broken_device)."""


def start_device(dut: Any) -> DeviceStub:
    """Starts it; the stub's memory can be looked at."""
    dut.break_hold.value = 0
    link, latency, rng = DeviceLink(LinkConfig()), (2, 10), random.Random(1)
    stub = DeviceStub(link, latency, rng)
    if os.environ.get(FAULT):
        stub = BrokenDevice(link, DeviceFault(os.environ[FAULT]), latency, rng)
    cocotb.start_soon(play_device(dut, stub))
    return stub


async def play_device(dut: Any, stub: DeviceStub) -> None:
    """The device behind the wire, one step a clock."""
    dut.out_valid.value = dut.out_retrain.value = 0
    offered = False
    while True:
        await RisingEdge(dut.clk)
        if dut.rst_n.value != 1:
            stub.reset()
            offered = False
            dut.out_valid.value = 0
            continue
        stub.link.set_phy(dut.in_phy_up.value == 1)
        if dut.in_valid.value == 1:
            stub.receive(int(dut.in_protocol_id.value), int(dut.in_flit.value))
        dut.out_retrain.value = int(stub.link.retry.retrain_request)
        if offered and dut.out_ready.value != 1:
            stub.next_flit(ready=False)
            continue
        flit = stub.next_flit()
        offered = flit is not None
        dut.out_valid.value = int(offered)
        if flit is not None:
            dut.out_protocol_id.value, dut.out_flit.value = flit
