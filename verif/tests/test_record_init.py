# SPDX-License-Identifier: Apache-2.0
"""Commits while the bookkeeping lines of a state area are being initialised.

When a region claims a state area, the device overwrites its records in the background; these
sequences commit meanwhile (controller spec §3: old memory content is never taken for state).
"""

from __future__ import annotations

from dataclasses import replace

import cocotb
from cocotb.utils import get_sim_time

from models.line_packing import LINE_BYTES, Mode
from models.regions import RegionConfig, record_lines
from verif.env.config import CLOCK_NS
from verif.sequences.base import NfSequence
from verif.tests.decorator import ALL, nf_test


class CommitDuringInitSequence(NfSequence):
    """Evictions wait for the initialiser to pass their record; a commit must not stop it."""

    lines_log2: int = 13  # so many that the second commit comes while they are being initialised
    workers: int = 3

    async def body(self) -> None:
        large = self.layout.region(Mode.G_BINARY, self.lines_log2, self.workers)
        other = self.layout.region(Mode.G_TERNARY, 1, 2)
        await self.commit(0, large)
        # The highest lines are initialised last; more of them than slots, so that some are evicted.
        picked = range(large.lines - 2 * self.cfg.hw.slots - 8, large.lines)
        traffic = cocotb.start_soon(self.fill(large, picked))
        await self.env.clocks(3 * len(picked))
        await self.commit(1, other)
        await self.contribute(other, 0, 0)
        await traffic
        await self.drain()
        for line in picked:
            await self.read_region(large, line, 0)

    async def fill(self, config: RegionConfig, lines: range) -> None:
        """One contribution to each line, and again to some whose write-back has to wait."""
        back = self.cfg.hw.slots + 1
        for line in lines:
            await self.contribute(config, line % self.workers, line)
            if line - back in lines and self.rng.random() < 0.3:
                await self.contribute(config, (line - back + 1) % self.workers, line - back)


class CommitElsewhereSequence(NfSequence):
    """Lines of a large region wait to be written back until the initialiser has passed them. All
    is answered; a commit of another region waits for none of that, nor does anybody behind it."""

    lines_log2: int = 13
    most: int = 400  # clocks; the initialiser takes 8,192 and more

    async def body(self) -> None:
        hw = self.cfg.hw
        large = self.layout.region(Mode.G_BINARY, self.lines_log2, 3)
        other = self.layout.region(Mode.G_TERNARY, 1, 2)
        await self.commit(1, other)
        await self.initialised()
        await self.commit(0, large)
        for line in range(large.lines - hw.slots - 2, large.lines):  # two are evicted
            await self.contribute(large, 0, line)
        await self.drain()
        commit = cocotb.start_soon(self.commit(1))
        await self.env.clocks(60)
        began = get_sim_time("ns")
        await self.read(0)
        await self.drain()
        await commit
        took = (get_sim_time("ns") - began) / CLOCK_NS
        assert took < self.most, f"a commit and a read of ordinary memory took {took:.0f} clocks"
        assert await self.env.registers.read("STATUS.INIT_BUSY"), "nothing had to wait"


class ReshapeDuringInitSequence(NfSequence):
    """A region becomes IDENTITY: the initialiser must stop, as its area is plain memory now."""

    lines_log2: int = 10

    async def body(self) -> None:
        first = self.layout.region(Mode.G_BINARY, self.lines_log2, 3)
        spare = self.layout.region(Mode.IDENTITY, 3, 1)
        plain = type(spare)(spare.base, first.state_base, 3, 1, Mode.IDENTITY)
        await self.commit(0, first)
        await self.commit(0, plain)
        places = [(s, line) for s in (0, 1, 5, 17, 40, 100, 255) for line in range(plain.lines)]
        for selector, line in places:
            await self.write(plain.address(selector, line), self.rng.randbytes(64))
        await self.drain()
        await self.env.clocks(plain.lines * 256)
        for selector, line in places:
            await self.read(plain.address(selector, line))


