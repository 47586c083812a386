# SPDX-License-Identifier: Apache-2.0
"""What memory answers with an error or poison: beats that have to wait, and stores made again."""

from __future__ import annotations

from collections.abc import Iterable

import cocotb
from cocotb.triggers import RisingEdge

from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.base import RACE_LIMIT, NfSequence

PLACES = 16
"""Lines of ordinary memory."""


class WaitingBeatsSequence(NfSequence):
    """Votes go before the lines of ordinary memory, whose beats have to wait for a clock or more.

    Each beat with an error, or with poison, is counted once all the same.
    """

    reads: int = 240

    async def body(self) -> None:
        rng = self.rng
        self.env.cfg.mem.latency = (1, 8)  # so that some meet a vote, whatever a vote takes
        config = self.layout.region(Mode.G_BINARY, 1, 2)
        await self.commit(0, config)
        for line in range(config.lines):
            await self.contribute(config, 0, line)
        poisoned, unreadable = (set(rng.sample(range(PLACES), PLACES // 2)) for _ in range(2))
        for line in range(PLACES):
            await self.write(line << 6, rng.randbytes(64), poison=line in poisoned)
        await self.drain()
        for lines in (self.env.cfg.mem.read_error_lines, self.env.scoreboard.model.read_errors):
            lines.update(unreadable)
        self.waited: set[int] = set()
        watch = cocotb.start_soon(self.watch())
        for _ in range(self.reads):
            if rng.random() < 0.5:
                await self.read_region(config, rng.randrange(config.lines), limit=RACE_LIMIT)
            else:
                await self.read(rng.randrange(PLACES) << 6, RACE_LIMIT)
        await self.drain()
        await self.refusals(config)
        watch.cancel()
        assert self.waited == {0, 1, 2}, f"one of three kinds never had to wait: {self.waited}"
        for name in ("MEM_POISON", "MEM_READ_ERROR", "MEM_WRITE_ERROR"):
            await self.env.registers.read(name)

    async def refusals(self, config: RegionConfig) -> None:
        """Duplicates, which are answered at once, and writes of which memory refuses half."""
        rng, env = self.rng, self.env
        refused = rng.sample(range(PLACES), PLACES // 2)
        for lines in (env.cfg.mem.write_error_lines, env.scoreboard.model.write_errors):
            lines.update(refused)
        for _ in range(self.reads):
            if rng.random() < 0.5:
                await self.contribute(config, 0, rng.randrange(config.lines), limit=RACE_LIMIT)
            else:
                await self.write(rng.randrange(PLACES) << 6, rng.randbytes(64), RACE_LIMIT)
        await self.drain()

    async def watch(self) -> None:
        """Notes what had to wait: a beat with an error (1), or with poison alone (0), a refusal
        (2)."""
        dut = self.env.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.m_axi_rvalid.value == 1 and dut.m_axi_rready.value == 0:
                if int(dut.m_axi_rresp.value) >> 1:
                    self.waited.add(1)
                elif int(dut.m_axi_ruser.value) & 1:
                    self.waited.add(0)
            held = dut.m_axi_bvalid.value == 1 and dut.m_axi_bready.value == 0
            if held and int(dut.m_axi_bresp.value) >> 1:
                self.waited.add(2)


class RefusedAgainSequence(NfSequence):
    """Memory refuses a store of a worker that has stored before: the worker stays seen.

    So its next store, which memory takes, is no new line of it, and completes nothing again.
    """

    async def body(self) -> None:
        rng = self.rng
        region = rng.randrange(self.cfg.hw.regions)
        config = self.layout.region(Mode.FP32, rng.randrange(2), rng.randint(2, 5))
        for last in (False, True):
            await self.commit(region, config)
            worker, line = rng.randrange(config.workers), rng.randrange(config.lines)
            others = [w for w in range(config.workers) if w != worker]
            for first in rng.sample(
                [worker, *(others if last else others[1:])], len(others) + last
            ):
                await self.contribute(config, first, line)
            await self.drain()
            backing = config.state_line + worker * config.lines + line
            self.refuse((backing,))
            await self.contribute(config, worker, line)
            await self.drain()
            await self.look(config.address(1, line), region)
            self.refuse(())
            await self.contribute(config, worker, line)
            await self.drain()
            await self.look(config.address(1, line), region)
            for first in others:
                await self.contribute(config, first, line)
            await self.drain()
            await self.look(config.address(1, line), region)

    def refuse(self, lines: Iterable[int]) -> None:
        """Memory refuses writes of these lines, and of no other."""
        for kept in (self.env.cfg.mem.write_error_lines, self.env.scoreboard.model.write_errors):
            kept.clear()
            kept.update(lines)

    async def look(self, info: int, region: int) -> None:
        """INFO of the line, and what the region counts."""
        await self.fetch(info)
        await self.env.registers.read(f"REGION[{region}].COMPLETE_LINES")
        await self.env.registers.read(f"REGION[{region}].STATUS")
