# SPDX-License-Identifier: Apache-2.0
"""Commits while the bookkeeping lines of a state area are being initialised.

When a region claims a state area, the device overwrites its records in the background; these
sequences commit meanwhile (controller spec §3: old memory content is never taken for state).
"""

from __future__ import annotations

from dataclasses import replace

import cocotb
from cocotb.utils import get_sim_time

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, RegionConfig, record_lines
from verif.env.base_test import NfBaseTest
from verif.env.config import CLOCK_NS, EnvConfig
from verif.env.rtl_packages import parameter
from verif.sequences.base import NfSequence
from verif.sequences.forged_records import ForgedSequence
from verif.sequences.line_data import forged
from verif.tests.decorator import ALL, nf_test


async def _fill(run: NfSequence, config: RegionConfig, lines: range) -> None:
    """Contribute to each line, and again to some lines whose write-back has to wait."""
    workers = 3
    back = run.cfg.hw.slots + 1
    for line in lines:
        await run.contribute(config, line % workers, line)
        if line - back in lines and run.rng.random() < 0.3:
            await run.contribute(config, (line - back + 1) % workers, line - back)


async def _flood(run: NfSequence) -> None:
    """Write 300 times to ordinary memory, faster than memory accepts it."""
    writes = 300
    for number in range(writes):
        await run.write(number % 64 * LINE_BYTES, run.rng.randbytes(LINE_BYTES))


async def _write_all(run: NfSequence, places: list[int], data: bytes) -> None:
    """Write the same line to each of these addresses."""
    for place in places:
        await run.write(place, data)


async def _commit_beside(run: NfSequence, first: bool) -> None:
    """Commit a region while lines of another one are evicted that is being initialised."""
    lines_log2 = 13  # so many that the second commit comes while they are being initialised
    workers = 3
    large = run.layout.region(Mode.G_BINARY, lines_log2, workers)
    other = run.layout.region(Mode.G_TERNARY, 1, 2)
    await run.commit(0, large)
    most = 2 * run.cfg.hw.slots + 8  # more than slots, so that some are evicted
    group = max(1, large.lines >> parameter("WRITTEN_LOG2"))  # lines that share a mark
    start = 3 * group // 4 if first else large.lines - most
    if first:  # a line is evicted, and others of its group are fetched: they wait as well
        await run.contribute(large, 0, start - 1)
        await run.drain()
        await run.read_lines(large, range(start - most, start - 1), wait=False)
    picked = range(start, start + most)
    traffic = cocotb.start_soon(_fill(run, large, picked))
    await run.env.clocks(3 * len(picked))
    await run.commit(1, other)
    await run.contribute(other, 0, 0)
    await traffic
    await run.drain()
    for line in picked:
        await run.read_region(large, line, 0)


async def _read(run: NfSequence) -> None:
    """Read ordinary memory 600 times, as fast as the link answers."""
    reads = 600
    for number in range(reads):
        await run.read(number % 64 * LINE_BYTES)


@nf_test(profiles=ALL)
async def commit_during_init(test: NfBaseTest) -> None:
    """Check a commit of another region while evictions go before the initialiser."""
    await _commit_beside(NfSequence(test.env), first=False)


@nf_test()
async def commit_at_front(test: NfBaseTest) -> None:
    """Check that a commit of another region does not stop an initialiser that evictions wait for.

    The lines that are evicted and fetched are of the group that is being overwritten, where groups
    are large.
    """
    await _commit_beside(NfSequence(test.env), first=True)


@nf_test(profiles=ALL)
async def reshape_during_init(test: NfBaseTest) -> None:
    """Check that the initialiser stops if its region becomes IDENTITY (plain memory)."""
    run = NfSequence(test.env)
    lines_log2 = 10
    first = run.layout.region(Mode.G_BINARY, lines_log2, 3)
    spare = run.layout.region(Mode.IDENTITY, 3, 1)
    plain = type(spare)(spare.base, first.state_base, 3, 1, Mode.IDENTITY)
    await run.commit(0, first)
    await run.commit(0, plain)
    places = [(s, line) for s in (0, 1, 5, 17, 40, 100, 255) for line in range(plain.lines)]
    for selector, line in places:
        await run.write(plain.address(selector, line), run.rng.randbytes(64))
    await run.drain()
    await run.env.clocks(plain.lines * 256)
    for selector, line in places:
        await run.read(plain.address(selector, line))


