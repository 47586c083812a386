# SPDX-License-Identifier: Apache-2.0
"""Programs of operations that hit the bins of the cover point "pair", one program for each bin."""

from collections.abc import Coroutine, Iterable
from itertools import product
from typing import Any

import cocotb

from models.commit_check import most_workers
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, RegionConfig
from verif.coverage.cover_model import BETWEEN
from verif.sequences.base import ANY
from verif.sequences.ram_flips import FlipSequence

POINT = "pair"
FLIP = "RAM flip"
EVERY = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_TERN5)
MODES = {
    "vote": (Mode.G_BINARY, Mode.G_TERNARY),
    "FP32 store": (Mode.FP32,),
    "sum": (Mode.FP32,),
    "TERN5": (Mode.G_TERN5,),
}
"""Modes of a region with a feature; other features can be used in every mode."""
RAMS = {"marks": "MARKS", "pool": "PARKED"}
"""RAM whose word is damaged; that of the other resources is BOOK."""
Use = tuple[str, int, int]
"""Feature, with the number of a region and a line."""
LINES_LOG2 = 4
FIRST = 5
MOST_SHOWN = 80
SETTLED = 60
"""Cycles in which an eviction reaches memory."""


class FeaturePairSequence(FlipSequence):
    """A program for each bin of `bins`: a feature A leaves a resource, a feature B arrives at it.

    Regions A, B and a third one have drawn numbers and modes; lines of the third one evict others.
    Requests come one at a time, and slots are taken in turn, so that the program chooses the line
    that is evicted. Coverage says whether B has hit the bin: a program that misses it fails.

    Needs four or more slots, three regions, the mode G_TERN5, marks that two lines share, short
    generations, and a host that grants one credit of each class.
    """

    bins: Iterable[str] = ()

    async def body(self) -> None:
        self.configs: dict[tuple[int, Mode], RegionConfig] = {}
        missed = []
        for name in self.bins:
            self.bin = name
            await self.begin(*name.split(BETWEEN))
            if self.hits() == self.before:
                missed.append(name)
            await self.read_back()
        if self.flips:  # STATUS counts lines that a damaged word has poisoned
            for number in {number for number, _ in self.configs}:
                await self.commit(number)
        assert not missed, f"programs of {len(missed)} bins do not hit them: {missed[:MOST_SHOWN]}"

    async def begin(self, found: str, leaving: str, arriving: str, relation: str) -> None:
        """Start new rounds, and run the program of a bin."""
        resource, access = found.split(": ")
        modes = product(MODES.get(leaving, EVERY), MODES.get(arriving, EVERY))
        others = relation == "other mode"
        mode, other = self.choice([m for m in modes if (m[0] is not m[1]) == others])
        numbers = self.sample(range(self.hw.regions), 3)
        self.places: list[tuple[int, int]] = []
        self.taken: dict[tuple[int, int], int] = {}
        """Number of the slot of each line."""
        self.next_slot = 0
        self.flips = FLIP in (leaving, arriving)
        self.doubtful: set[tuple[int, int]] = set()
        """Lines that are poisoned, or whose slot was damaged."""
        self.active: dict[int, RegionConfig] = {}
        for number, chosen in zip(numbers, (mode, other, self.choice(EVERY)), strict=True):
            config = self.configs.get((number, chosen))
            if config is None:
                most = min(self.choice((7, 24)), most_workers(chosen, self.hw))
                config = self.layout.region(chosen, LINES_LOG2, self.randint(FIRST + 1, most))
                self.configs[number, chosen] = config
            self.active[number] = config
            await self.commit(number, config, ready=True)
        a, b, self.crowd = numbers
        if relation == "same region":
            b = a
        first, second = self.sample(range(1 << LINES_LOG2), 2)
        self.fillers = self.shuffled(range(1 << LINES_LOG2))
        self.ram = RAMS.get(resource, "BOOK")
        self.reads: bool | None = {"DRS": True, "NDR": False}.get(access)
        programs = {
            "slots": self.slot,
            "eviction buffer": self.buffer,
            "marks": self.mark,
            "pool": self.entry,
            "record": self.record,
            "credits": self.credit,
        }
        await programs[resource]((leaving, a, first), (arriving, b, second), access)
        await self.cycles(SETTLED)

    def hits(self) -> int:
        """Return the hits of the bin, with those of what has just been answered."""
        self.env.coverage.pair.settle()
        return self.env.coverage.model.points[POINT].bins[self.bin]

    async def read_back(self) -> None:
        """Contribute to each line, read the line that it evicts at once; then read other views.

        Memory takes data slowly, so that lines are wanted while they wait to be written back.
        """
        with self.memory(w_stall=0.5):
            for number, line in self.shuffled(self.places):
                misses = (number, line) not in self.taken
                held = [one for one, slot in self.taken.items() if slot == self.next_slot]
                self.take(number, line)
                if self.flips:  # STATUS counts a line that is lost and sent again twice
                    await self.read_region(self.active[number], line, 0)
                else:
                    await self.fill_lines(self.active[number], line, ANY, wait=False)
                if misses:
                    await self.cycles(self.randrange(4))
                    for number, line in held:
                        self.take(number, line)
                        await self.read_lines(self.active[number], line)
                await self.drain()
        for number, line in self.shuffled(self.places):
            config = self.active[number]
            views = (INFO_SELECTOR, self.choice(self.read_selectors(config)))
            if self.flips:
                self.losses()  # of reads before
            await self.read_lines(config, line, views, alone=True)  # a lost line may not race
            lost = self.losses() if self.flips else 0
            doubtful = (number, line) in self.doubtful
            assert doubtful or not lost, f"line {line} of region {number} is lost without damage"

    # -- resources ----------------------------------------------------------------------------
    async def slot(self, leaving: Use, arriving: Use, access: str) -> None:
        """Let B take the slot of A's line, hit that line, or arrive while it is in its slot."""
        if access == "evicted before":
            await self.contribute_some(*arriving[1:])
            await self.fill_slots(self.slots)
        await self.contribute_some(*leaving[1:])
        await self.last_use(leaving, self.slots - 1)
        if access == "hit":
            arriving = (arriving[0], *leaving[1:])
        await self.use(*arriving)

    async def buffer(self, leaving: Use, arriving: Use, access: str) -> None:
        """Let B arrive while memory does not answer the write-back of A's line."""
        again = access == "evicted before" and leaving[1] == arriving[1] and self.random() < 0.5
        if again:  # the line of A itself
            arriving = (arriving[0], *leaving[1:])
        elif access == "evicted before":
            await self.contribute_some(*arriving[1:])
            await self.fill_slots(self.slots)
        await self.contribute_some(*leaving[1:])
        if access == "hit":
            await self.contribute_some(*arriving[1:])
        await self.last_use(leaving, self.slots - 1 - (access == "hit"))
        async with self.stalled("b"):
            await self.fill_slots(1, reads=True)  # a store would wait for its answer
            await self.cycles(SETTLED)
            task = await self.begun(self.use(*arriving))
            await self.cycles(3 * SETTLED)
        await task

    async def mark(self, leaving: Use, arriving: Use, access: str) -> None:
        """Let B need the mark that A's line has left, or a place where A has left none."""
        feature, number, line = leaving
        if FLIP in (feature, arriving[0]):
            await self.contribute_some(number, line ^ 2)  # has a mark in the damaged row
        if feature in (FLIP, "commit"):
            await self.leave(number, line)
            await self.use(*leaving)
        else:
            await self.leave(number, line, feature)
        await self.use(*arriving[:2], line ^ 1 if arriving[1] == number else line)

    async def entry(self, leaving: Use, arriving: Use, access: str) -> None:
        """Let B take the entry of A in the pool, or come while A is parked."""
        others = self.slots - 1 if access == "deferred" else 0
        fillers = [(self.crowd, self.fillers.pop()) for _ in range(others)]
        if access == "same list":
            arriving = (*arriving[:2], leaving[2])
        for place in (arriving[1:], *fillers):
            await self.contribute_some(*place)
        await self.leave(*leaving[1:])
        if access == "entry left":
            await self.use(*leaving)
            await self.use(*arriving)
            return
        async with self.stalled("r"):
            tasks = [await self.begun(self.use(*leaving))]
            for place in fillers:
                self.take(*place)
                await self.read_lines(self.active[self.crowd], place[1], wait=False)
            await self.cycles(SETTLED)
            tasks.append(await self.begun(self.use(*arriving)))
        for task in tasks:
            await task

    async def record(self, leaving: Use, arriving: Use, access: str) -> None:
        """Let B be the first on A's line after a commit, or after all generations."""
        feature, number, line = leaving
        if access == "dropped":
            await self.contribute_some(number, line)
            await self.use(*leaving)
        else:
            await self.leave(number, line, feature)
        for _ in range((1 << self.hw.gen_w) - 1 if access == "wrapped" else 1):
            if feature == "close":  # the generation wraps at one of the commits
                await self.close(number)
            await self.commit(number)
        self.doubtful.discard((number, line))
        await self.initialised()
        if access in ("older", "wrapped"):
            await self.leave(number, line ^ 1)  # the mark that they share
        await self.use(arriving[0], number, line)

    async def credit(self, leaving: Use, arriving: Use, access: str) -> None:
        """Let the responses to A and B, or that to A and a commit, wait for one credit."""
        link = self.env.cxl.host.link
        for use in (leaving, arriving):
            await self.contribute_some(*use[1:])
        await self.cycles(SETTLED)
        link.hold_credits(True)
        await self.read(0)
        await self.write(0, self.randbytes(LINE_BYTES))
        await self.drain()
        tasks = [await self.begun(self.use(*use)) for use in (leaving, arriving)]
        link.hold_credits(False)
        for task in tasks:
            await task

    async def begun(self, work: Coroutine[Any, Any, None]) -> Any:
        """Start a coroutine, let it run for some cycles, and return its task."""
        task = cocotb.start_soon(work)
        await self.cycles(SETTLED)
        return task

    async def leave(self, number: int, line: int, feature: str = "") -> None:
        """Contribute to a line, use a feature at it, and evict it."""
        await self.contribute_some(number, line)
        if feature:
            await self.last_use((feature, number, line), self.slots - 1)
        await self.fill_slots(1 if feature else self.slots)

    # -- operations ---------------------------------------------------------------------------
    def take(self, number: int, line: int) -> None:
        """Follow an access to a line: it takes the next slot unless it has one."""
        place = number, line
        if place not in self.places:
            self.places.append(place)
        if place not in self.taken:
            slot = self.next_slot
            self.taken = {one: held for one, held in self.taken.items() if held != slot}
            self.taken[place], self.next_slot = slot, (slot + 1) % self.slots

    async def contribute_some(self, number: int, line: int) -> None:
        """Contribute to a line as one to `FIRST` workers, which no later contribution repeats."""
        self.take(number, line)
        workers = range(self.randint(1, FIRST))
        await self.fill_lines(self.active[number], line, workers, alone=True)

    async def fill_slots(self, count: int, reads: bool = False) -> None:
        """Contribute to new lines of the third region, or read: they take the next slots."""
        for _ in range(count):
            line = self.fillers.pop()
            if reads:
                self.take(self.crowd, line)
                await self.read_lines(self.active[self.crowd], line)
            else:
                await self.contribute_some(self.crowd, line)
            await self.cycles(SETTLED)

    async def last_use(self, leaving: Use, others: int) -> None:
        """Use feature A, while `others` lines take slots; none of them uses A's line.

        The slot of a sum or store in progress is passed over when the next victim is chosen, with
        the last of the lines. A commit frees slots, so it comes last.
        """
        early = leaving[0] != "commit"
        await self.fill_slots(others - early)
        await self.use(*leaving)
        await self.fill_slots(early)

    async def use(self, feature: str, number: int, line: int) -> None:
        """Use a feature in a region, at a line if it is one of requests; B comes last."""
        self.before = self.hits()
        config = self.active[number]
        if feature in ("close", "commit"):
            await (self.close(number) if feature == "close" else self.commit(number))
            return
        damaged = self.taken.get((number, line), self.next_slot)
        holders = {one for one, slot in self.taken.items() if slot == damaged}
        self.take(number, line)
        if feature == "poison":
            self.doubtful.add((number, line))
        reads = feature == "sum"
        if feature in ("vote", "TERN5"):
            reads = self.random() < 0.5 if self.reads is None else self.reads
        if feature == FLIP:
            self.doubtful |= holders
            bits = self.draw_flips(self.ram, self.secded)
            if self.ram == "PARKED":  # its word is there when memory has not answered
                self.doubtful.add((number, line))
                async with self.stalled("r"):
                    await self.fill_lines(config, line, self.late_worker(config), wait=False)
                    await self.cycles(SETTLED)
                    await self.flip(self.ram, 0, bits)
            else:
                row = damaged if self.ram == "BOOK" else self.row(number)
                await self.flip(self.ram, row, bits)
                await self.read_lines(config, line, alone=True)
            await self.cycles(SETTLED)
            assert any(await self.counted()), "the damaged word was not found"
        elif reads:
            await self.read_lines(config, line, alone=True)
        else:
            worker, poison = self.late_worker(config), feature == "poison"
            await self.fill_lines(config, line, worker, alone=True, poison=poison)

    def late_worker(self, config: RegionConfig) -> int:
        """Draw a worker that `contribute_some` leaves out."""
        return self.randrange(FIRST, config.workers)
