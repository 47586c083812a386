# SPDX-License-Identifier: Apache-2.0
"""DONE and the interrupt: every source is set, masked and cleared."""

from __future__ import annotations

from typing import Any

import cocotb

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.wire.crc import seal
from models.line_packing import Mode
from models.nf_regs import REG_MAP
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.base import NfSequence

REGS = REG_MAP.expand()
IRQ = {f.name: f.mask for f in REGS["IRQ_STATUS"].fields}
EVENTS = IRQ["ACCESS_ERROR"] | IRQ["LINK_ERROR"] | IRQ["POISON"]


class InterruptTest(NfBaseTest):
    """DONE, its interrupt, the mask, and the sources of single events."""

    def configure(self, cfg: EnvConfig) -> None:
        def shape(link: CxlConfig) -> None:
            link.waive = lambda rule, _direction: rule == "crc"
            link.link.retry = True  # the device asks for the lost flit

        cfg.shape_link = shape

    async def scenario(self) -> None:
        registers, irq = self.env.registers, self.dut.irq
        run = NfSequence(self.env)
        config = run.layout.region(Mode.G_TERNARY, 1, 3)
        await run.commit(1, config)
        for worker in range(3):
            for line in range(2):
                assert await registers.read("DONE") == 0, "DONE before the last contribution"
                await run.contribute(config, worker, line)
                await run.drain()
        await self.env.clocks(10)
        assert await registers.read("DONE") == 2
        assert await registers.read("IRQ_STATUS.DONE")
        assert irq.value == 0, "irq although it is not enabled"
        await registers.write("IRQ_ENABLE", IRQ["DONE"])
        await self.env.clocks(3)
        assert irq.value == 1
        await registers.write("IRQ_STATUS", IRQ["DONE"])
        await self.env.clocks(3)
        assert irq.value == 0
        assert await registers.read("DONE") == 2, "DONE is a level: W1C of the irq keeps it"
        await run.commit(1)
        assert await registers.read("DONE") == 0, "a commit starts a new epoch"
        await registers.write("IRQ_ENABLE", EVENTS)
        for bit in (IRQ["ACCESS_ERROR"], IRQ["LINK_ERROR"], IRQ["POISON"]):
            assert irq.value == 0
            await self.event(bit, run, config)
            await run.drain()
            await self.env.clocks(10)
            assert await registers.read("IRQ_STATUS") & EVENTS == bit
            assert irq.value == 1
            await registers.write("IRQ_STATUS", bit)
            await self.env.clocks(3)

    async def event(self, bit: int, run: NfSequence, config: Any) -> None:
        """An unmapped read, a flit with a wrong CRC, or a poisoned contribution."""
        if bit == IRQ["ACCESS_ERROR"]:
            await run.read(1 << 51)
        elif bit == IRQ["LINK_ERROR"]:
            self.env.cxl.host.inject(seal(0) ^ 1)
            await self.env.clocks(30)
        else:
            await run.contribute(config, 0, 0, poison=True)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def interrupts(_dut: Any, profile: str) -> None:
    """DONE and the interrupt: set, masked, cleared."""
    await run_uvm(InterruptTest, profile)
