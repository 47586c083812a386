# SPDX-License-Identifier: Apache-2.0
"""Capacity window and DevLoad thresholds at their edges, with drawn values."""

from cocotbext.cxl.monitor import ObservedRequest, ObservedResponse
from cocotbext.cxl.wire.messages import DevLoad
from models.modes import Mode
from models.register_map import REG_MAP
from verif.env.base_test import NfBaseTest
from verif.env.config import Profile
from verif.scoreboard.devload import level
from verif.sequences.base import ANY, NfSequence
from verif.tests.decorator import ALL, nf_test

IRQ = {f.name: f.mask for f in REG_MAP.expand()["IRQ_STATUS"].fields}
THRESHOLDS = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
PLACES = 64
"""Number of reads, and of writes, that the device admits before it has answered one
(hdl/access/nf_admit).
"""
HELD = 900
"""Number of clocks for which the memory answers nothing, until all requests are admitted."""


class SlidingWindowSequence(NfSequence):
    """Capacity window with one operation at a time, each followed by a read of SLOT_MISS.

    So the model knows whether each was a miss. FALLBACK and its interrupt are cleared whenever they
    are set, so that each contribution shows anew whether the misses are above the threshold.
    """

    rounds: int = 4
    steps: int = 50

    async def body(self) -> None:
        self.raised = 0
        lines_log2 = (8 * self.slots).bit_length()
        modes = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)[: self.hw.regions]
        self.configs = await self.start_regions(*((mode, lines_log2, 3) for mode in modes))
        for number in range(self.rounds):
            window = self.choice((1, 2, self.randint(3, 9), self.randint(3, 9), 256))
            window = window if number else 1  # what a contribution brings leaves with the next one
            threshold = 0 if window == 256 else self.randrange(window)
            limits = [(window, threshold)]
            if number == self.rounds - 1:  # the check is off, in each way
                limits = self.shuffled(((0, 0), (window, 256), (window, window)))
            for window, threshold in limits:
                await self.set_registers(CAP_WINDOW=window, CAP_THRESHOLD=threshold)
                share = (threshold + 1) / (window + 1)
                for _ in range(self.cfg.count(self.steps / len(limits))):
                    await self.step(share)
                    if self.random() < 0.03:
                        await self.commit(self.randrange(len(self.configs)))
                    if self.random() < 0.06 and window:
                        window = max(1, window + self.choice((-8, -2, 1, 2)))
                        await self.set_registers(CAP_WINDOW=window)
        for window in (256, self.randint(4, 255)):
            await self.leave(window)
        assert self.raised, "no FALLBACK: nothing was tested"

    async def leave(self, window: int) -> None:
        """Send 3 misses, hits and a miss: the first miss is still in the window or just left it.

        Commits of another region come between them.
        """
        for hits in self.sample((window - 4, window - 3), 2 if window == 256 else 1):
            region = self.randrange(min(2, len(self.configs)))  # of counts: FP32 has no such check
            await self.commit(region)
            await self.set_registers(CAP_WINDOW=window, CAP_THRESHOLD=3)
            for lines in (range(3), [number % 3 for number in range(hits)], 3):
                await self.fill_lines(self.configs[region], lines, ANY, limit=2)
                await self.read_registers("SLOT_MISS")
                if len(self.configs) > 1:  # which does not concern this region
                    await self.commit((region + 1) % len(self.configs))
            await self.clear(await self.registers.read("FALLBACK"))

    async def clear(self, fallen: int) -> None:
        """Clear FALLBACK of these regions, and its interrupt."""
        await self.set_registers(FALLBACK=fallen, IRQ_STATUS=IRQ["FALLBACK"])

    async def step(self, share: float) -> None:
        """Send one operation that misses with probability `share`; read and clear FALLBACK."""
        config = self.choice(self.configs)
        line = self.randrange(2) if self.random() > share else self.randrange(config.lines)
        if self.random() < 0.8:
            await self.contribute(config, self.randrange(config.workers), line)
        else:
            await self.read_region(config, line)
        await self.drain()
        await self.read_registers("SLOT_MISS")
        fallen = await self.registers.read("FALLBACK")
        if fallen | await self.registers.read("IRQ_STATUS.FALLBACK"):
            self.raised += 1
            if self.random() < 0.5:
                region = self.randrange(len(self.configs))
                await self.read_registers("STATUS", region=region)
                await self.set_registers(FALLBACK=1 << region)
                await self.read_registers("FALLBACK")
            await self.clear(fallen)


