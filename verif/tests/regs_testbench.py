# SPDX-License-Identifier: Apache-2.0
"""Testbench of the register block alone (`nf_regs`): every event can be driven, and bare pins."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from cocotb.utils import get_sim_time

from models.register_map import REG_MAP
from models.register_types import Register
from verif.axi import Resp
from verif.parameters import device_params
from verif.regs.axil import AxiLitePort
from verif.tests.packed_structs import layout, pack
from verif.tests.ports import block_test, clock_and_reset, tie_inputs
from verif.tests.register_checks import RegisterChecks

CLOCK_NS = 10
EVENTS = {port: layout(f"{port}_t") for port in ("core_events", "link_events", "ram_events")}
COUNTED = {
    port: [member for member in members if member[0].upper() in REG_MAP.counters()]
    for port, members in EVENTS.items()
}
"""Members of the event ports that a counter counts, (name, bits); others locate the first event."""
RAISES = {
    "crc_error": "LINK_ERROR",
    "pid_uncorrectable": "LINK_ERROR",
    "protocol_error": "LINK_ERROR",
    "mem_read_error": "MEM_ERROR",
    "mem_write_error": "MEM_ERROR",
    "poison_received": "POISON",
    "mem_poison": "POISON",
    "ram_parity": "RAM_ERROR",
}
"""Field of IRQ_STATUS that an event sets, by event; other events are only counted."""


class RegsBench:
    """Testbench of `nf_regs`: AXI4-Lite port, register checks, and events on idle inputs."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.params = device_params()
        self.regs: dict[str, Register] = REG_MAP.expand(self.params)
        self.port = AxiLitePort(dut)
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.checks = RegisterChecks(self.port, self.regs, self.rng)
        self.closed: list[int] = []
        """Regions whose CTRL.CLOSE was written, in order."""
        self._began = get_sim_time("ns")

    @property
    def cycles(self) -> int:
        """Number of clocks since the testbench was made."""
        return round((get_sim_time("ns") - self._began) / CLOCK_NS)

    async def start(self) -> RegsBench:
        tie_inputs(self.dut, "nf_regs")
        await clock_and_reset(self.dut, 3)
        cocotb.start_soon(self._close())
        return self

    async def _close(self) -> None:
        """Answer each CLOSE some clocks later, as the core would; the test answers commits."""
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
        await self.checks.write(self.regs[name], data, strobe)

    def drawn(self, struct: str, **fixed: int) -> dict[str, int]:
        """Draw the members of a packed structure by name; `fixed` members are returned as given."""
        return {name: self.rng.getrandbits(width) for name, width in layout(struct)} | fixed

    async def pulse(self, name: str, value: int = 0, **members: int) -> None:
        """Drive an event input for one clock, by its value or by the members of its structure."""
        getattr(self.dut, name).value = pack(f"{name}_t", **members) if members else value
        await RisingEdge(self.dut.clk)
        getattr(self.dut, name).value = 0

    async def clear_beside(self, name: str, ones: int, port: str, event: int, delay: int) -> int:
        """Write `ones` to a register, and drive an event `delay` clocks after the write's start.

        Args:
            name: register.
            ones: value to write, which clears bits.
            port: event input.
            event: value of the event input.
            delay: clocks from the start of the write to the event.

        Returns:
            The number of clocks from the effect of the write to the event; negative if the event
            came first.
        """
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

    async def _send(self, channel: str, after: int, **payload: int) -> None:
        """Offer one beat on channel AW, W or AR `after` clocks from now, until it is accepted."""
        dut = self.dut
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

    async def raw_write(
        self, address: int, data: int, strobe: int = 0xF, aw: int = 0, w: int = 0
    ) -> int:
        """Write on the bare pins of the AXI4-Lite port, with a distance between AW and W.

        The channel with the greater delay, `aw` or `w`, is offered that many clocks after the other
        one has been accepted; 0 and 0: both at once.

        Returns:
            The response (BRESP).
        """
        dut = self.dut
        beats = [(aw, "aw", {"addr": address, "prot": 0}), (w, "w", {"data": data, "strb": strobe})]
        beats.sort(key=lambda beat: beat[0])
        first, second = (self._send(name, after, **fields) for after, name, fields in beats)
        begun = cocotb.start_soon(first)
        if aw != w:
            await begun
        await second
        await begun
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

    async def raw_write_held(self, address: int, data: int) -> None:
        """Write on the bare pins until BVALID is 1, and leave the response waiting."""
        dut = self.dut
        await self._send("aw", 0, addr=address, prot=0)
        await self._send("w", 0, data=data, strb=0xF)
        while not int(dut.s_axil_bvalid.value):
            await FallingEdge(dut.clk)

    async def raw_read(self, address: int, held: int = 0) -> int:
        """Read on the bare pins; accept the data `held` clocks after it is valid, and return it.

        Raises:
            AssertionError: The data or RVALID changes meanwhile.
        """
        dut = self.dut
        await self._send("ar", 0, addr=address, prot=0)
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

    async def counters(self) -> dict[str, int]:
        return {name: await self.read(name) for name in REG_MAP.counters()}


regs_test = block_test(lambda dut: RegsBench(dut).start(), timeout_time=5, timeout_unit="ms")
"""Decorator that registers a test of `nf_regs`, which gets a RegsBench."""
