# SPDX-License-Identifier: Apache-2.0
"""Epochs that are closed under traffic, reads of INFO and STATUS in every state, and counts."""

import random
from itertools import product

import cocotb

from cocotbext.cxl.wire.messages import S2MDRS
from models.commit_check import most_workers
from models.info_status_lines import LineInfo, StatusView, unpack_words
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import (
    INFO_SELECTOR,
    STATUS_SELECTOR,
    SUM16_SELECTOR,
    VIEW_SELECTORS,
    RegionConfig,
    sum_selectors,
)
from models.register_map import REG_MAP
from verif.sequences.base import ANY, NfSequence
from verif.sequences.line_data import ZEROS, byte_enables, line_for
from verif.sequences.pipeline_programs import ParkedBase

AGGREGATING = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_INT4, Mode.G_INT8)
"""The aggregating modes that every device has."""
HOSTS = 8
FEW_SLOTS = 16
"""Number of slots up to which lines are evicted quickly enough for a test."""
COUNTED = ("CONTRIBUTION", "DUPLICATE", "POISON_RECEIVED", "LATE")
"""Counters of contributions: each one that is not refused is counted in exactly one of them."""


def aggregating(hw: DeviceParams) -> tuple[Mode, ...]:
    """Return the aggregating modes of a device: `AGGREGATING`, and G_TERN5 if it has that."""
    return (*AGGREGATING, Mode.G_TERN5) if hw.tern5 else AGGREGATING


