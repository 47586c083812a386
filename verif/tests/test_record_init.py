# SPDX-License-Identifier: Apache-2.0
"""Commits while the bookkeeping lines of a state area are being initialised.

When a region claims a state area, the device overwrites its records in the background; these
sequences commit meanwhile (controller spec §3: old memory content is never taken for state).
"""

from collections.abc import Awaitable
from dataclasses import replace

import cocotb
from cocotb.utils import get_sim_time

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, RegionConfig, record_lines
from verif.env.config import CLOCK_NS, EnvConfig
from verif.env.rtl_packages import parameter
from verif.sequences.base import NfSequence
from verif.sequences.forged_records import ForgedSequence
from verif.sequences.line_data import forged
from verif.tests.decorator import ALL, nf_test

MOST = 400
"""Clocks that an operation may take which waits for no record; the initialiser takes 8,192."""


async def _fill(run: NfSequence, config: RegionConfig, lines: range) -> None:
    """Contribute to each line, and again to some lines whose write-back has to wait."""
    back = run.slots + 1
    for line in lines:
        await run.contribute(config, line % 3, line)
        if line - back in lines and run.random() < 0.3:
            await run.contribute(config, (line - back + 1) % 3, line - back)


async def _flood(run: NfSequence) -> None:
    """Write 300 times to ordinary memory, faster than memory accepts it."""
    for number in range(300):
        await run.write(number % 64 * LINE_BYTES, run.randbytes(LINE_BYTES))


async def _commit_beside(run: NfSequence, first: bool) -> None:
    """Commit a region while lines of another one are evicted that is being initialised."""
    # So many lines that the second commit comes while they are being initialised.
    large, other = _regions(run, (Mode.G_BINARY, 13, 3), (Mode.G_TERNARY, 1, 2))
    await run.commit(0, large)
    most = 2 * run.slots + 8  # more than slots, so that some are evicted
    group = max(1, large.lines >> parameter("WRITTEN_LOG2"))  # lines that share a mark
    start = 3 * group // 4 if first else large.lines - most
    if first:  # a line is evicted, and others of its group are fetched: they wait as well
        await run.fill_lines(large, start - 1, 0)
        await run.read_lines(large, range(start - most, start - 1), wait=False)
    picked = range(start, start + most)
    traffic = cocotb.start_soon(_fill(run, large, picked))
    await run.cycles(3 * len(picked))
    await run.commit(1, other)
    await run.contribute(other, 0, 0)
    await traffic
    await run.drain()
    await run.read_lines(large, picked)


async def _read(run: NfSequence) -> None:
    """Read ordinary memory 600 times, as fast as the link answers."""
    for number in range(600):
        await run.read(number % 64 * LINE_BYTES)


def _regions(run: NfSequence, *shapes: tuple[Mode, int, int]) -> list[RegionConfig]:
    """Place regions of (mode, log2 of the number of lines, number of workers), without a commit."""
    return [run.layout.region(*shape) for shape in shapes]


async def _clocks(work: Awaitable[object]) -> float:
    """Return the clocks that an operation takes."""
    began = get_sim_time("ns")
    await work
    return (get_sim_time("ns") - began) / CLOCK_NS


@nf_test(NfSequence, profiles=ALL)
async def commit_during_init(run: NfSequence) -> None:
    """Check a commit of another region while evictions go before the initialiser."""
    await _commit_beside(run, first=False)


@nf_test(NfSequence)
async def commit_at_front(run: NfSequence) -> None:
    """Check that a commit of another region does not stop an initialiser that evictions wait for.

    The lines that are evicted and fetched are of the group that is being overwritten, where groups
    are large.
    """
    await _commit_beside(run, first=True)


