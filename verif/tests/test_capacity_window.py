# SPDX-License-Identifier: Apache-2.0
"""Capacity window and DevLoad thresholds at their edges, with drawn values."""

from __future__ import annotations

from cocotbext.cxl.monitor import ObservedRequest, ObservedResponse
from cocotbext.cxl.wire.messages import DevLoad
from models.modes import Mode
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.env.base_test import NfBaseTest
from verif.env.config import Profile
from verif.scoreboard.devload import level
from verif.sequences.base import NfSequence
from verif.tests.decorator import ALL, nf_test

IRQ = {f.name: f.mask for f in REG_MAP.expand()["IRQ_STATUS"].fields}
THRESHOLDS = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
PLACES = 64
"""Number of reads, and of writes, that the device admits before it has answered one
(hdl/access/nf_admit).
"""
HELD = 900
"""Number of clocks for which the memory answers nothing, until all requests are admitted."""


class SlidingWindowTest(NfBaseTest):
    """Capacity window with one operation at a time, each followed by a read of SLOT_MISS.

    So the model knows whether each was a miss. FALLBACK and its interrupt are cleared whenever they
    are set, so that each contribution shows anew whether the misses are above the threshold.
    """

    rounds = 4
    steps = 50

    async def scenario(self) -> None:
        run, rng = NfSequence(self.env), self.env.rng
        self.raised = 0
        lines_log2 = (8 * self.cfg.hw.slots).bit_length()
        modes = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)[: self.cfg.hw.regions]
        configs = [run.layout.region(mode, lines_log2, 3) for mode in modes]
        for region, config in enumerate(configs):
            await run.commit(region, config)
        for number in range(self.rounds):
            window = rng.choice((1, 2, rng.randint(3, 9), rng.randint(3, 9), 256))
            window = window if number else 1  # what a contribution brings leaves with the next one
            threshold = 0 if window == 256 else rng.randrange(window)
            limits = [(window, threshold)]
            if number == self.rounds - 1:  # the check is off, in each way
                limits = rng.sample(((0, 0), (window, 256), (window, window)), 3)
            for window, threshold in limits:
                await self.env.registers.write("CAP_WINDOW", window)
                await self.env.registers.write("CAP_THRESHOLD", threshold)
                share = (threshold + 1) / (window + 1)
                for _ in range(self.cfg.count(self.steps / len(limits))):
                    await self.step(run, configs, share)
                    if rng.random() < 0.03:
                        await run.commit(rng.randrange(len(configs)))
                    if rng.random() < 0.03 and window:
                        window += rng.choice((1, 2))
                        await self.env.registers.write("CAP_WINDOW", window)
        for window in (256, rng.randint(4, 255)):
            await self.leave(run, configs, window)
        assert self.raised, "no FALLBACK: nothing was tested"

    async def leave(self, run: NfSequence, configs: list[RegionConfig], window: int) -> None:
        """Send 3 misses, hits and a miss: the first miss is still in the window or just left it."""
        rng, registers = run.rng, self.env.registers
        for hits in rng.sample((window - 4, window - 3), 2 if window == 256 else 1):
            region = rng.randrange(min(2, len(configs)))  # of counts: FP32 has no such check
            await run.commit(region)
            await registers.write("CAP_WINDOW", window)
            await registers.write("CAP_THRESHOLD", 3)
            for first, count in ((0, 3), (0, hits), (3, 1)):
                for number in range(count):
                    line = first + number % 3
                    await run.contribute(configs[region], rng.randrange(3), line, limit=2)
                await run.drain()
                await registers.read("SLOT_MISS")
            fallen = await registers.read("FALLBACK")
            await registers.write("FALLBACK", fallen)
            await registers.write("IRQ_STATUS", IRQ["FALLBACK"])

    async def step(self, run: NfSequence, configs: list[RegionConfig], share: float) -> None:
        """Send one operation that misses with probability `share`; read and clear FALLBACK."""
        rng, registers = run.rng, self.env.registers
        config = rng.choice(configs)
        line = rng.randrange(2) if rng.random() > share else rng.randrange(config.lines)
        if rng.random() < 0.8:
            await run.contribute(config, rng.randrange(config.workers), line)
        else:
            await run.read_region(config, line)
        await run.drain()
        await registers.read("SLOT_MISS")
        fallen = await registers.read("FALLBACK")
        if fallen | await registers.read("IRQ_STATUS.FALLBACK"):
            self.raised += 1
            if rng.random() < 0.5:
                region = rng.randrange(len(configs))
                await registers.read(f"REGION[{region}].STATUS")
                await registers.write("FALLBACK", 1 << region)
                await registers.read("FALLBACK")
            await registers.write("FALLBACK", fallen)
            await registers.write("IRQ_STATUS", IRQ["FALLBACK"])


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
            trace = self.env.trace = []
            for k in range(reads):
                await run.read(k << 6)
            for k in range(writes):
                await run.write(0x8000 | k << 6, rng.randbytes(64))
            await run.drain()
            self.env.trace = None
            requests = [one.cycle for one in trace if isinstance(one, ObservedRequest)]
            answers = [one for one in trace if isinstance(one, ObservedResponse)]
            assert answers[0].cycle > requests[-1] + 50, "the memory was not held long enough"
            got = DevLoad(answers[0].message.devload)
            want = level(outstanding, tuple(edges))
            assert got == want, f"{outstanding} outstanding, thresholds {edges}: {got!r}"
            self.cfg.mem.latency = fast


@nf_test(SlidingWindowTest, profiles=ALL)
def sliding_window() -> None:
    """Check FALLBACK after each contribution, for drawn windows, thresholds and misses."""


@nf_test()
async def deferred_misses(test: NfBaseTest) -> None:
    """Check that a deferred miss counts for its own region, whatever request follows it."""
    run, rng, registers = NfSequence(test.env), test.env.rng, test.env.registers
    hw = test.cfg.hw
    test.cfg.mem.latency = (60, 120)
    misses = 4 * hw.slots
    region, busy, passing = rng.sample(range(hw.regions), 3)
    config = run.layout.region(Mode.G_BINARY, (misses - 1).bit_length(), 2)
    other = run.layout.region(Mode.G_TERNARY, 1, 64)
    third = run.layout.region(Mode.G_BINARY, hw.slots.bit_length(), 1)
    for number, one in ((region, config), (busy, other), (passing, third)):
        await run.commit(number, one)
    for line in range(misses):
        await run.contribute(config, 0, line)
    for line in range(third.lines):
        await run.read_region(third, line)
    await run.drain()
    await registers.write("CAP_THRESHOLD", misses - 1)
    await registers.write("CAP_WINDOW", 256)
    for number in range(misses):
        await run.contribute(config, 1, number)
        await run.contribute(other, number // 2 % 64, number % 2)
    await run.drain()
    fallen = await registers.read("FALLBACK")
    assert fallen == 1 << region, f"FALLBACK {fallen:#x}, of region {region} alone it should be"


@nf_test(DevLoadEdgesTest, profiles=ALL)
def devload_edges() -> None:
    """Check that a DevLoad level is reported from its threshold of requests on, not below."""