class DevLoadEdgesTest(NfBaseTest):
    """DevLoad of the first response after a known number of requests has been admitted.

    The memory holds its responses meanwhile. The thresholds are drawn near that number.
    """

    cases = 8

    async def scenario(self) -> None:
        run, rng = NfSequence(self.env), self.env.rng
        hw = self.cfg.hw
        fast = self.cfg.mem.latency
        for number in range(self.cases):
            full = self.cfg.profile is Profile.STREAMING and number < 3
            if full:  # 2 to the 7, the highest bit of a threshold
                reads = writes = PLACES
            else:
                reads = rng.randint(1, min(40, hw.req_credits)) if number % 3 != 1 else 0
                writes = rng.randint(1, min(24, hw.rwd_credits)) if number % 3 != 0 else 0
            self.cfg.mem.latency = (HELD, HELD)
            outstanding = reads + writes
            edges = sorted(
                rng.choice((0, outstanding, outstanding, outstanding + 1, max(1, outstanding - 1)))
                for _ in range(3)
            )
            if full:  # each level alone
                edges = [outstanding * (number == one) for one in range(3)]
            word = THRESHOLDS.pack(OPTIMAL=edges[0], MODERATE=edges[1], SEVERE=edges[2])
            await self.env.registers.write("DEVLOAD_THRESHOLD", word)
            async with run.traced() as trace:
                for k in range(reads):
                    await run.read(k << 6)
                for k in range(writes):
                    await run.write(0x8000 | k << 6, rng.randbytes(64))
            requests = [one.cycle for one in trace if isinstance(one, ObservedRequest)]
            answers = [one for one in trace if isinstance(one, ObservedResponse)]
            assert answers[0].cycle > requests[-1] + 50, "the memory was not held long enough"
            got, text = DevLoad(answers[0].message.devload), f"{outstanding} outstanding"
            assert got == level(outstanding, tuple(edges)), f"{text}, thresholds {edges}: {got!r}"
            self.cfg.mem.latency = fast


@nf_test(SlidingWindowSequence, profiles=ALL)
def sliding_window() -> None:
    """Check FALLBACK after each contribution, for drawn windows, thresholds and misses."""


@nf_test(NfSequence)
async def deferred_misses(run: NfSequence) -> None:
    """Check that a deferred miss counts for its own region, whatever request follows it."""
    run.mem.latency = (60, 120)
    misses = 4 * run.slots
    region, busy, passing = run.sample(range(run.hw.regions), 3)
    config = await run.start_region(region, Mode.G_BINARY, (misses - 1).bit_length(), 2)
    other = await run.start_region(busy, Mode.G_TERNARY, 1, 64)
    third = await run.start_region(passing, Mode.G_BINARY, run.slots.bit_length(), 1)
    await run.fill_lines(config, range(misses), 0, wait=False)
    await run.read_each((third, line, None) for line in range(third.lines))
    await run.set_registers(CAP_THRESHOLD=misses - 1, CAP_WINDOW=256)
    for number in range(misses):
        await run.contribute(config, 1, number)
        await run.contribute(other, number // 2 % 64, number % 2)
    await run.drain()
    fallen = await run.registers.read("FALLBACK")
    assert fallen == 1 << region, f"FALLBACK {fallen:#x}, of region {region} alone it should be"


@nf_test(DevLoadEdgesTest, profiles=ALL)
def devload_edges() -> None:
    """Check that a DevLoad level is reported from its threshold of requests on, not below."""
