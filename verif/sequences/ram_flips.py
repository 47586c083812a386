# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the RAMs of the device (controller, second edition, section 8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import cocotb

from models.line_packing import LINE_BYTES, Mode
from models.nf_regs import REG_MAP
from models.regions import INFO_SELECTOR, MAX_WORKERS, PLANE_SELECTOR, RegionConfig
from verif.env.ram_sizes import MARK_BITS, MARKS_OF_A_ROW, parameter, rams
from verif.scoreboard.lenient import LenientScoreboard
from verif.scoreboard.ram_faults import NONE, SECDED
from verif.sequences.base import NfSequence

RAMS = REG_MAP.enums["Ram"]
LINE_BITS = 8 * LINE_BYTES
GO = REG_MAP.expand()["RAS_INJECT"].pack(GO=1)


class FlipSequence(NfSequence):
    """What all of these do with the registers."""

    async def inject(self, ram: str, row: int, place: int) -> None:
        """Flips a stored bit."""
        word = REG_MAP.expand()["RAS_INJECT"].pack(PLACE=place, ROW=row, RAM=RAMS[ram])
        await self.env.registers.write("RAS_INJECT", word | GO)

    def losses(self) -> int:
        """Answers since the last call that were poisoned beyond what was expected."""
        board = self.env.scoreboard
        assert isinstance(board, LenientScoreboard)
        return board.take_losses()

    async def drains(self) -> None:
        """The control window, which is nowhere, is moved nowhere: as a commit does, that waits
        until all is answered."""
        await self.env.registers.write("CTRL_WINDOW_LO", 0)

    async def at_once(
        self,
        reads: Iterable[tuple[RegionConfig, int, int]],
        flips: Iterable[tuple[str, int, int]] = (),
    ) -> None:
        """Reads, each a line of a region by a selector, that reach the engine in consecutive
        clocks: admission stops until ordinary memory has answered, and all of them wait for it.
        The flips, each a RAM, row and place, come while they pass."""
        mem = self.env.cfg.mem
        mem.r_stall = 1.0
        await self.read(0)
        await self.env.clocks(40)
        waits = cocotb.start_soon(self.drains())
        await self.env.clocks(40)
        for config, line, selector in reads:
            await self.read_region(config, line, selector)
        await self.env.clocks(40)
        mem.r_stall = 0.0
        await waits
        for flip in flips:
            await self.inject(*flip)
        await self.drain()

    async def counted(self) -> tuple[int, int]:
        """RAM_PARITY and RAM_CORRECTED; capture and interrupt must agree with them.

        AssertionError if they do not. Capture and interrupt are armed again, the counters cleared.
        """
        registers = self.env.registers
        bad = await registers.read("RAM_PARITY")
        corrected = await registers.read("RAM_CORRECTED")
        place = REG_MAP.expand()["RAS_ERROR"].unpack(await registers.read("RAS_ERROR"))
        irq = await registers.read("IRQ_STATUS.RAM_ERROR")
        valid = place["VALID"]
        assert valid == irq == int(bad > 0), f"{bad} errors, VALID {valid}, RAM_ERROR {irq}"
        # A lenient scoreboard looks at no register: the place of the damage is compared here.
        wrong = self.env.scoreboard.ram.captured(place)
        assert wrong is None, wrong
        await registers.write("RAS_ERROR", 1)
        await registers.write("IRQ_STATUS", REG_MAP.expand()["IRQ_STATUS"].pack(RAM_ERROR=1))
        await registers.write("CTRL", 1)
        return bad, corrected


