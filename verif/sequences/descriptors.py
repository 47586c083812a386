# SPDX-License-Identifier: Apache-2.0
"""Descriptors: codes of refused commits, edges of memory and regions, every selector and bit."""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from cocotbext.cxl.wire.messages import BE_ALL
from models.commit_check import CommitCode, check_commit, most_workers
from models.line_packing import LINE_BYTES
from models.modes import FIRST_EDITION, Mode
from models.parameters import LINE_ADDRESS_BITS
from models.regions import MAX_WORKERS, SELECTOR_BITS, RegionConfig, record_lines, state_lines
from verif.env.config import Profile
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import line_for

Fault = tuple[CommitCode, RegionConfig]
"""Code of a refused commit, and a descriptor that a commit refuses with this code."""


class DescriptorErrorSequence(NfSequence):
    """Commits with each commit code but MODE and PLANES, of a committed and an uncommitted region.

    A refused commit changes neither the region nor its data; the scoreboard compares both.
    """

    async def body(self) -> None:
        shape = (Mode.G_BINARY, 2, self.randint(5, 64))
        good, other = await self.start_regions(shape, (Mode.FP32, 2, 4))
        await self.fill_lines(good, 0, 0)
        for code, bad in self.faults(good, other):
            await self.commit(0, bad, expect=code)
            await self.contribute(good, self.randrange(5), self.randrange(4))
            await self.read_region(good, self.randrange(4), limit=1)
            await self.drain()
            await self.registers.read_status()
        # The shadow registers keep their values: commit the last fault again, then the good one.
        await self.commit(0, None, expect=self.faults(good, other)[-1][0])
        if self.cfg.profile is Profile.STREAMING:
            for bad in self.pairs(good, other):
                await self.commit(0, bad, expect=check_commit(self.hw, bad, [other]))
        await self.commit(0, good)
        await self.read_lines(good, 0)
        if self.hw.regions > 2:
            await self.uncommitted(good, other)

    async def uncommitted(self, good: RegionConfig, other: RegionConfig) -> None:
        """Refuse commits of a region that was never committed, and check that it stays unmapped.

        `other` is a committed region that some of the descriptors overlap; reads of `good` still
        work.
        """
        bad = self.layout.region(Mode.G_BINARY, 2, 5)
        for code, fault in self.faults(bad, other):
            if code is not CommitCode.OK:
                await self.commit(2, fault, expect=code)
        await self.read(bad.base)
        await self.write(bad.base, bytes(LINE_BYTES))
        await self.read_lines(good, 0)

    def faults(self, good: RegionConfig, other: RegionConfig) -> list[Fault]:
        """Return changed copies of `good`, each with the code that a commit of it must give.

        All codes but MODE and PLANES occur. Some copies have several faults: the lowest code is
        reported. `other` is a committed region that some of them overlap.
        """
        mem = self.layout.params.mem_lines
        window = good.window_lines
        record = record_lines(good.workers, self.hw.cnt_w)
        last = (mem - good.lines * record) << 6
        # The first record that reaches into the other area, and a larger window with the other one.
        over = other.state_base // (record << 6) * (record << 6)
        around = 1 << (other.lines_log2 + 3 + SELECTOR_BITS + 6)
        near, inside = other.base // around * around, other.state_base - (15 << 6)
        # A window from 0 to beyond the other one, and an area as large as the memory.
        whole, all_log2 = (other.base >> 6).bit_length() - SELECTOR_BITS, mem.bit_length() - 1
        code = CommitCode
        changes: list[tuple[CommitCode, dict[str, Any]]] = [
            (code.WORKERS, {"workers": 0}),
            (code.WORKERS, {"workers": 65, "threshold": 0}),
            (code.WORKERS, {"workers": 255}),
            (code.THRESHOLD, {"threshold": 0}),
            (code.THRESHOLD, {"mode": Mode.FP32, "threshold": 0, "lines_log2": 63}),
            (code.LINES, {"lines_log2": 46 - SELECTOR_BITS + 1}),
            (code.LINES, {"lines_log2": 63, "base": 64}),
            (code.BASE_ALIGN, {"base": good.base + 64}),
            (code.BASE_ALIGN, {"base": good.base + (window << 5)}),
            (code.BASE_ALIGN, {"base": self.randint(1, window - 1) << 6}),
            (code.WINDOW_MEMORY, {"base": 0}),
            (code.WINDOW_MEMORY, {"base": 0, "lines_log2": 46 - SELECTOR_BITS}),
            (code.WINDOW_MEMORY, {"base": mem - window << 6}),
            (code.WINDOW_OVERLAP, {"base": other.base}),
            (code.WINDOW_OVERLAP, {"base": near, "lines_log2": other.lines_log2 + 3}),
            (code.STATE_ALIGN, {"state_base": good.state_base + 64}),
            (code.STATE_ALIGN, {"state_base": good.state_base + (record << 5)}),
            (code.STATE_MEMORY, {"state_base": last + (record << 6)}),
            (code.STATE_MEMORY, {"state_base": 1 << 51}),
            (code.STATE_MEMORY, {"mode": Mode.FP32, "state_base": mem - 1 << 6}),
            (code.STATE_MEMORY, {"mode": Mode.IDENTITY, "state_base": mem - 1023 << 6}),
            (code.STATE_OVERLAP, {"state_base": over}),
            (code.STATE_OVERLAP, {"mode": Mode.FP32, "state_base": other.state_base + (19 << 6)}),
            (code.STATE_OVERLAP, {"mode": Mode.FP32, "workers": 3, "state_base": inside}),
            (code.THRESHOLD, {"threshold": 0, "state_base": 1 << 51, "base": 0}),
            (code.WINDOW_MEMORY, {"base": 0, "lines_log2": whole}),
            (code.STATE_ALIGN, {"state_base": last + (record << 6) + 64}),
            (code.STATE_ALIGN, {"state_base": over + 64}),
            (code.STATE_MEMORY, {"base": 1 << 51, "lines_log2": all_log2, "state_base": 0}),
            (code.OK, {"state_base": last}),
            (code.OK, {}),
            (code.STATE_ALIGN, {"state_base": self.choice((64, 192))}),
        ]
        return [(wanted, replace(good, **change)) for wanted, change in changes]

    def pairs(self, good: RegionConfig, other: RegionConfig) -> list[RegionConfig]:
        """Return descriptors with two faults, one for each pair of codes of different fields."""
        faults = [fault for fault in self.faults(good, other) if fault[0] is not CommitCode.OK]
        self.rng.shuffle(faults)
        found: dict[frozenset[CommitCode], RegionConfig] = {}
        for (first, a), (second, b) in itertools.combinations(faults, 2):
            changed = [set(asdict(one).items()) - set(asdict(good).items()) for one in (a, b)]
            if first is not second and not dict(changed[0]).keys() & dict(changed[1]).keys():
                found.setdefault(frozenset((first, second)), replace(a, **dict(changed[1])))
        return list(found.values())


