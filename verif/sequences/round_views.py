# SPDX-License-Identifier: Apache-2.0
"""Rounds that are closed under traffic, and reads of INFO and STATUS while everything moves."""

from __future__ import annotations

import itertools
import random

import cocotb

from cocotbext.cxl.wire.messages import S2MDRS
from models.line_packing import LINE_BYTES, Mode
from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from models.regions import (
    INFO_SELECTOR,
    MAX_WORKERS,
    PLANE_SELECTOR,
    RAW_SELECTOR,
    STATUS_SELECTOR,
    SUM16_SELECTOR,
    VIEW_SELECTORS,
    RegionConfig,
    records,
    sum_selectors,
)
from models.views import LineInfo, StatusView, unpack_words
from verif.sequences.base import NfSequence
from verif.sequences.line_data import ZEROS, byte_enables, line_for
from verif.sequences.pipeline_programs import ParkedBase

AGGREGATING = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_INT4, Mode.G_INT8)
"""The modes that every device has."""
HOSTS = 8
FEW_SLOTS = 16
"""Where slots are many, it takes long until a line has left its slot."""
COUNTED = ("CONTRIBUTION", "DUPLICATE", "POISON_RECEIVED", "LATE")
"""Each contribution that no rule refuses is counted in one of them."""


def aggregating(hw: DeviceParams) -> tuple[Mode, ...]:
    """The modes that this device sums up in."""
    return (*AGGREGATING, Mode.G_TERN5) if hw.tern5 else AGGREGATING


