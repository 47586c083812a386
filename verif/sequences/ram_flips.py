# SPDX-License-Identifier: Apache-2.0
"""Bit flips in the RAMs of the device (controller, second edition, section 8)."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import cocotb

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import (
    INFO_SELECTOR,
    MAX_WORKERS,
    PLANE_SELECTOR,
    RAW_SELECTOR,
    RegionConfig,
)
from models.register_map import REG_MAP
from verif.env.rtl_packages import MARK_BITS, MARKS_OF_A_ROW, Ram, parameter, rams
from verif.scoreboard.lenient import PORT_COUNTERS, LenientScoreboard
from verif.scoreboard.ram_faults import NONE, SECDED
from verif.sequences.base import ANY, NfSequence
from verif.sequences.line_data import forged
from verif.sequences.sets import slot_of

RAMS = REG_MAP.enums["Ram"]
LINE_BITS = 8 * LINE_BYTES
INJECT = REG_MAP.expand()["RAS_INJECT"]
IRQ_STATUS = REG_MAP.expand()["IRQ_STATUS"]


class FlipSequence(NfSequence):
    """Base of sequences that flip bits in the device's RAMs by RAS_INJECT, and check counters."""

    @property
    def secded(self) -> bool:
        """True if the RAMs of this build have SECDED, which corrects a single flip."""
        return self.hw.ecc == SECDED

    def size_of(self, name: str) -> Ram:
        """Return rows and widths of a RAM of this build."""
        return rams(self.hw)[name]

    def row(self, region: int) -> int:
        """Return the first row of a region in the RAM of marks."""
        return region * self.size_of("MARKS").rows // self.hw.regions

    async def inject(self, ram: str, row: int, place: int) -> None:
        """Flip a stored bit: write RAM, row and bit number to RAS_INJECT."""
        word = INJECT.pack(PLACE=place, ROW=row, RAM=RAMS[ram], GO=1)
        await self.registers.write("RAS_INJECT", word)

    def draw_flips(self, ram: str, double: bool, place: int | None = None) -> list[int]:
        """Return bit numbers of a word: `place` or a random one, and if `double` a second one."""
        size = self.size_of(ram)
        if place is None:
            place = self.randrange(size.bits(self.hw.ecc))
        return [place, size.beside(place, self.rng)] if double else [place]

    async def flip(self, ram: str, row: int, places: Iterable[int]) -> None:
        """Flip these bits of a row of a RAM."""
        for place in places:
            await self.inject(ram, row, place)

    def outcome(self, flips: int) -> tuple[int, int]:
        """Return the rise of (RAM_PARITY, RAM_CORRECTED) by one use of a word with 1 or 2 flips."""
        if self.hw.ecc == NONE:
            return 0, 0
        return (0, 1) if self.secded and flips == 1 else (1, 0)

    def losses(self) -> int:
        """Return the number of responses since the last call that were poisoned unexpectedly."""
        board = self.env.scoreboard
        assert isinstance(board, LenientScoreboard), "flips need the lenient scoreboard"
        return board.take_losses()

    async def drains(self) -> None:
        """Write CTRL_WINDOW_LO, which waits in the device for all requests, as a commit does.

        The control window, which is disabled, is moved to address 0 (disabled) again.
        """
        await self.registers.write("CTRL_WINDOW_LO", 0)

    async def at_once(
        self,
        reads: Iterable[tuple[RegionConfig, int, int]],
        flips: Iterable[tuple[str, int, int]] = (),
        contributions: Iterable[tuple[RegionConfig, int, int]] = (),
        lost: Iterable[int] = (),
    ) -> None:
        """Send requests that reach the engine in consecutive cycles.

        Admission stops until ordinary memory has answered, and all requests wait for that. Then it
        admits contributions and reads in turn, a contribution first.

        Args:
            reads: region, line and selector of each read.
            flips: RAM, row and bit of each flip, made while the reads pass the engine.
            contributions: region, worker and line of each contribution.
            lost: lines of region 0 whose damage one of the requests finds.
        """
        with self.memory(r_stall=1.0):
            await self.read(0)
            await self.cycles(40)
            waits = cocotb.start_soon(self.drains())
            await self.cycles(40)
            for config, worker, line in contributions:
                await self.contribute(config, worker, line)
            for config, line, selector in reads:
                await self.read_region(config, line, selector)
            await self.cycles(40)
            for line in lost:
                self.env.scoreboard.judge.lose(0, line, written=True)
        await waits
        for one in flips:
            await self.inject(*one)
        await self.drain()

    async def counted(self) -> tuple[int, int]:
        """Return (RAM_PARITY, RAM_CORRECTED); clear them, re-arm RAS_ERROR and its interrupt.

        The counters of the memory port are read before.

        Raises:
            AssertionError: RAS_ERROR or the interrupt disagrees with the counters.
        """
        await self.read_registers(*PORT_COUNTERS)
        bad = await self.registers.read("RAM_PARITY")
        corrected = await self.registers.read("RAM_CORRECTED")
        place = REG_MAP.expand()["RAS_ERROR"].unpack(await self.registers.read("RAS_ERROR"))
        irq = await self.registers.read("IRQ_STATUS.RAM_ERROR")
        valid = place["VALID"]
        assert valid == irq == int(bad > 0), f"{bad} errors, VALID {valid}, RAM_ERROR {irq}"
        # A lenient scoreboard checks no registers: the captured place is checked here.
        wrong = self.env.scoreboard.ram.captured(place)
        assert wrong is None, wrong
        await self.set_registers(RAS_ERROR=1, IRQ_STATUS=IRQ_STATUS.pack(RAM_ERROR=1), CTRL=1)
        return bad, corrected

    async def expect(self, wanted: tuple[int, int], what: object) -> None:
        """Check that (RAM_PARITY, RAM_CORRECTED) equal `wanted`, and clear them."""
        found = await self.counted()
        assert found == wanted, f"{what}: {found} errors and corrections, expected {wanted}"


