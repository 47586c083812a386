# SPDX-License-Identifier: Apache-2.0
"""Descriptors that a commit must refuse, each with its code; the region stays as it was."""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace

from cocotbext.cxl.wire.messages import BE_ALL
from models.commit_check import check_commit
from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.parameters import LINE_ADDRESS_BITS
from models.regions import (
    MAX_WORKERS,
    SELECTOR_BITS,
    CommitCode,
    RegionConfig,
    record_lines,
    state_lines,
)
from verif.env.config import Profile
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import line_for


class DescriptorErrorSequence(NfSequence):
    """Every code on a committed and on an uncommitted region, with use of the region between."""

    async def body(self) -> None:
        good = self.layout.region(Mode.G_BINARY, 2, self.rng.randint(5, 64))
        other = self.layout.region(Mode.FP32, 2, 4)
        await self.commit(0, good)
        await self.commit(1, other)
        await self.contribute(good, 0, 0)
        await self.drain()
        for code, bad in self.faults(good, other):
            await self.commit(0, bad, expect=code)
            await self.contribute(good, self.rng.randrange(5), self.rng.randrange(4))
            await self.read_region(good, self.rng.randrange(4), limit=1)
            await self.drain()
            await self.env.registers.read_status()
        # The shadow keeps what was written: the last fault again, then the good one.
        await self.commit(0, None, expect=self.faults(good, other)[-1][0])
        if self.cfg.profile is Profile.STREAMING:
            for bad in self.pairs(good, other):
                await self.commit(0, bad, expect=check_commit(self.cfg.hw, bad, [other]))
        await self.commit(0, good)
        await self.read_region(good, 0, 0)
        await self.drain()
        if self.cfg.hw.regions > 2:
            await self.uncommitted(good, other)

    async def uncommitted(self, good: RegionConfig, other: RegionConfig) -> None:
        """A region that was never committed stays unmapped after each refusal."""
        bad = self.layout.region(Mode.G_BINARY, 2, 5)
        for code, fault in self.faults(bad, other):
            if code is not CommitCode.OK:
                await self.commit(2, fault, expect=code)
        await self.read(bad.base)
        await self.write(bad.base, bytes(64))
        await self.read_region(good, 0, 0)
        await self.drain()

    def faults(
        self, good: RegionConfig, other: RegionConfig
    ) -> list[tuple[CommitCode, RegionConfig]]:
        """One or more descriptors for every code; several faults: the lowest code wins."""
        rng = self.rng
        mem = self.layout.params.mem_lines
        window = good.window_lines
        record = record_lines(good.workers, self.cfg.hw.cnt_w)
        last = (mem - good.lines * record) << 6
        fp32 = replace(good, mode=Mode.FP32)
        code = CommitCode
        return [
            (code.WORKERS, replace(good, workers=0)),
            (code.WORKERS, replace(good, workers=65, threshold=0)),
            (code.WORKERS, replace(good, workers=255)),
            (code.THRESHOLD, replace(good, threshold=0)),
            (code.THRESHOLD, replace(fp32, threshold=0, lines_log2=63)),
            (code.LINES, replace(good, lines_log2=46 - SELECTOR_BITS + 1)),
            (code.LINES, replace(good, lines_log2=63, base=64)),
            (code.BASE_ALIGN, replace(good, base=good.base + 64)),
            (code.BASE_ALIGN, replace(good, base=good.base + (window << 5))),
            (code.BASE_ALIGN, replace(good, base=rng.randint(1, window - 1) << 6)),
            (code.WINDOW_MEMORY, replace(good, base=0)),
            (code.WINDOW_MEMORY, replace(good, base=0, lines_log2=46 - SELECTOR_BITS)),
            (code.WINDOW_MEMORY, replace(good, base=mem - window << 6)),
            (code.WINDOW_OVERLAP, replace(good, base=other.base)),
            (code.WINDOW_OVERLAP, self._around(good, other)),
            (code.STATE_ALIGN, replace(good, state_base=good.state_base + 64)),
            (code.STATE_ALIGN, replace(good, state_base=good.state_base + (record << 5))),
            (code.STATE_MEMORY, replace(good, state_base=last + (record << 6))),
            (code.STATE_MEMORY, replace(good, state_base=1 << 51)),
            (code.STATE_MEMORY, replace(fp32, state_base=mem - 1 << 6)),
            (code.STATE_MEMORY, replace(good, mode=Mode.IDENTITY, state_base=mem - 1023 << 6)),
            (code.STATE_OVERLAP, self._state_over(good, other, record)),
            (code.STATE_OVERLAP, replace(fp32, state_base=other.state_base + (19 << 6))),
            (code.STATE_OVERLAP, replace(fp32, workers=3, state_base=other.state_base - (15 << 6))),
            (code.THRESHOLD, replace(good, threshold=0, state_base=1 << 51, base=0)),
            # From 0 to beyond the other window, and an area as large.
            (
                code.WINDOW_MEMORY,
                replace(good, base=0, lines_log2=(other.base >> 6).bit_length() - SELECTOR_BITS),
            ),
            (code.STATE_ALIGN, replace(good, state_base=last + (record << 6) + 64)),
            (code.STATE_ALIGN, self._state_over(good, other, record, 1)),
            (
                code.STATE_MEMORY,
                replace(good, base=1 << 51, lines_log2=mem.bit_length() - 1, state_base=0),
            ),
            (code.OK, replace(good, state_base=last)),
            (code.OK, good),
            (code.STATE_ALIGN, replace(good, state_base=rng.choice((64, 192)))),
        ]

    def pairs(self, good: RegionConfig, other: RegionConfig) -> list[RegionConfig]:
        """For any two codes that unlike fields can break, a descriptor that breaks both rules."""
        faults = [fault for fault in self.faults(good, other) if fault[0] is not CommitCode.OK]
        self.rng.shuffle(faults)
        found: dict[frozenset[CommitCode], RegionConfig] = {}
        for (first, a), (second, b) in itertools.combinations(faults, 2):
            changed = [set(asdict(one).items()) - set(asdict(good).items()) for one in (a, b)]
            if first is not second and not dict(changed[0]).keys() & dict(changed[1]).keys():
                found.setdefault(frozenset((first, second)), replace(a, **dict(changed[1])))
        return list(found.values())

    @staticmethod
    def _around(good: RegionConfig, other: RegionConfig) -> RegionConfig:
        """A larger window that holds the other one."""
        lines_log2 = other.lines_log2 + 3
        size = 1 << (lines_log2 + SELECTOR_BITS + 6)
        return replace(good, base=other.base // size * size, lines_log2=lines_log2)

    @staticmethod
    def _state_over(
        good: RegionConfig, other: RegionConfig, record: int, lines: int = 0
    ) -> RegionConfig:
        """The area begins in the record that touches the other one, or some lines behind that."""
        align = record << 6
        start = other.state_base // align * align
        return replace(good, state_base=start + lines * 64)


# Descriptors at the edges of the memory and of each other, and accesses at the edges of both.


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


# Every bit of a descriptor, in every region: a commit, one with each bit the other way round, and
# the first one again; what comes to the region is answered by its own descriptor each time.


ADDRESS_SPACE = 1 << LINE_ADDRESS_BITS
OPPOSITE = ((Mode.G_TERNARY, Mode.G_INT8), (Mode.FP32, Mode.G_INT4))
"""Modes whose numbers differ in each of the lower three bits."""
LD_IDS = 16
EPOCH_BITS = (1 << 32) - 1
SIZE_BITS = 31
"""Bits of LINES_LOG2 that regions have who share a memory."""


class EveryBitSequence(NfSequence):
    """Needs all regions, and counts that 64 integer codes do not overflow."""

    async def body(self) -> None:
        regions = range(self.cfg.hw.regions)
        self.live = {region: self.layout.region(Mode.G_BINARY, 0, 1) for region in regions}
        for region, config in self.live.items():
            await self.commit(region, config)
        for region in self.rng.sample(regions, len(regions)):
            home = self.live[region]
            there, back = self.opposite(region)
            for config in (there, back, there):
                await self.use(region, config)
            for config in self.sizes(region):
                await self.use(region, config)
            await self.use(region, home)

    def legal(self, region: int, config: RegionConfig) -> bool:
        """Whether a commit of the descriptor is accepted."""
        others = [other for number, other in self.live.items() if number != region]
        return check_commit(self.cfg.hw, config, others) is CommitCode.OK

    def opposite(self, region: int) -> tuple[RegionConfig, RegionConfig]:
        """Two descriptors that differ in every bit that a legal one can have."""
        rng, hw = self.rng, self.cfg.hw
        record = record_lines(MAX_WORKERS, hw.cnt_w)
        while True:
            modes = rng.sample(rng.choice(OPPOSITE), 2)
            base, state = rng.randrange(ADDRESS_SPACE), rng.randrange(hw.mem_lines)
            threshold, mask = rng.randint(1, 254), rng.randrange(1, 0xFFFF)
            flags = rng.getrandbits(5)
            shift = rng.choice((1, 2))
            pair = [
                RegionConfig(
                    (base ^ flip * (ADDRESS_SPACE - 1)) >> SELECTOR_BITS << SELECTOR_BITS + 6,
                    (state ^ flip * (hw.mem_lines - 1)) // record * record * LINE_BYTES,
                    0,
                    MAX_WORKERS - flip,
                    mode,
                    tie_minus=bool(flags & 1) != bool(flip),
                    strict=bool(flags & 2) != bool(flip),
                    bind=bool(flags & 4) != bool(flip),
                    signed=bool(flags & 8) != bool(flip),
                    keep_sum=bool(flags & 16) != bool(flip),
                    bind_shift=shift ^ 3 * flip,
                    threshold=threshold ^ 255 * flip,
                    ld_mask=mask ^ 0xFFFF * flip,
                )
                for flip, mode in enumerate(modes)
            ]
            if all(self.legal(region, config) for config in pair):
                return pair[0], pair[1]

    def sizes(self, region: int) -> list[RegionConfig]:
        """Descriptors whose LINES_LOG2 has each bit the one way, the other, and the first again;
        the largest has as many lines as an eighth of memory. The next commit stops its initialiser.
        """
        rng, out = self.rng, list[RegionConfig]()
        most = self.cfg.hw.mem_lines.bit_length() - 4
        for lines_log2 in (most, most ^ SIZE_BITS, most):
            while True:
                base = rng.randrange(ADDRESS_SPACE) >> lines_log2 + SELECTOR_BITS
                state = rng.randrange(self.cfg.hw.mem_lines) >> lines_log2
                config = RegionConfig(
                    base << lines_log2 + SELECTOR_BITS + 6,
                    state << lines_log2 + 6,
                    lines_log2,
                    1,
                    Mode.FP32,
                )
                if self.legal(region, config):
                    break
            out.append(config)
        return out

    async def use(self, region: int, config: RegionConfig) -> None:
        """Commits the descriptor, writes by it, and reads again."""
        self.live[region] = config
        self.epoch ^= EPOCH_BITS
        await self.commit(region, config)
        every = range(config.workers)  # with BIND, some of them belong to no LD-ID
        hosts = [one for one in every if not config.bind or config.owner(one) < LD_IDS]
        for worker in self.rng.sample(hosts, min(2, len(hosts))):
            await self.contribute(config, worker, self.rng.randrange(config.lines), limit=1)
        await self.drain()
        await self.read_views(config, 0)
        for bit in range(SELECTOR_BITS, LINE_ADDRESS_BITS, 5):  # one bit away, somebody else's
            line = config.base_line ^ 1 << min(bit + region % 5, LINE_ADDRESS_BITS - 1)
            await self.read(line * LINE_BYTES, limit=1)
        await self.drain()