def most_workers(mode: Mode, hw: DeviceParams) -> int:
    """Sums that are exact must not saturate: a commit refuses more workers than a count holds."""
    return min(MAX_WORKERS, hw.cnt_max // mode.counts_to(1)) if mode.exact else MAX_WORKERS


class CloseSequence(NfSequence):
    """Rounds: workers contribute, eight hosts read, CLOSE is written at any moment.

    What the hosts read behind the response of CLOSE is the same for all of them, stays so whatever
    comes late, and says with LATE where every contribution has gone.
    """

    rounds: int = 5
    lines_log2: int = 2

    async def body(self) -> None:
        region = self.rng.randrange(self.cfg.hw.regions)
        beside = self.layout.region(Mode.G_BINARY, 1, 2)
        other = (region + 1) % self.cfg.hw.regions
        if other != region:
            await self.commit(other, beside)
        every = aggregating(self.cfg.hw)
        modes = self.rng.sample(every, len(every))
        configs = [self.draw(mode) for mode in (*modes, *modes)]
        for number in range(self.rounds):
            await self.one_round(region, configs[number % len(configs)])
            if other != region:  # the others are open
                await self.contribute(beside, self.rng.randrange(2), 0, limit=1)
                await self.read_region(beside, 0, 0, limit=1)
        await self.drain()

    def draw(self, mode: Mode) -> RegionConfig:
        """A region with few lines, so that much happens to each."""
        rng = self.rng
        workers = rng.choice((1, 2, 3, 5, 8, rng.randint(4, 16), rng.randint(1, 64)))
        strict = rng.random() < 0.5
        log2 = rng.randint(0, self.lines_log2)
        workers = min(workers, most_workers(mode, self.cfg.hw))
        return self.layout.region(mode, log2, workers, strict=strict)

    async def one_round(self, region: int, config: RegionConfig) -> None:
        """Commit, traffic with a close in it, reads of everything by everybody."""
        rng, registers = self.rng, self.env.registers
        await self.commit(region, config)
        before = [await registers.read(name) for name in COUNTED]
        work = [(w, i) for w in range(config.workers) for i in range(config.lines)]
        work += rng.choices(work, k=len(work) // 8)  # duplicates, and FP32 stores again
        rng.shuffle(work)
        del work[96:]
        self.sent = 0
        writer = cocotb.start_soon(self.writer(config, work))
        readers = [cocotb.start_soon(self.reader(config, host)) for host in range(HOSTS)]
        await self.env.clocks(rng.randint(1, len(work) + len(work) // 2 + 1))
        await self.close(region)
        first = await self.everything(config, rng.sample(range(HOSTS), 2))
        for task in (writer, *readers):
            await task
        await self.drain()
        last = await self.everything(config, list(range(HOSTS)))
        assert last == first, "a read behind CLOSE differs from a later one"
        after = [await registers.read(name) for name in COUNTED]
        moved = [now - then for now, then in zip(after, before, strict=True)]
        assert sum(moved) == self.sent, f"{self.sent} contributions, counted {moved} as {COUNTED}"
        status = StatusView.unpack((await self.fetch(config.address(STATUS_SELECTOR, 0))).data)
        assert status.done, "a closed region is not done"
        assert status.late == moved[-1], f"STATUS.late is {status.late}, LATE rose by {moved[-1]}"
        bitmaps = [
            LineInfo.unpack(first[INFO_SELECTOR, i].data).bitmap for i in range(config.lines)
        ]
        seen = [word for j in VIEW_SELECTORS[1:] for word in await self.words(config, j)]
        assert seen == [sum(one >> w & 1 for one in bitmaps) for w in range(64)]

    async def words(self, config: RegionConfig, selector: int) -> list[int]:
        """A line of STATUS."""
        return unpack_words((await self.fetch(config.address(selector, 0))).data)

    async def writer(self, config: RegionConfig, work: list[tuple[int, int]]) -> None:
        """Contributions, some poisoned, some partial, at the pace of the host."""
        rng = random.Random(self.rng.getrandbits(32))
        for worker, line in work:
            poison = rng.random() < 0.06
            partial = config.mode is Mode.FP32 and rng.random() < 0.2
            be = byte_enables(rng) if partial else None
            data = line_for(config.mode, rng)
            await self.contribute(config, worker, line, data, limit=3, poison=poison, be=be)
            self.sent += 1
            if rng.random() < 0.1:
                await self.env.clocks(rng.randint(1, 40))

    async def reader(self, config: RegionConfig, host: int) -> None:
        """A few reads of one host, whenever it likes."""
        rng = random.Random(self.rng.getrandbits(32))
        for _ in range(rng.randint(1, 4)):
            await self.env.clocks(rng.randint(1, 60))
            readable = self.read_selectors(config)
            selector = rng.choice((readable[0], INFO_SELECTOR, *readable))
            line = rng.randrange(config.lines)
            if rng.random() < 0.2:
                selector, line = rng.choice(VIEW_SELECTORS), 0
            await self.read(config.address(selector, line), 3, ldid=host)

    async def everything(
        self, config: RegionConfig, hosts: list[int]
    ) -> dict[tuple[int, int], S2MDRS]:
        """Result, INFO and one part of each line, read by some hosts, who must all see the same."""
        result = SUM16_SELECTOR if config.mode.bits else 0
        part = 64 if config.mode is Mode.FP32 else PLANE_SELECTOR
        found: dict[tuple[int, int], S2MDRS] = {}
        asked = []
        for host in hosts:
            for line in range(config.lines):
                for selector in (result, INFO_SELECTOR, part):
                    addr = config.address(selector, line)
                    asked.append((selector, line, await self.read(addr, ldid=host)))
        for selector, line, transaction in asked:
            response = await transaction.wait()
            old = found.setdefault((selector, line), response)
            same = (old.data, old.poison) == (response.data, response.poison)
            assert same, f"two hosts differ at selector {selector}, line {line}"
        return {
            key: S2MDRS(one.opcode, 0, 0, poison=one.poison, data=one.data)
            for key, one in found.items()
        }


class HeldCloseSequence(NfSequence):
    """Reads find the round open, and the host does not take their answers: a few wait inside the
    link, more inside the core as well. CLOSE is answered behind them.

    One that comes later must be of the closed round, which is never early: the scoreboard says so.
    ``retrain``: the physical layer is down when CLOSE is written.
    """

    most: int = 6
    retrain: bool = False

    async def body(self) -> None:
        config = self.layout.region(Mode.G_BINARY, 0, 3, strict=True)
        for reads in range(1, self.most + 1):
            await self.commit(0, config)
            await self.contribute(config, 0, 0)
            await self.drain()
            host = self.env.cxl.host
            flying = [await self.read_region(config, 0, 0) for _ in range(reads)]
            await self.env.clocks(60)
            if self.retrain:
                assert host.retrain()
                await self.env.clocks(20)
            await self.close(0)
            closed = host.cycle
            await self.drain()
            late = [read for read in flying if read.end > closed and read.response.poison]
            assert not late, f"{len(late)} of {reads} reads found the round open behind its CLOSE"


class InfoSequence(NfSequence):
    """INFO of lines in every state: racing with contributions and commits, evicted, saturated."""

    mode: Mode = Mode.G_BINARY
    commits: int = 3

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        most = hw.cnt_max + 2 if hw.cnt_max < 20 else 5
        workers = min(max(2, most), most_workers(self.mode, hw))
        log2 = max(1, (hw.slots + 3).bit_length())
        config = self.layout.region(self.mode, log2, workers, strict=rng.random() < 0.5)
        region = rng.randrange(hw.regions)
        await self.commit(region, config)
        full = rng.sample(range(config.lines), 2)
        for worker in range(workers):
            for line in full:
                data = bytes(64) if self.mode is Mode.G_BINARY else b"\xaa" * 64
                await self.contribute(config, worker, line, data, limit=3)
                await self.info(config, line, limit=3)
        lines = rng.sample(range(config.lines), min(config.lines, hw.slots + 4))
        for _ in range(self.commits):
            traffic = cocotb.start_soon(self.traffic(config, lines))
            await self.env.clocks(rng.randint(20, 300))
            await self.commit(region)
            await traffic
            await self.drain()
            for line in lines:
                await self.info(config, line)
            await self.drain()
        if hw.slots <= FEW_SLOTS:
            await self.lost(config, lines)

    async def lost(self, config: RegionConfig, lines: list[int]) -> None:
        """Records of lines cannot be read; one request at a time, so that it is known which."""
        first, distance = records(config, self.cfg.hw.cnt_w)
        errors = self.env.cfg.mem.read_error_lines
        for line in lines:  # more than there are slots: the first ones leave again
            await self.contribute(config, 0, line)
            await self.drain()
        errors.update(first + distance * line for line in lines)
        for number in range(2):
            for line in lines:  # what is lost stays so when it was written back, and has a worker
                if number:
                    await self.contribute(config, 1, line)
                    await self.drain()
                await self.info(config, line)
                await self.drain()
                errors.discard(first + distance * line)

    async def info(self, config: RegionConfig, line: int, limit: int | None = None) -> None:
        """Reads INFO of a line."""
        await self.read_region(config, line, INFO_SELECTOR, limit)

    async def traffic(self, config: RegionConfig, lines: list[int]) -> None:
        """Contributions and reads of INFO, over more lines than there are slots."""
        rng = random.Random(self.rng.getrandbits(32))
        for line in rng.sample(lines, len(lines)):
            for _ in range(rng.randint(1, 3)):
                worker = rng.randrange(config.workers)
                poison = rng.random() < 0.05
                await self.contribute(config, worker, line, limit=3, poison=poison)
                if rng.random() < 0.7:
                    await self.info(config, rng.choice((line, rng.choice(lines))), limit=3)


class StatusSequence(NfSequence):
    """STATUS of two regions while they are written, refused, marked, completed and closed."""

    lines_log2: int = 3
    steps: int = 160
    many: int = 0
    """Lines that one worker contributes to at the end: more than a byte counts."""

    async def body(self) -> None:
        rng, regions = self.rng, min(2, self.cfg.hw.regions)
        self.configs: list[RegionConfig] = []
        # An FP32 store may come again, and counts once: one of the regions is of that mode.
        fp32 = rng.randrange(regions)
        for region in range(regions):
            workers = rng.choice((1, 2, 15, 16, 17, 33, 48, 49, 63, 64))
            mask = 0xFFFF ^ 1 << rng.randrange(16)
            mode = Mode.FP32 if region == fp32 else rng.choice(aggregating(self.cfg.hw))
            workers = min(workers, most_workers(mode, self.cfg.hw))
            config = self.layout.region(mode, self.lines_log2, workers, ld_mask=mask)
            self.configs.append(config)
            await self.commit(region, config)
        for round_ in range(3):
            if round_ == 1:  # a miss or two raise FALLBACK
                await self.env.registers.write("CAP_WINDOW", 4)
                await self.env.registers.write("CAP_THRESHOLD", 1)
            for _ in range(self.cfg.count(self.steps)):
                await self.one()
            await self.look()
            region = rng.randrange(regions)
            await (self.close(region) if round_ == 1 else self.commit(region))
        await self.look()
        await self.fallback()
        await self.complete(0, self.layout.region(rng.choice(aggregating(self.cfg.hw)), 1, 2))
        await self.last_word()
        if self.many:
            log2 = (self.many - 1).bit_length()
            config = self.layout.region(Mode.G_BINARY, log2, 64)
            for selector in VIEW_SELECTORS[1:]:
                self.configs[0] = config
                await self.commit(0, config)
                worker = rng.randrange(16) + 16 * (selector - VIEW_SELECTORS[1])
                for line in range(self.many):
                    await self.contribute(config, worker, line)
                await self.look()

    async def one(self) -> None:
        """A contribution, a read of STATUS beside it, or an access that is refused."""
        rng = self.rng
        config = rng.choice(self.configs)
        worker = min(rng.choice((0, 15, 16, 31, 47, 48, 63, rng.randrange(64))), config.workers - 1)
        kind = rng.random()
        if kind < 0.6:
            line, poison = rng.randrange(config.lines), rng.random() < 0.1
            await self.contribute(config, worker, line, limit=3, poison=poison)
        elif kind < 0.8:
            selector = rng.choice((STATUS_SELECTOR, *VIEW_SELECTORS))
            await self.read(config.address(selector, 0), ldid=self.ldid_for(config, 0))
        else:
            outside = next(ldid for ldid in range(16) if not config.ld_mask >> ldid & 1)
            selector, line = rng.choice(((255, 0), (2, 1), (6, 1), (0, 0), (3, 0)))
            masked = rng.random() < 0.5 or selector not in (255, 2, 6)
            ldid = outside if masked else self.ldid_for(config, 0)
            await self.read(config.address(selector, line), 1, ldid=ldid)

    async def fallback(self) -> None:
        """A contribution alone, to a line that nobody has touched, is one miss too many."""
        registers = self.env.registers
        await self.commit(0)
        await registers.write("CAP_THRESHOLD", 0)
        await registers.write("CAP_WINDOW", 1)
        await registers.read("SLOT_MISS")
        await self.contribute(self.configs[0], 0, 0)
        await self.drain()
        await registers.read("SLOT_MISS")
        await self.look()

    async def last_word(self) -> None:
        """The last worker that there can be: each of its counts is read for the next one."""
        last = self.cfg.hw.regions - 1
        config = self.layout.region(Mode.G_BINARY, self.lines_log2, 64)
        self.configs[last : last + 1] = [config]
        await self.commit(last, config)
        for line in range(3):
            for worker in (63, 62, 0):
                await self.contribute(config, worker, line)
                await self.drain()
        await self.look()

    async def complete(self, region: int, config: RegionConfig) -> None:
        """Every worker of every line, then STATUS: done without a close."""
        self.configs[region] = config
        await self.commit(region, config)
        for worker in range(config.workers):
            for line in range(config.lines):
                await self.contribute(config, worker, line)
        await self.look()

    async def look(self) -> None:
        """All of STATUS with nothing in flight: every word is known."""
        await self.drain()
        for config in self.configs:
            for selector in VIEW_SELECTORS:
                await self.read(config.address(selector, 0), ldid=self.ldid_for(config, 0))
        await self.drain()


# Rounds that are closed, gone through: each late write and each read, on lines in each state.


UNTOUCHED, SOME, COMPLETE = range(3)
"""Lines, by the workers that they have when the round is closed."""


class EveryCloseSequence(ParkedBase):
    """Every mode, STRICT and not: what comes behind CLOSE changes nothing, so that a line serves
    for all of it. It comes to lines on chip, and to lines that have left. The region that is closed
    is the last of the device, while the first one is open."""

    async def body(self) -> None:
        await self.prepare(region=0)
        last = self.cfg.hw.regions - 1
        for mode, strict in itertools.product(aggregating(self.cfg.hw), (False, True)):
            config = self.layout.region(mode, 2, 2, strict=strict)
            await self.commit(last, config)
            for worker, line in ((0, SOME), (0, COMPLETE), (1, COMPLETE)):
                await self.contribute(config, worker, line)
            await self.drain()
            await self.close(last)
            await self.reads(config)
            for poison, gone in itertools.product((False, True), repeat=2):
                for worker, line in ((1, UNTOUCHED), (1, SOME), (0, SOME), (0, COMPLETE)):
                    if gone:
                        await self.leave()
                    await self.contribute(config, worker, line, poison=poison)
                    await self.drain()
            await self.reads(config)

    async def reads(self, config: RegionConfig) -> None:
        """Every line: its result, a part of it, and INFO."""
        fp32 = config.mode is Mode.FP32
        result = sum_selectors(config)[0] if config.mode.bits else 0
        for line in (UNTOUCHED, SOME, COMPLETE):
            for selector in (result, RAW_SELECTOR if fp32 else PLANE_SELECTOR, INFO_SELECTOR):
                await self.read_region(config, line, selector)
            await self.drain()


# DONE and FALLBACK through their lives, and the registers of their limits at every edge.


class EveryStatusSequence(NfSequence):
    """Two regions; the registers are read after every step, and the predictor compares them."""

    async def body(self) -> None:
        first, second = (self.layout.region(mode, 0, 2) for mode in (Mode.G_BINARY, Mode.FP32))
        await self.commit(0, first)
        await self.commit(1, second)
        await self.done(first, second)
        await self.fallback()
        await self.limits()
        await self.loads()
        for enabled in (False, True):
            await self.interrupts(enabled)
        await self.apart()

    async def complete(self, config: RegionConfig) -> None:
        """Every worker contributes; then the status is read."""
        for line, worker in itertools.product(range(config.lines), range(config.workers)):
            await self.contribute(config, worker, line)
        await self.drain()
        for name in ("DONE", "FALLBACK", "IRQ_STATUS"):
            await self.env.registers.read(name)

    async def done(self, first: RegionConfig, second: RegionConfig) -> None:
        """DONE is raised, ended by a commit, raised again, and beside another one."""
        for _ in range(2):
            await self.complete(first)
            await self.commit(0)
            await self.env.registers.read("DONE")
        await self.complete(first)
        await self.complete(second)

    async def fallback(self) -> None:
        """FALLBACK of one region, then of a second one; cleared, and raised again."""
        registers = self.env.registers
        wide = [self.layout.region(Mode.G_BINARY, 5, 3) for _ in range(2)]
        for region, config in enumerate(wide):
            await self.commit(region, config)
        await registers.write("CAP_WINDOW", 8)
        await registers.write("CAP_THRESHOLD", 2)
        for _ in range(2):
            for config in wide:
                lines = self.rng.sample(range(config.lines), 2 * self.cfg.hw.slots + 8)
                for line in lines:
                    await self.contribute(config, self.rng.randrange(3), line)
                await self.drain()
                await registers.read("FALLBACK")
            for mask in (1, 2):
                await registers.write("FALLBACK", mask)
                await registers.read("FALLBACK")
            for region in range(2):
                await self.commit(region)

    async def limits(self) -> None:
        """Every class of the capacity limits and of the thresholds of DevLoad, with traffic."""
        registers, rng = self.env.registers, self.rng
        config = self.layout.region(Mode.G_TERNARY, 3, 5)
        await self.commit(2, config)
        windows = (0, 1, 2, rng.randint(8, 255), 256, rng.randint(257, 511))
        pairs = []
        for window in windows:
            length = min(window, 256)
            edges = (0, 1, length // 2, length - 1, length, length + 1, 511)
            pairs += [(window, misses) for misses in edges if misses >= 0]
        rng.shuffle(pairs)
        for window, misses in pairs:
            await registers.write("CAP_THRESHOLD", misses)
            await registers.write("CAP_WINDOW", window)
            await registers.write("CAP_THRESHOLD", misses)
            await self.some(config)
        # Few requests: those of 128 and 129 are far above, unless the upper bits do not count.
        levels = (0, 1, rng.randint(2, 127), 128, 129, rng.randint(130, 255))
        for name, level in itertools.product(("OPTIMAL", "MODERATE", "SEVERE"), levels):
            await registers.write(f"DEVLOAD_THRESHOLD.{name}", level)
            await self.some(config)
        await self.drain()
        await registers.write("FALLBACK", 7)

    async def loads(self) -> None:
        """The load of a busy device goes from every level to every other one."""
        config = self.layout.region(Mode.G_BINARY, 3, 5)
        await self.commit(2, config)
        writer = cocotb.start_soon(self.thresholds())
        while not writer.done():
            await self.read_region(config, self.rng.randrange(8), 0)
        await self.drain()

    async def thresholds(self) -> None:
        """One level at a time is reported, or none."""
        names = ("OPTIMAL", "MODERATE", "SEVERE")
        register = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
        steps = "LOLMLSOMOSMSL"  # each level after each other one
        for step in steps * 2:
            values = {name: int(name.startswith(step)) for name in names}
            await self.env.registers.write("DEVLOAD_THRESHOLD", register.pack(**values))
            await self.env.clocks(30)
        await self.env.registers.write("DEVLOAD_THRESHOLD", 0)

    async def interrupts(self, enabled: bool) -> None:
        """DONE, FALLBACK, a refused access, a memory error and poison, masked and enabled."""
        registers, memory, model = self.env.registers, self.env.cfg.mem, self.env.scoreboard.model
        fields = REG_MAP.expand()["IRQ_STATUS"].fields
        await registers.write("IRQ_STATUS", sum(field.mask for field in fields))
        await registers.write("IRQ_ENABLE", enabled * sum(field.mask for field in fields))
        config = self.layout.region(Mode.G_BINARY, 0, 2)
        await self.commit(0, config)
        await self.complete(config)
        await self.read(self.cfg.hw.mem_lines * LINE_BYTES)
        await self.write(5 * LINE_BYTES, ZEROS, poison=True)
        for lines in (memory.read_error_lines, model.read_errors):
            lines.add(6)
        await self.read(6 * LINE_BYTES)
        await self.drain()
        for lines in (memory.read_error_lines, model.read_errors):
            lines.clear()
        await registers.read("IRQ_STATUS")
        await registers.write("IRQ_STATUS", sum(field.mask for field in fields))
        await registers.read("IRQ_STATUS")

    async def apart(self) -> None:
        """A worker's lines of two regions come in consecutive clocks, and count apart. CLOSE of a
        region that is done, and of one that is closed, is no event."""
        registers = self.env.registers
        pair = [self.layout.region(Mode.G_BINARY, 1, 16) for _ in range(2)]
        for region, config in enumerate(pair):
            await self.commit(region, config)
        for line, worker in itertools.product(range(2), range(16)):
            for config in pair:
                await self.contribute(config, worker, line)
        await self.drain()
        for config, selector in itertools.product(pair, VIEW_SELECTORS):
            await self.read_region(config, 0, selector)
        await self.drain()
        for _ in range(2):
            await registers.write("IRQ_STATUS", REG_MAP.expand()["IRQ_STATUS"].pack(DONE=1))
            await self.close(0)
            await registers.read("IRQ_STATUS")

    async def some(self, config: RegionConfig) -> None:
        """A few contributions and reads."""
        for _ in range(3):
            await self.contribute(config, self.rng.randrange(5), self.rng.randrange(8), limit=2)
            await self.read_region(config, self.rng.randrange(8), 0, limit=2)