class DamagedMarksSequence(FlipSequence):
    """Flips in the RAM of the marks of evicted lines (nf_written): counted once, nothing is lost.

    Lines are evicted, so that they have marks; a bit of the row flips; then everything is read. In
    some passes nothing is left to be evicted by then, so that the row is not written; in others
    another region evicts the other lines first, into the damaged row. Regions are initialised
    before: until then a damaged row makes all records of its region unknown.
    """

    workers: int = 3
    rounds: int = 12

    async def body(self) -> None:
        mode = Mode.G_TERN5 if self.hw.tern5 else Mode.G_BINARY  # it has a plane more
        marked = self.layout.region(mode, 3, self.workers)
        other = self.layout.region(Mode.G_BINARY, 3, self.workers)
        for number in range(self.rounds):
            await self.damaged_round(other, marked, ("fetched", "evicted", "read")[number % 3])
        for first, second in ((0, 1), (1, 0)):
            await self.together({first: (other, marked)[first], second: (other, marked)[second]})
        for place in range(self.slots):
            await self.between_marks(other, marked, place)

    async def damaged_round(self, other: RegionConfig, marked: RegionConfig, way: str) -> None:
        """Flip one or two bits of a row of marks of region 1, then read all its lines.

        Args:
            other: region 0.
            marked: region 1.
            way: "fetched" (no eviction is left), "evicted" (by the other region) or "read".
        """
        await self.commit_all(other, marked, ready=True)
        await self.fill_lines(marked, None, range(self.randrange(self.workers - 2, self.workers)))
        if way == "fetched":
            await self.read_lines(marked, alone=True)
        # Of an evicted line: the slots hold the last ones. The mark of few workers is 2 or 3.
        damaged = self.randrange(marked.lines - self.slots)
        place = 4 * damaged + self.choice((0, 1, 1, 1, 1, 1, 2, 3))
        places = self.draw_flips("MARKS", self.secded and self.random() < 0.5, place)
        await self.flip("MARKS", self.row(1), places)
        if way == "evicted":
            await self.fill_lines(other, None, 0, wait=False)
        views = (INFO_SELECTOR, 0, PLANE_SELECTOR, PLANE_SELECTOR + 1)
        await self.read_lines(marked, (damaged, *range(marked.lines)), views)
        found = await self.counted()
        # A lookup between the two flips may find the first one alone.
        wanted = {self.outcome(len(places))} | ({(0, 1), (0, 2)} if len(places) == 2 else set())
        assert found in wanted, f"bit {place}: {found} errors and corrections, expected {wanted}"

    async def together(self, regions: dict[int, RegionConfig]) -> None:
        """Damage a row of marks of each of two regions and use both in consecutive cycles."""
        for region, config in regions.items():
            await self.commit(region, config)
            await self.fill_lines(config, None, 0, wait=False)
        await self.drain()
        # Read lines of the second region, so that no slot needs a write-back.
        await self.read_lines(config, range(self.slots))
        for region in regions:
            bit = self.randrange(self.size_of("MARKS").data)
            await self.inject("MARKS", self.row(region), bit)
        await self.at_once((config, config.lines - 1, 0) for config in regions.values())
        await self.expect((0, 2) if self.secded else (2, 0), "two rows used at once")

    async def between_marks(self, other: RegionConfig, marked: RegionConfig, place: int) -> None:
        """Let the miss number `place` of several misses in consecutive cycles find the damaged row.

        Each miss marks the line that it evicts: the row is repaired right after these marks, while
        others are looked up.
        """
        await self.commit_all(other, marked, ready=True)
        for config in (marked, other):
            await self.fill_lines(config, None, 0, wait=False)
        await self.drain()
        await self.inject("MARKS", self.row(1), self.randrange(self.size_of("MARKS").data))
        reads = [(other, line, 0) for line in range(self.slots - 1)]
        await self.at_once([*reads[:place], (marked, 0, 0), *reads[place:]])
        await self.expect((0, 1) if self.secded else (1, 0), f"miss {place} of {self.slots}")


