# SPDX-License-Identifier: Apache-2.0
"""Descriptors at the edges of the memory and of each other, and accesses at the edges of both."""

from __future__ import annotations

from dataclasses import replace

from cocotbext.cxl.wire.messages import BE_ALL
from models.commit_check import check_commit
from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.parameters import LINE_ADDRESS_BITS
from models.regions import SELECTOR_BITS, CommitCode, RegionConfig, record_lines, state_lines
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import line_for

SPACE = 1 << LINE_ADDRESS_BITS
MOST_RECORDS = 1 << 10
"""Larger areas of records are left at once: initialising them would take the whole run."""


class EdgeSequence(NfSequence):
    """Commits of descriptors that touch, overlap or just miss something; then accesses there."""

    attempts: int = 60
    probes: int = 6
    accesses: bool = True

    async def body(self) -> None:
        rng = self.rng
        self.live: dict[int, RegionConfig] = {}
        used = rng.sample(range(self.cfg.hw.regions), min(self.cfg.hw.regions, 5))
        used[-1] = self.cfg.hw.regions - 1 if self.cfg.hw.regions - 1 not in used else used[-1]
        for _ in range(self.cfg.count(self.attempts)):
            region = rng.choice(used)
            config = self.draw(region)
            others = [other for r, other in self.live.items() if r != region]
            code = check_commit(self.cfg.hw, config, others)
            await self.commit(region, config, expect=code)
            if code is not CommitCode.OK:
                if rng.random() < 0.2:
                    await self.env.registers.read(f"REGION[{region}].EPOCH")
                continue
            self.live[region] = config
            await self.access(config)
            await self.settle(region, config)
        for config in self.live.values():
            await self.access(config)

    async def settle(self, region: int, config: RegionConfig) -> None:
        """Ends the initialisation of an area that would go on for ever."""
        if config.mode is Mode.IDENTITY or config.lines <= MOST_RECORDS:
            return
        small = replace(config, lines_log2=0)
        await self.commit(region, small)
        self.live[region] = small

    # -- descriptors
    def draw(self, region: int) -> RegionConfig:
        """A descriptor near an edge; the one before of this region, changed in one thing, too."""
        rng, hw = self.rng, self.cfg.hw
        old = self.live.get(region)
        mode = rng.choice(FIRST_EDITION)
        workers = rng.choice((1, 2, 3, 7, 8, 63, 64, 65, 255, 0, rng.randint(1, 64)))
        lines_log2 = rng.choice((0, 0, 1, 1, 2, 3, 4, rng.randint(0, 13), rng.randint(0, 63)))
        if old is not None and rng.random() < 0.3:
            mode, workers, lines_log2 = old.mode, old.workers, old.lines_log2
        size = 1 << min(lines_log2 + SELECTOR_BITS, LINE_ADDRESS_BITS)
        keep_sum = rng.random() < 0.5
        draft = RegionConfig(0, 0, min(lines_log2, 40), workers, mode, keep_sum=keep_sum)
        area = state_lines(draft, hw.cnt_w)
        base = self.base(size) % SPACE
        record = record_lines(max(workers, 1), hw.cnt_w) if mode.low_bit else 1
        state = self.state(area, record) % SPACE
        return RegionConfig(
            base * LINE_BYTES,
            state * LINE_BYTES,
            lines_log2,
            workers,
            mode,
            threshold=rng.choice((1, 1, 1, 0, 255)),
            ld_mask=rng.choice((0xFFFF, 0xFFFF, rng.getrandbits(16) | 1)),
            keep_sum=keep_sum,
        )

    def base(self, size: int) -> int:
        """First line of a window of `size` lines."""
        rng, mem = self.rng, self.cfg.hw.mem_lines
        kind = rng.random()
        if self.live and kind < 0.5:
            other = rng.choice(list(self.live.values()))
            near = (other.window_lines, -size, 0, other.window_lines // 2, other.window_lines // 4)
            start = other.base_line + rng.choice(near)
        else:
            places = (mem, mem - size, mem // 2, SPACE - size, 0, rng.randrange(mem, SPACE))
            start = rng.choice(places)
        if rng.random() < 0.85:
            return start // size * size
        return start // size * size + rng.choice((size // 2, 1))

    def state(self, area: int, record: int) -> int:
        """First line of an area of `area` lines, whose records have `record` lines."""
        rng, mem = self.rng, self.cfg.hw.mem_lines
        if self.live and rng.random() < 0.5:
            other = rng.choice(list(self.live.values()))
            end = other.state_line + state_lines(other, self.cfg.hw.cnt_w)
            start = rng.choice((end, end - 1, other.state_line - area, other.state_line + 1 - area))
        else:
            start = rng.choice((mem - area, mem - area + 1, 0, rng.randrange(mem)))
        start = max(start, 0)
        if rng.random() < 0.6:
            return start // record * record
        return start // record * record + rng.choice((0, 1, record // 2))

    # -- accesses
    async def access(self, config: RegionConfig) -> None:
        """Reads and writes around window, area and memory, and one address bit away from each."""
        rng = self.rng
        for line in self.places(config) if self.accesses else [config.base_line]:
            addr = line % SPACE * LINE_BYTES
            ldid = rng.choice((rng.randrange(16), self.ldid_for(config, 0)))
            if rng.random() < 0.4:
                data = line_for(config.mode, rng)
                be = rng.getrandbits(64) if rng.random() < 0.2 else None
                await self.write(addr, data, RACE_LIMIT, ldid=ldid, be=be)
            else:
                await self.read(addr, RACE_LIMIT, ldid=ldid)
        await self.drain()

    def places(self, config: RegionConfig) -> list[int]:
        """Lines to access, some more than once."""
        rng, mem = self.rng, self.cfg.hw.mem_lines
        first, size, n = config.base_line, config.window_lines, config.lines
        inside = [
            first + selector * n + rng.choice((0, n - 1, rng.randrange(n)))
            for selector in (0, 8, 64, 127, 128, 255, config.workers - 1, config.workers)
        ]
        area = config.state_line
        end = area + state_lines(config, self.cfg.hw.cnt_w)
        edges = [first - 1, first, first + size - 1, first + size, first + size // 2]
        edges += [area - 1, area, end - 1, end, rng.randrange(area, end)]
        edges += [0, mem - 1, mem, 2 * mem - 1, mem + area, mem + rng.randrange(mem)]
        flips = [rng.choice(inside) ^ 1 << bit for bit in range(LINE_ADDRESS_BITS)]
        chosen = rng.sample(flips, self.probes) + [rng.choice(inside) ^ 1 << 45]
        out = inside + edges + chosen
        rng.shuffle(out)
        return out


class SelectorSequence(NfSequence):
    """Every selector of a region of each mode, read and written; partial writes, LD-IDs by BIND."""

    async def body(self) -> None:
        rng = self.rng
        modes = [Mode.IDENTITY, Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32]
        for mode in modes:
            workers = rng.choice((rng.randint(17, 63), 64))
            bound = {"bind": rng.random() < 0.5, "bind_shift": rng.randrange(3)}
            config = self.layout.region(mode, 1, workers, **bound)
            await self.commit(rng.randrange(self.cfg.hw.regions), config)
            selectors = rng.sample(range(256), 256)
            for selector in selectors:
                if mode is Mode.IDENTITY or selector <= workers + 2 or rng.random() < 0.1:
                    await self.one_write(config, selector, mode is Mode.IDENTITY)
            await self.drain()
            for selector in selectors:
                await self.read(config.address(selector, 0), ldid=rng.randrange(16))
            await self.drain()

    async def one_write(self, config: RegionConfig, selector: int, full: bool) -> None:
        """A write, whole or by MemWrPtl with all, no or some bytes."""
        rng = self.rng
        be = None if full else rng.choice((None, None, BE_ALL, 0, rng.getrandbits(64)))
        ldid = config.owner(selector) & 15 if rng.random() < 0.8 else rng.randrange(16)
        data = line_for(config.mode, rng)
        await self.write(config.address(selector, 0), data, RACE_LIMIT, ldid=ldid, be=be)


class HighIndexSequence(NfSequence):
    """Lines of a large region whose indices differ in one bit, the highest ones most of all."""

    async def body(self) -> None:
        rng = self.rng
        shapes = ((Mode.G_TERNARY, 17, 1), (Mode.FP32, 14, 2), (Mode.G_BINARY, 14, 2))
        # The upper half is dealt: its numbers need the last bit of a region's number.
        count = self.cfg.hw.regions
        upper = rng.sample(range(count // 2, count), count - count // 2)
        for at, (mode, lines_log2, workers) in enumerate(shapes):
            config = self.layout.region(mode, lines_log2, workers)
            region = upper[at % len(upper)] if at % 2 == 0 else rng.randrange(count)
            await self.commit(region, config)
            first = rng.randrange(config.lines)
            bits = [lines_log2 - 1, 12, rng.randrange(12)]
            lines = [first, *(first ^ 1 << bit for bit in bits)]
            for line in lines:
                await self.contribute(config, 0, line)
            await self.drain()
            for line in lines:
                await self.contribute(config, workers - 1, line)
                await self.read_region(config, line, 0, limit=1)
                await self.read_region(config, line, 64 if mode is Mode.FP32 else 8, limit=1)
            await self.drain()
            await self.env.registers.read(f"REGION[{region}].COMPLETE_LINES")
            # A smaller region: the initialiser of the large one would take the rest of the run.
            await self.commit(region, replace(config, lines_log2=0))
