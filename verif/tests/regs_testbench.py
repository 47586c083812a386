# SPDX-License-Identifier: Apache-2.0
"""The register block alone (`nf_regs`), where every event can be driven; accesses on bare pins."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Coroutine
from typing import Any

import cocotb
from cocotb.regression import TestGenerator
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from cocotb.utils import get_sim_time

from models.nf_regs import REG_MAP
from models.register_map import Register
from verif.axi import Resp
from verif.parameters import device_params
from verif.regs.axil import AxiLitePort
from verif.tests.packed_structs import layout
from verif.tests.ports import clock_and_reset, tie_inputs

CLOCK_NS = 10
EVENTS = {port: layout(f"{port}_t") for port in ("core_events", "link_events", "ram_events")}
COUNTED = {
    port: [member for member in members if member[0].upper() in REG_MAP.counters()]
    for port, members in EVENTS.items()
}
"""Members that a counter counts; the others say where the first of them was."""


class RegsBench:
    """The block with idle inputs, out of reset."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.params = device_params()
        self.regs: dict[str, Register] = REG_MAP.expand(self.params)
        self.port = AxiLitePort(dut)
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.closed: list[int] = []
        """Regions whose CTRL.CLOSE was written."""
        self._began = get_sim_time("ns")

    @property
    def cycles(self) -> int:
        """Clocks since the bench was made."""
        return round((get_sim_time("ns") - self._began) / CLOCK_NS)

    async def start(self) -> RegsBench:
        tie_inputs(self.dut, "nf_regs")
        await clock_and_reset(self.dut, 3)
        cocotb.start_soon(self._close())
        return self

    async def _close(self) -> None:
        """Answer each CLOSE some clocks later, as the core would; commits are left to the test."""
        dut = self.dut
        while True:
            await RisingEdge(dut.commit_close)
            self.closed.append(int(dut.commit_region.value))
            await ClockCycles(dut.clk, self.rng.randrange(1, 6))
            await FallingEdge(dut.clk)
            assert int(dut.commit_valid.value), "CLOSE was not held until it was answered"
            assert int(dut.commit_close.value), "CLOSE was not held until it was answered"
            dut.commit_done.value = 1
            await FallingEdge(dut.clk)
            dut.commit_done.value = 0

    async def read(self, name: str) -> int:
        data, resp = await self.port.read(self.regs[name].address)
        assert resp == Resp.OKAY, f"read of {name} answered {resp}"
        return data

    async def write(self, name: str, data: int, strobe: int = 0xF) -> None:
        resp = await self.port.write(self.regs[name].address, data, strobe)
        assert resp == Resp.OKAY, f"write of {name} answered {resp}"

    async def pulse(self, name: str, value: int) -> None:
        """Drive an event input for one clock."""
        getattr(self.dut, name).value = value
        await RisingEdge(self.dut.clk)
        getattr(self.dut, name).value = 0

    async def clear_beside(self, name: str, ones: int, port: str, event: int, delay: int) -> int:
        """A write of `ones` to a register, and an event `delay` clocks after its start; returns how
        many clocks after the clear took effect the event came (below 0: before)."""
        dut = self.dut
        write = cocotb.start_soon(self.write(name, ones))
        effect = moment = -1
        for edge in range(14):
            await FallingEdge(dut.clk)
            getattr(dut, port).value = event if edge == delay else 0
            await RisingEdge(dut.clk)
            if edge == delay:
                moment = edge
            if effect < 0 and int(dut.s_axil_bvalid.value):
                effect = edge - 1  # BVALID is seen one clock after the write took effect
        await write
        assert effect >= 0, "no write response"
        return moment - effect

    async def counters(self) -> dict[str, int]:
        return {name: await self.read(name) for name in REG_MAP.counters()}


async def _send(dut: Any, channel: str, after: int, **payload: int) -> None:
    """Offer one beat on AW or W `after` clocks from now, and take it back when it is accepted."""
    await ClockCycles(dut.clk, after) if after else None
    for name, value in payload.items():
        getattr(dut, f"s_axil_{channel}{name}").value = value
    getattr(dut, f"s_axil_{channel}valid").value = 1
    accepted = False
    while not accepted:
        await ReadOnly()
        accepted = bool(int(getattr(dut, f"s_axil_{channel}ready").value))
        await RisingEdge(dut.clk)
    getattr(dut, f"s_axil_{channel}valid").value = 0
    for name, value in payload.items():  # what the pins show now means nothing
        pin = getattr(dut, f"s_axil_{channel}{name}")
        pin.value = ~value & (1 << len(pin)) - 1


async def raw_write(dut: Any, address: int, data: int, strobe: int, aw: int, w: int) -> int:
    """One write on the bare pins; the channel with the greater delay is offered that many clocks
    after the other has been *accepted* (0 and 0: both at once). Returns the response.
    """
    address_beat = {"addr": address, "prot": 0}
    data_beat = {"data": data, "strb": strobe}
    if aw == w:
        first = cocotb.start_soon(_send(dut, "aw", 0, **address_beat))
        await _send(dut, "w", 0, **data_beat)
        await first
    elif aw < w:
        await _send(dut, "aw", 0, **address_beat)
        await _send(dut, "w", w, **data_beat)
    else:
        await _send(dut, "w", 0, **data_beat)
        await _send(dut, "aw", aw, **address_beat)
    await ReadOnly()
    while not int(dut.s_axil_bvalid.value):
        await RisingEdge(dut.clk)
        await ReadOnly()
    resp = int(dut.s_axil_bresp.value)
    await RisingEdge(dut.clk)
    dut.s_axil_bready.value = 1
    await RisingEdge(dut.clk)
    dut.s_axil_bready.value = 0
    return resp


async def raw_write_held(dut: Any, address: int, data: int) -> None:
    """Write on the bare pins until the response is there, and leave it untaken."""
    await _send(dut, "aw", 0, addr=address, prot=0)
    await _send(dut, "w", 0, data=data, strb=0xF)
    while not int(dut.s_axil_bvalid.value):
        await FallingEdge(dut.clk)


async def raw_read(dut: Any, address: int, held: int = 0) -> int:
    """One read on the bare pins, whose data is taken `held` clocks after it came; returns the data.

    AssertionError when it does not stay as it came.
    """
    await _send(dut, "ar", 0, addr=address, prot=0)
    dut.s_axil_rready.value = not held
    await ReadOnly()
    while not int(dut.s_axil_rvalid.value):
        await RisingEdge(dut.clk)
        await ReadOnly()
    data = int(dut.s_axil_rdata.value)
    if held:
        await ClockCycles(dut.clk, held)
        dut.s_axil_rready.value = 1
        await ReadOnly()
        assert int(dut.s_axil_rvalid.value), "the response was taken back"
        assert int(dut.s_axil_rdata.value) == data, "the data changed while it waited"
    await RisingEdge(dut.clk)
    dut.s_axil_rready.value = 0
    return data


def regs_test(
    test: Callable[[RegsBench], Coroutine[Any, Any, None]], limit_ms: int = 5
) -> TestGenerator:
    """Register a test of the register block with cocotb; it gets the bench, out of reset.

    Args:
        test: The test.
        limit_ms: Simulated time after which it fails, in ms.
    """

    @functools.wraps(test)
    async def run(dut: Any) -> None:
        await test(await RegsBench(dut).start())

    return cocotb.test(timeout_time=limit_ms, timeout_unit="ms")(run)
