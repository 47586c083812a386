# SPDX-License-Identifier: Apache-2.0
"""AXI4-Lite access to the registers, over cocotbext-axi's AxiLiteMaster.

cocotbext-axi 0.1.28 under cocotb 2.1 works with these quirks, all kept in this file:
  - it uses calls that cocotb 2 deprecates (Edge, setimmediatevalue, kill, Event.data): the
    warnings of exactly its modules are silenced;
  - it logs some 50 lines at construction and two a transfer: its loggers are set to WARNING;
  - a partial write is a byte string at an unaligned address, so strobes must be contiguous;
    the disabled byte lanes would carry zeros, and get random values here;
  - it runs from its construction on and looks at edges of the reset only, not at its level: made
    before the reset it samples X, which raises. So it is made at the first access, after reset.
"""

import logging
import random
import warnings
from collections.abc import Iterator
from typing import Any

from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from models.register_types import byte_mask
from verif.axi import Resp

FULL_STROBE = 0xF
STROBE_RUNS = (0b1, 0b10, 0b100, 0b1000, 0b11, 0b110, 0b1100, 0b111, 0b1110, FULL_STROBE)
PREFIX = "s_axil"
"""Start of the names of the ports of the design."""

for _module in (r"cocotbext\.axi", r"cocotb_bus"):
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=_module)


class AxiLitePort:
    """AXI4-Lite manager on the register port of the design.

    Reads and writes are independent of each other; several of one kind are issued in the order of
    the calls.
    """

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self._master: AxiLiteMaster | None = None
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            getattr(dut, f"{PREFIX}_{name}").value = 0

    async def ready(self) -> AxiLiteMaster:
        """Wait until the design is out of reset, and return cocotbext-axi's manager."""
        dut = self._dut
        edge = RisingEdge(dut.clk)
        while self._master is None:
            await edge
            if self._master is None and str(dut.rst_n.value) == "1":
                logging.getLogger(f"cocotb.{dut._name}.{PREFIX}").setLevel(logging.WARNING)
                bus = AxiLiteBus.from_prefix(dut, PREFIX)
                self._master = AxiLiteMaster(bus, dut.clk, dut.rst_n, reset_active_level=False)
                self._fill_disabled_lanes(self._master.write_if.w_channel)
        return self._master

    @staticmethod
    def _fill_disabled_lanes(channel: Any) -> None:
        """Let a W channel send random values in the byte lanes that the strobes disable."""
        send = channel.send

        async def send_filled(word: Any) -> None:
            word.wdata |= random.getrandbits(32) & ~byte_mask(word.wstrb)
            await send(word)

        channel.send = send_filled

    async def read(self, address: int) -> tuple[int, Resp]:
        """Read the word at a byte address; return its value and the response code."""
        master = await self.ready()
        done = await master.read(address & ~3, 4)
        return int.from_bytes(done.data, "little"), Resp(int(done.resp))

    async def write(self, address: int, data: int, strobe: int = FULL_STROBE) -> Resp:
        """Write the enabled bytes of the word at a byte address; return the response code.

        Raises:
            ValueError: The strobes are not one contiguous run (see the head of this file).
        """
        first, count = strobe_run(strobe)
        payload = data.to_bytes(4, "little")[first : first + count]
        master = await self.ready()
        done = await master.write((address & ~3) + first, payload)
        return Resp(int(done.resp))

    async def pause(self, **generators: Iterator[bool] | None) -> None:
        """Hold channels of the port, for back-pressure and gaps.

        Args:
            generators: For aw, w, b, ar or r an iterator of booleans, one per cycle (True: held);
                None ends the holding.
        """
        master = await self.ready()
        write, read = master.write_if, master.read_if
        channels = {
            "aw": write.aw_channel,
            "w": write.w_channel,
            "b": write.b_channel,
            "ar": read.ar_channel,
            "r": read.r_channel,
        }
        for name, generator in generators.items():
            channels[name].set_pause_generator(generator)
            if generator is None:
                channels[name].pause = False


def strobe_run(strobe: int) -> tuple[int, int]:
    """Return the first byte and the number of bytes of a contiguous run of byte strobes.

    Raises:
        ValueError: The strobes are none, or not contiguous.
    """
    if not 0 < strobe <= FULL_STROBE:
        raise ValueError(f"strobe {strobe:#x} enables no byte of a 32-bit word")
    first = (strobe & -strobe).bit_length() - 1
    count = strobe.bit_count()
    if strobe != ((1 << count) - 1) << first:
        raise ValueError(f"strobe {strobe:#06b} is not contiguous")
    return first, count