class FreshMarksSequence(FlipSequence):
    """A damaged row of marks in a region that is being initialised, in an area of forged records.

    The initialiser would pass groups that seem to be marked, and lines that seem to be marked would
    be fetched. `probed`: the initialiser finds the row; else a fetch does.
    """

    probed: bool = False

    async def body(self) -> None:
        config = self.layout.region(Mode.G_BINARY, 13, 3)
        group_log2 = max(0, config.lines_log2 - parameter("WRITTEN_LOG2"))
        last = config.lines - (1 << group_log2)  # the first line of the last group
        row = min(config.lines, MARKS_OF_A_ROW << group_log2)
        for line in range(config.lines - row, config.lines):
            data = forged(1, (1 << config.workers) - 1)
            self.env.mem.store.write(self.bookkeeping(config, line), int.from_bytes(data, "little"))
        region = self.any_region()
        await self.commit(region, config)
        marked = last - (1 << group_log2)  # its mark is in the same row, if a row has two
        await self.fill_lines(config, [marked, *range(self.slots + 2)], 0)
        at = config.lines_log2 - group_log2  # log2 of the marks
        place = MARK_BITS * (min(1 << at, MARKS_OF_A_ROW) - 1)
        index = (last >> group_log2) // MARKS_OF_A_ROW
        await self.flip(
            "MARKS", self.row(region) + index, self.draw_flips("MARKS", self.secded, place)
        )
        busy = await self.registers.read("STATUS.INIT_BUSY")
        assert busy, "the initialiser had finished before the flip"
        if self.probed:
            await self.initialised()
        await self.read_lines(config, range(config.lines - 4, config.lines), INFO_SELECTOR)
        assert self.losses(), "no line of a damaged row was lost"


