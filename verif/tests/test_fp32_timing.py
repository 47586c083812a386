# SPDX-License-Identifier: Apache-2.0
"""Clocks of FP32 accesses at the pins, compared with plain memory, and rates of streams."""

from collections.abc import Sequence
from itertools import product

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SMessage
from models.modes import Mode
from models.regions import RegionConfig
from verif.env.base_test import NfBaseTest
from verif.sequences.base import NfSequence
from verif.tests.decorator import nf_test

WORKERS = 8
NEAR, FAR = 48, 300
"""Latencies of memory, in clocks."""


class FpTimingTest(NfBaseTest):
    """Measurement of FP32 accesses to a region whose lines all have a slot: alone, in streams."""

    async def scenario(self) -> None:
        run = NfSequence(self.env)
        self.sequence = run
        config = await run.start_region(0, Mode.FP32, 5, WORKERS, keep_sum=True)
        self.cfg.mem.latency = (FAR, FAR)
        plain = await self.alone(run.write_msg(0, bytes(64)))
        first = [await self.alone(self.store(config, line)) for line in range(3)]
        self.cfg.mem.latency = (NEAR, NEAR)
        for line, worker in product(range(config.lines), range(WORKERS)):
            await run.issue(self.store(config, line, worker))
        await run.drain()
        plain_read = await self.alone(run.read_msg(0))
        sums = [run.read_msg(config.address(0, line)) for line in range(config.lines)]
        one, kept = await self.alone(sums[0]), await self.alone(sums[0])
        stream = await self.stream(sums[1:])
        again = await self.stream(sums * 2)
        reads = await self.stream([run.read_msg(line << 6) for line in range(2 * config.lines)])
        for name, value in (
            ("plain_write_clocks_at_latency_300", plain),
            ("first_store_clocks_at_latency_300", max(first)),
            ("plain_read_clocks_at_latency_48", plain_read),
            ("first_sum_clocks_at_latency_48", one),
            ("kept_sum_clocks", kept),
        ):
            self.figure(name, value)
        assert max(first) <= 330, f"a first store takes {max(first)} clocks at latency {FAR}"
        assert one <= NEAR + 2 * WORKERS + 12, f"a first sum takes {one} clocks at latency {NEAR}"
        assert kept <= 13, f"a kept sum takes {kept} clocks, plain memory {plain_read}"
        assert stream * WORKERS > 0.99, f"{stream * WORKERS:.3f} of the rate of memory for sums"
        assert again > 0.99 * reads, f"kept sums come at {again:.3f}, plain reads at {reads:.3f}"
        self.rate("first_sums_per_clock", round(stream, 4))
        self.rate("kept_sums_per_clock", round(again, 4))
        self.rate("plain_reads_per_clock", round(reads, 4))

    def store(self, config: RegionConfig, line: int, worker: int = 0) -> M2SMessage:
        """Return a whole store of random data by a worker to a line."""
        run = self.sequence
        return run.write_msg(config.address(worker, line), run.randbytes(64))

    async def alone(self, message: M2SMessage) -> int:
        """Send a request alone; return the clocks from its flit to the flit of its response."""
        cycles = await self.trace([message])
        return cycles[-1] - cycles[0]

    async def stream(self, messages: Sequence[M2SMessage]) -> float:
        """Send requests back to back; return responses per clock, from the third to the last."""
        cycles = (await self.trace(messages))[-len(messages) + 2 :]
        return (len(cycles) - 1) / (cycles[-1] - cycles[0])

    async def trace(self, messages: Sequence[M2SMessage]) -> list[int]:
        """Send requests; return the clocks of all requests, then of all responses."""
        async with self.sequence.traced() as trace:
            for message in messages:
                await self.sequence.issue(message)
        began = [one.cycle for one in trace if not isinstance(one.message, (S2MNDR, S2MDRS))]
        answers = [seen.cycle for seen in trace if isinstance(seen.message, (S2MNDR, S2MDRS))]
        return began + answers


@nf_test(FpTimingTest)
def clocks() -> None:
    """Check the clocks of first store, first sum and kept sum (KEEP_SUM), and stream rates."""
