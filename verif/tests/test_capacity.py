# SPDX-License-Identifier: Apache-2.0
"""Capacity check: FALLBACK, its interrupt, and DevLoad. Needs the default number of slots."""

from itertools import product
from typing import Any

from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.monitor import ObservedResponse
from cocotbext.cxl.wire.messages import S2MNDR, DevLoad
from models.modes import Mode
from models.register_map import REG_MAP
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig, Profile
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.tests.decorator import ALL, nf_test

REGS = REG_MAP.expand()
IRQ = {f.name: f.mask for f in REGS["IRQ_STATUS"].fields}
PAIR_LINES = 16


class CapacityTest(NfBaseTest):
    """Test of the capacity check with a region that misses and one that hits.

    Misses above CAP_THRESHOLD raise FALLBACK of their region; its DevLoad is then moderate, that of
    the other region is not.
    """

    shows = "test_capacity::capacity_fallback"

    def configure(self, cfg: EnvConfig) -> None:
        def shape(link: CxlConfig) -> None:
            if cfg.profile is not Profile.BACKPRESSURE:  # completions pile up and share flits
                link.ready = ReadyPattern(pattern=(False,) * 24 + (True,) * 6)

        cfg.shape_link = shape

    async def scenario(self) -> None:
        registers = self.env.registers
        run = NfSequence(self.env)
        wide = run.layout.region(Mode.G_BINARY, (4 * run.slots - 1).bit_length(), 4)
        calm = run.layout.region(Mode.G_BINARY, 4, 4)
        await run.set_registers(DEVLOAD_THRESHOLD=0, CAP_WINDOW=16, IRQ_ENABLE=IRQ["FALLBACK"])
        await run.commit_all(wide, calm)
        # The window is full of hits before the threshold is set.
        await run.fill_lines(calm, range(PAIR_LINES), range(2), wait=False)
        await run.fill_lines(wide, 0, 0)
        await registers.write("CAP_THRESHOLD", 4)
        await run.fill_lines(wide, range(2), range(1, 4))
        assert await registers.read("FALLBACK") == 0, "FALLBACK without misses"
        assert self.dut.irq.value == 0
        await run.fill_lines(wide, range(16, 40), 0)
        await run.cycles(10)
        assert await registers.read("FALLBACK") == 1, "misses did not raise FALLBACK of region 0"
        assert self.dut.irq.value == 1, "no interrupt for FALLBACK"
        assert await registers.read("IRQ_STATUS.FALLBACK")
        assert await registers.read("REGION[0].STATUS.FALLBACK")
        assert not await registers.read("REGION[1].STATUS.FALLBACK")
        self.figure("mixed_devload_pairs", await self.mixed_pairs(run, wide, calm))
        await self.others(run, wide)
        await self.clear(run, wide)

    async def mixed_pairs(self, run: NfSequence, wide: Any, calm: Any) -> int:
        """Write to both regions so that completions with different DevLoad share flits.

        The scoreboard checks each of them.

        Returns:
            The number of clocks with two such completions; AssertionError for none.
        """
        async with run.traced() as trace:
            for worker, line, config in product(range(2, 4), range(PAIR_LINES), (wide, calm)):
                await run.contribute(config, worker, line, limit=RACE_LIMIT)
                if run.random() < 0.1:
                    await run.read_region(config, line, 0, limit=RACE_LIMIT)
        loads: dict[int, set[int]] = {}
        for seen in trace:
            if isinstance(seen, ObservedResponse) and isinstance(seen.message, S2MNDR):
                loads.setdefault(seen.cycle, set()).add(int(seen.message.devload))
        pairs = sum(len(values) > 1 for values in loads.values())
        assert pairs, "no flit held two NDRs of unlike DevLoad: nothing was tested"
        return pairs

    async def others(self, run: NfSequence, wide: Any) -> None:
        """Send requests outside the region, whose DevLoad FALLBACK must not raise."""
        beyond = run.layout.params.mem_lines << 6
        for line in range(6):
            await run.write(line << 6, run.randbytes(64))
            await run.read(line << 6, limit=RACE_LIMIT)
            await run.read(beyond)
            await run.write(beyond, bytes(64))
        await run.drain()
        severe = REGS["DEVLOAD_THRESHOLD"].pack(OPTIMAL=0, MODERATE=0, SEVERE=1)
        await self.env.registers.write("DEVLOAD_THRESHOLD", severe)
        for line in range(6):
            await run.contribute(wide, 1, line, limit=RACE_LIMIT)
            await run.read_region(wide, line, 0, limit=RACE_LIMIT)
        await run.drain()
        await self.env.registers.write("DEVLOAD_THRESHOLD", 0)

    async def clear(self, run: NfSequence, wide: Any) -> None:
        """Check that FALLBACK is sticky until 1 is written to it, also after a commit."""
        registers = self.env.registers
        await run.commit(0)
        assert await registers.read("FALLBACK") == 1, "a commit cleared FALLBACK"
        await registers.write("FALLBACK", 2)
        assert await registers.read("FALLBACK") == 1, "a write of another bit cleared it"
        await run.set_registers(FALLBACK=1, IRQ_STATUS=IRQ["FALLBACK"])
        assert await registers.read("FALLBACK") == 0
        await run.cycles(3)
        assert self.dut.irq.value == 0, "the interrupt did not go away"
        await run.fill_lines(wide, 0)
        assert await registers.read("FALLBACK") == 0, "FALLBACK came back without misses"


# (optimal, moderate, severe): the load of a busy device; a threshold of 0 switches it off
LEVELS = (
    ((255, 255, 255), None),
    ((128, 128, 128), None),  # as many as there are places: the upper bit counts
    ((1, 255, 255), DevLoad.OPTIMAL),
    ((1, 1, 255), DevLoad.MODERATE),
    ((1, 1, 1), DevLoad.SEVERE),
    ((0, 1, 0), DevLoad.MODERATE),
    ((0, 0, 1), DevLoad.SEVERE),
    ((0, 0, 0), None),
)
"""DEVLOAD_THRESHOLD (optimal, moderate, severe), and the one level above light that it allows."""


@nf_test(CapacityTest, profiles=ALL)
def capacity_fallback() -> None:
    """Check that misses above the threshold raise FALLBACK, its interrupt and DevLoad."""


@nf_test(NfSequence, profiles=ALL)
async def devload_levels(run: NfSequence) -> None:
    """Check that DevLoad takes the level that the thresholds allow, and no other but light."""
    for (optimal, moderate, severe), busy in LEVELS:
        word = severe << 16 | moderate << 8 | optimal
        await run.registers.write("DEVLOAD_THRESHOLD", word)
        await run.cycles(10)
        async with run.traced() as trace:
            for k in range(run.cfg.count(30)):
                await run.write(k % 64 << 6, run.randbytes(64))
                await run.read(0x8000 | k % 64 << 6)
        seen = {
            DevLoad(item.message.devload) for item in trace if isinstance(item, ObservedResponse)
        }
        allowed = {DevLoad.LIGHT} | ({busy} if busy else set())
        assert seen <= allowed, f"thresholds {word:#x}: loads {seen}"
        assert busy is None or busy in seen, f"thresholds {word:#x}: never {busy.name}"