@nf_test(NfSequence, profiles=ALL)
async def reshape_during_init(run: NfSequence) -> None:
    """Check that the initialiser stops if its region becomes IDENTITY (plain memory)."""
    first, spare = _regions(run, (Mode.G_BINARY, 10, 3), (Mode.IDENTITY, 3, 1))
    plain = replace(spare, state_base=first.state_base)
    for config in (first, plain):
        await run.commit(0, config)
    places = [(s, line) for s in (0, 1, 5, 17, 40, 100, 255) for line in range(plain.lines)]
    for selector, line in places:
        await run.write(plain.address(selector, line), run.randbytes(64))
    await run.drain()
    await run.cycles(plain.lines * 256)
    await run.read_addresses(plain.address(*place) for place in places)


@nf_test(NfSequence)
async def commit_elsewhere(run: NfSequence) -> None:
    """Check that a commit and later requests do not wait for the initialiser of another region.

    Lines of a large region are written back before the initialiser has passed them. All requests
    are answered; a commit of another region waits for none of that, nor do later requests.
    """
    large, other = _regions(run, (Mode.G_BINARY, 13, 3), (Mode.G_TERNARY, 1, 2))
    await run.commit(1, other, ready=True)
    await run.commit(0, large)
    await run.fill_lines(large, range(large.lines - run.slots - 2, large.lines), 0)  # evicts two
    commit = cocotb.start_soon(run.commit(1))
    await run.cycles(60)
    took = await _clocks(run.read_addresses([0])) + await _clocks(commit)
    assert took < MOST, f"a commit and a read of ordinary memory took {took:.0f} clocks"
    assert await run.registers.read("STATUS.INIT_BUSY"), "nothing had to wait"


@nf_test(NfSequence)
async def queued_beside(run: NfSequence) -> None:
    """Check that a region that waits for the initialiser leaves lines of other regions unchanged.

    The first region waits for the initialiser while lines of the last one are fetched: those are
    as they were written back.
    """
    last, large, first = _regions(
        run,
        (Mode.G_BINARY, (2 * run.slots).bit_length(), 3),
        (Mode.G_BINARY, 11, 3),  # being initialised until everything has been read
        (Mode.G_TERNARY, 1, 2),
    )
    await run.commit(run.hw.regions - 1, last, ready=True)
    await run.contribute_each((last, n % 3, n % last.lines) for n in range(3 * run.slots))
    await run.commit(1, large)
    await run.commit(0, first)
    await run.read_lines(last, range(2 * run.slots))
    busy = await run.registers.read("STATUS.INIT_BUSY")
    assert busy, "the first region did not wait for so long"


@nf_test(NfSequence)
async def cancelled_at_once(run: NfSequence) -> None:
    """Check that the area of a region that becomes IDENTITY before its turn is not initialised.

    The commit comes in each of the clocks around the one in which the initialiser begins with it.
    """
    before = 40  # lines that are left to the region before it when the sweep begins
    store = run.env.mem.store
    # Two commits take less time than these lines.
    here, there, queued = _regions(run, *[(Mode.G_BINARY, 8, 3)] * 2, (Mode.G_TERNARY, 6, 3))
    plain = replace(queued, mode=Mode.IDENTITY, lines_log2=0)
    for delay in range(1, 48):
        area = (here, there)[delay % 2]  # another one than before: it is initialised
        front = area.state_line + (area.lines - before) * record_lines(3, run.hw.cnt_w)
        store.write(front, 1)
        await run.commit(0, replace(here, state_base=area.state_base))
        await run.commit(1, queued)
        await run.registers.write_shadow(1, plain)
        assert store.read(front)[0], "its turn has come before the commit"
        while store.read(front)[0]:
            await run.cycles(1)
        await run.cycles(delay)
        await run.commit(1)


@nf_test(NfSequence)
async def flooded(run: NfSequence) -> None:
    """Check that the initialiser completes while the memory port is never idle.

    It gives way to other writes for at most seven clocks at a time.
    """
    region = run.layout.region(Mode.G_BINARY, 4, 3)
    run.mem.w_stall = 0.6
    flood = cocotb.start_soon(_flood(run))
    await run.cycles(60)
    await run.commit(0, region, ready=True)
    assert not flood.done(), "the last record came after the writes of all others"
    await flood


