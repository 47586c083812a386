# SPDX-License-Identifier: Apache-2.0
"""Latency and initiation interval of the engine, measured at its ports inside the design.

Needs a build whose engine ports are visible (build `probe` of the testplan); under Icarus any build.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from models.formats import Mode
from verif.cxl.config import CxlConfig, ReadyPattern
from verif.env.base import NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.base import NfSequence

MAX_LATENCY = 5
RUN_WANTED = 12


class EngineProbe:
    """Clock numbers in which the engine took an operation and gave an answer."""

    def __init__(self, dut: Any) -> None:
        engine = dut.u_core.u_engine
        self.clk = dut.clk
        self.signals = [
            engine.op_valid,
            engine.op_ready,
            engine.ndr_valid,
            engine.drs_valid,
            engine.slot_hit,
        ]
        self.clear()
        cocotb.start_soon(self._run())

    def clear(self) -> None:
        """Forgets what was seen."""
        self.taken: list[int] = []
        self.ndr: list[int] = []
        self.drs: list[int] = []
        self.hits: list[int] = []

    async def _run(self) -> None:
        edge = RisingEdge(self.clk)
        cycle = 0
        op_valid, op_ready, ndr, drs, hit = self.signals
        while True:
            await edge
            cycle += 1
            if op_valid.value == 1 and op_ready.value == 1:
                self.taken.append(cycle)
            if ndr.value == 1:
                self.ndr.append(cycle)
            if drs.value == 1:
                self.drs.append(cycle)
            if hit.value == 1:
                self.hits.append(cycle)


def longest_run(cycles: list[int]) -> int:
    """Most operations that were taken in consecutive clocks."""
    best = run = 1 if cycles else 0
    for before, after in pairwise(cycles):
        run = run + 1 if after == before + 1 else 1
        best = max(best, run)
    return best


class EngineTimingTest(NfBaseTest):
    """Single operations for the latency; a queue that is let go at once for the interval."""

    def configure(self, cfg: EnvConfig) -> None:
        def shape(link: CxlConfig) -> None:
            # Held long enough for the request queues to fill up behind the engine.
            link.ready = ReadyPattern(pattern=(False,) * 300 + (True,) * 200)

        cfg.shape_link = shape

    async def scenario(self) -> None:
        run = NfSequence(self.env)
        probe = EngineProbe(self.dut)
        for region, mode in enumerate((Mode.G_BINARY, Mode.G_TERNARY)):
            config = run.layout.region(mode, 1, 64)
            await run.commit(region, config)
            await run.contribute(config, 0, 0)
            await run.contribute(config, 0, 1)
            await run.drain()
            await self.latency(run, config, probe, mode.name.lower())
            await self.interval(run, config, probe, mode.name.lower())

    async def latency(self, run: NfSequence, config: Any, probe: EngineProbe, name: str) -> None:
        """One write on a slot hit, then one read: input to answer."""
        probe.clear()
        await run.contribute(config, 1, 0)
        await run.drain()
        write = probe.ndr[0] - probe.taken[0]
        assert probe.hits, "the write was no slot hit"
        probe.clear()
        await run.read_region(config, 0, 0)
        await run.drain()
        read = probe.drs[0] - probe.taken[0]
        self.figure(f"{name}_contribution_latency_cycles", write)
        self.figure(f"{name}_vote_read_latency_cycles", read)
        assert write <= MAX_LATENCY, f"contribution takes {write} cycles, limit {MAX_LATENCY}"
        assert read <= MAX_LATENCY, f"vote read takes {read} cycles, limit {MAX_LATENCY}"

    async def interval(self, run: NfSequence, config: Any, probe: EngineProbe, name: str) -> None:
        """Contributions of many workers to one line, queued up, must be taken one a clock."""
        probe.clear()
        for worker in range(2, 64):
            await run.contribute(config, worker, 0)
        await run.drain()
        one_line = longest_run(probe.taken)
        assert len(probe.hits) == 62, f"{len(probe.hits)} of 62 operations were slot hits"
        probe.clear()
        for worker in range(1, 32):
            for line in (1, 0):  # line 0: duplicates
                await run.contribute(config, worker, line)
        await run.drain()
        two_lines = longest_run(probe.taken)
        self.figure(f"{name}_back_to_back_on_one_line", one_line)
        self.figure(f"{name}_back_to_back_on_two_lines", two_lines)
        assert min(one_line, two_lines) >= RUN_WANTED, (
            f"longest runs of one operation a clock: {one_line} and {two_lines}, "
            f"wanted {RUN_WANTED}"
        )


@cocotb.test()
async def latency_and_interval(_dut: Any) -> None:
    """Contribution and vote read within 5 cycles; initiation interval 1, also on one line."""
    await run_uvm(EngineTimingTest)