@nf_test()
async def commit_elsewhere(test: NfBaseTest) -> None:
    """Check that a commit and later requests do not wait for the initialiser of another region.

    Lines of a large region are written back before the initialiser has passed them. All requests
    are answered; a commit of another region waits for none of that, nor do later requests.
    """
    run = NfSequence(test.env)
    lines_log2 = 13
    most = 400  # clocks; the initialiser takes 8,192 and more
    hw = run.cfg.hw
    large = run.layout.region(Mode.G_BINARY, lines_log2, 3)
    other = run.layout.region(Mode.G_TERNARY, 1, 2)
    await run.commit(1, other)
    await run.initialised()
    await run.commit(0, large)
    for line in range(large.lines - hw.slots - 2, large.lines):  # two are evicted
        await run.contribute(large, 0, line)
    await run.drain()
    commit = cocotb.start_soon(run.commit(1))
    await run.env.clocks(60)
    began = get_sim_time("ns")
    await run.read(0)
    await run.drain()
    await commit
    took = (get_sim_time("ns") - began) / CLOCK_NS
    assert took < most, f"a commit and a read of ordinary memory took {took:.0f} clocks"
    assert await run.env.registers.read("STATUS.INIT_BUSY"), "nothing had to wait"


@nf_test()
async def queued_beside(test: NfBaseTest) -> None:
    """Check that a region that waits for the initialiser leaves lines of other regions unchanged.

    The first region waits for the initialiser while lines of the last one are fetched: those are
    as they were written back.
    """
    run = NfSequence(test.env)
    lines_log2 = 11  # of the region in work: it is, until everything has been read
    workers = 3
    hw = run.cfg.hw
    last = run.layout.region(Mode.G_BINARY, (2 * hw.slots).bit_length(), workers)
    large = run.layout.region(Mode.G_BINARY, lines_log2, workers)
    first = run.layout.region(Mode.G_TERNARY, 1, 2)
    await run.commit(hw.regions - 1, last)
    await run.initialised()
    for line in range(3 * hw.slots):
        await run.contribute(last, line % workers, line % last.lines)
    await run.drain()
    await run.commit(1, large)
    await run.commit(0, first)
    for line in range(2 * hw.slots):
        await run.read_region(last, line, 0)
    await run.drain()
    busy = await run.env.registers.read("STATUS.INIT_BUSY")
    assert busy, "the first region did not wait for so long"


@nf_test()
async def cancelled_at_once(test: NfBaseTest) -> None:
    """Check that the area of a region that becomes IDENTITY before its turn is not initialised.

    The commit comes in each of the clocks around the one in which the initialiser begins with it.
    """
    run = NfSequence(test.env)
    lines_log2 = 8  # of the region before it: two commits take less time
    before = 40  # lines that are left to it when the sweep begins
    clocks = 48
    store, hw = run.env.mem.store, run.cfg.hw
    here, there = (run.layout.region(Mode.G_BINARY, lines_log2, 3) for _ in range(2))
    queued = run.layout.region(Mode.G_TERNARY, 6, 3)
    plain = replace(queued, mode=Mode.IDENTITY, lines_log2=0)
    for delay in range(1, clocks):
        area = (here, there)[delay % 2]  # another one than before: it is initialised
        front = area.state_line + (area.lines - before) * record_lines(3, hw.cnt_w)
        store.write(front, 1)
        await run.commit(0, replace(here, state_base=area.state_base))
        await run.commit(1, queued)
        await run.env.registers.write_shadow(1, plain)
        assert store.read(front)[0], "its turn has come before the commit"
        while store.read(front)[0]:
            await run.env.clocks(1)
        await run.env.clocks(delay)
        await run.commit(1)


@nf_test()
async def flooded(test: NfBaseTest) -> None:
    """Check that the initialiser completes while the memory port is never idle.

    It gives way to other writes for at most seven clocks at a time.
    """
    run = NfSequence(test.env)
    lines_log2 = 4
    region = run.layout.region(Mode.G_BINARY, lines_log2, 3)
    run.env.cfg.mem.w_stall = 0.6
    flood = cocotb.start_soon(_flood(run))
    await run.env.clocks(60)
    await run.commit(0, region)
    await run.initialised()
    assert not flood.done(), "the last record came after the writes of all others"
    await flood