class DamagedMarksSequence(FlipSequence):
    """A mark of nf_written flips: counted once, and nothing is lost.

    Lines are evicted, so that they have marks; a bit of the row flips; then everything is read. In
    some rounds nothing is left to be evicted by then, so that the row is not written; in others
    another region drives the rest of the lines out first, into the damaged row.
    """

    workers: int = 3
    rounds: int = 12
    lines_log2: int = 3

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        marked = self.layout.region(Mode.G_BINARY, self.lines_log2, self.workers)
        other = self.layout.region(Mode.G_BINARY, self.lines_log2, self.workers)
        size = rams(hw)["MARKS"]
        row = 1 * size.rows // hw.regions  # of region 1, which is the marked one
        for number in range(self.rounds):
            await self.commit(0, other)
            await self.commit(1, marked)
            for worker in range(rng.randrange(self.workers - 2, self.workers)):
                for line in range(marked.lines):
                    await self.contribute(marked, worker, line)
            await self.drain()
            way = ("fetched", "driven out", "read")[number % 3]
            for line in range(marked.lines if way == "fetched" else 0):
                await self.read_region(marked, line, 0)
                await self.drain()
            # Of a line that has left: the slots hold the last ones. The mark of few is 2 or 3.
            damaged = rng.randrange(marked.lines - hw.slots)
            place = 4 * damaged + rng.choice((0, 1, 1, 1, 1, 1, 2, 3))
            await self.inject("MARKS", row, place)
            flips = 1
            if hw.ecc == SECDED and rng.random() < 0.5:
                await self.inject("MARKS", row, size.beside(place, rng))
                flips = 2
            for line in range(other.lines if way == "driven out" else 0):
                await self.contribute(other, 0, line)
            for line in (damaged, *range(marked.lines)):
                for selector in (INFO_SELECTOR, 0, PLANE_SELECTOR, PLANE_SELECTOR + 1):
                    await self.read_region(marked, line, selector)
            await self.drain()
            bad = hw.ecc != NONE and not (hw.ecc == SECDED and flips == 1)
            found = await self.counted()
            # Between two flips a lookup may find the first one.
            wanted = {(int(bad), int(not bad and hw.ecc == SECDED))}
            assert found in wanted | ({(0, 1), (0, 2)} if flips == 2 else set()), (place, found)
        for first, second in ((0, 1), (1, 0)):
            await self.together({first: (other, marked)[first], second: (other, marked)[second]})
        for place in range(hw.slots):
            await self.beside_marks(other, marked, place)

    async def together(self, regions: dict[int, RegionConfig]) -> None:
        """A row of each of two regions is damaged, and both are used in consecutive clocks."""
        hw, size = self.cfg.hw, rams(self.cfg.hw)["MARKS"]
        for region, config in regions.items():
            await self.commit(region, config)
            for line in range(config.lines):
                await self.contribute(config, 0, line)
        await self.drain()
        for line in range(hw.slots):  # of the second one, which leaves nothing to be written back
            await self.read_region(config, line, 0)
        await self.drain()
        for region in regions:
            row = region * size.rows // hw.regions
            await self.inject("MARKS", row, self.rng.randrange(size.data))
        await self.at_once((config, config.lines - 1, 0) for config in regions.values())
        found, wanted = await self.counted(), (0, 2) if hw.ecc == SECDED else (2, 0)
        assert found == wanted, f"two rows used at once: {found} counted, not {wanted}"

    async def beside_marks(self, other: RegionConfig, marked: RegionConfig, place: int) -> None:
        """The damaged row is found by one of several misses in a row, each of which marks the line
        that it drives out: the row is put right behind the marks, while others are asked for."""
        hw, size = self.cfg.hw, rams(self.cfg.hw)["MARKS"]
        for region, config in enumerate((other, marked)):
            await self.commit(region, config)
        for config in (marked, other):
            for line in range(config.lines):
                await self.contribute(config, 0, line)
        await self.drain()
        await self.inject("MARKS", size.rows // hw.regions, self.rng.randrange(size.data))
        reads = [(other, line, 0) for line in range(hw.slots - 1)]
        await self.at_once([*reads[:place], (marked, 0, 0), *reads[place:]])
        found, wanted = await self.counted(), (0, 1) if hw.ecc == SECDED else (1, 0)
        assert found == wanted, f"miss {place} of {hw.slots}: {found} counted, not {wanted}"


class LastMarksSequence(FlipSequence):
    """A mark of the last row of a region flips: what is set right follows the workers of that
    region, not those of the next one, which is too few planes for its other lines."""

    rounds: int = 2

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        marks = parameter("WRITTEN_LOG2")
        row_log2 = min(marks, MARKS_OF_A_ROW.bit_length() - 1)
        crowd = self.layout.region(Mode.G_BINARY, (2 * hw.slots - 1).bit_length(), 1)
        wide = self.layout.region(Mode.G_BINARY, marks, min(hw.cnt_max, MAX_WORKERS))
        for _ in range(self.rounds):
            await self.commit(1, crowd)
            await self.commit(0, wide)
            await self.initialised()
            last = range(wide.lines - (1 << row_log2), wide.lines)
            lines = rng.sample(last, min(8, len(last)))
            for worker in rng.sample(range(wide.workers), 2 * wide.workers // 3):
                for line in lines:
                    await self.contribute(wide, worker, line)
            await self.crowd_out(crowd)
            place = MARK_BITS * (lines[0] - last.start) + rng.randrange(MARK_BITS)
            await self.inject("MARKS", (wide.lines - 1) >> row_log2, place)
            for line in lines:
                await self.read_region(wide, line, 0)
                await self.drain()
            bad, corrected = await self.counted()
            assert bad + corrected == 1, "the row was not read"


class FlipTrafficSequence(FlipSequence):
    """Bits flip in any RAM at any moment of traffic of all kinds, one request a line at a time.

    `double`: two bits of the same word. What is counted must not be more than what was injected;
    answers are the scoreboard's affair. Each round ends with a read of everything: a flip that is
    not counted by then was in a row that held nothing, or that was written before anybody read it
    (UsedIsCounted_A of nf_ram_guard fails if it was read).
    """

    flips: int = 60
    double: bool = False
    workers: int = 4
    lines_log2: int = 3
    plain_lines: int = 8

    async def body(self) -> None:
        rng = self.rng
        self.sizes = rams(self.cfg.hw)
        del self.sizes["RETRY"]  # read on a link with faults alone: test_link_ram_flips
        self.total = [0, 0]
        self.flipped: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.stained = False
        modes = (Mode.G_BINARY, Mode.FP32, Mode.G_TERNARY)[: self.cfg.hw.regions]
        self.configs = [
            self.layout.region(mode, self.lines_log2, self.workers, strict=False, bind=False)
            for mode in modes
        ]
        self.plain = [rng.randrange(self.layout.plain_lines) for _ in range(self.plain_lines)]
        left = self.flips
        for region, config in enumerate(self.configs):
            await self.commit(region, config)
        while left > 0:
            # A RAM keeps two flipped bits: none is forgotten before everything has been read.
            drawn = list(self.sizes) * (1 if self.double else 2)
            rng.shuffle(drawn)
            await self.round(drawn[:left])
            left -= len(drawn)

    async def round(self, drawn: list[str]) -> None:
        """A flip in each of these RAMs, between commits of everything."""
        rng, half = self.rng, len(drawn) // 2
        for ram in drawn[:half]:
            await self.burst(rng.randint(1, 5))
            await self.env.clocks(rng.choice((1, 1, rng.randint(1, 30))))
            await self.draw(ram)
            if rng.random() < 0.3:
                await self.drains()
        await self.drain()
        await self.held(drawn[half:])
        for config in self.configs:  # a wrong state must show before it ends
            # Planes show what a vote may not, INFO what neither does.
            views = (0, PLANE_SELECTOR, PLANE_SELECTOR + 1) if config.mode.low_bit else (0,)
            for line in range(config.lines):
                selector = rng.choice((*views, INFO_SELECTOR))
                await self.read_region(config, line, selector, limit=1)
        last = [await self.read(at << 6, 1) for at in self.plain]
        await self.drain()
        bad, corrected = await self.counted()
        assert bad + corrected <= len(drawn) * (1 + self.double), (bad, corrected)
        assert self.double or self.cfg.hw.ecc != SECDED or not bad, f"{bad} of one bit each"
        self.total[0] += bad
        self.total[1] += corrected
        seen = self.losses()
        assert bad or self.stained or not seen, f"{seen} poisoned answers, and no error was counted"
        # Ordinary memory keeps the poison of a damaged write until the line is written again.
        self.stained = any(one.response.poison for one in last)
        for region in range(len(self.configs)):
            await self.commit(region)

    async def held(self, drawn: list[str]) -> None:
        """Flips while memory, or the host, takes nothing: data waits in the RAMs."""
        rng, mem, link = self.rng, self.env.cfg.mem, self.env.cxl.host.link
        still = rng.randrange(1, 8)
        mem.ar_stall, mem.aw_stall = float(still & 1), float(still >> 1 & 1)
        link.hold_credits(bool(still & 4))
        places = [(config, line) for config in self.configs for line in range(config.lines)]
        # One request a line: the next one would wait for its answer.
        for config, line in rng.sample(places, rng.randrange(len(places) // 2, len(places))):
            await self.access(config, line)
        for at in dict.fromkeys(self.plain):
            await self.ordinary(at)
        await self.env.clocks(rng.randint(20, 60))
        for ram in drawn:
            await self.draw(ram)
        link.hold_credits(False)
        mem.ar_stall = mem.aw_stall = 0.0
        await self.drain()

    async def draw(self, ram: str) -> None:
        """A flip in a RAM: row and bit."""
        rng, ecc = self.rng, self.cfg.hw.ecc
        size = self.sizes[ram]
        # Every second one in a row of the lowest, which are used first.
        rows = min(size.rows, rng.choice((4, size.rows)))
        row = rng.choice([row for row in range(rows) if row != self.last.get(ram)])
        self.last[ram] = row
        self.flipped[ram] = self.flipped.get(ram, 0) + 1
        place = rng.randrange(size.bits(ecc))
        await self.inject(ram, row, place)
        if self.double:
            await self.inject(ram, row, size.beside(place, rng))

    async def burst(self, count: int) -> None:
        """Requests of every kind."""
        rng = self.rng
        for _ in range(count):
            if rng.random() < 0.2:
                await self.ordinary(rng.choice(self.plain))
            else:
                config = rng.choice(self.configs)
                await self.access(config, rng.randrange(config.lines))

    async def ordinary(self, line: int) -> None:
        """A write or a read of ordinary memory."""
        if self.rng.random() < 0.5:
            await self.write(line << 6, self.rng.randbytes(64), 1)
        else:
            await self.read(line << 6, 1)

    async def access(self, config: RegionConfig, line: int) -> None:
        """A contribution or a read of a line of a region."""
        if self.rng.random() < 0.6:
            await self.contribute(config, self.rng.randrange(self.workers), line, limit=1)
        else:
            await self.read_region(config, line, limit=1)


# Data that waits in a RAM is damaged there (controller, second edition, section 8).


_OF_SLOTS = ("PLANES", "MARKS")
"""Of lines that leave their slots for the deferred ones."""


class HeldDataSequence(FlipSequence):
    """Memory stands still, data waits in a RAM, bits of it flip: then everything is read.

    Behind a reset a RAM is filled from row 0; later rounds take rows as they come.
    """

    ram: str = "PARKED"
    workers: int = 4
    rounds: int = 12
    reads: int = 0  # so far: each answer with data takes a row of ANSWERS, one behind the other
    reads_before: int = 0  # this round
    evictions: int = 0  # so far: each takes a row of EVICT

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        lines_log2 = hw.slots.bit_length() + 1
        low = self.layout.region(Mode.G_BINARY, lines_log2, self.workers)
        fp32 = self.layout.region(Mode.FP32, lines_log2, self.workers)
        size = rams(hw)[self.ram]
        total = 0
        for number in range(self.rounds):
            await self.commit(0, low)
            await self.commit(1, fp32)
            await self.env.clocks(60 * low.lines)  # the initialiser
            self.reads_before = self.reads
            await self.fill(low, fp32, number)
            evicted = await self.env.registers.read("EVICTION")
            self.evictions += evicted
            rows = [row % size.rows for row in self.rows(number)]
            begun = self.ram == "EVICT" and number % 2 == 1
            if begun:  # the oldest: all but one or two beats of its burst have left
                rows = [(self.evictions - 3) % size.rows]
            for row in rows:
                # In turn in the lowest line of the row, whose bits are all used, and anywhere.
                whole = number % 2 or self.ram == "MARKS"  # whose rows are short
                bits = size.bits(hw.ecc) if whole else LINE_BITS
                place = rng.randrange(bits)
                if begun:  # of its bitmap: with a worker less the burst would be shorter
                    place = hw.cnt_w * LINE_BITS + rng.randrange(self.workers)
                plane = 2 * LINE_BITS + rng.randrange(LINE_BITS)  # the last of so many workers
                if begun and hw.ecc != SECDED:  # beats that have not left
                    await self.inject(self.ram, row, plane)
                elif begun and rng.random() < 0.5:
                    place = plane
                await self.inject(self.ram, row, place)
                if hw.ecc == SECDED and number % 3 != 2:  # else each is put right
                    await self.inject(self.ram, row, size.beside(place, rng))
            # What there is to find is found while a commit waits for it, or without.
            waits = cocotb.start_soon(self.drains()) if number % 2 else None
            await self.env.clocks(900 if self.ram == "ANSWERS" else 20)
            mem = self.env.cfg.mem
            mem.aw_stall = mem.ar_stall = mem.w_stall = mem.r_stall = 0.0
            if waits is not None:
                await waits
            await self.drain()
            for config, selectors in ((low, (0, 8, 9, 10)), (fp32, (0, 64))):
                for line in range(config.lines):
                    for selector in selectors:  # planes show what a vote may not
                        await self.read_region(config, line, selector, limit=1)
                    if self.ram == "DEFERRED":  # none of these is
                        await self.drain()
            for line in self.plain:
                await self.read(line << 6, 1)
            await self.drain()
            self.evictions += await self.env.registers.read("EVICTION") - evicted
            if self.ram == "EVICT" and not begun:
                poison = await self.env.registers.read("MEM_POISON")
                assert not poison, f"{poison} beats of lines that were lost before they left"
            bad = (await self.counted())[0]
            assert bad <= len(rows), f"{bad} errors of {len(rows)} words"
            if self.ram == "PARKED":  # each is used, once; two bits at most are wrong at a time
                wrong = int(number % 3 != 2) if hw.ecc == SECDED else len(rows)
                assert bad == wrong, f"{bad} errors of {wrong} words that were used"
            losses = self.losses()
            assert bad or not losses, f"{losses} poisoned answers, and no error was counted"
            # Deferred misses take every slot before a commit goes on that waits for them.
            total += bad if self.ram not in _OF_SLOTS or waits is not None else 0
            if total and number >= 2:
                break
        assert total, f"no damaged row of {self.ram} was ever used"

    def rows(self, number: int) -> Sequence[int]:
        """Two rows to be damaged, which are in use where slots, evictions and credits are few."""
        if self.ram == "PARKED":
            return ((1, 4), (0, 2), (0, 3))[number % 3]
        first = {
            "DEFERRED": 13 * number + 5,  # 12 or 13 were deferred in each round
            "STORES": 3,  # the first two have left; a round brings all rows twice
            "EVICT": self.evictions - 2,  # the last ones have not left
            "ANSWERS": self.reads_before + 14,  # the first ones have
            "WRITES": self.rng.randrange(8),
            "PLANES": number,  # each slot has a line that must be written back
            "MARKS": 0,  # of the low-bit region: each such line is marked there
        }[self.ram]
        return first, first + 1

    async def read(self, addr: int, limit: int | None = None, **fields: Any) -> Any:
        """Counts the reads."""
        self.reads += 1
        return await super().read(addr, limit, **fields)

    async def fill(self, low: RegionConfig, fp32: RegionConfig, number: int) -> None:
        """Requests that leave data in the RAM, in a round of this number."""
        mem, lines, slots = self.env.cfg.mem, list(range(low.lines)), self.cfg.hw.slots
        self.plain = self.rng.sample(range(self.layout.plain_lines), 30)
        if self.ram in ("EVICT", "PARKED", "DEFERRED", *_OF_SLOTS):
            # Lines whose records are in memory, one at a time: nothing of this waits in a RAM.
            for config in (fp32, low):
                for line in lines if self.ram != "EVICT" else lines[:slots]:
                    for worker in range(self.workers if self.ram == "EVICT" else 1):
                        await self.contribute(config, worker, line)
                    await self.drain()
        mem.aw_stall = float(self.ram in ("EVICT", "STORES", "WRITES", *_OF_SLOTS))
        mem.w_stall = float(self.ram == "EVICT")
        mem.ar_stall = float(self.ram not in ("ANSWERS", *_OF_SLOTS))
        if self.ram == "PARKED":
            mem.ar_stall, mem.r_stall = float(number % 2 == 0), float(number % 2)
            await self.parked(low, fp32, asked=number % 2 == 1, reads=number % 3 == 0)
        elif self.ram in ("DEFERRED", *_OF_SLOTS):
            await self.deferred(low)
        elif self.ram == "STORES":
            for line in lines:
                await self.contribute(fp32, 0, line, limit=1)
        elif self.ram == "WRITES":
            for line in self.plain:
                await self.write(line << 6, self.rng.randbytes(64), 1)
        elif self.ram == "ANSWERS":
            for line in lines + self.plain:
                await self.read(line << 6, 1)
            await self.env.clocks(60)
            mem.ar_stall = 1.0  # a last one, for which a commit has to wait
            await self.read(self.layout.plain_lines - 1 << 6, 1)
        else:
            for line in reversed(lines):
                await self.contribute(low, 1, line, limit=1)
        await self.env.clocks(60)

    async def parked(self, low: RegionConfig, fp32: RegionConfig, asked: bool, reads: bool) -> None:
        """Rows 0 to 3: a store that goes to memory early, a contribution, another one, and one
        behind it. ``asked``: memory has taken the requests for their lines; the store is in row 3
        then, as the device may have looked at the first of them, which is to be damaged behind
        that. ``reads``: in row 4 a read of the last line, which has no data to lose. While it is
        there nothing else of that line may be damaged."""
        if not asked:
            await self.contribute(fp32, 1, 0)
        for worker, line in ((1, 0), (1, 1), (2, 1)):
            await self.contribute(low, worker, line)
        await self.env.clocks(60)
        if asked:
            await self.contribute(fp32, 1, 0)
        if reads:
            await self.env.clocks(60)
            await self.read_region(low, 1, PLANE_SELECTOR)

    async def deferred(self, low: RegionConfig) -> None:
        """All slots wait for their records, or one for the write-backs of the others; a read and a
        write by turns find none."""
        slots = self.cfg.hw.slots
        for line in range(slots):
            await self.contribute(low, 1, line)
        await self.env.clocks(60)
        for number, line in enumerate(range(slots, low.lines)):
            if number % 2:
                await self.contribute(low, 1, line)
            else:
                await self.read_region(low, line, PLANE_SELECTOR)
            await self.env.clocks(20)


# Lines that are lost to a damaged slot (second edition, section 8).


class LostSlotSequence(FlipSequence):
    """One bit of the state of a slot flips, or one in each of its RAMs: the line is lost, and each
    word counted, exactly once.

    Lines take the slots in turn behind a reset, so that line i is in slot i.
    """

    mode: Mode = Mode.G_BINARY
    workers: int = 3
    rams: tuple[str, ...] = ("BOOK", "PLANES")
    flipped: int = 0  # lines so far

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        lines = hw.slots
        config = self.layout.region(self.mode, lines.bit_length(), self.workers)
        region = rng.randrange(hw.regions)
        self.region = region
        await self.env.registers.write("IRQ_ENABLE", REG_MAP.expand()["IRQ_STATUS"].mask())
        await self.commit(region, config)
        await self.env.clocks(20 * lines)  # the initialiser
        # Slots that need not be written back, until their line is lost.
        clean = rng.sample(range(lines), lines // 2)
        for line in range(lines):
            if line in clean:
                await self.read_region(config, line, PLANE_SELECTOR if self.mode.low_bit else 0)
            else:
                await self.contribute(config, 0, line)
            await self.drain()
        # One of them at least is found lost by a read, which by itself does not make it dirty.
        others = [line for line in range(lines) if line != clean[0]]
        picked = (clean[0], *rng.sample(others, lines // 2 - 1))
        for number, line in enumerate(picked):
            # Of one of them both RAMs are used in one clock.
            damaged = self.rams if number == 1 else (rng.choice(self.rams),)
            await self.lose(config, line, damaged, reads=not number)
            if line == clean[0] or rng.random() < 0.5:  # what was found is not found again
                await self.read_region(config, line, INFO_SELECTOR)
                await self.drain()
                assert await self.counted() == (0, 0), "one loss was counted twice"
        for line in range(lines, 2 * lines):  # all of them leave
            await self.contribute(config, 0, line)
            await self.drain()
        lines = config.lines
        order = [(worker, line) for worker in range(self.workers) for line in range(lines)]
        rng.shuffle(order)
        for worker, line in order:
            await self.contribute(config, worker, line, limit=1)
        await self.drain()
        for line in range(lines):
            for selector in (None, INFO_SELECTOR):
                await self.read_region(config, line, selector, limit=1)
        await self.drain()
        await self.env.registers.read(f"REGION[{region}].COMPLETE_LINES")
        assert await self.counted() == (0, 0), "an error was counted twice"

    async def lose(
        self, config: RegionConfig, line: int, damaged: tuple[str, ...], reads: bool
    ) -> None:
        """Flips a bit of the line's slot in each of these RAMs and uses the slot, by a read if
        `reads`. A store of FP32 may be under way instead: then memory's answer to it finds the
        damage."""
        rng, ecc, mem = self.rng, self.cfg.hw.ecc, self.env.cfg.mem
        self.flipped += 1
        if rng.random() < 0.5:  # the slot that was used last is not written by that
            await self.read_region(config, line, INFO_SELECTOR)
            await self.drain()
        commits = self.flipped % 2 == 0  # a commit waits for that answer, too
        stores = self.mode is Mode.FP32 and not reads and (commits or rng.random() < 0.4)
        if stores:
            mem.b_stall = 1.0
            await self.contribute(config, rng.randrange(self.workers), line)
            await self.env.clocks(40)
        flips = 2 if ecc == SECDED and rng.random() < 0.5 else 1
        places = []
        for ram in damaged:
            size = rams(self.cfg.hw)[ram]
            places.append((ram, rng.randrange(size.bits(ecc))))
            if flips == 2:
                places.append((ram, size.beside(places[-1][1], rng)))
        for ram, place in places:
            await self.inject(ram, line, place)
        bad = ecc != NONE and not (ecc == SECDED and flips == 1)
        if bad:
            self.env.scoreboard.quiescence.lose(self.region, line)
        ways = ("write", "read", "info") if damaged == ("BOOK",) else ("write", "read")
        what = rng.choice(ways[1:] if reads else ways)
        if stores:
            waits = cocotb.start_soon(self.drains()) if commits else None
            await self.env.clocks(40)
            mem.b_stall = 0.0
            if waits is not None:
                await waits
        elif what == "write":
            await self.contribute(config, rng.randrange(self.workers), line)
        else:
            selector = INFO_SELECTOR if what == "info" else PLANE_SELECTOR
            if self.mode is Mode.FP32 and what != "info":
                selector = 0
            await self.read_region(config, line, selector)
        await self.drain()
        if rng.random() < 0.8:
            words = len(damaged)  # each counts
            want = (words, 0) if bad else (0, words if ecc == SECDED else 0)
            assert await self.counted() == want, places
        else:
            await self.counted()


class MendedSequence(FlipSequence):
    """With SECDED a word that was corrected is right in its RAM: the next flip of the same word is
    a single one again. Lines take the slots in turn behind a reset."""

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        config = self.layout.region(Mode.G_BINARY, 2, 3)
        await self.commit(0, config)
        await self.env.clocks(200)  # the initialiser
        for line in range(config.lines):
            for worker in range(config.workers):
                await self.contribute(config, worker, line)
            await self.drain()
        for line in range(config.lines):
            for ram in ("PLANES", "BOOK"):
                size = rams(hw)[ram]
                place = rng.randrange(size.bits(hw.ecc))
                for bit in (place, size.beside(place, rng)):
                    await self.inject(ram, line, bit)
                    for want in ((0, 1), (0, 0)):
                        await self.read_region(config, line, PLANE_SELECTOR)
                        await self.drain()
                        assert await self.counted() == want, f"{ram}, bit {bit} behind {place}"


class LossAtOnceSequence(FlipSequence):
    """Operations in the clocks in which a loss is written find the line lost, and it is counted
    once. Lines take the slots in turn behind a reset."""

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        config = self.layout.region(Mode.G_BINARY, hw.slots.bit_length(), 3)
        await self.commit(0, config)
        await self.env.clocks(20 * hw.slots)  # the initialiser
        for line in range(hw.slots):
            await self.contribute(config, rng.randrange(3), line)
            await self.drain()
        for line, ram in enumerate(("BOOK", "PLANES")):
            size = rams(hw)[ram]
            place = rng.randrange(size.bits(hw.ecc))
            await self.inject(ram, line, place)
            if hw.ecc == SECDED:
                await self.inject(ram, line, size.beside(place, rng))
            self.env.scoreboard.quiescence.lose(0, line)
            await self.at_once([(config, line, PLANE_SELECTOR)] * 4)
            assert await self.counted() == (1, 0), (ram, place)


class ForwardedSequence(FlipSequence):
    """A slot is damaged between operations that take its state from the one before: they are right,
    and the first one that reads it from the RAM again finds it lost, or puts it right, once. Lines
    take the slots in turn behind a reset.

    With SECDED two lines take turns: the stage that corrects is ahead of the one that forwards.
    """

    reads: int = 8

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        config = self.layout.region(Mode.G_BINARY, hw.slots.bit_length(), 3)
        size = rams(hw)["BOOK"]
        await self.commit(0, config)
        await self.env.clocks(20 * hw.slots)  # the initialiser
        for line in range(hw.slots):
            await self.contribute(config, 0, line)
            await self.drain()
        for line in range(hw.slots - 1):
            places = [rng.randrange(size.bits(hw.ecc))]
            lines = [line]
            if hw.ecc == SECDED:
                places += [size.beside(places[0], rng)] * (line % 2 == 0)
                lines.append(hw.slots - 1)
            lost = hw.ecc != SECDED or len(places) == 2
            reads = [(config, one, INFO_SELECTOR) for one in self.reads * lines]
            await self.at_once(reads, [("BOOK", line, place) for place in places])
            assert await self.counted() == (0, 0), "what is forwarded was not read"
            if lost:
                self.env.scoreboard.quiescence.lose(0, line)
            await self.contribute(config, 1, line)
            await self.drain()
            assert await self.counted() == (int(lost), int(not lost)), places
            await self.read_region(config, line, INFO_SELECTOR)
            await self.drain()
            assert await self.counted() == (0, 0), "it was found twice"


class LostKeptSequence(FlipSequence):
    """A slot that keeps a sum is damaged, and found so when its line leaves: the line is lost, and
    the sum with it. Lines take the slots in turn behind a reset."""

    workers: int = 3

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        lines_log2 = hw.slots.bit_length()
        config = self.layout.region(Mode.FP32, lines_log2, self.workers, keep_sum=True)
        await self.commit(0, config)
        await self.initialised()
        for line in range(hw.slots):
            for worker in range(self.workers):
                await self.contribute(config, worker, line)
            await self.drain()
        for line in range(hw.slots):
            await self.read_region(config, line, 0)
            await self.drain()
        for line in range(hw.slots):
            ram = ("BOOK", "PLANES")[line // 2 % 2]
            size = rams(hw)[ram]
            places = [rng.randrange(size.bits(hw.ecc))]
            places += [size.beside(places[0], rng)] * (hw.ecc == SECDED and line % 2)
            lost = hw.ecc != SECDED or len(places) == 2
            for place in places:
                await self.inject(ram, line, place)
            if lost:
                self.env.scoreboard.quiescence.lose(0, line)
            await self.contribute(config, 0, hw.slots + line)  # takes its slot
            await self.drain()
            found = await self.counted()
            assert found == (int(lost), int(not lost)), f"{ram}, {places}: {found} counted"
        for _ in range(2):
            for line in range(hw.slots):
                await self.read_region(config, line, 0)
                await self.drain()


class KeptOverDamageSequence(FlipSequence):
    """A slot is damaged while the sum of its line is gathered: the sum that comes back to be kept
    finds the line lost, and hands nothing of what it was on to a read right behind it.

    The read comes some clocks before to some clocks behind the sum, over all lines. Lines take the
    slots in turn behind a reset.
    """

    workers: int = 3
    places: int = 24

    async def body(self) -> None:
        rng, hw, mem = self.rng, self.cfg.hw, self.env.cfg.mem
        config = self.layout.region(Mode.FP32, hw.slots.bit_length(), self.workers, keep_sum=True)
        size = rams(hw)["BOOK"]
        await self.commit(0, config)
        await self.initialised()
        for worker in range(self.workers):
            for line in range(hw.slots):
                await self.contribute(config, worker, line)
                await self.drain()
        shift = rng.randrange(self.places)
        for line in range(hw.slots):
            mem.r_stall = 1.0
            await self.read_region(config, line, 0)
            await self.env.clocks(40)
            worker = rng.randrange(self.workers)
            places = [worker]  # this worker has not contributed, says the bitmap now
            places += [size.beside(worker, rng)] * (hw.ecc == SECDED and line % 2)
            lost = hw.ecc != SECDED or len(places) == 2
            for place in places:
                await self.inject("BOOK", line, place)
            if lost:
                self.env.scoreboard.quiescence.lose(0, line, written=True)
            mem.r_stall = 0.0
            await self.env.clocks(1 + (line + shift) % self.places)
            await self.read_region(config, line, INFO_SELECTOR)
            await self.drain()
            found = await self.counted()
            assert found == (int(lost), int(not lost)), f"flips at {places}: {found} counted"