@nf_test(NfSequence)
async def evictions_first(run: NfSequence) -> None:
    """Check that more write-backs than the device holds wait for one group, not for all lines."""
    large = run.layout.region(Mode.G_BINARY, 13, 3)
    group = max(1, large.lines >> parameter("WRITTEN_LOG2"))  # lines that share a mark
    many = 2 * run.slots + 16
    most = 40 * many + 4 * group  # clocks
    await run.commit(0, large)
    took = await _clocks(run.fill_lines(large, range(large.lines - many, large.lines), 0))
    assert took < most, f"{many} contributions took {took:.0f} clocks, allowed {most}"
    busy = await run.registers.read("STATUS.INIT_BUSY")
    assert busy or most > large.lines, "the initialiser has finished: nothing had to go before it"


@nf_test(NfSequence)
async def commit_under_misses(run: NfSequence) -> None:
    """Check commits of a region whose lines are evicted meanwhile by misses of another one.

    A line that leaves its slot when the commit comes must not count in the new epoch.
    """
    own, other = _regions(run, *[(Mode.G_BINARY, (2 * run.slots).bit_length(), 3)] * 2)
    await run.commit(1, other, ready=True)
    await run.commit(0, own, ready=True)
    for number in range(max(3, 160 // run.slots)):
        lines = run.sample(range(own.lines), run.slots)
        await run.fill_lines(own, lines, 0)
        missed = run.sample(range(other.lines), 2 * run.slots)
        misses = cocotb.start_soon(run.fill_lines(other, missed, number % 3))
        await run.cycles(run.randrange(3 * run.slots))
        await run.commit(0)
        await misses
        await run.read_lines(own, lines, INFO_SELECTOR)


def slow_memory(cfg: EnvConfig) -> None:
    """Let memory answer after 2 to 60 cycles and in another order; writes may land that late."""
    cfg.mem.latency = (2, 60)
    cfg.mem.reorder = True


@nf_test(ForgedSequence, configure=slow_memory)
async def area_in_use(run: ForgedSequence) -> None:
    """Check that ordinary writes to an area wait while a commit that claims it drains.

    They would reach memory after the commit, where they must never be taken for state.
    """
    spare = await run.start_region(1, Mode.G_BINARY, 0, 1)
    await run.fetch(spare.address(255, 0))  # ERR_INFO shows the first refusal
    for generation in range(1, 11):
        config = run.layout.region(Mode.G_BINARY, 5, 3)
        lines = run.shuffled(range(config.lines))
        places = [run.bookkeeping(config, line) * LINE_BYTES for line in lines]
        data = forged(generation, run.bitmap(config))
        await run.registers.write_shadow(0, config)
        with run.memory(latency=(300, 300)):
            await run.write(0, run.randbytes(LINE_BYTES))
            await run.cycles(40)
        commit = cocotb.start_soon(run.commit(0))
        await run.cycles(100)
        for place in places:
            await run.write(place, data)
        await commit
        await run.drain()
        await run.initialised()
        await run.fill_lines(config, lines[0], 0)  # evicted, it has a mark for all of its group
        await run.read_lines(config, lines[1:] + lines, INFO_SELECTOR, limit=1)


@nf_test(NfSequence)
async def commit_again(run: NfSequence) -> None:
    """Check that a commit of a region that is being initialised waits for no record to come."""
    await run.start_region(0, Mode.G_BINARY, 13, 3)
    took = await _clocks(run.commit(0))
    assert took < MOST, f"the second commit took {took:.0f} clocks, allowed {MOST}"
    assert await run.registers.read("STATUS.INIT_BUSY"), "nothing was left to initialise"


@nf_test(NfSequence)
async def close_under_load(run: NfSequence) -> None:
    """Check that CLOSE ends while answers of others keep the link busy."""
    config = await run.start_region(0, Mode.G_BINARY, 0, 3)
    await run.fill_lines(config, 0, 0)
    flood = cocotb.start_soon(_read(run))
    await run.cycles(100)
    await run.close(0)
    assert not flood.done(), "CLOSE has waited for all reads of others"
    await flood