class CloseSequence(NfSequence):
    """Epochs with contributions, reads of eight hosts, and CLOSE at a random time.

    The reads after the response of CLOSE are the same for all hosts, do not change whatever arrives
    late, and account for every contribution together with LATE.
    """

    rounds: int = 5

    async def body(self) -> None:
        region = self.any_region()
        open_round = self.layout.region(Mode.G_BINARY, 1, 2)
        other = (region + 1) % self.hw.regions
        if other != region:
            await self.commit(other, open_round)
        modes = self.shuffled(aggregating(self.hw))
        configs = [self.draw(mode) for mode in (*modes, *modes)]
        for number in range(self.rounds):
            await self.one_round(region, configs[number % len(configs)])
            if other != region:  # its round is open
                await self.contribute(open_round, self.randrange(2), 0, limit=1)
                await self.read_region(open_round, 0, 0, limit=1)
        await self.drain()

    def draw(self, mode: Mode) -> RegionConfig:
        """Place a region of a mode with few lines, so that each has many events."""
        workers = self.choice((1, 2, 3, 5, 8, self.randint(4, 16), self.randint(1, 64)))
        strict = self.random() < 0.5
        log2 = self.randint(0, 2)
        workers = min(workers, most_workers(mode, self.hw))
        return self.layout.region(mode, log2, workers, strict=strict)

    async def one_round(self, region: int, config: RegionConfig) -> None:
        """Commit, send traffic and CLOSE, and compare reads of everything by all hosts.

        The counters of contributions, STATUS and INFO must agree with each other.
        """
        await self.commit(region, config)
        before = [await self.registers.read(name) for name in COUNTED]
        work = list(product(range(config.workers), range(config.lines)))
        work += self.rng.choices(work, k=len(work) // 8)  # duplicates, and second FP32 stores
        self.rng.shuffle(work)
        del work[96:]
        self.sent = 0
        writer = cocotb.start_soon(self.writer(config, work))
        readers = [cocotb.start_soon(self.reader(config, host)) for host in range(HOSTS)]
        await self.cycles(self.randint(1, len(work) + len(work) // 2 + 1))
        await self.close(region)
        first = await self.everything(config, self.sample(range(HOSTS), 2))
        for task in (writer, *readers):
            await task
        await self.drain()
        last = await self.everything(config, list(range(HOSTS)))
        assert last == first, "a read after CLOSE differs from a later one"
        after = [await self.registers.read(name) for name in COUNTED]
        moved = [now - then for now, then in zip(after, before, strict=True)]
        assert sum(moved) == self.sent, f"{self.sent} contributions, counted {moved} as {COUNTED}"
        status = StatusView.unpack(await self.view(config, STATUS_SELECTOR))
        assert status.done, "a closed region is not done"
        assert status.late == moved[-1], f"STATUS.late is {status.late}, LATE rose by {moved[-1]}"
        lines = range(config.lines)
        bitmaps = [LineInfo.unpack(first[INFO_SELECTOR, line].data).bitmap for line in lines]
        wanted = [sum(one >> worker & 1 for one in bitmaps) for worker in range(64)]
        seen = [w for s in VIEW_SELECTORS[1:] for w in unpack_words(await self.view(config, s))]
        assert seen == wanted, f"STATUS counts {seen} lines of each worker, INFO {wanted}"

    async def view(self, config: RegionConfig, selector: int) -> bytes:
        """Return the 64 bytes of a read of the region's status by a selector (2 to 6)."""
        return (await self.fetch(config.address(selector, 0))).data

    async def writer(self, config: RegionConfig, work: list[tuple[int, int]]) -> None:
        """Send the contributions of `work` with pauses: 6 % poisoned, 20 % of FP32 partial."""
        rng = random.Random(self.getrandbits(32))
        for worker, line in work:
            poison = rng.random() < 0.06
            partial = config.mode is Mode.FP32 and rng.random() < 0.2
            be = byte_enables(rng) if partial else None
            data = line_for(config.mode, rng)
            await self.contribute(config, worker, line, data, limit=3, poison=poison, be=be)
            self.sent += 1
            if rng.random() < 0.1:
                await self.cycles(rng.randint(1, 40))

    async def reader(self, config: RegionConfig, host: int) -> None:
        """Send one to four reads as one host (LD-ID) at random times."""
        rng = random.Random(self.getrandbits(32))
        for _ in range(rng.randint(1, 4)):
            await self.cycles(rng.randint(1, 60))
            readable = self.read_selectors(config)
            selector = rng.choice((readable[0], INFO_SELECTOR, *readable))
            line = rng.randrange(config.lines)
            if rng.random() < 0.2:
                selector, line = rng.choice(VIEW_SELECTORS), 0
            await self.read(config.address(selector, line), 3, ldid=host)

    async def everything(
        self, config: RegionConfig, hosts: list[int]
    ) -> dict[tuple[int, int], S2MDRS]:
        """Read each line's result, INFO and count plane 0 (FP32: worker 0's line) as each host.

        Args:
            config: descriptor of the region.
            hosts: LD-IDs to read as.

        Returns:
            The responses by (selector, line), with tag and LD-ID 0.

        Raises:
            AssertionError: two hosts read different data.
        """
        result = SUM16_SELECTOR if config.mode.bits else 0
        found: dict[tuple[int, int], S2MDRS] = {}
        asked = []
        selectors = (result, INFO_SELECTOR, self.part_selector(config))
        for host, line, selector in product(hosts, range(config.lines), selectors):
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
    """CLOSE after reads whose responses the host does not accept: it is answered after them.

    A few responses wait inside the link, more (up to `most`) also inside the core. A read that
    arrives later must see the region closed, so that it is not early (checked by the scoreboard).
    `retrain`: the physical layer is down when CLOSE is written.
    """

    retrain: bool = False
    most: int = 6

    async def body(self) -> None:
        config = self.layout.region(Mode.G_BINARY, 0, 3, strict=True)
        host = self.env.cxl.host
        for round_ in range(6):
            reads = round_ % self.most + 1
            await self.commit(0, config)
            await self.fill_lines(config, 0, 0)
            flying = await self.read_lines(config, 0, [0] * reads, wait=False)
            await self.cycles(60)
            if self.retrain:
                assert host.retrain(), "the link did not start to retrain"
                await self.cycles(20)
            await self.close(0)
            closed = host.cycle
            await self.drain()
            late = [read for read in flying if read.end > closed and read.response.poison]
            assert not late, f"{len(late)} of {reads} reads found the round open after its CLOSE"


class InfoSequence(NfSequence):
    """Reads of INFO (bookkeeping) of lines: in use, during commits, evicted, saturated.

    With few slots also of lines whose record could not be read (lost).
    """

    mode: Mode = Mode.G_BINARY

    async def body(self) -> None:
        most = self.hw.cnt_max + 2 if self.hw.cnt_max < 20 else 5
        workers = min(max(2, most), most_workers(self.mode, self.hw))
        log2 = max(1, (self.slots + 3).bit_length())
        config = self.layout.region(self.mode, log2, workers, strict=self.random() < 0.5)
        region = self.any_region()
        await self.commit(region, config)
        data = ZEROS if self.mode is Mode.G_BINARY else b"\xaa" * LINE_BYTES
        for worker, line in product(range(workers), self.sample(range(config.lines), 2)):
            await self.contribute(config, worker, line, data, limit=3)
            await self.read_region(config, line, INFO_SELECTOR, limit=3)
        lines = self.sample(range(config.lines), min(config.lines, self.slots + 4))
        for _ in range(3):
            traffic = cocotb.start_soon(self.traffic(config, lines))
            await self.cycles(self.randint(20, 300))
            await self.commit(region)
            await traffic
            await self.drain()
            await self.read_lines(config, lines, INFO_SELECTOR)
        if self.slots <= FEW_SLOTS:
            await self.lost(config, lines)

    async def lost(self, config: RegionConfig, lines: list[int]) -> None:
        """Make records unreadable; one request at a time, so that it is known which line is lost.

        A lost line stays lost after it was written back and has a worker again.
        """
        errors = self.mem.read_error_lines
        await self.fill_lines(config, lines, 0, alone=True)  # evicts the first ones again
        errors.update(self.bookkeeping(config, line) for line in lines)
        for number, line in product(range(2), lines):
            if number:
                await self.fill_lines(config, line, 1)
            await self.read_lines(config, line, INFO_SELECTOR)
            errors.discard(self.bookkeeping(config, line))

    async def traffic(self, config: RegionConfig, lines: list[int]) -> None:
        """Contribute to more lines than there are slots, and read their INFO."""
        rng = random.Random(self.getrandbits(32))
        for line in rng.sample(lines, len(lines)):
            for _ in range(rng.randint(1, 3)):
                worker = rng.randrange(config.workers)
                await self.contribute(config, worker, line, limit=3, poison=rng.random() < 0.05)
                if rng.random() < 0.7:
                    other = rng.choice((line, rng.choice(lines)))
                    await self.read_region(config, other, INFO_SELECTOR, limit=3)


class StatusSequence(NfSequence):
    """Reads of STATUS of two regions under contributions, refusals, poison, commits and CLOSE."""

    steps: int = 160
    many: int = 0
    """Number of lines that one worker contributes to at the end: more than a byte counts."""

    async def body(self) -> None:
        regions = min(2, self.hw.regions)
        self.configs: list[RegionConfig] = []
        # A repeated FP32 store counts once: one of the regions has that mode.
        fp32 = self.randrange(regions)
        for region in range(regions):
            workers = self.choice((1, 2, 15, 16, 17, 33, 48, 49, 63, 64))
            mask = 0xFFFF ^ 1 << self.randrange(16)
            mode = Mode.FP32 if region == fp32 else self.choice(aggregating(self.hw))
            workers = min(workers, most_workers(mode, self.hw))
            self.configs.append(await self.start_region(region, mode, 3, workers, ld_mask=mask))
        for round_ in range(3):
            if round_ == 1:  # a miss or two raise FALLBACK
                await self.set_registers(CAP_WINDOW=4, CAP_THRESHOLD=1)
            for _ in range(self.cfg.count(self.steps)):
                await self.one()
            await self.look()
            region = self.randrange(regions)
            await (self.close(region) if round_ == 1 else self.commit(region))
        await self.look()
        await self.fallback()
        # Every worker contributes to every line: done without a CLOSE.
        complete = await self.start_region(0, self.choice(aggregating(self.hw)), 1, 2)
        self.configs[0] = complete
        await self.fill_lines(complete)
        await self.look()
        await self.set_registers(IRQ_STATUS=self.env.predictor.by_name["IRQ_STATUS"].mask())
        await self.close(0)  # it is done already: no interrupt
        await self.read_registers("IRQ_STATUS", "DONE")
        await self.last_word()
        if self.many:
            await self.many_lines()

    async def many_lines(self) -> None:
        """Let one worker of each 16 contribute to `many` lines, and read its count of lines."""
        config = self.layout.region(Mode.G_BINARY, (self.many - 1).bit_length(), 64)
        self.configs[0] = config
        for first in range(0, 64, 16):
            await self.commit(0, config)
            await self.fill_lines(config, range(self.many), self.randrange(16) + first)
            await self.look()

    async def one(self) -> None:
        """Issue a contribution, a read of STATUS, or an access that is refused."""
        config = self.choice(self.configs)
        worker = min(
            self.choice((0, 15, 16, 31, 47, 48, 63, self.randrange(64))), config.workers - 1
        )
        kind = self.random()
        if kind < 0.6:
            line, poison = self.randrange(config.lines), self.random() < 0.1
            await self.contribute(config, worker, line, limit=3, poison=poison)
        elif kind < 0.8:
            await self.read_region(config, 0, self.choice((STATUS_SELECTOR, *VIEW_SELECTORS)))
        else:
            outside = next(ldid for ldid in range(16) if not config.ld_mask >> ldid & 1)
            selector, line = self.choice(((255, 0), (2, 1), (6, 1), (0, 0), (3, 0)))
            masked = self.random() < 0.5 or selector not in (255, 2, 6)
            ldid = outside if masked else self.ldid_for(config, 0)
            await self.read(config.address(selector, line), 1, ldid=ldid)

    async def fallback(self) -> None:
        """Make region 0 set its FALLBACK flag with one slot miss, and read STATUS of all regions.

        The commit starts a new epoch, so that the contribution to line 0 misses. CAP_WINDOW = 1 and
        CAP_THRESHOLD = 0 let a single miss exceed the limit; they stay set. SLOT_MISS is read
        before and after the contribution.
        """
        await self.commit(0)
        await self.set_registers(CAP_THRESHOLD=0, CAP_WINDOW=1)
        await self.read_registers("SLOT_MISS")
        await self.fill_lines(self.configs[0], 0, 0)
        await self.read_registers("SLOT_MISS")
        await self.look()

    async def last_word(self) -> None:
        """Contribute as workers 63, 62 and 0 to lines of the last region, and read STATUS.

        STATUS has the number of lines of each worker. Worker 63 of the last region has the last
        word of the device's counts.
        """
        last = self.hw.regions - 1
        config = await self.start_region(last, Mode.G_BINARY, 3, 64)
        self.configs[last : last + 1] = [config]
        for line, worker in product(range(3), (63, 62, 0)):
            await self.fill_lines(config, line, worker)
        await self.look()

    async def look(self) -> None:
        """Read all of STATUS (selectors 2 to 6) with nothing in flight: every word is known."""
        await self.drain()
        for config in self.configs:
            await self.read_lines(config, 0, VIEW_SELECTORS, wait=False)
        await self.drain()


UNTOUCHED, SOME, COMPLETE = range(3)
"""Line indices, by the workers that have contributed when the epoch is closed: none, one, all."""


class EveryCloseSequence(ParkedBase):
    """Late writes and reads of a closed epoch, on lines in each state, in every mode.

    With STRICT and without, on lines in slots and on evicted lines. Operations after CLOSE change
    nothing, so one line serves all of them. The closed region is the last of the device, while the
    first one is open.
    """

    crowd_region = 0

    async def body(self) -> None:
        last = self.hw.regions - 1
        for mode, strict in product(aggregating(self.hw), (False, True)):
            config = await self.start_region(last, mode, 2, 2, strict=strict)
            await self.contribute_each(
                (config, worker, line) for worker, line in ((0, SOME), (0, COMPLETE), (1, COMPLETE))
            )
            await self.close(last)
            await self.reads(config)
            late = ((1, UNTOUCHED), (1, SOME), (0, SOME), (0, COMPLETE))
            for poison, gone, (worker, line) in product((False, True), (False, True), late):
                if gone:
                    await self.leave()
                await self.fill_lines(config, line, worker, poison=poison)
            await self.reads(config)

    async def reads(self, config: RegionConfig) -> None:
        """Read the result, count plane 0 (FP32: worker 0's line) and INFO of every line."""
        result = sum_selectors(config)[0] if config.mode.bits else 0
        selectors = (result, self.part_selector(config), INFO_SELECTOR)
        for line in (UNTOUCHED, SOME, COMPLETE):
            await self.read_lines(config, line, selectors)


class EveryStatusSequence(NfSequence):
    """DONE, FALLBACK and the interrupts from event to clear, and edges of capacity and load limits.

    The registers are read after every step, and the register predictor compares them.
    """

    async def body(self) -> None:
        first, second = await self.start_regions((Mode.G_BINARY, 0, 2), (Mode.FP32, 0, 2))
        await self.done(first, second)
        await self.fallback()
        await self.limits()
        await self.loads()
        for enabled in (False, True):
            await self.interrupts(enabled)
        await self.apart()

    async def complete(self, config: RegionConfig) -> None:
        """Contribute as every worker to all lines, and read DONE, FALLBACK and IRQ_STATUS."""
        await self.fill_lines(config)
        await self.read_registers("DONE", "FALLBACK", "IRQ_STATUS")

    async def done(self, first: RegionConfig, second: RegionConfig) -> None:
        """Raise DONE, clear it by a commit, raise it again, and raise it for a second region."""
        for _ in range(2):
            await self.complete(first)
            await self.commit(0)
            await self.read_registers("DONE")
        await self.complete(first)
        await self.complete(second)

    async def fallback(self) -> None:
        """Raise FALLBACK of one region, then of a second one; clear both and raise them again."""
        wide = await self.start_regions(*[(Mode.G_BINARY, 5, 3)] * 2)
        await self.set_registers(CAP_WINDOW=8, CAP_THRESHOLD=2)
        for _ in range(2):
            for config in wide:
                lines = self.sample(range(config.lines), 2 * self.slots + 8)
                await self.fill_lines(config, lines, ANY)
                await self.read_registers("FALLBACK")
            for mask in (1, 2):
                await self.registers.write("FALLBACK", mask)
                await self.read_registers("FALLBACK")
            for region in range(2):
                await self.commit(region)

    async def limits(self) -> None:
        """Set every class of the capacity limits (CAP_*) and DevLoad thresholds, with traffic."""
        config = await self.start_region(2, Mode.G_TERNARY, 3, 5)
        pairs = []
        for window in (0, 1, 2, self.randint(8, 255), 256, self.randint(257, 511)):
            length = min(window, 256)
            edges = (0, 1, length // 2, length - 1, length, length + 1, 511)
            pairs += [(window, misses) for misses in edges if misses >= 0]
        self.rng.shuffle(pairs)
        for window, misses in pairs:
            await self.set_registers(CAP_THRESHOLD=misses, CAP_WINDOW=window)
            await self.registers.write("CAP_THRESHOLD", misses)
            await self.some(config)
        # There are few requests: 128 and 129 are never reached unless the upper bits are ignored.
        levels = (0, 1, self.randint(2, 127), 128, 129, self.randint(130, 255))
        for name, level in product(("OPTIMAL", "MODERATE", "SEVERE"), levels):
            await self.registers.write(f"DEVLOAD_THRESHOLD.{name}", level)
            await self.some(config)
        await self.drain()
        await self.registers.write("FALLBACK", 7)

    async def loads(self) -> None:
        """Read while `thresholds` runs: DevLoad changes from every level to every other one."""
        config = await self.start_region(2, Mode.G_BINARY, 3, 5)
        writer = cocotb.start_soon(self.thresholds())
        while not writer.done():
            await self.read_region(config, self.randrange(8), 0)
        await self.drain()

    async def thresholds(self) -> None:
        """Make the device report one DevLoad level after another: light, optimal and so on."""
        names = ("OPTIMAL", "MODERATE", "SEVERE")
        register = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
        for step in "LOLMLSOMOSMSL" * 2:  # each level after each other one
            values = {name: int(name.startswith(step)) for name in names}
            await self.registers.write("DEVLOAD_THRESHOLD", register.pack(**values))
            await self.cycles(30)
        await self.registers.write("DEVLOAD_THRESHOLD", 0)

    async def interrupts(self, enabled: bool) -> None:
        """Raise DONE, a refused access, memory error and poison; all interrupts enabled or none."""
        every = sum(field.mask for field in REG_MAP.expand()["IRQ_STATUS"].fields)
        await self.set_registers(IRQ_STATUS=every, IRQ_ENABLE=enabled * every)
        await self.complete(await self.start_region(0, Mode.G_BINARY, 0, 2))
        await self.read(self.hw.mem_lines * LINE_BYTES)
        await self.write(5 * LINE_BYTES, ZEROS, poison=True)
        with self.failing(reads=[6], known=True):
            await self.read_addresses([6 * LINE_BYTES])
        await self.read_registers("IRQ_STATUS")
        await self.registers.write("IRQ_STATUS", every)
        await self.read_registers("IRQ_STATUS")

    async def apart(self) -> None:
        """Contribute to two regions in consecutive cycles: their lines are counted separately.

        CLOSE of a region that is done, and of a closed one, raises no DONE.
        """
        pair = await self.start_regions(*[(Mode.G_BINARY, 1, 16)] * 2)
        await self.contribute_each(
            (config, worker, line) for line, worker, config in product(range(2), range(16), pair)
        )
        for config in pair:
            await self.read_lines(config, 0, VIEW_SELECTORS, wait=False)
        await self.drain()
        done = REG_MAP.expand()["IRQ_STATUS"].pack(DONE=1)
        for _ in range(2):
            await self.registers.write("IRQ_STATUS", done)
            await self.close(0)
            await self.read_registers("IRQ_STATUS")

    async def some(self, config: RegionConfig) -> None:
        """Issue three contributions, each followed by a read of selector 0, to random lines."""
        for _ in range(3):
            await self.contribute(config, self.randrange(5), self.randrange(8), limit=2)
            await self.read_region(config, self.randrange(8), 0, limit=2)


class EveryTallySequence(NfSequence):
    """Contributions of every worker to every region, to use each counter of a worker's lines.

    Random traffic leaves gaps in the table of these counters; a table that is too short, or whose
    rows overlap, gives the value of another row. Each of 64 workers contributes to each region, in
    random order; half of the regions start a new epoch; the end of the test compares every counter.
    """

    async def body(self) -> None:
        regions = self.hw.regions
        work = []
        for region in self.shuffled(range(regions)):
            config = await self.start_region(region, Mode.G_BINARY, 0, 64)
            work += [(config, worker) for worker in range(config.workers)]
        again = self.sample(range(regions), regions // 2)
        for _ in range(2):
            await self.contribute_each(
                (config, worker, 0) for config, worker in self.shuffled(work)
            )
            for region in again:
                await self.commit(region)
            work = self.sample(work, len(work) // 2)


class EveryFigureSequence(NfSequence):
    """Every counter in STATUS of every region, counted up to 256.

    Complete and poisoned lines, refused accesses, and late contributions after CLOSE. The register
    predictor compares the values.
    """

    async def body(self) -> None:
        regions = self.hw.regions
        for region in self.shuffled(range(regions)):
            config = await self.start_region(region, Mode.G_BINARY, 8, 2, ld_mask=0x00FF)
            for worker in range(2):
                lines = self.shuffled(range(config.lines))
                await self.fill_lines(config, lines, worker, poison=not worker)
            for line in range(config.lines):
                await self.read(config.address(0, line), ldid=self.randrange(8, 16))
            await self.figures(region, config)
            await self.commit(region)
            await self.close(region)
            await self.contribute_each((config, line % 2, line) for line in range(config.lines))
            await self.figures(region, config)
            await self.start_region(region, Mode.G_BINARY, 0, 1)

    async def figures(self, region: int, config: RegionConfig) -> None:
        """Read a region's counters as registers and through its STATUS selectors."""
        await self.drain()
        await self.read_registers("STATUS", "COMPLETE_LINES", region=region)
        await self.read_lines(config, 0, VIEW_SELECTORS)