@nf_test()
async def evictions_first(test: NfBaseTest) -> None:
    """Check that more write-backs than the device holds wait for one group, not for all lines."""
    run = NfSequence(test.env)
    lines_log2 = 13
    hw = run.cfg.hw
    large = run.layout.region(Mode.G_BINARY, lines_log2, 3)
    group = max(1, large.lines >> parameter("WRITTEN_LOG2"))  # lines that share a mark
    many = 2 * hw.slots + 16
    most = 40 * many + 4 * group  # clocks
    await run.commit(0, large)
    began = get_sim_time("ns")
    for line in range(large.lines - many, large.lines):
        await run.contribute(large, 0, line)
    await run.drain()
    took = (get_sim_time("ns") - began) / CLOCK_NS
    assert took < most, f"{many} contributions took {took:.0f} clocks, allowed {most}"
    busy = await run.env.registers.read("STATUS.INIT_BUSY")
    assert busy or most > large.lines, "the initialiser has finished: nothing had to go before it"


@nf_test()
async def commit_under_misses(test: NfBaseTest) -> None:
    """Check commits of a region whose lines are evicted meanwhile by misses of another one.

    A line that leaves its slot when the commit comes must not count in the new epoch.
    """
    run = NfSequence(test.env)
    hw = run.cfg.hw
    log2 = (2 * hw.slots).bit_length()
    own, other = (run.layout.region(Mode.G_BINARY, log2, 3) for _ in range(2))
    await run.commit(1, other, ready=True)
    await run.commit(0, own, ready=True)
    for number in range(max(3, 160 // hw.slots)):
        lines = run.sample(range(own.lines), hw.slots)
        await run.fill_lines(own, lines, 0)
        misses = cocotb.start_soon(
            run.fill_lines(other, run.sample(range(other.lines), 2 * hw.slots), number % 3)
        )
        await run.cycles(run.randrange(3 * hw.slots))
        await run.commit(0)
        await misses
        await run.read_lines(own, lines, INFO_SELECTOR)


def slow_memory(cfg: EnvConfig) -> None:
    """Let memory answer after 2 to 60 cycles and in another order; writes may land that late."""
    cfg.mem.latency = (2, 60)
    cfg.mem.reorder = True


@nf_test(configure=slow_memory)
async def area_in_use(test: NfBaseTest) -> None:
    """Check that ordinary writes to an area wait while a commit that claims it drains.

    They would reach memory after the commit, where they must never be taken for state.
    """
    run = ForgedSequence(test.env)
    lines_log2 = 5
    spare = await run.start_region(1, Mode.G_BINARY, 0, 1)
    await run.call(run.read_msg(spare.address(255, 0)))  # ERR_INFO shows the first refusal
    for generation in range(1, 11):
        config = run.layout.region(Mode.G_BINARY, lines_log2, 3)
        lines = run.shuffled(range(config.lines))
        places = [run.bookkeeping(config, line) * LINE_BYTES for line in lines]
        data = forged(generation, run.bitmap(config))
        await run.registers.write_shadow(0, config)
        with run.memory(latency=(300, 300)):
            await run.write(0, run.randbytes(LINE_BYTES))
            await run.cycles(40)
        commit = cocotb.start_soon(run.commit(0))
        await run.cycles(100)
        flood = cocotb.start_soon(_write_all(run, places, data))
        await commit
        await flood
        await run.drain()
        await run.initialised()
        await run.fill_lines(config, lines[0], 0)  # evicted, it has a mark for all of its group
        await run.read_lines(config, lines[1:] + lines, INFO_SELECTOR, limit=1)


@nf_test()
async def commit_again(test: NfBaseTest) -> None:
    """Check that a commit of a region that is being initialised waits for no record to come."""
    run = NfSequence(test.env)
    lines_log2 = 13
    most = 400  # clocks; the initialiser takes 8,192 and more
    large = run.layout.region(Mode.G_BINARY, lines_log2, 3)
    await run.commit(0, large)
    began = get_sim_time("ns")
    await run.commit(0)
    took = (get_sim_time("ns") - began) / CLOCK_NS
    assert took < most, f"the second commit took {took:.0f} clocks, allowed {most}"
    assert await run.env.registers.read("STATUS.INIT_BUSY"), "nothing was left to initialise"
    await run.drain()


@nf_test()
async def close_under_load(test: NfBaseTest) -> None:
    """Check that CLOSE ends while answers of others keep the link busy."""
    run = NfSequence(test.env)
    config = await run.start_region(0, Mode.G_BINARY, 0, 3)
    await run.fill_lines(config, 0, 0)
    flood = cocotb.start_soon(_read(run))
    await run.cycles(100)
    await run.close(0)
    assert not flood.done(), "CLOSE has waited for all reads of others"
    await flood
