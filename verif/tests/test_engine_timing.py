# SPDX-License-Identifier: Apache-2.0
"""Latency and initiation interval of the engine, measured at its ports inside the design.

Needs a build whose engine ports are visible (build `probe` of the testplan); Icarus shows all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from cocotbext.cxl.config import CxlConfig
from models.line_packing import Mode
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.sequences.base import NfSequence
from verif.tests.decorator import nf_test

MAX_LATENCY = 5
RUN_WANTED = 12
CREDITS = 64
FILLER = 2 * 62
"""Operations that use up credits and completion queue before those that are measured."""


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
        """Clear all lists."""
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
    """Return the most operations that were accepted in consecutive clocks."""
    best = run = 1 if cycles else 0
    for before, after in pairwise(cycles):
        run = run + 1 if after == before + 1 else 1
        best = max(best, run)
    return best


class EngineTimingTest(NfBaseTest):
    """Single operations for the latency; a queue that is let go at once for the interval."""

    def configure(self, cfg: EnvConfig) -> None:
        def shape(link: CxlConfig) -> None:
            # Completions stop when the credits are used up: the request queue in front of
            # the engine fills up. Then all credits come back at once.
            link.link.grant_plain = CREDITS
            link.link.return_delay = (200, 200)
            link.link.return_batch = CREDITS

        cfg.shape_link = shape

    async def scenario(self) -> None:
        run = NfSequence(self.env)
        probe = EngineProbe(self.dut)
        modes = [Mode.G_BINARY, Mode.G_TERNARY, *([Mode.G_TERN5] if self.cfg.hw.tern5 else [])]
        for region, mode in enumerate(modes):
            config = run.layout.region(mode, 2, 64)
            await run.commit(region, config)
            await self.first_touch(run, config, probe)
            await self.warm(run, config)
            await self.latency(run, config, probe, mode.name.lower())
            await self.interval(run, config, probe, mode.name.lower(), region)
        config = run.layout.region(Mode.FP32, 2, 64)
        await run.commit(len(modes), config)
        await self.warm(run, config)
        self.env.cfg.mem.latency = (99, 99)  # each answer of memory to a store takes a clock, too
        await self.interval(run, config, probe, "fp32", len(modes))
        await self.fp32_reads(run, config, probe)

    async def first_touch(self, run: NfSequence, config: Any, probe: EngineProbe) -> None:
        """Check that a first write, a miss without a record, is as fast as a hit."""
        line = config.lines - 1
        probe.clear()
        await run.contribute(config, 1, line)
        await run.drain()
        first = probe.ndr[0] - probe.taken[0]
        assert not probe.hits, "the first write was a slot hit"
        probe.clear()
        await run.contribute(config, 2, line)
        await run.drain()
        hit = probe.ndr[0] - probe.taken[0]
        assert first == hit, f"the first contribution takes {first} cycles, one that hits {hit}"

    async def latency(self, run: NfSequence, config: Any, probe: EngineProbe, name: str) -> None:
        """Measure one write on a slot hit, then one read, from input to answer."""
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

    async def warm(self, run: NfSequence, config: Any) -> None:
        """Allocate a slot for every line."""
        for line in range(config.lines):
            await run.contribute(config, 0, line)
        await run.drain()

    async def interval(
        self, run: NfSequence, config: Any, probe: EngineProbe, name: str, region: int
    ) -> None:
        """Check that queued contributions are accepted one a clock, on one line and on two."""
        others = list(range(2, 64))
        filler = [(worker, line) for line in (2, 3) for worker in others]
        one = await self.burst(run, config, probe, filler + [(worker, 0) for worker in others])
        await run.commit(region)
        await self.warm(run, config)
        both = [(worker, line) for worker in others[:40] for line in (0, 1)]
        two = await self.burst(run, config, probe, filler + both)
        self.figure(f"{name}_back_to_back_on_one_line", one)
        self.figure(f"{name}_back_to_back_on_two_lines", two)
        assert min(one, two) >= RUN_WANTED, f"one operation a clock for {one} and {two} clocks only"

    async def fp32_reads(self, run: NfSequence, config: Any, probe: EngineProbe) -> None:
        """Check that reads of one FP32 line are accepted at link rate, two in a flit."""
        await run.drain()
        probe.clear()
        for worker in range(64):
            await run.read_region(config, 0, 64 + worker)
        await run.drain()
        clocks = probe.taken[-1] - probe.taken[0]
        self.figure("fp32_64_reads_cycles", clocks)
        assert clocks < 64 + RUN_WANTED, f"64 reads of an FP32 line took {clocks} clocks"

    async def burst(
        self, run: NfSequence, config: Any, probe: EngineProbe, work: list[tuple[int, int]]
    ) -> int:
        """Contribute more than the queues hold; return the longest run of one a clock."""
        probe.clear()
        for worker, line in work:
            await run.contribute(config, worker, line)
        await run.drain()
        assert len(probe.hits) == len(work), f"{len(probe.hits)} hits of {len(work)} operations"
        return longest_run(probe.taken[FILLER:])


@nf_test(EngineTimingTest)
def latency_and_interval() -> None:
    """Contribution and vote read within 5 cycles; initiation interval 1, also on one line, and of
    FP32 stores."""
