# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the RAMs of the device (controller, second edition, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cocotb

from models.line_packing import LINE_BYTES, Mode
from models.nf_regs import REG_MAP
from models.regions import INFO_SELECTOR, PLANE_SELECTOR, RegionConfig
from verif.env.ram_sizes import rams
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

    async def counted(self) -> tuple[int, int]:
        """RAM_PARITY and RAM_CORRECTED; capture and interrupt must agree with them.

        AssertionError if they do not. Capture and interrupt are armed again, the counters cleared.
        """
        registers = self.env.registers
        bad = await registers.read("RAM_PARITY")
        corrected = await registers.read("RAM_CORRECTED")
        valid = await registers.read("RAS_ERROR.VALID")
        irq = await registers.read("IRQ_STATUS.RAM_ERROR")
        assert valid == irq == int(bad > 0), f"{bad} errors, VALID {valid}, RAM_ERROR {irq}"
        await registers.write("RAS_ERROR", 1)
        await registers.write("IRQ_STATUS", REG_MAP.expand()["IRQ_STATUS"].pack(RAM_ERROR=1))
        await registers.write("CTRL", 1)
        return bad, corrected


class LostSlotSequence(FlipSequence):
    """One bit of the state of a slot flips: the line is lost, and counted, exactly once.

    Lines take the slots in turn behind a reset, so that line i is in slot i.
    """

    mode: Mode = Mode.G_BINARY
    workers: int = 3
    rams: tuple[str, ...] = ("BOOK", "PLANES")

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        lines = hw.slots
        config = self.layout.region(self.mode, lines.bit_length(), self.workers)
        region = rng.randrange(hw.regions)
        self.region = region
        await self.env.registers.write("IRQ_ENABLE", REG_MAP.expand()["IRQ_STATUS"].mask())
        await self.commit(region, config)
        await self.env.clocks(20 * lines)  # the initialiser
        for line in range(lines):
            if rng.random() < 0.5:
                await self.contribute(config, 0, line)
            else:  # a slot that need not be written back, until its line is lost
                await self.read_region(config, line, PLANE_SELECTOR if self.mode.low_bit else 0)
            await self.drain()
        flips = {line: rng.choice(self.rams) for line in rng.sample(range(lines), lines // 2)}
        for line, ram in flips.items():
            await self.lose(config, line, ram)
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

    async def lose(self, config: RegionConfig, line: int, ram: str) -> None:
        """Flips a bit of the line's slot and uses the slot. A store of FP32 may be under way: then
        memory's answer to it finds the damage."""
        rng, ecc, mem = self.rng, self.cfg.hw.ecc, self.env.cfg.mem
        stores = self.mode is Mode.FP32 and rng.random() < 0.4
        if stores:
            mem.b_stall = 1.0
            await self.contribute(config, rng.randrange(self.workers), line)
            await self.env.clocks(40)
        flips = 2 if ecc == SECDED and rng.random() < 0.5 else 1
        size = rams(self.cfg.hw)[ram]
        first = rng.randrange(size.bits(ecc))
        places = [first]
        if flips == 2:
            places.append(size.beside(first, rng))
        for place in places:
            await self.inject(ram, line, place)
        bad = ecc != NONE and not (ecc == SECDED and flips == 1)
        if bad:
            self.env.scoreboard.quiescence.lose(self.region, line)
        what = rng.choice(("write", "read", "info") if ram == "BOOK" else ("write", "read"))
        if stores:
            mem.b_stall = 0.0
        elif what == "write":
            await self.contribute(config, rng.randrange(self.workers), line)
        else:
            selector = INFO_SELECTOR if what == "info" else PLANE_SELECTOR
            if self.mode is Mode.FP32 and what != "info":
                selector = 0
            await self.read_region(config, line, selector)
        await self.drain()
        if rng.random() < 0.8:
            assert await self.counted() == (int(bad), int(not bad and ecc == SECDED)), (ram, places)
        else:
            await self.counted()


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
            await self.fill(low, fp32)
            evicted = await self.env.registers.read("EVICTION")
            self.evictions += evicted
            rows = [row % size.rows for row in self.rows(number)]
            for row in rows:
                # In turn in the lowest line of the row, whose bits are all used, and anywhere.
                bits = LINE_BITS if number % 2 == 0 else size.bits(hw.ecc)
                place = rng.randrange(bits)
                await self.inject(self.ram, row, place)
                if hw.ecc == SECDED and (row != rows[0] or number % 3 != 2):  # else: one is right
                    await self.inject(self.ram, row, size.beside(place, rng))
            # What there is to find is found while a commit waits for it, or without.
            waits = cocotb.start_soon(self.drains()) if number % 2 else None
            await self.env.clocks(900 if self.ram == "ANSWERS" else 20)
            mem = self.env.cfg.mem
            mem.aw_stall = mem.ar_stall = mem.w_stall = 0.0
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
            bad = (await self.counted())[0]
            assert bad <= len(rows), f"{bad} errors of {len(rows)} words"
            losses = self.losses()
            assert bad or not losses, f"{losses} poisoned answers, and no error was counted"
            total += bad
            if total and number >= 3:
                break
        assert total, f"no damaged row of {self.ram} was ever used"

    def rows(self, number: int) -> Sequence[int]:
        """Two rows to be damaged, which are in use where slots, evictions and credits are few."""
        if self.ram == "PARKED":
            return ((0, 1), (1, 3), (0, 3))[number % 3]
        first = {
            "DEFERRED": 13 * number + 5,  # 12 or 13 were deferred in each round
            "STORES": 3,  # the first two have left; a round brings all rows twice
            "EVICT": self.evictions - 2,  # the last ones have not left
            "ANSWERS": self.reads_before + 14,  # the first ones have
            "WRITES": self.rng.randrange(8),
        }[self.ram]
        return first, first + 1

    async def read(self, addr: int, limit: int | None = None, **fields: Any) -> Any:
        """Counts the reads."""
        self.reads += 1
        return await super().read(addr, limit, **fields)

    async def fill(self, low: RegionConfig, fp32: RegionConfig) -> None:
        """Requests that leave data in the RAM."""
        mem, lines, slots = self.env.cfg.mem, list(range(low.lines)), self.cfg.hw.slots
        self.plain = self.rng.sample(range(self.layout.plain_lines), 30)
        if self.ram in ("EVICT", "PARKED", "DEFERRED"):
            # Lines whose records are in memory, one at a time: nothing of this waits in a RAM.
            for config in (fp32, low):
                for line in lines if self.ram != "EVICT" else lines[:slots]:
                    await self.contribute(config, 0, line)
                    await self.drain()
        mem.aw_stall = float(self.ram in ("EVICT", "STORES", "WRITES"))
        mem.w_stall = float(self.ram == "EVICT")
        mem.ar_stall = float(self.ram != "ANSWERS")
        if self.ram == "PARKED":
            await self.parked(low, fp32)
        elif self.ram == "DEFERRED":
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

    async def parked(self, low: RegionConfig, fp32: RegionConfig) -> None:
        """Rows 0 to 3: a store that goes to memory early, a contribution, another one, and behind
        it a read, which has no data to lose."""
        await self.contribute(fp32, 1, 0)
        for line in range(2):
            await self.contribute(low, 1, line)
        await self.env.clocks(60)
        await self.read_region(low, 1, PLANE_SELECTOR)

    async def deferred(self, low: RegionConfig) -> None:
        """All slots wait for their records; a read and a write by turns find none."""
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
            for worker in range(rng.randrange(1, self.workers)):
                for line in range(marked.lines):
                    await self.contribute(marked, worker, line)
            await self.drain()
            way = ("fetched", "driven out", "read")[number % 3]
            for line in range(marked.lines if way == "fetched" else 0):
                await self.read_region(marked, line, 0)
                await self.drain()
            # Of a line that has left: the slots hold the last ones. The mark is 2 or 3.
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
    plain_lines: int = 12
    flips_a_round: int = 18

    async def body(self) -> None:
        rng = self.rng
        self.sizes = rams(self.cfg.hw)
        del self.sizes["RETRY"]  # read on a link with faults alone: test_link_ram_flips
        self.total = [0, 0]
        self.flipped: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.rounds_without = 0
        left = self.cfg.count(self.flips)
        modes = (Mode.G_BINARY, Mode.FP32, Mode.G_TERNARY)[: self.cfg.hw.regions]
        configs = [
            self.layout.region(mode, self.lines_log2, self.workers, strict=False, bind=False)
            for mode in modes
        ]
        plain = [rng.randrange(self.layout.plain_lines) for _ in range(self.plain_lines)]
        while left > 0:
            for region, config in enumerate(configs):
                await self.commit(region, config)
            now = min(left, self.flips_a_round // (1 + self.double))
            await self.round(configs, plain, now)
            left -= now

    async def round(self, configs: list[RegionConfig], plain: list[int], flips: int) -> None:
        """Some flips, between commits of everything."""
        # A RAM keeps two flipped bits: none is forgotten before everything has been read.
        each = list(self.sizes) * (2 // (1 + self.double))
        for ram in self.rng.sample(each, flips):
            await self.burst(configs, plain, self.rng.randint(1, 8))
            await self.env.clocks(self.rng.choice((1, 1, self.rng.randint(1, 40))))
            await self.draw(ram)
            if self.rng.random() < 0.3:
                await self.drains()
        for config in configs:  # a wrong state must show before it ends
            for line in range(config.lines):
                for selector in (0, INFO_SELECTOR):
                    await self.read_region(config, line, selector, limit=1)
        for at in plain:
            await self.read(at << 6, 1)
        await self.drain()
        bad, corrected = await self.counted()
        assert bad + corrected <= flips * (1 + self.double), f"{bad} and {corrected} of {flips}"
        assert self.double or self.cfg.hw.ecc != SECDED or not bad, f"{bad} of one bit each"
        self.total[0] += bad
        self.total[1] += corrected
        seen = self.losses()
        assert bad or not seen, f"{seen} poisoned answers, and no error was counted"
        self.rounds_without += not seen

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

    async def burst(self, configs: list[RegionConfig], plain: list[int], count: int) -> None:
        """Requests of every kind."""
        rng = self.rng
        for _ in range(count):
            if rng.random() < 0.2:
                address = rng.choice(plain) << 6
                if rng.random() < 0.5:
                    await self.write(address, rng.randbytes(64), 1)
                else:
                    await self.read(address, 1)
                continue
            config = rng.choice(configs)
            line = rng.randrange(config.lines)
            if rng.random() < 0.6:
                await self.contribute(config, rng.randrange(self.workers), line, limit=1)
            else:
                await self.read_region(config, line, limit=1)