class QueuedBesideSequence(NfSequence):
    """The first region waits for the initialiser while lines of the last one are fetched: those are
    as they were written back."""

    lines_log2: int = 11  # of the region in work: it is, until everything has been read
    workers: int = 3

    async def body(self) -> None:
        hw = self.cfg.hw
        last = self.layout.region(Mode.G_BINARY, (2 * hw.slots).bit_length(), self.workers)
        large = self.layout.region(Mode.G_BINARY, self.lines_log2, self.workers)
        first = self.layout.region(Mode.G_TERNARY, 1, 2)
        await self.commit(hw.regions - 1, last)
        await self.initialised()
        for line in range(3 * hw.slots):
            await self.contribute(last, line % self.workers, line % last.lines)
        await self.drain()
        await self.commit(1, large)
        await self.commit(0, first)
        for line in range(2 * hw.slots):
            await self.read_region(last, line, 0)
        await self.drain()
        busy = await self.env.registers.read("STATUS.INIT_BUSY")
        assert busy, "the first region did not wait for so long"


class CancelledAtOnceSequence(NfSequence):
    """A region that waits for the initialiser becomes IDENTITY memory in each of the clocks around
    the one in which its turn comes: nothing is written to it any more."""

    lines_log2: int = 8  # of the region before it: two commits take less time
    before: int = 40  # lines that are left to it when the sweep begins
    clocks: int = 48

    async def body(self) -> None:
        store, hw = self.env.mem.store, self.cfg.hw
        here, there = (self.layout.region(Mode.G_BINARY, self.lines_log2, 3) for _ in range(2))
        queued = self.layout.region(Mode.G_TERNARY, 6, 3)
        plain = replace(queued, mode=Mode.IDENTITY, lines_log2=0)
        for delay in range(1, self.clocks):
            area = (here, there)[delay % 2]  # another one than before: it is initialised
            front = area.state_line + (area.lines - self.before) * record_lines(3, hw.cnt_w)
            store.write(front, 1)
            await self.commit(0, replace(here, state_base=area.state_base))
            await self.commit(1, queued)
            await self.env.registers.write_shadow(1, plain)
            assert store.read(front)[0], "its turn has come before the commit"
            while store.read(front)[0]:
                await self.env.clocks(1)
            await self.env.clocks(delay)
            await self.commit(1)


class FloodedSequence(NfSequence):
    """Others write without end: the initialiser gives way to them, for seven clocks at a time."""

    writes: int = 300
    lines_log2: int = 4

    async def body(self) -> None:
        region = self.layout.region(Mode.G_BINARY, self.lines_log2, 3)
        self.env.cfg.mem.w_stall = 0.6
        flood = cocotb.start_soon(self.flood())
        await self.env.clocks(60)
        await self.commit(0, region)
        await self.initialised()
        assert not flood.done(), "the last record came behind the writes of all others"
        await flood

    async def flood(self) -> None:
        """Writes of ordinary memory, faster than memory takes them."""
        for number in range(self.writes):
            await self.write(number % 64 * LINE_BYTES, self.rng.randbytes(LINE_BYTES))


@nf_test(CommitDuringInitSequence, profiles=ALL)
def commit_during_init() -> None:
    """A commit elsewhere while evictions wait for the initialiser."""


@nf_test(ReshapeDuringInitSequence, profiles=ALL)
def reshape_during_init() -> None:
    """A region becomes IDENTITY before its records are all initialised."""


@nf_test(CommitElsewhereSequence)
def commit_elsewhere() -> None:
    """A commit, and who comes behind it, does not wait for another region's initialiser."""


@nf_test(QueuedBesideSequence)
def queued_beside() -> None:
    """Who waits for the initialiser makes no line of another region an empty one."""


@nf_test(CancelledAtOnceSequence)
def cancelled_at_once() -> None:
    """What needs no records any more is not initialised, whenever that becomes known."""


@nf_test(FloodedSequence)
def flooded() -> None:
    """The initialiser comes to its end while the memory port is never idle."""
