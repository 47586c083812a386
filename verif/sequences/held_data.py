# SPDX-License-Identifier: Apache-2.0
"""Data that waits in a RAM is damaged there (controller, second edition, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cocotb

from models.line_packing import Mode
from models.regions import PLANE_SELECTOR, RegionConfig
from verif.env.ram_sizes import rams
from verif.scoreboard.ram_faults import SECDED
from verif.sequences.ram_flips import LINE_BITS, FlipSequence

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