SPACE = 1 << LINE_ADDRESS_BITS
MOST_RECORDS = 1 << 10
"""Number of lines above which `settle` stops the initialiser, which would take the whole run."""


class EdgeSequence(NfSequence):
    """Commits of descriptors that touch, overlap or just miss another region or the end of memory.

    The model (`check_commit`) gives the expected code. After an accepted commit, and for all
    regions at the end, lines at the edges are read and written. `attempts` is the number of
    commits with drawn descriptors; without `accesses` those of `boundaries` come first.
    """

    attempts: int = 60
    accesses: bool = True

    async def body(self) -> None:
        regions = self.hw.regions
        self.live: dict[int, RegionConfig] = {}
        used = self.sample(range(regions), min(regions, 5))
        if regions - 1 not in used:
            used[-1] = regions - 1
        if not self.accesses:
            for region, config in self.boundaries(*self.sample(used, min(len(used), 2))):
                await self.attempt(region, config)
        for _ in range(self.cfg.count(self.attempts)):
            region = self.choice(used)
            await self.attempt(region, self.draw(region))
        for config in self.live.values():
            await self.access(config)

    async def attempt(self, region: int, config: RegionConfig) -> None:
        """Commit a descriptor, expect the code of the model, and use the region if it is OK."""
        others = [other for r, other in self.live.items() if r != region]
        code = check_commit(self.hw, config, others)
        await self.commit(region, config, expect=code)
        if code is CommitCode.OK:
            self.live[region] = config
            await self.access(config)
            await self.settle(region, config)
        elif self.random() < 0.2:
            await self.read_registers("EPOCH", region=region)

    async def settle(self, region: int, config: RegionConfig) -> None:
        """Stop the initialiser of a region of over `MOST_RECORDS` lines: commit one line."""
        if config.mode is not Mode.IDENTITY and config.lines > MOST_RECORDS:
            self.live[region] = replace(config, lines_log2=0)
            await self.commit(region, self.live[region])

    # -- descriptors --------------------------------------------------------------------------
    def boundaries(
        self, region: int, other: int | None = None
    ) -> Iterator[tuple[int, RegionConfig]]:
        """Yield regions with descriptors that touch a boundary, and that cross it by one step.

        Each mode, and FP32 with kept sums, meets the end of memory. With `other`, a region that is
        committed first each time, it meets both ends of its state area and of its window, and
        windows lie in each other both ways.
        """
        mem = self.hw.mem_lines
        modes = [mode for mode in self.own_modes if not mode.reserved]
        shapes = self.shuffled([*((mode, False) for mode in modes), (Mode.FP32, True)])
        for number, (mode, keep_sum) in enumerate(shapes):
            config, area, step = self.shaped(mode, keep_sum, 2 * (number % 2))
            config = replace(config, base=(SPACE - config.window_lines) * LINE_BYTES)
            last = mem - area
            if other is not None:
                fixed, _, _ = self.shaped(*self.choice(shapes), 2 - 2 * (number % 2))
                size, width = fixed.window_lines, config.window_lines
                first = self.randrange(mem, SPACE // 2) // size * size
                middle = mem // 2
                end = middle + state_lines(fixed, self.hw.cnt_w)
                above = end + -end % step
                fixed = replace(fixed, base=first * LINE_BYTES, state_base=middle * LINE_BYTES)
                yield other, fixed
                for start in (above, above - step, middle - area, middle - area + step):
                    yield region, replace(config, state_base=start * LINE_BYTES)
                inside = first + self.choice((0, size - 1, self.randrange(size)))
                near = (first + size + -(first + size) % width, first // width * width - width)
                for base in (*near, inside // width * width):
                    moved = replace(config, state_base=last * LINE_BYTES)
                    yield region, replace(moved, base=base * LINE_BYTES)
            for start in (last + step, last):
                yield region, replace(config, state_base=start * LINE_BYTES)

    def shaped(self, mode: Mode, keep_sum: bool, least: int) -> tuple[RegionConfig, int, int]:
        """Draw a descriptor without places, of 2^least lines or twice as many.

        Returns:
            Descriptor, size of its state area, and alignment of that, in lines.
        """
        workers = self.randint(1, most_workers(mode, self.hw))
        config = RegionConfig(0, 0, least + self.randrange(2), workers, mode, keep_sum=keep_sum)
        step = record_lines(config.most, self.hw.cnt_w) if mode.low_bit else 1
        return config, state_lines(config, self.hw.cnt_w), step

    def draw(self, region: int) -> RegionConfig:
        """Draw a descriptor close to an edge, in 30 % of the cases with the region's last shape."""
        old = self.live.get(region)
        mode = self.choice(FIRST_EDITION)
        workers = self.choice((1, 2, 3, 7, 8, 63, 64, 65, 255, 0, self.randint(1, 64)))
        lines_log2 = self.choice((0, 0, 1, 1, 2, 3, 4, self.randint(0, 13), self.randint(0, 63)))
        if old is not None and self.random() < 0.3:
            mode, workers, lines_log2 = old.mode, old.workers, old.lines_log2
        size = 1 << min(lines_log2 + SELECTOR_BITS, LINE_ADDRESS_BITS)
        keep_sum = self.random() < 0.5
        draft = RegionConfig(0, 0, min(lines_log2, 40), workers, mode, keep_sum=keep_sum)
        area = state_lines(draft, self.hw.cnt_w)
        base = self.base(size) % SPACE
        record = record_lines(max(workers, 1), self.hw.cnt_w) if mode.low_bit else 1
        state = self.state(area, record) % SPACE
        return replace(
            draft,
            base=base * LINE_BYTES,
            state_base=state * LINE_BYTES,
            lines_log2=lines_log2,
            threshold=self.choice((1, 1, 1, 0, 255)),
            ld_mask=self.choice((0xFFFF, 0xFFFF, self.getrandbits(16) | 1)),
        )

    def base(self, size: int) -> int:
        """Draw the first line address of a window of `size` lines, misaligned in 15 % of cases."""
        mem = self.hw.mem_lines
        kind = self.random()
        if self.live and kind < 0.5:
            other = self.choice(list(self.live.values()))
            near = (other.window_lines, -size, 0, other.window_lines // 2, other.window_lines // 4)
            start = other.base_line + self.choice(near)
        else:
            places = (mem, mem - size, mem // 2, SPACE - size, 0, self.randrange(mem, SPACE))
            start = self.choice(places)
        start = start // size * size
        return start if self.random() < 0.85 else start + self.choice((size // 2, 1))

    def state(self, area: int, record: int) -> int:
        """Draw the first line address of a state area.

        Args:
            area: size of the area in lines.
            record: size of a record in lines; in 60 % of the cases the area is aligned to it.
        """
        mem = self.hw.mem_lines
        if self.live and self.random() < 0.5:
            other = self.choice(list(self.live.values()))
            end = other.state_line + state_lines(other, self.hw.cnt_w)
            first = other.state_line - area
            start = self.choice((end, end - 1, first, first + 1))
        else:
            start = self.choice((mem - area, mem - area + 1, 0, self.randrange(mem)))
        start = max(start, 0) // record * record
        return start if self.random() < 0.6 else start + self.choice((0, 1, record // 2))

    # -- accesses -----------------------------------------------------------------------------
    async def access(self, config: RegionConfig) -> None:
        """Read and write at the edges of the region's window, state area and memory; see `places`.

        Without the option `accesses`, only the first line of the window.
        """
        for line in self.places(config) if self.accesses else [config.base_line]:
            addr = line % SPACE * LINE_BYTES
            ldid = self.choice((self.randrange(16), self.ldid_for(config, 0)))
            if self.random() < 0.4:
                data = line_for(config.mode, self.rng)
                be = self.getrandbits(64) if self.random() < 0.2 else None
                await self.write(addr, data, RACE_LIMIT, ldid=ldid, be=be)
            else:
                await self.read(addr, RACE_LIMIT, ldid=ldid)
        await self.drain()

    def places(self, config: RegionConfig) -> list[int]:
        """Return line addresses in random order: in the window, at edges, and one bit away."""
        mem = self.hw.mem_lines
        first, size, n = config.base_line, config.window_lines, config.lines
        inside = [
            first + selector * n + self.choice((0, n - 1, self.randrange(n)))
            for selector in (0, 8, 64, 127, 128, 255, config.workers - 1, config.workers)
        ]
        area = config.state_line
        end = area + state_lines(config, self.hw.cnt_w)
        edges = [first - 1, first, first + size - 1, first + size, first + size // 2]
        edges += [area - 1, area, end - 1, end, self.randrange(area, end)]
        edges += [0, mem - 1, mem, 2 * mem - 1, mem + area, mem + self.randrange(mem)]
        flips = [self.choice(inside) ^ 1 << bit for bit in range(LINE_ADDRESS_BITS)]
        chosen = self.sample(flips, 6) + [self.choice(inside) ^ 1 << 45]
        out = inside + edges + chosen
        self.rng.shuffle(out)
        return out


class SelectorSequence(NfSequence):
    """Reads of all 256 selectors of a region of each mode, and writes of workers and some others.

    IDENTITY regions are written at all selectors. The writes include partial ones (MemWrPtl), and
    regions may have BIND.
    """

    async def body(self) -> None:
        for mode in (Mode.IDENTITY, Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            workers = self.choice((self.randint(17, 63), 64))
            bind, shift = self.random() < 0.5, self.randrange(3)
            config = await self.start_region(None, mode, 1, workers, bind=bind, bind_shift=shift)
            selectors = self.shuffled(range(256))
            for selector in selectors:
                if mode is Mode.IDENTITY or selector <= workers + 2 or self.random() < 0.1:
                    await self.one_write(config, selector)
            await self.drain()
            for selector in selectors:
                await self.read(config.address(selector, 0), ldid=self.randrange(16))
            await self.drain()

    async def one_write(self, config: RegionConfig, selector: int) -> None:
        """Issue a MemWr, or a MemWrPtl with all, no or some bytes (IDENTITY: always a MemWr)."""
        be = None
        if config.mode is not Mode.IDENTITY:
            be = self.choice((None, None, BE_ALL, 0, self.getrandbits(64)))
        ldid = config.owner(selector) & 15 if self.random() < 0.8 else self.randrange(16)
        data = line_for(config.mode, self.rng)
        await self.write(config.address(selector, 0), data, RACE_LIMIT, ldid=ldid, be=be)


class HighIndexSequence(NfSequence):
    """Accesses to lines of large regions whose indices differ in one bit, once the highest one.

    The state area of the first region takes the whole memory.
    """

    async def body(self) -> None:
        self.layout.next_line = 0
        whole = self.layout.region(Mode.G_BINARY, self.hw.mem_lines_log2 - 1, 1)
        self.layout.next_line = self.hw.mem_lines // 2
        await self.differ(self.any_region(), whole)
        shapes = ((Mode.G_TERNARY, 17, 1), (Mode.FP32, 14, 2), (Mode.G_BINARY, 14, 2))
        # Regions of the upper half are certain: their numbers need the last bit.
        count = self.hw.regions
        upper = self.sample(range(count // 2, count), count - count // 2)
        for at, (mode, lines_log2, workers) in enumerate(shapes):
            region = upper[at % len(upper)] if at % 2 == 0 else self.randrange(count)
            await self.differ(region, self.layout.region(mode, lines_log2, workers))

    async def differ(self, region: int, config: RegionConfig) -> None:
        """Commit a region; contribute to and read lines whose indices differ in one bit."""
        await self.commit(region, config)
        first = self.randrange(config.lines)
        bits = [config.lines_log2 - 1, 12, self.randrange(12)]
        lines = [first, *(first ^ 1 << bit for bit in bits)]
        await self.fill_lines(config, lines, 0)
        views = (0, self.part_selector(config))
        for line in lines:
            await self.contribute(config, config.workers - 1, line)
            await self.read_lines(config, line, views, limit=1, wait=False)
        await self.drain()
        await self.read_registers("COMPLETE_LINES", region=region)
        # A smaller region: the initialiser of the large one would take the rest of the run.
        await self.commit(region, replace(config, lines_log2=0))


OPPOSITE = ((Mode.G_TERNARY, Mode.G_INT8), (Mode.FP32, Mode.G_INT4))
"""Pairs of modes whose numbers differ in each of the lower three bits."""
LD_IDS = 16
EPOCH_BITS = (1 << 32) - 1
SIZE_BITS = 31
"""Mask of the bits of LINES_LOG2 that can be set in regions that share a memory."""


class EveryBitSequence(NfSequence):
    """Commits that set and clear every bit of a descriptor, in every region.

    A descriptor is committed, then one with each bit inverted, then the first one again; each time
    the region must respond by its own descriptor. Needs all regions, and counters that 64 integer
    codes do not saturate.
    """

    async def body(self) -> None:
        regions = range(self.hw.regions)
        self.live = {region: self.layout.region(Mode.G_BINARY, 0, 1) for region in regions}
        for region, config in self.live.items():
            await self.commit(region, config)
        for region in self.shuffled(regions):
            home = self.live[region]
            there, back = self.opposite(region)
            for config in (there, back, there):
                await self.use(region, config)
            for config in (*self.sizes(region), home):
                await self.use(region, config)

    def legal(self, region: int, config: RegionConfig) -> bool:
        """Return True if the model accepts a commit of the descriptor next to the other regions."""
        others = [other for number, other in self.live.items() if number != region]
        return check_commit(self.hw, config, others) is CommitCode.OK

    def opposite(self, region: int) -> tuple[RegionConfig, RegionConfig]:
        """Draw two legal descriptors that differ in every bit that a legal one can have.

        Pairs are drawn until both are legal. Low address bits, which alignment fixes, are 0 in
        both.
        """
        record = record_lines(MAX_WORKERS, self.hw.cnt_w)
        names = ("tie_minus", "strict", "bind", "signed", "keep_sum")
        while True:
            modes = self.sample(self.choice(OPPOSITE), 2)
            base, state = self.randrange(SPACE), self.randrange(self.hw.mem_lines)
            threshold, mask = self.randint(1, 254), self.randrange(1, 0xFFFF)
            flags = self.getrandbits(5)
            shift = self.choice((1, 2))
            first, second = (
                RegionConfig(
                    (base ^ flip * (SPACE - 1)) >> SELECTOR_BITS << SELECTOR_BITS + 6,
                    (state ^ flip * (self.hw.mem_lines - 1)) // record * record * LINE_BYTES,
                    0,
                    MAX_WORKERS - flip,
                    mode,
                    bind_shift=shift ^ 3 * flip,
                    threshold=threshold ^ 255 * flip,
                    ld_mask=mask ^ 0xFFFF * flip,
                    **{name: bool((flags >> bit ^ flip) & 1) for bit, name in enumerate(names)},
                )
                for flip, mode in enumerate(modes)
            )
            if self.legal(region, first) and self.legal(region, second):
                return first, second

    def sizes(self, region: int) -> list[RegionConfig]:
        """Draw legal descriptors: with a LINES_LOG2, with its bitwise inverse, and as the first.

        The largest has an eighth of the memory as lines. The next commit stops its initialiser.
        """
        out = list[RegionConfig]()
        most = self.hw.mem_lines.bit_length() - 4
        for lines_log2 in (most, most ^ SIZE_BITS, most):
            while True:
                base = self.randrange(SPACE) >> lines_log2 + SELECTOR_BITS
                state = self.randrange(self.hw.mem_lines) >> lines_log2
                base <<= lines_log2 + SELECTOR_BITS + 6
                config = RegionConfig(base, state << lines_log2 + 6, lines_log2, 1, Mode.FP32)
                if self.legal(region, config):
                    break
            out.append(config)
        return out

    async def use(self, region: int, config: RegionConfig) -> None:
        """Commit, contribute, read line 0 by all selectors, and read one address bit away."""
        self.live[region] = config
        self.epoch ^= EPOCH_BITS
        await self.commit(region, config)
        every = range(config.workers)  # with BIND, some of them belong to no LD-ID
        hosts = [one for one in every if not config.bind or config.owner(one) < LD_IDS]
        for worker in self.sample(hosts, min(2, len(hosts))):
            await self.fill_lines(config, self.randrange(config.lines), worker, limit=1)
        await self.read_views(config, 0)
        for bit in range(SELECTOR_BITS, LINE_ADDRESS_BITS, 5):  # one bit away: not this region
            line = config.base_line ^ 1 << min(bit + region % 5, LINE_ADDRESS_BITS - 1)
            await self.read(line * LINE_BYTES, limit=1)
        await self.drain()
