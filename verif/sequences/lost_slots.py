# SPDX-License-Identifier: Apache-2.0
"""Lines that are lost to a damaged slot (second edition, section 8)."""

from __future__ import annotations

import cocotb

from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import INFO_SELECTOR, PLANE_SELECTOR, RegionConfig
from verif.env.ram_sizes import rams
from verif.scoreboard.ram_faults import NONE, SECDED
from verif.sequences.ram_flips import FlipSequence


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
