# SPDX-License-Identifier: Apache-2.0
"""Latency and initiation interval of the engine, measured at its ports inside the design.

Needs a build whose engine ports are visible (build `probe` of the testplan); Icarus shows all.
"""

from collections.abc import Awaitable
from itertools import pairwise
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from models.modes import Mode
from models.regions import RegionConfig
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.sequences.base import NfSequence
from verif.tests.decorator import host_link, nf_test

MAX_LATENCY = 5
RUN_WANTED = 12
CREDITS = 64
FILLER = 2 * 62
"""Number of operations that use up credits and completion queue before those that are measured."""


class EngineProbe:
    """Recorder of the clocks in which the engine accepts an operation, hits a slot, and responds.

    `clocks` lists them under "taken", "hit", "ndr" and "drs".
    """

    def __init__(self, dut: Any) -> None:
        engine = dut.u_core.u_engine
        self.edge = RisingEdge(dut.clk)
        self.accepted = (engine.op_valid, engine.op_ready)
        self.signals = {"ndr": engine.ndr_valid, "drs": engine.drs_valid, "hit": engine.slot_hit}
        self.clear()
        cocotb.start_soon(self._run())

    def clear(self) -> None:
        """Clear the lists of clocks."""
        self.clocks: dict[str, list[int]] = {"taken": [], **{name: [] for name in self.signals}}

    async def _run(self) -> None:
        cycle = 0
        while True:
            await self.edge
            cycle += 1
            if all(signal.value == 1 for signal in self.accepted):
                self.clocks["taken"].append(cycle)
            for name, signal in self.signals.items():
                if signal.value == 1:
                    self.clocks[name].append(cycle)


def longest_run(cycles: list[int]) -> int:
    """Return the largest number of operations that were accepted in consecutive clocks."""
    best = run = 1 if cycles else 0
    for before, after in pairwise(cycles):
        run = run + 1 if after == before + 1 else 1
        best = max(best, run)
    return best


class EngineTimingTest(NfBaseTest):
    """Measurement of the engine: latency of single operations, interval of a released queue."""

    def configure(self, cfg: EnvConfig) -> None:
        # Completions stop when the credits are used up: the request queue in front of the engine
        # fills up. Then all credits come back at once.
        host_link(grant_plain=CREDITS, return_delay=(200, 200), return_batch=CREDITS)(cfg)

    async def scenario(self) -> None:
        self.run = run = NfSequence(self.env)
        self.probe = EngineProbe(self.dut)
        modes = [Mode.G_BINARY, Mode.G_TERNARY, *([Mode.G_TERN5] if self.cfg.hw.tern5 else [])]
        for region, mode in enumerate(modes):
            config = await run.start_region(region, mode, 2, 64)
            await self.first_touch(config)
            await self.warm(config)
            await self.latency(config)
            await self.interval(config, region)
        config = await run.start_region(len(modes), Mode.FP32, 2, 64)
        await self.warm(config)
        self.env.cfg.mem.latency = (99, 99)  # each answer of memory to a store takes a clock, too
        await self.interval(config, len(modes))
        await self.fp32_reads(config)

    async def measured(self, operation: Awaitable[Any], answer: str) -> tuple[int, bool]:
        """Execute one operation; return clocks from acceptance to response, and True for a hit.

        `answer` is the port of the response, "ndr" or "drs".
        """
        self.probe.clear()
        await operation
        await self.run.drain()
        clocks = self.probe.clocks
        return clocks[answer][0] - clocks["taken"][0], bool(clocks["hit"])

    async def first_touch(self, config: RegionConfig) -> None:
        """Check that the first write of a line, a miss without a record, is as fast as a hit."""
        line = config.lines - 1
        first, is_hit = await self.measured(self.run.contribute(config, 1, line), "ndr")
        assert not is_hit, "the first write was a slot hit"
        hit, _ = await self.measured(self.run.contribute(config, 2, line), "ndr")
        assert first == hit, f"the first contribution takes {first} cycles, one that hits {hit}"

    async def latency(self, config: RegionConfig) -> None:
        """Measure one write and one read of a line in its slot: up to `MAX_LATENCY` clocks each."""
        write, is_hit = await self.measured(self.run.contribute(config, 1, 0), "ndr")
        assert is_hit, "the write was no slot hit"
        read, _ = await self.measured(self.run.read_region(config, 0, 0), "drs")
        for name, clocks in (("contribution", write), ("vote_read", read)):
            self.figure(f"{config.mode.name.lower()}_{name}_latency_cycles", clocks)
            assert clocks <= MAX_LATENCY, f"{name} takes {clocks} cycles, limit {MAX_LATENCY}"

    async def warm(self, config: RegionConfig) -> None:
        """Contribute to every line, so that each has a slot."""
        await self.run.fill_lines(config, None, 0)

    async def interval(self, config: RegionConfig, region: int) -> None:
        """Check that queued contributions are accepted one a clock, on one line and on two."""
        others = list(range(2, 64))
        filler = [(worker, line) for line in (2, 3) for worker in others]
        one = await self.burst(config, filler + [(worker, 0) for worker in others])
        await self.run.commit(region)
        await self.warm(config)
        both = [(worker, line) for worker in others[:40] for line in (0, 1)]
        two = await self.burst(config, filler + both)
        self.figure(f"{config.mode.name.lower()}_back_to_back_on_one_line", one)
        self.figure(f"{config.mode.name.lower()}_back_to_back_on_two_lines", two)
        assert min(one, two) >= RUN_WANTED, f"one operation a clock for {one} and {two} clocks only"

    async def fp32_reads(self, config: RegionConfig) -> None:
        """Check that reads of one FP32 line are accepted at link rate, two in a flit."""
        await self.run.drain()
        self.probe.clear()
        await self.run.read_lines(config, 0, range(64, 128))
        taken = self.probe.clocks["taken"]
        clocks = taken[-1] - taken[0]
        self.figure("fp32_64_reads_cycles", clocks)
        assert clocks < 64 + RUN_WANTED, f"64 reads of an FP32 line took {clocks} clocks"

    async def burst(self, config: RegionConfig, work: list[tuple[int, int]]) -> int:
        """Contribute more than the queues hold; return the longest run of one a clock."""
        self.probe.clear()
        await self.run.contribute_each((config, worker, line) for worker, line in work)
        hits = len(self.probe.clocks["hit"])
        assert hits == len(work), f"{hits} hits of {len(work)} operations"
        return longest_run(self.probe.clocks["taken"][FILLER:])


@nf_test(EngineTimingTest)
def latency_and_interval() -> None:
    """Check that contributions and vote reads take 5 cycles at most, and start one per cycle.

    The initiation interval is 1 also on one line, and for FP32 stores.
    """
