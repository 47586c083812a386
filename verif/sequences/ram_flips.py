# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the RAMs of the device (controller, second edition, section 8)."""

from __future__ import annotations

from collections.abc import Iterable

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
