# SPDX-License-Identifier: Apache-2.0
"""DONE and the interrupt: every source is raised, masked and cleared."""

from itertools import product

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.wire.crc import seal
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, RegionConfig
from models.register_map import REG_MAP
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.sequences.control_lines import ClearsSequence
from verif.sequences.ram_flips import FlipSequence
from verif.tests.decorator import ALL, nf_test

REGS = REG_MAP.expand()
IRQ = {f.name: f.mask for f in REGS["IRQ_STATUS"].fields}
EVENTS = ("RAM_ERROR", "ACCESS_ERROR", "LINK_ERROR", "MEM_ERROR", "POISON", "FALLBACK")
"""Interrupt sources of single events. RAM_ERROR comes first: the slot of its line is known then."""


class InterruptTest(NfBaseTest):
    """Test of DONE, the interrupt pin, the mask IRQ_ENABLE, and each source of IRQ_STATUS."""

    shows = "test_interrupts::interrupts"
    misses = 0

    def configure(self, cfg: EnvConfig) -> None:
        def shape(link: CxlConfig) -> None:
            link.waive = lambda rule, _direction: rule == "crc"
            link.link.retry = True  # the device asks for the lost flit

        cfg.shape_link = shape

    async def scenario(self) -> None:
        registers, irq = self.env.registers, self.dut.irq
        run = FlipSequence(self.env)
        lone = await run.start_region(0, Mode.G_BINARY, 4, 3)
        for name, enabled in product(EVENTS, (False, True)):
            await self.one(name, enabled, run, lone)
        await registers.write("IRQ_ENABLE", 0)
        config = await run.start_region(1, Mode.G_TERNARY, 1, 3)
        for worker, line in product(range(3), range(2)):
            assert await registers.read("DONE") == 0, "DONE before the last contribution"
            await run.fill_lines(config, line, worker)
        await self.env.clocks(10)
        assert await registers.read("DONE") == 2
        assert await registers.read("IRQ_STATUS.DONE")
        assert irq.value == 0, "irq although it is not enabled"
        await registers.write("IRQ_ENABLE", IRQ["DONE"])
        await self.env.clocks(3)
        assert await registers.read("IRQ_STATUS.DONE")
        assert irq.value == 1
        await registers.write("IRQ_STATUS", IRQ["DONE"])
        await self.env.clocks(3)
        assert irq.value == 0
        assert await registers.read("DONE") == 2, "DONE is a level: W1C of the irq keeps it"
        await run.commit(1)
        assert await registers.read("DONE") == 0, "a commit starts a new epoch"

    async def one(self, name: str, enabled: bool, run: FlipSequence, lone: RegionConfig) -> None:
        """Raise a source with only it enabled, or only the others; check status and pin."""
        registers, irq = self.env.registers, self.dut.irq
        others = sum(IRQ.values()) & ~IRQ[name]
        await registers.write("IRQ_ENABLE", IRQ[name] if enabled else others)
        assert irq.value == 0
        await self.event(name, run, lone)
        await run.drain()
        await self.env.clocks(10)
        assert await registers.read("IRQ_STATUS") == IRQ[name], f"not {name} alone"
        assert irq.value == enabled, f"{name}, {'enabled' if enabled else 'masked'}"
        await registers.write("IRQ_STATUS", IRQ[name])
        await self.env.clocks(3)
        assert irq.value == 0

    async def event(self, name: str, run: FlipSequence, lone: RegionConfig) -> None:
        """Raise the source `name` by its event.

        A damaged slot, an unmapped read, a flit with a wrong CRC, an unreadable memory line, a
        poisoned contribution, or one miss too many.
        """
        env = self.env
        if name == "RAM_ERROR":
            await run.fill_lines(lone, 0, 0)
            await run.inject("BOOK", 0, 0)
            env.scoreboard.judge.lose(0, 0)
            await run.read_region(lone, 0, INFO_SELECTOR)
        elif name == "ACCESS_ERROR":
            await run.read(1 << 51)
        elif name == "LINK_ERROR":
            env.cxl.host.inject(seal(0) ^ 1)
            await env.clocks(30)
        elif name == "MEM_ERROR":
            with run.failing(reads=[6], known=True):
                await run.read_addresses([6 * LINE_BYTES])
        elif name == "POISON":
            await run.contribute(lone, 0, 1, poison=True)
        else:  # each time a line that nobody has touched
            await run.set_registers(CAP_WINDOW=1, CAP_THRESHOLD=0)
            self.misses += 1
            await run.fill_lines(lone, 1 + self.misses, 0)
            await run.set_registers(CAP_THRESHOLD=255, FALLBACK=1)


@nf_test(InterruptTest, profiles=ALL)
def interrupts() -> None:
    """Check that each interrupt source is raised, masked and cleared, and that DONE is a level."""


@nf_test(ClearsSequence)
def clears() -> None:
    """Check that each clear of counters, interrupts, captures or flags clears nothing else."""
