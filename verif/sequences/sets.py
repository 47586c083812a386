# SPDX-License-Identifier: Apache-2.0
"""Lines of one set of slots: a slot of another set may be free, and none of these may have it."""

from typing import Any

from models.modes import Mode
from models.regions import RegionConfig
from verif.env.rtl_packages import parameter
from verif.sequences.base import NfSequence

POLYNOMIALS = {1: 0b11, 2: 0b111, 3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10000011}
"""Primitive polynomials over GF(2) by their degree."""


def set_of(region: int, index: int, sets: int) -> int:
    """Return the set of a line, as hdl/README.md describes it.

    The index modulo a primitive polynomial is XORed with the number of the region, whose lowest bit
    falls on the highest bit of the set.
    """
    width = sets.bit_length() - 1
    if width == 0:
        return 0

    for bit in reversed(range(width, index.bit_length())):  # long division over GF(2)
        if index >> bit & 1:
            index ^= POLYNOMIALS[width] << bit - width
    return index ^ sum((region >> bit & 1) << width - 1 - bit for bit in range(width))


def slot_of(region: int, index: int, slots: int) -> int:
    """Return the slot of a line where the lines of one region are used in order after a reset."""
    ways = min(parameter("WAYS"), slots)
    sets = slots // ways
    chosen = set_of(region, index, sets)
    before = sum(set_of(region, one, sets) == chosen for one in range(index))
    return ways * chosen + before % ways


def displacing(region: int, count: int, slots: int) -> list[int]:
    """Return new lines that take the slots of lines 0, 1 and so on, the first of all that are used.

    Lines 0 to `slots` - 1 of the region have been used in order; the n-th new line is in the set of
    line n.
    """
    sets = slots // min(parameter("WAYS"), slots)
    new: list[int] = []
    for number in range(count):
        aimed = set_of(region, number, sets)
        line = slots
        while line in new or set_of(region, line, sets) != aimed:
            line += 1
        new.append(line)
    return new


class OneSetSequence(NfSequence):
    """Lines of one set, more than it has slots, while the other slots hold other lines or nothing.

    The set is full while others are empty; then stores or sums of slow memory pin each of its slots
    while the others are not pinned, so that further lines of the set have to wait; commits drop its
    lines meanwhile. The lines of a set come in consecutive clocks. With one set the test is that of
    a device whose slots are all alike.
    """

    spare: int = 3
    """Lines of the set for which there is no slot."""

    async def body(self) -> None:
        ways = min(parameter("WAYS"), self.slots)
        sets = self.slots // ways
        log2 = (sets * (ways + self.spare) - 1).bit_length() + 1
        regions = self.sample(range(self.hw.regions), 2)
        low = self.layout.region(Mode.G_BINARY, log2, 3)
        fp32 = self.layout.region(Mode.FP32, log2, 3)
        await self.commit_all(low, fp32, regions=regions)
        for again in range(4):
            aimed = self.randrange(sets)
            counts, sums = (
                [line for line in range(config.lines) if set_of(region, line, sets) == aimed]
                for region, config in zip(regions, (low, fp32), strict=True)
            )
            await self.full(low, self.sample(counts, ways + self.spare))
            await self.pinned(low, fp32, self.shuffled(counts), self.sample(sums, ways))
            await self.others(low, fp32)
            await self.commit(regions[again % 2])
            if again % 2:  # no request comes: what was dropped is freed nevertheless
                await self.cycles(2 * sets)
        await self.read_lines(low)
        await self.read_lines(fp32)

    async def full(self, low: RegionConfig, lines: list[int]) -> None:
        """Contribute to the lines of the set in one burst, then read them: each misses again."""
        for _ in range(2):
            await self.contribute_each((low, self.randrange(3), line) for line in lines)
            await self.read_lines(low, lines)

    async def pinned(
        self, low: RegionConfig, fp32: RegionConfig, counts: list[int], sums: list[int]
    ) -> None:
        """Pin all slots of the set by FP32 accesses, and use other lines of the set meanwhile."""
        latency = self.randint(60, 200)
        with self.memory(latency=(latency, latency)):
            for line in sums:
                await self.contribute(fp32, self.randrange(3), line)
            if self.randrange(2):
                await self.read_lines(fp32, sums, 0, wait=False)
            await self.contribute_each((low, self.randrange(3), line) for line in counts)

    async def others(self, low: RegionConfig, fp32: RegionConfig) -> None:
        """Use lines of all sets, some of which are those of `full` and `pinned`."""
        share: list[Any] = self.sample(range(low.lines), min(low.lines, 2 * self.slots))
        await self.contribute_each((low, self.randrange(3), line) for line in share)
        await self.read_lines(fp32, self.sample(range(fp32.lines), min(fp32.lines, 4)), 0)