class LastMarksSequence(FlipSequence):
    """A flip in the last row of marks of a region; the repair uses the region's number of workers.

    The next region, whose number must not be used, has too few planes for the other lines of the
    row.
    """

    async def body(self) -> None:
        marks = parameter("WRITTEN_LOG2")
        row_log2 = min(marks, MARKS_OF_A_ROW.bit_length() - 1)
        crowd = self.crowd_layout()
        wide = self.layout.region(Mode.G_BINARY, marks, min(self.hw.cnt_max, MAX_WORKERS))
        for _ in range(2):
            await self.commit(1, crowd)
            await self.commit(0, wide, ready=True)
            last = range(wide.lines - (1 << row_log2), wide.lines)
            lines = self.sample(last, min(8, len(last)))
            workers = self.sample(range(wide.workers), 2 * wide.workers // 3)
            await self.fill_lines(wide, lines, workers, wait=False)
            await self.crowd_out(crowd)
            place = MARK_BITS * (lines[0] - last.start) + self.randrange(MARK_BITS)
            await self.inject("MARKS", (wide.lines - 1) >> row_log2, place)
            await self.read_lines(wide, lines, alone=True)
            found = await self.counted()
            assert sum(found) == 1, f"{sum(found)} uses of the damaged row counted, expected 1"


class FlipTrafficSequence(FlipSequence):
    """Flips in any RAM at any time in mixed traffic, one request at a time on a line.

    `double`: two bits of the same word. The counters must not exceed the number of flips; the
    scoreboard checks the responses. Each pass ends with a read of everything: a flip that is not
    counted by then was in an unused row or was overwritten before it was read (UsedIsCounted_A of
    nf_ram_guard fails if it was read).
    """

    flips: int = 60
    double: bool = False

    async def body(self) -> None:
        self.sizes = rams(self.hw)
        del self.sizes["RETRY"]  # only read on a link with faults: test_link_ram_flips
        self.last: dict[str, int] = {}
        self.flipped = 0  # words
        self.total = [0, 0]  # errors and corrections that the device counted
        self.stained = False
        gated = Mode.G_TERN5 if self.hw.tern5 else Mode.G_TERNARY
        modes = (Mode.G_BINARY, Mode.FP32, gated)[: self.hw.regions]
        self.configs = [self.layout.region(mode, 3, 4) for mode in modes]
        self.places = [self.randrange(self.layout.plain_lines) for _ in range(8)]
        left = self.flips
        await self.commit_all(*self.configs)
        while left > 0:
            # At most two flips in a RAM: none is overwritten before everything has been read.
            drawn = list(self.sizes) * (1 if self.double else 2)
            self.rng.shuffle(drawn)
            await self.round(drawn[:left])
            left -= len(drawn)

    async def round(self, drawn: list[str]) -> None:
        """Flip a bit in each of these RAMs under traffic, read all, check counters, commit."""
        half = len(drawn) // 2
        for ram in drawn[:half]:
            await self.burst(self.randint(1, 5))
            await self.cycles(self.choice((1, 1, self.randint(1, 30))))
            await self.draw(ram)
            if self.random() < 0.3:
                await self.drains()
        await self.drain()
        await self.held(drawn[half:])
        for config in self.configs:  # a wrong state must show before the round ends
            # Planes show what a vote may hide, INFO what neither shows.
            views = (0, PLANE_SELECTOR, PLANE_SELECTOR + 1) if config.mode.low_bit else (0,)
            for line in range(config.lines):
                selector = self.choice((*views, INFO_SELECTOR))
                await self.read_region(config, line, selector, limit=1)
        last = [await self.ordinary(True, at, 1) for at in self.places]
        await self.drain()
        bad, corrected = await self.counted()
        flips = len(drawn) * (1 + self.double)
        assert bad + corrected <= flips, f"{bad} errors, {corrected} corrections, {flips} flips"
        assert self.double or not self.secded or not bad, f"{bad} errors of one bit each"
        self.total[0] += bad
        self.total[1] += corrected
        seen = self.losses()
        assert bad or self.stained or not seen, f"{seen} poisoned responses, but no error counted"
        # Ordinary memory keeps the poison of a damaged write until the line is written again.
        self.stained = any(one.response.poison for one in last)
        for region in range(len(self.configs)):
            await self.commit(region)

    async def held(self, drawn: list[str]) -> None:
        """Flip bits while memory or the host is stalled, so that data waits in the RAMs."""
        link = self.env.cxl.host.link
        still = self.randrange(1, 8)
        with self.memory(ar_stall=float(still & 1), aw_stall=float(still >> 1 & 1)):
            link.hold_credits(bool(still & 4))
            places = [(config, line) for config in self.configs for line in range(config.lines)]
            # One request on each line: the next one would wait for its response.
            count = self.randrange(len(places) // 2, len(places))
            for config, line in self.sample(places, count):
                await self.access(config, line)
            for at in dict.fromkeys(self.places):
                await self.ordinary(self.random() >= 0.5, at, 1)
            await self.cycles(self.randint(20, 60))
            for ram in drawn:
                await self.draw(ram)
            link.hold_credits(False)
        await self.drain()

    async def draw(self, ram: str) -> None:
        """Flip one or two bits of a random word of a RAM; in half of the cases in rows 0 to 3.

        The lowest rows are used first after a reset.
        """
        size = self.sizes[ram]
        rows = min(size.rows, self.choice((4, size.rows)))
        row = self.choice([row for row in range(rows) if row != self.last.get(ram)])
        self.last[ram] = row
        self.flipped += 1
        await self.flip(ram, row, self.draw_flips(ram, self.double))

    async def burst(self, count: int) -> None:
        """Issue `count` random requests to regions and ordinary memory."""
        for _ in range(count):
            if self.random() < 0.2:
                at = self.choice(self.places)
                await self.ordinary(self.random() >= 0.5, at, 1)
            else:
                config = self.choice(self.configs)
                await self.access(config, self.randrange(config.lines))

    async def access(self, config: RegionConfig, line: int) -> None:
        """Issue a contribution or a read of a line of a region."""
        if self.random() < 0.6:
            await self.contribute(config, self.randrange(4), line, limit=1)
        else:
            await self.read_region(config, line, limit=1)


_OF_SLOTS = ("PLANES", "MARKS")
"""RAMs with data of lines that are evicted to make room for deferred operations."""


class HeldDataSequence(FlipSequence):
    """Flips in a RAM in which data waits because memory is stalled; then everything is read.

    `ram` names the RAM. After a reset a RAM is filled from row 0; later passes use the rows in
    order.
    """

    ram: str = "PARKED"
    workers: int = 4
    reads: int = 0
    """Number of reads so far: each response with data takes the next row of ANSWERS."""
    reads_before: int = 0
    """Number of reads before this pass."""
    evictions: int = 0
    """Number of evictions so far: each takes the next row of EVICT."""

    async def body(self) -> None:
        lines_log2 = self.slots.bit_length() + 1
        low = self.layout.region(Mode.G_BINARY, lines_log2, self.workers)
        fp32 = self.layout.region(Mode.FP32, lines_log2, self.workers)
        total = 0
        for number in range(12):
            await self.commit_all(low, fp32)
            await self.cycles(60 * low.lines)  # the initialiser
            total += await self.one_round(low, fp32, number)
            if total and number >= 2:
                break
        assert total, f"no damaged row of {self.ram} was ever used"

    async def one_round(self, low: RegionConfig, fp32: RegionConfig, number: int) -> int:
        """Fill the RAM, damage rows, read everything; return how many errors prove their use."""
        self.reads_before = self.reads
        await self.hold_data(low, fp32, number)
        evicted = await self.registers.read("EVICTION")
        self.evictions += evicted
        begun = self.ram == "EVICT" and number % 2 == 1
        size = self.size_of(self.ram)
        # If the burst has begun: the oldest row, of which all but one or two beats have been sent.
        picked = [self.evictions - 3] if begun else self.rows(number)
        rows = [row % size.rows for row in picked]
        for row in rows:
            await self.damage(row, number, begun)
        # The damage is found while a commit waits for the data, or without one.
        waits = cocotb.start_soon(self.drains()) if number % 2 else None
        await self.cycles(900 if self.ram == "ANSWERS" else 20)
        self.mem.aw_stall = self.mem.ar_stall = self.mem.w_stall = self.mem.r_stall = 0.0
        if waits is not None:
            await waits
        await self.drain()
        for config, selectors in ((low, (0, 8, 9, 10)), (fp32, (0, 64))):
            for line in range(config.lines):  # planes show what a vote may hide
                deferred = self.ram == "DEFERRED"  # none of these reads may be deferred
                await self.read_lines(config, line, selectors, limit=1, wait=deferred)
        await self.read_addresses((line * LINE_BYTES for line in self.plain_lines), limit=1)
        self.evictions += await self.registers.read("EVICTION") - evicted
        poison = await self.registers.read("MEM_POISON")
        bad = (await self.counted())[0]
        if self.ram == "EVICT" and not begun:
            if self.damages_book(number):  # later passes may fetch what an earlier one has poisoned
                assert number or not poison, f"{poison} poisoned beats of lines that left as lost"
            else:
                assert poison >= bad, f"{poison} poisoned beats of {bad} damaged planes"
        assert bad <= len(rows), f"{bad} errors of {len(rows)} words"
        if self.ram == "PARKED":  # each is used once
            wrong = int(number % 3 != 2) if self.secded else len(rows)
            assert bad == wrong, f"{bad} errors of {wrong} words that were used"
        losses = self.losses()
        assert bad or not losses, f"{losses} poisoned responses, but no error counted"
        # Deferred misses use every slot before a commit continues that waits for them.
        return bad if self.ram not in _OF_SLOTS or waits is not None else 0

    async def damage(self, row: int, number: int, begun: bool) -> None:
        """Flip bits of a row: one, or two if SECDED must not correct them.

        Passes alternate between any bit and the lowest line of the row, whose bits are all used. Of
        EVICT they alternate between a burst that has begun, the lowest line and the bookkeeping.

        Args:
            row: row of the RAM.
            number: number of the pass.
            begun: whether the burst that reads the row has begun (RAM EVICT).
        """
        size = self.size_of(self.ram)
        whole = number % 2 or self.ram == "MARKS"  # rows of MARKS are short
        place = self.randrange(size.bits(self.hw.ecc) if whole else LINE_BITS)
        if begun or self.damages_book(number):  # of a burst that has begun the bitmap is sent
            place = self.hw.cnt_w * LINE_BITS + self.randrange(self.workers)
        plane = 2 * LINE_BITS + self.randrange(LINE_BITS)  # the last one of so many workers
        if begun and not self.secded:  # beats that have not been sent
            await self.inject(self.ram, row, plane)
        elif self.damages_book(number) and not self.secded:  # not counted: the line is lost
            await self.inject(self.ram, row, self.randrange(LINE_BITS))
        elif begun and self.random() < 0.5:
            place = plane
        double = self.secded and number % 3 != 2  # else each flip is corrected
        await self.flip(self.ram, row, self.draw_flips(self.ram, double, place))

    def damages_book(self, number: int) -> bool:
        """Return whether pass `number` damages bookkeeping before it is sent (RAM EVICT)."""
        return self.ram == "EVICT" and number % 4 == 0

    def rows(self, number: int) -> Sequence[int]:
        """Return one or two rows that hold data in pass `number`, for few slots and credits."""
        if self.ram == "PARKED":
            return ((1, 4), (0, 2), (0, 3))[number % 3]
        first = {
            "DEFERRED": 13 * number + 5,  # 12 or 13 operations are deferred in each round
            "STORES": 3,  # the first two have been sent; a round uses all rows twice
            "EVICT": self.evictions - 2,  # the last ones have not been sent
            "ANSWERS": self.reads_before + 14,  # the first ones have been sent
            "WRITES": self.randrange(8),
            "PLANES": number,  # each slot has a line that must be written back
            "MARKS": 0,  # of the low-bit region: each such line is marked there
        }[self.ram]
        if self.damages_book(number):
            return (first,)
        return first, first + 1

    async def read(self, addr: int, limit: int | None = None, **fields: Any) -> Any:
        """Issue a read as the base class does, and count it."""
        self.reads += 1
        return await super().read(addr, limit, **fields)

    async def hold_data(self, low: RegionConfig, fp32: RegionConfig, number: int) -> None:
        """Stall memory and send requests whose data then waits in the RAM."""
        lines, ram = list(range(low.lines)), self.ram
        self.plain_lines = self.sample(range(self.layout.plain_lines), 30)
        if ram in ("EVICT", "PARKED", "DEFERRED", *_OF_SLOTS):
            # Write records to memory, one line at a time: none of this data waits in a RAM.
            few = ram == "EVICT"
            for config, line in product((fp32, low), lines[: self.slots] if few else lines):
                await self.fill_lines(config, line, range(self.workers if few else 1))
        self.mem.aw_stall = float(ram in ("EVICT", "STORES", "WRITES", *_OF_SLOTS))
        self.mem.w_stall = float(ram == "EVICT")
        self.mem.ar_stall = float(ram not in ("ANSWERS", *_OF_SLOTS))
        if ram == "PARKED":
            self.mem.ar_stall, self.mem.r_stall = float(number % 2 == 0), float(number % 2)
            await self.parked(low, fp32, asked=number % 2 == 1, reads=number % 3 == 0)
        elif ram in ("DEFERRED", *_OF_SLOTS):
            await self.deferred(low)
        elif ram == "STORES":
            await self.fill_lines(fp32, lines, 0, limit=1, wait=False)
        elif ram == "WRITES":
            for line in self.plain_lines:
                await self.ordinary(False, line, 1)
        elif ram == "ANSWERS":
            for line in lines + self.plain_lines:
                await self.ordinary(True, line, 1)
            await self.cycles(60)
            self.mem.ar_stall = 1.0  # a last read, for which a commit has to wait
            await self.ordinary(True, self.layout.plain_lines - 1, 1)
        else:
            await self.fill_lines(low, lines[::-1], 1, limit=1, wait=False)
        await self.cycles(60)

    async def parked(self, low: RegionConfig, fp32: RegionConfig, asked: bool, reads: bool) -> None:
        """Park operations in rows 0 to 3: an early store, and three contributions to two lines.

        Args:
            low: the low-bit region.
            fp32: the FP32 region.
            asked: memory has accepted the requests for their records. The store is in row 3 then,
                as the device may have read the first operation already, whose row is damaged later.
            reads: park a read of the last line in row 4, which has no data to lose. Nothing else of
                that line may be damaged then.
        """
        if not asked:
            await self.contribute(fp32, 1, 0)
        for worker, line in ((1, 0), (1, 1), (2, 1)):
            await self.contribute(low, worker, line)
        await self.cycles(60)
        if asked:
            await self.contribute(fp32, 1, 0)
        if reads:
            await self.cycles(60)
            await self.read_region(low, 1, PLANE_SELECTOR)

    async def deferred(self, low: RegionConfig) -> None:
        """Defer reads and writes in turn: all slots wait for records or for write-backs."""
        await self.fill_lines(low, range(self.slots), 1, wait=False)
        await self.cycles(60)
        for number, line in enumerate(range(self.slots, low.lines)):
            if number % 2:
                await self.contribute(low, 1, line)
            else:
                await self.read_region(low, line, PLANE_SELECTOR)
            await self.cycles(20)


class LostSlotSequence(FlipSequence):
    """Flips in the state of a slot (RAMs BOOK, PLANES): the line is lost, each word counted once.

    A lost line is poisoned for the epoch. After a reset line i fills slot i.
    """

    mode: Mode = Mode.G_BINARY
    workers: int = 3
    rams: tuple[str, ...] = ("BOOK", "PLANES")
    flipped: int = 0
    """Number of lines damaged so far."""

    async def body(self) -> None:
        lines = range(self.slots)
        config = self.layout.region(self.mode, len(lines).bit_length(), self.workers)
        self.region = self.any_region()
        await self.registers.write("IRQ_ENABLE", IRQ_STATUS.mask())
        await self.commit(self.region, config)
        await self.cycles(20 * len(lines))  # the initialiser
        # Clean slots, which need no write-back until their line is lost.
        clean = self.sample(lines, len(lines) // 2)
        for line in lines:
            if line in clean:
                await self.read_lines(config, line, PLANE_SELECTOR if self.mode.low_bit else 0)
            else:
                await self.fill_lines(config, line, 0)
        # A read finds at least one of them lost, which by itself does not make it dirty.
        others = [line for line in lines if line != clean[0]]
        picked = (clean[0], *self.sample(others, len(lines) // 2 - 1))
        for number, line in enumerate(picked):
            # For one of the lines both RAMs are used in one cycle.
            damaged = self.rams if number == 1 else (self.choice(self.rams),)
            await self.lose(config, line, damaged, reads=not number)
            if line == clean[0] or self.random() < 0.5:
                await self.read_lines(config, line, INFO_SELECTOR)
                await self.expect((0, 0), f"second use of lost line {line}")
        # Evict all of them.
        await self.fill_lines(config, range(len(lines), 2 * len(lines)), 0, alone=True)
        order = self.shuffled([*product([config], range(self.workers), range(config.lines))])
        await self.contribute_each(order, limit=1)
        views = product(range(config.lines), (None, INFO_SELECTOR))
        await self.read_each(((config, *view) for view in views), limit=1)
        await self.read_registers("COMPLETE_LINES", region=self.region)
        await self.expect((0, 0), "use of all lines after their eviction")

    async def lose(
        self, config: RegionConfig, line: int, damaged: tuple[str, ...], reads: bool
    ) -> None:
        """Damage the slot of a line, use it, and check the counters.

        Args:
            config: descriptor of the region.
            line: index of the line.
            damaged: RAMs in which to flip a bit, or two with SECDED.
            reads: use the slot by a read. Otherwise a store of FP32 may be in flight, whose memory
                response finds the damage.
        """
        self.flipped += 1
        if self.random() < 0.5:  # make it the last used slot, which this does not write
            await self.read_lines(config, line, INFO_SELECTOR)
        commits = self.flipped % 2 == 0  # a commit waits for the response of the store, too
        stores = self.mode is Mode.FP32 and not reads and (commits or self.random() < 0.4)
        with self.memory(b_stall=1.0 if stores else self.mem.b_stall):
            if stores:
                await self.fill_lines(
                    config, line, self.randrange(self.workers), apart=40, wait=False
                )
            flips = 2 if self.secded and self.random() < 0.5 else 1
            places = [(ram, self.draw_flips(ram, flips == 2)) for ram in damaged]
            for ram, bits in places:
                await self.flip(ram, slot_of(self.region, line, self.slots), bits)
            if self.outcome(flips)[0]:
                self.env.scoreboard.judge.lose(self.region, line)
            ways = ("write", "read", "info") if damaged == ("BOOK",) else ("write", "read")
            what = self.choice(ways[1:] if reads else ways)
            waits = cocotb.start_soon(self.drains()) if stores and commits else None
            await self.cycles(40 if stores else 0)
        if waits is not None:
            await waits
        if not stores:
            await self.use(config, line, what)
        await self.drain()
        if self.random() < 0.8:
            bad, corrected = self.outcome(flips)
            words = len(damaged)  # each counts
            await self.expect((bad * words, corrected * words), places)
        else:
            await self.counted()

    async def use(self, config: RegionConfig, line: int, what: str) -> None:
        """Issue an operation that reads the slot: `what` is "write", "read" or "info"."""
        if what == "write":
            await self.contribute(config, self.randrange(self.workers), line)
        else:
            result = 0 if self.mode is Mode.FP32 else PLANE_SELECTOR
            await self.read_region(config, line, INFO_SELECTOR if what == "info" else result)


class SlotFlipSequence(FlipSequence):
    """Base of sequences that damage one slot after another.

    After a reset the lines of region 0 are used in order: line i fills the next slot of its set.
    With one set that is slot i, which sequences for few slots take for granted.
    """

    async def slots_of(self, mode: Mode, **options: Any) -> RegionConfig:
        """Commit region 0 with more lines than slots and 3 workers, await its records.

        Returns:
            Its descriptor.
        """
        return await self.start_region(0, mode, self.slots.bit_length(), 3, ready=True, **options)

    async def damage_slot(
        self, ram: str, line: int, double: bool, place: int | None = None, written: bool = False
    ) -> tuple[int, int]:
        """Flip bits of the slot of a line, and tell the scoreboard of the loss.

        Args:
            ram: "BOOK" or "PLANES".
            line: index of the line.
            double: flip two bits.
            place: first bit; None draws it.
            written: for `LineJudge.lose`: a request in flight may see the line before its loss.

        Returns:
            The rise of (RAM_PARITY, RAM_CORRECTED) that the next use of the slot must cause.
        """
        places = self.draw_flips(ram, double, place)
        await self.flip(ram, slot_of(0, line, self.slots), places)
        bad, corrected = self.outcome(len(places))
        if bad:
            self.env.scoreboard.judge.lose(0, line, written=written)
        return bad, corrected


class MendedSequence(SlotFlipSequence):
    """Single flips of a word, one after another: SECDED writes each corrected word back."""

    async def body(self) -> None:
        config = await self.start_region(0, Mode.G_BINARY, 2, 3, ready=True)
        for line in range(config.lines):
            await self.fill_lines(config, line)
        for line, ram in product(range(config.lines), ("PLANES", "BOOK")):
            for bit in self.draw_flips(ram, double=True):
                await self.inject(ram, line, bit)
                for wanted in ((0, 1), (0, 0)):
                    await self.read_lines(config, line, PLANE_SELECTOR)
                    await self.expect(wanted, f"{ram}, bit {bit}")


class DamageAtOnceSequence(SlotFlipSequence):
    """Operations on a line in the cycles in which its slot is found damaged.

    The line is lost (empty and poisoned), or SECDED corrects it. That is counted once: the
    following operations take the state that the first one has written. `repeated`: the first one is
    a contribution that its worker repeats; otherwise all are reads.
    """

    repeated: bool = False

    async def body(self) -> None:
        config = await self.slots_of(Mode.G_BINARY)
        await self.fill_lines(config, range(self.slots), ANY, alone=True)
        repeats = range(2 * self.repeated)
        await self.fill_lines(config, range(self.slots), repeats)
        damages = product(("BOOK", "PLANES"), (True, False) if self.secded else (False,))
        for line, (ram, double) in enumerate(damages):
            wanted = await self.damage_slot(ram, line, double)
            await self.at_once(
                [(config, line, PLANE_SELECTOR)] * 4,
                contributions=[(config, worker, line) for worker in repeats],
            )
            await self.expect(wanted, f"{ram} of slot {line}, two flips: {double}")


class ForwardedSequence(SlotFlipSequence):
    """Flips between operations that get the state of a slot by forwarding and do not read the RAM.

    These operations are right. The next one that reads the RAM finds the line lost, or corrects it,
    once. With SECDED two lines alternate: the stage that corrects precedes the one that forwards.
    """

    async def body(self) -> None:
        config = await self.slots_of(Mode.G_BINARY)
        await self.fill_lines(config, range(self.slots), 0, alone=True)
        for line in range(self.slots - 1):
            places = self.draw_flips("BOOK", self.secded and line % 2 == 0)
            lines = [line, self.slots - 1] if self.secded else [line]
            reads = [(config, one, INFO_SELECTOR) for one in 8 * lines]
            await self.at_once(reads, [("BOOK", line, place) for place in places])
            await self.expect((0, 0), "forwarded state")
            wanted = self.outcome(len(places))
            if wanted[0]:
                self.env.scoreboard.judge.lose(0, line)
            await self.fill_lines(config, line, 1)
            await self.expect(wanted, f"flips at {places}")
            await self.read_lines(config, line, INFO_SELECTOR)
            await self.expect((0, 0), f"second use of line {line}")


class BehindAnotherSequence(SlotFlipSequence):
    """Operations that need the damaged planes of a slot right after one that does not need them.

    The first one reads INFO, or the line of an FP32 worker: it forwards the bookkeeping alone. The
    second one must find the damage, in the counts or, with `kept`, in the kept sum.
    """

    kept: bool = False

    async def body(self) -> None:
        config = await self.slots_of(Mode.FP32 if self.kept else Mode.G_BINARY, keep_sum=self.kept)
        selectors = (RAW_SELECTOR, 0) if self.kept else (INFO_SELECTOR, PLANE_SELECTOR)
        for line in range(self.slots):
            await self.fill_lines(config, line)
        await self.read_lines(config, range(self.slots), 0, alone=True)  # sums are kept
        for line in range(self.slots):
            places = self.draw_flips("PLANES", self.secded and line % 2 == 0)
            await self.flip("PLANES", line, places)
            wanted = self.outcome(len(places))
            reads = [(config, line, selector) for selector in selectors]
            await self.at_once(reads, lost=[line] if wanted[0] else [])
            await self.expect(wanted, f"planes of slot {line}, flips at {places}")


class LostKeptSequence(SlotFlipSequence):
    """Flips in a slot with a kept sum (KEEP_SUM), found when it is evicted: both are lost."""

    async def body(self) -> None:
        slots = range(self.slots)
        config = await self.slots_of(Mode.FP32, keep_sum=True)
        for line in slots:
            await self.fill_lines(config, line)
        await self.read_lines(config, slots, alone=True)
        for line in slots:
            ram = ("BOOK", "PLANES")[line // 2 % 2]
            wanted = await self.damage_slot(ram, line, self.secded and line % 2 > 0)
            await self.fill_lines(config, len(slots) + line, 0)  # evicts it
            await self.expect(wanted, f"{ram} of slot {line}")
        for _ in range(2):
            await self.read_lines(config, slots, alone=True)


class KeptOverDamageSequence(SlotFlipSequence):
    """Flips in a slot while the FP32 sum of its line, which is to be kept (KEEP_SUM), is gathered.

    The sum that returns to be kept finds the line lost and leaves nothing of its operation to the
    read right after it. The distance of that read varies over the lines, from some cycles before to
    some cycles after the sum.
    """

    async def body(self) -> None:
        slots = range(self.slots)
        config = await self.slots_of(Mode.FP32, keep_sum=True)
        await self.fill_lines(config, slots, alone=True)
        shift = self.randrange(24)
        for line in slots:
            with self.memory(r_stall=1.0):
                await self.read_lines(config, line, apart=40, wait=False)
                worker = self.randrange(3)  # the bitmap denies its contribution now
                double = self.secded and line % 2 > 0
                wanted = await self.damage_slot("BOOK", line, double, worker, written=True)
            await self.cycles(1 + (line + shift) % 24)
            await self.read_lines(config, line, INFO_SELECTOR)
            await self.expect(wanted, f"bitmap of worker {worker}, slot {line}")
