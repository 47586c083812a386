# SPDX-License-Identifier: Apache-2.0
"""Sweeps over places by construction, with drawn values: regions, selectors, generations, planes.

Each sequence visits all of its places at any scale; only the values at a place are drawn.
"""

from dataclasses import replace
from itertools import combinations

import cocotb

from models.commit_check import CommitCode, broken_rules, check_commit, most_workers
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.parameters import LINE_ADDRESS_BITS
from models.regions import (
    INFO_SELECTOR,
    MAX_WORKERS,
    PLANE_SELECTOR,
    SELECTOR_BITS,
    SELECTORS,
    STATUS_SELECTOR,
    VIEW_SELECTORS,
    WORKER_LINES_SELECTOR,
    RegionConfig,
    record_lines,
    state_lines,
)
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.code_regions import TERN5_SHAPES, Tern5Sequence
from verif.sequences.line_data import forged

ALL_LD_IDS = 0xFFFF
OWNERS = 7
"""Mask of the LD-IDs that own workers 0 to 2."""
CAPACITY = {"CAP_WINDOW": 2, "CAP_THRESHOLD": 1}
"""Two misses of a region in turn raise its FALLBACK; a hit between them prevents it."""


class RegionPairSequence(NfSequence):
    """Events of each region r while region r xor half of them is alive with other contents.

    All regions are committed. Each kind of event, in each region, changes one region alone; then
    registers, views and answers of both regions of the pair are read. The kinds of event cover the
    places in the device that take the number of a region. With the option `records` they are
    events of its state area: refused writes, and forged records before the initialiser.
    """

    records: bool = False

    async def body(self) -> None:
        half = self.hw.regions // 2
        every = self.own_modes
        modes = [mode for _ in range(half) for mode in self.shuffled(every)]
        self.live: dict[int, RegionConfig] = {}
        for low in self.shuffled(range(half)):
            self.live |= self.draw(low, low + half, modes)
        pairs = [self.sample((low, low + half), 2) for low in self.shuffled(range(half))]
        for region in self.shuffled([*self.live]):
            await self.commit(region, self.live[region])
        await self.set_registers(**CAPACITY)
        self.closing = {self.choice((low, low + half)) for low in range(half)}
        low_bit = [mode for mode in every if mode.low_bit]
        counting = [*low_bit, Mode.FP32]
        if self.records:
            events = [(self.damage, counting), (self.claim, counting)]
        else:
            events = [(event, every) for event in (self.refuse, self.renew, self.end)]
            events.append((self.overload, low_bit))
        for pair in pairs * self.cfg.count(2):
            for region, other in (pair, pair[::-1]):
                for event, allowed in self.shuffled(events):
                    config = self.live[region]
                    if config.mode not in allowed:  # each region has every event
                        self.live[region] = self.reshaped(config, 1, self.choice(allowed))
                        await self.commit(region, self.live[region])
                    await self.work(self.live[region])
                    await event(region, self.live[region])
                    await self.look(region, other)
                    if config.mode not in allowed:
                        self.live[region] = config
                        await self.commit(region, config)

    def draw(self, low: int, high: int, modes: list[Mode]) -> dict[int, RegionConfig]:
        """Place two regions, half of the pairs of one mode, that admit disjoint sets of LD-IDs.

        One of them has BIND, and STRICT, TIE_MINUS and KEEP_SUM are opposite.
        """
        mode = modes.pop()
        other = mode if self.random() < 0.5 else modes.pop()
        mask, flags = self.getrandbits(15) | OWNERS, self.getrandbits(3)
        configs = [
            self.layout.region(
                mode,
                1,
                self.randint(1, 3),
                ld_mask=mask ^ flip * ALL_LD_IDS,
                bind=not flip,
                strict=bool((flags ^ flip) & 1),
                tie_minus=bool((flags >> 1 ^ flip) & 1),
                keep_sum=bool((flags >> 2 ^ flip) & 1),
                threshold=1 + flip,
            )
            for flip, mode in enumerate((mode, other))
        ]
        return dict(zip(self.sample((low, high), 2), configs, strict=True))

    async def work(self, config: RegionConfig) -> None:
        """Contribute, mostly as every worker: some lines become complete, some are poisoned."""
        for one in self.every_contribution([config]):
            if self.random() < 0.8:
                await self.contribute(*one, limit=RACE_LIMIT, poison=self.random() < 0.1)

    async def refuse(self, region: int, config: RegionConfig) -> None:
        """Send accesses by an LD-ID that the other region of the pair admits, and read ERR_INFO."""
        await self.set_registers(ERR_INFO=1, IRQ_STATUS=0x7F)
        strangers = [ldid for ldid in range(16) if not config.ld_mask >> ldid & 1]
        for ldid in self.sample(strangers, min(2, len(strangers))):
            await self.contribute(config, 0, 0, ldid=ldid)
            await self.read(config.address(0, config.lines - 1), ldid=ldid)
        owner = config.workers if config.mode is not Mode.IDENTITY else 2
        await self.contribute(config, 0, 0, ldid=owner)  # BIND
        await self.read_addresses([config.state_base])
        await self.read_registers("ERR_INFO", "ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG")

    async def overload(self, region: int, config: RegionConfig) -> None:
        """Raise FALLBACK by two misses, contribute to both regions, and clear it."""
        for line in (0, 1):
            await self.evict(region)
            await self.fill_lines(config, line, self.randrange(config.workers))
            await self.read_registers("SLOT_MISS")  # shows the scoreboard that it was a miss
        for number in (region, region ^ self.hw.regions // 2):
            await self.fill_lines(self.live[number], 0, 0)
            await self.look(number)
        await self.set_registers(FALLBACK=1 << region, IRQ_STATUS=0x7F)

    async def renew(self, region: int, config: RegionConfig) -> None:
        """Commit the region again: its flags, counts and lines end, those of others stay."""
        await self.drain()
        await self.commit(region)

    async def damage(self, region: int, config: RegionConfig) -> None:
        """Let memory refuse the write-back of the region's records, then of its initialiser.

        Half of the rounds whose records are not trusted end by CLOSE. Records that the initialiser
        could not overwrite are forged, with each generation, and the next commit repeats it.
        """
        other = region ^ self.hw.regions // 2
        await self.fill_lines(config, 0, 0)
        with self.failing(writes=self.books(config)):
            await self.evict(region)
        if region in self.closing:
            await self.close(region)
        await self.look(region, other)
        self.live[region] = wide = self.reshaped(config, 3)
        await self.forge(wide)
        with self.failing(writes=self.books(wide)):
            await self.commit(region, wide, ready=True)
        await self.look(region, other)
        if other in self.closing:
            await self.close(region)
        await self.commit(region)
        await self.fill_lines(wide, (0, wide.lines - 1), 0)
        await self.evict(region)  # marks the lines, so that their neighbours are fetched, too
        await self.read_lines(wide)
        self.live[region] = config
        await self.commit(region, config)

    async def claim(self, region: int, config: RegionConfig) -> None:
        """Commit the region to forged records while its initialiser is busy, and that of the other.

        One of the records has the generation of the region, whatever that is.
        """
        other = region ^ self.hw.regions // 2
        for busy in (other, region):
            wide = self.reshaped(self.live[busy], 5, config.mode)
            small = self.reshaped(config, 3)
            await self.forge(small)
            if region in self.closing:
                await self.close(region)
            with self.memory(w_stall=0.6):
                await self.commit(busy, wide)
                await self.commit(region, small)
                await self.fill_lines(small, self.randrange(small.lines), 0)
                await self.evict(region)
                await self.read_lines(small, self.sample(range(small.lines), 5))
            if busy is other:
                await self.commit(busy, self.live[busy])
        await self.commit(region, config)

    def books(self, config: RegionConfig) -> list[int]:
        """Return the lines of memory with the bookkeeping of the region's lines."""
        return [self.bookkeeping(config, line) for line in range(config.lines)]

    async def forge(self, config: RegionConfig) -> None:
        """Write forged records of all lines to memory, one of them with each generation."""
        for generation, line in enumerate(self.books(config)):
            record = forged(generation, (1 << config.workers) - 1, kept=config.keeps_sums)
            await self.write(line * LINE_BYTES, record)
        await self.drain()

    def reshaped(
        self, config: RegionConfig, lines_log2: int, mode: Mode | None = None
    ) -> RegionConfig:
        """Place a region like another one with another number of lines, and perhaps mode."""
        mode = config.mode if mode is None else mode
        at = self.layout.region(mode, lines_log2, MAX_WORKERS, keep_sum=config.keep_sum)
        moved = replace(config, base=at.base, state_base=at.state_base)
        return replace(moved, lines_log2=lines_log2, mode=mode)

    async def end(self, region: int, config: RegionConfig) -> None:
        """Close the round; a late contribution follows."""
        await self.drain()
        await self.close(region)
        await self.fill_lines(config, self.randrange(config.lines), 0)

    async def evict(self, region: int) -> None:
        """Read lines of regions outside the pair until all others have left their slots."""
        half = self.hw.regions // 2
        await self.drain()
        lines = [
            (config, line, INFO_SELECTOR)
            for number, config in self.live.items()
            if number % half != region % half and config.mode is not Mode.IDENTITY
            for line in (0, 1)
        ]
        await self.read_each(self.sample(lines, 2 * self.slots))

    async def look(self, *regions: int) -> None:
        """Read registers, figures and lines of the regions, one of each kind at least."""
        await self.drain()
        await self.read_registers("DONE", "FALLBACK", "IRQ_STATUS")
        for region in regions:
            config = self.live[region]
            await self.read_registers("STATUS", "COMPLETE_LINES", region=region)
            views = (STATUS_SELECTOR, WORKER_LINES_SELECTOR, self.choice(VIEW_SELECTORS))
            await self.read_lines(config, 0, self.sample(views, 2), wait=False)
            await self.read_lines(config, wait=False)
            await self.read_region(config, self.randrange(config.lines))
        await self.drain()


class SelectorMaskSequence(NfSequence):
    """Every selector in each mode, read and written at lines whose index has or lacks one bit.

    Regions have from one line to as many as memory allows. ERR_INFO, ERR_ADDR and ERR_TAG are read
    after some of the accesses.
    """

    async def body(self) -> None:
        self.region = self.any_region()
        for mode in self.shuffled(self.own_modes):
            most = self.place(mode).lines_log2
            between = [self.randrange(most) for _ in range(self.cfg.count(1) - 1)]
            sizes = self.shuffled([self.randrange(3), *between, most])
            for number, lines_log2 in enumerate(sizes):
                config = self.place(mode, lines_log2)
                await self.commit(self.region, config)
                await self.selectors(config, write=number % 2 > 0)
                await self.contents(config)
        await self.commit(self.region, replace(config, lines_log2=0))  # stops the initialiser

    def place(self, mode: Mode, lines_log2: int | None = None) -> RegionConfig:
        """Return a descriptor with an area at the end of the memory: of most lines with None.

        The regions of this sequence exist one at a time. Large regions have one worker; the largest
        area is the whole memory, in modes whose records have two lines.
        """
        mem = self.hw.mem_lines
        log2 = LINE_ADDRESS_BITS if lines_log2 is None else lines_log2
        workers = self.randint(1, most_workers(mode, self.hw)) if log2 < 4 else 1
        while True:
            config = RegionConfig(0, 0, log2, workers, mode)
            area = state_lines(config, self.hw.cnt_w)
            if area <= mem:
                break
            log2 -= 1
        size = log2 + SELECTOR_BITS
        first = 1 << max(0, self.hw.mem_lines_log2 - size)
        base = self.randint(first, (1 << LINE_ADDRESS_BITS - size) - 1)
        return replace(config, base=base * LINE_BYTES << size, state_base=(mem - area) * LINE_BYTES)

    def lines(self, config: RegionConfig) -> list[int]:
        """Return the indices with no, one, all but one and all bits set, in random order."""
        last = config.lines - 1
        bits = [1 << bit for bit in range(config.lines_log2)]
        return self.shuffled(sorted({0, last, *bits, *(last ^ bit for bit in bits)}))

    async def selectors(self, config: RegionConfig, write: bool) -> None:
        """Read or write by every selector: lines are empty, and only refused writes are made."""
        lines = self.lines(config)
        places = [(selector, lines[selector % len(lines)]) for selector in range(SELECTORS)]
        views = [(self.choice(VIEW_SELECTORS), line) for line in lines]
        for selector, line in self.shuffled(places + views):
            address = config.address(selector, line)
            if not write or (selector, line) in views:
                await self.read(address)
            elif config.mode is Mode.IDENTITY or selector >= config.workers:
                await self.write(address, self.randbytes(LINE_BYTES), 1)
        await self.drain()
        for selector, line in (*self.sample(places, 3), *self.sample(views, min(len(lines), 3))):
            await self.registers.write("ERR_INFO.VALID", 1)
            await self.read_addresses([config.address(selector, line)])
            await self.read_registers("ERR_INFO", "ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG")

    async def contents(self, config: RegionConfig) -> None:
        """Contribute to a line, and read it and the line whose index differs in one bit: all bits.

        A commit for every two drops their lines: an eviction would wait for the initialiser.
        """
        for number, bit in enumerate(self.shuffled(range(config.lines_log2))):
            if number % 2 == 0:
                await self.drain()
                await self.commit(self.region)
            line = self.randrange(config.lines)
            await self.contribute(config, self.randrange(config.workers), line)
            selector = self.choice(self.read_selectors(config))
            await self.read_region(config, line, selector)
            await self.read_region(config, line ^ 1 << bit, selector)
        await self.drain()


SPACE = 1 << LINE_ADDRESS_BITS
NEVER = {
    frozenset(pair)
    for pair in (
        (CommitCode.MODE, CommitCode.STATE_ALIGN),  # a reserved mode has no records
        (CommitCode.MODE, CommitCode.PLANES),
    )
}
"""Pairs of commit codes whose rules no descriptor breaks at once."""
DRAWN, MOST_DRAWN = 6_000, 100_000
"""Drawn descriptors: at least, and until each pair is there; 6,000 lack one in one seed of five."""


class CommitOrderSequence(NfSequence):
    """Commits of descriptors that break two rules of a commit, for each pair that can be broken.

    Windows overlap that of another region, then the control window alone. Of the drawn descriptors
    whose first broken rule is one of a pair, and that break the other one, one with the fewest
    further faults is used; most have none. The model says which rule a commit reports. The first
    commits are of a region that has never been committed.
    """

    async def body(self) -> None:
        region, *taken = self.sample(range(self.hw.regions), 3)
        good = self.layout.region(Mode.G_BINARY, 2, 3)
        others = [self.layout.region(Mode.FP32, 2, 4), self.layout.region(Mode.G_INT4, 3, 9)]
        await self.commit_all(*others, regions=taken)
        self.control = self.layout.control_window()
        await self.write_window(self.control)
        draws = [self.pairs(good, others, others) for _ in range(self.cfg.count(4))]
        near = self.pairs(good, others, [replace(others[0], base=self.control)])
        draws.append({two: near[two] for two in near if CommitCode.WINDOW_OVERLAP in two})
        found = self.shuffled([config for pairs in draws for config in pairs.values()])
        for number, bad in enumerate(found):
            if number == len(found) // 2:
                await self.commit(region, good)
                await self.fill_lines(good)
            code = check_commit(self.hw, bad, others, self.control >> 6)
            await self.commit(region, bad, code)
        await self.read_lines(good, None, (0, INFO_SELECTOR))
        await self.registers.read_status()

    def pairs(
        self, good: RegionConfig, others: list[RegionConfig], near: list[RegionConfig]
    ) -> dict[frozenset[CommitCode], RegionConfig]:
        """Return a descriptor for each pair of rules that can be broken, or fail.

        Windows and areas that overlap anything overlap those of `near`.
        """
        wanted = {frozenset(pair) for pair in combinations(list(CommitCode)[1:], 2)} - NEVER
        found: dict[frozenset[CommitCode], tuple[int, RegionConfig]] = {}
        for number in range(MOST_DRAWN):
            if number >= DRAWN and found.keys() == wanted:
                break
            config = self.draw(good, self.choice(near))
            rules = list(broken_rules(self.hw, config, others, self.control >> 6))
            for second in rules[1:]:
                pair = frozenset((rules[0], second))
                if pair not in found or len(rules) < found[pair][0]:
                    found[pair] = len(rules), config
        wrong = [sorted(code.name for code in pair) for pair in found.keys() ^ wanted]
        assert not wrong, f"pairs that only the drawn descriptors or the list have: {wrong}"
        return {pair: config for pair, (_, config) in found.items()}

    def draw(self, good: RegionConfig, other: RegionConfig) -> RegionConfig:
        """Draw a descriptor: each field that of `good`, or one that may break a rule."""
        mem = self.hw.mem_lines
        workers = self.choice((good.workers, 0, self.randint(1, 64), self.randint(65, 255)))
        mode = self.choice((good.mode, Mode(self.randint(0, 6)), Mode(self.randint(7, 15))))
        if self.random() < 0.3:  # more than exact counts hold
            mode = self.choice((Mode.G_INT4, Mode.G_INT8, Mode.G_TERN5))
            workers = self.randint(most_workers(mode, self.hw) + 1, MAX_WORKERS)
        large = self.randint(LINE_ADDRESS_BITS - SELECTOR_BITS + 1, 63), self.randint(12, 38)
        lines_log2 = self.choice((good.lines_log2,) * 4 + large)
        window = 1 << min(lines_log2 + SELECTOR_BITS, LINE_ADDRESS_BITS)
        bases = (0, self.randrange(mem), other.base_line, good.base_line ^ window)
        base = self.choice((good.base_line, self.choice(bases))) // window * window
        base += self.choice((0, 0, self.randrange(1, window)))
        states = (0, mem, self.randrange(mem, SPACE), other.state_line)
        state = self.choice((good.state_line, self.choice(states)))
        state += self.choice((0, 0, self.randrange(1, 4)))
        return replace(
            good,
            mode=mode,
            workers=workers,
            threshold=self.choice((0, self.randint(1, 255))),
            lines_log2=lines_log2,
            base=base % SPACE * LINE_BYTES,
            state_base=state % SPACE * LINE_BYTES,
        )


FORMS = tuple((mode, keep) for mode in Mode for keep in {False, mode is Mode.FP32})
"""Modes, FP32 without and with KEEP_SUM."""


class StateEdgeSequence(NfSequence):
    """State areas of each mode and record size that touch an end of memory or another area.

    Each area is committed, then one that reaches a record further, and one that is misaligned by
    half a record. The initialiser writes all records of the first one, and its last line is used.
    """

    async def body(self) -> None:
        region, taken = self.sample(range(self.hw.regions), 2)
        other = self.layout.region(Mode.FP32, 1, 3)
        ends = other.state_line, other.state_line + state_lines(other, self.hw.cnt_w)
        await self.commit(taken, other)
        for mode, keep in self.shuffled(FORMS):
            if mode.optional and not self.hw.tern5:
                continue
            most = most_workers(mode, self.hw)
            for workers in (1, self.randint(2, min(7, most)), most):
                shape = self.layout.region(mode, self.randrange(3), workers, keep_sum=keep)
                size = state_lines(shape, self.hw.cnt_w)
                record = record_lines(shape.most, self.hw.cnt_w) if mode.low_bit else 1
                first = (self.choice((self.hw.mem_lines, ends[0])) - size) // record * record
                places = self.choice(((first, record), (-(-ends[1] // record) * record, -record)))
                for line in (places[0], sum(places), places[0] + record // 2):
                    config = replace(shape, state_base=line * LINE_BYTES)
                    code = check_commit(self.hw, config, [other])
                    await self.commit(region, config, code, ready=True)
                    if code is CommitCode.OK:
                        await self.fill_lines(config, config.lines - 1, (0, workers - 1))
                        await self.read_lines(config, config.lines - 1, INFO_SELECTOR)


class GenerationWrapSequence(NfSequence):
    """Epochs until each generation has come twice, with records that only an epoch of it wrote.

    In epoch e a line is read, contributed to and left in its slot, in memory or in the eviction
    buffer; no other epoch of a cycle touches it. Every other epoch ends by CLOSE. Lines that share
    marks with it are evicted first, so that its record is fetched. An IDENTITY region lies next to
    the records, which are initialised when generations begin again. Each mode is swept, FP32 with
    kept sums too.
    """

    async def body(self) -> None:
        self.crowd = self.crowd_layout()
        self.region, plain, crowded = self.sample(range(self.hw.regions), 3)
        await self.commit(crowded, self.crowd)
        for mode, keep in self.shuffled(FORMS):
            if mode is Mode.IDENTITY or (mode.optional and not self.hw.tern5):
                continue
            config = self.layout.region(mode, 4, self.randint(2, 3), keep_sum=keep)
            await self.cycle(config, await self.start_region(plain, Mode.IDENTITY, 0, 1))

    async def cycle(self, config: RegionConfig, plain: RegionConfig) -> None:
        """Run two cycles of generations and one epoch more, with `plain` next to the records."""
        generations = (1 << self.hw.gen_w) - 1
        ways = self.shuffled(range(3))
        await self.commit(self.region, config)
        for epoch in range(2 * generations + 1):
            line = 2 * (epoch % generations)
            await self.fill_lines(config, (1, config.lines - 1), 0)
            await self.crowd_out(self.crowd)
            backing = plain.address(self.randrange(2) * 255, 0)
            await self.read_views(config, line)
            await self.write(backing, self.randbytes(LINE_BYTES))
            await self.fill_lines(config, line, range(self.choice((1, config.workers))))
            result = INFO_SELECTOR if config.mode.bits else 0
            await self.read_lines(config, line, (result, result))
            if epoch % 2:  # also of the two after which generations begin again
                await self.close(self.region)
            await self.leave(ways[(epoch + epoch // generations) % 3])
            await self.read(backing)

    async def leave(self, way: int) -> None:
        """Commit with the line in its slot (0), in memory (1) or on its way there (2)."""
        if way == 1:
            await self.crowd_out(self.crowd)
        if way < 2:
            await self.commit(self.region)
            return
        async with self.stalled("aw", "w"):
            for line in self.sample(range(self.crowd.lines), 2 * self.slots):
                await self.read_region(self.crowd, line, INFO_SELECTOR)
            await self.cycles(40)
            commit = cocotb.start_soon(self.commit(self.region))
            await self.cycles(20)
        await commit


class Tern5PressureSequence(Tern5Sequence):
    """G_TERN5 lines that are evicted and fetched with each number of contributions, 1 to W.

    There are more lines than slots, which share marks: operations miss, are parked and deferred.
    Some contributions are poisoned or repeated, and some epochs end by CLOSE. W is the most that
    the counters hold, then drawn.
    """

    async def body(self) -> None:
        region, crowded = self.sample(range(self.hw.regions), 2)
        self.crowd = self.crowd_layout()
        await self.commit(crowded, self.crowd)
        drawn = [self.workers() for _ in range(self.cfg.count(4) - 1)]
        for workers in (self.most, self.randint(4, 7), *drawn):  # 4 to 7: records of twice the size
            threshold = self.randint(1, workers)
            config = self.layout.region(Mode.G_TERN5, 3, workers, threshold=threshold)
            await self.commit(region, config)
            await self.each_count(config)
            await self.commit(region)
            await self.all_at_once(region, config)

    async def each_count(self, config: RegionConfig) -> None:
        """Contribute to two lines as one worker after another, and evict the lines after each.

        Line 0 counts 2 for each worker, which needs every plane as soon as it can be needed.
        """
        for worker in self.shuffled(range(config.workers)):
            for line, shape in enumerate(("plus", self.choice(TERN5_SHAPES))):
                await self.contribute(config, worker, line, self.line(shape))
            await self.drain()
            away = self.random() < 0.5  # in memory, or on its way there
            with self.memory(aw_stall=0.0 if away else 0.9):
                await self.read_lines(self.crowd, range(2 * self.slots), wait=away)
                await self.read_region(config, 0)
                await self.read_region(config, self.randrange(config.lines))
                await self.drain()
        for line in (0, 1):
            await self.read_views(config, line)

    async def all_at_once(self, region: int, config: RegionConfig) -> None:
        """Send contributions and reads in random order to all lines, with CLOSE in between."""
        work = self.shuffled(self.every_contribution([config]))[: 12 * config.lines]
        ends = self.choice((len(work) // 2, len(work)))
        for number, (_, worker, line) in enumerate(work):
            if number == ends:
                await self.close(region)
            shape, poison = self.choice(TERN5_SHAPES), self.random() < 0.03
            for _ in range(1 + (self.random() < 0.1)):
                await self.contribute(config, worker, line, self.line(shape), 3, poison=poison)
            if self.random() < 0.3:
                await self.read_region(config, line, limit=3)
        await self.drain()
        await self.read_lines(config, None, (0, INFO_SELECTOR, PLANE_SELECTOR + self.randrange(8)))
