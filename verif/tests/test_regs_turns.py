# SPDX-License-Identifier: Apache-2.0
"""The register block: the control window and AXI4-Lite on one bus (second edition, section 9)."""

from __future__ import annotations

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer, with_timeout

from models.regions import CommitCode
from verif.axi import Resp
from verif.tests.packed_structs import layout, pack
from verif.tests.regs_testbench import Bench, raw_read, raw_write, raw_write_held, regs_test


@regs_test
async def window_turns(bench: Bench) -> None:
    """The control window and AXI4-Lite take turns, an access at a time; reads pass its commits."""
    dut = bench.dut
    rng, bus = bench.rng, layout("ctrl_bus_t")
    low, high = (bench.regs[f"REGION[0].{leaf}"].address for leaf in ("BASE_LO", "BASE_HI"))
    epoch, control = (bench.regs[f"REGION[0].{leaf}"].address for leaf in ("EPOCH", "CTRL"))
    line, hole, values = low >> 6, 3, {low: 0, high: 0}

    def drive(**fields: int) -> None:
        dut.ctrl_bus.value = pack(bus, **fields)

    async def answered_before() -> None:
        """A write of the window behind one of AXI4-Lite whose answer still waits."""
        address, expected = rng.choice(((low, Resp.OKAY), (hole << 6, Resp.SLVERR)))
        word = values[low]
        await raw_write_held(dut, address, word)
        for line, at in ((hole, 0), (low >> 6, high >> 2 & 15)):
            drive(lock=1, line=line, write=1, word=at, data=values[high])
            await FallingEdge(dut.clk)
            assert int(dut.s_axil_bresp.value) == expected, "the answer changed while it waited"
            drive()
            await FallingEdge(dut.clk)
        dut.s_axil_bready.value = 1
        await FallingEdge(dut.clk)
        dut.s_axil_bready.value = 0

    async def committing() -> None:
        """AXI4-Lite has a commit under way: the window may not begin."""
        write = cocotb.start_soon(raw_write(dut, epoch, 0, 0xF, 0, 0))
        await RisingEdge(dut.commit_valid)
        for _ in range(3):
            await FallingEdge(dut.clk)
            assert not int(dut.ctrl_free.value), "a bus that is not free"
        dut.commit_done.value, dut.commit_code.value = 1, 0
        await FallingEdge(dut.clk)
        dut.commit_done.value = 0
        assert await with_timeout(write, 1, "us") == Resp.OKAY

    async def closing() -> None:
        """Both write CTRL of the region, one behind the other: one of them closes it."""
        own, data = rng.sample((0, 1), 2)
        while not int(dut.ctrl_free.value):
            await FallingEdge(dut.clk)
        drive(lock=1, line=line, write=1, word=low >> 2 & 15, data=values[low])
        write = cocotb.start_soon(raw_write(dut, control, data, 0xF, 0, 0))
        await ClockCycles(dut.clk, rng.randint(4, 8))
        await FallingEdge(dut.clk)
        drive(lock=1, line=line, write=1, word=control >> 2 & 15, data=own)
        for closes in (own, data):  # of the window, then of AXI4-Lite
            await Timer(1, "ns")
            assert int(dut.commit_close.value) == closes, "a CLOSE that the other one has hidden"
            await FallingEdge(dut.commit_done if closes else dut.clk)  # the bench answers a CLOSE
            drive()
        assert await with_timeout(write, 1, "us") == Resp.OKAY

    for _ in range(60):
        if rng.random() < 0.3:
            await rng.choice((answered_before, committing, closing))()
        gap, axil = rng.randrange(12), rng.choice((low, high, epoch))
        word = rng.getrandbits(20) << 6
        if rng.random() < 0.5:  # a snapshot of a line without registers, beside a read
            read = cocotb.start_soon(raw_read(dut, low))
            await ClockCycles(dut.clk, gap % 4)
            await FallingEdge(dut.clk)
            drive(line=hole, read=1)
            await FallingEdge(dut.clk)
            drive(line=line, read=1)
            await Timer(1, "ns")
            assert int(dut.ctrl_read.value) & 0xFFFF_FFFF == values[low]
            await FallingEdge(dut.clk)
            drive()
            assert await with_timeout(read, 1, "us") == values[low]
            continue
        while not int(dut.ctrl_free.value):
            await FallingEdge(dut.clk)
        await FallingEdge(dut.clk)
        beside = bench.regs["CAP_WINDOW"].address  # its strobes are not those of the window
        other = cocotb.start_soon(raw_write(dut, beside, gap, rng.choice((1, 15)), 0, 0))
        read = cocotb.start_soon(raw_read(dut, high))
        for at, data in ((low, word), (high, gap)):
            drive(lock=1, line=line, write=1, word=at >> 2 & 15, data=data)
            values[at] = data
            await FallingEdge(dut.clk)
            assert not read.done(), "a read between two words of one write"
            if not int(dut.s_axil_arready.value):
                dut.s_axil_araddr.value = low  # of the next read, which nothing has taken yet
        drive(lock=1, line=line, write=1, word=epoch >> 2 & 15, data=word)
        await ClockCycles(dut.clk, 6)
        assert read.done(), "reads go on while a commit is decided"
        assert read.result() == gap
        assert not other.done(), "a write in the turn of the window"
        await FallingEdge(dut.clk)
        assert int(dut.commit_valid.value)
        dut.commit_done.value, dut.commit_code.value = 1, 0
        await FallingEdge(dut.clk)
        dut.commit_done.value = 0
        drive()
        assert await with_timeout(other, 1, "us") == Resp.OKAY
        assert await raw_read(dut, bench.regs["CAP_WINDOW"].address) == gap
        assert await raw_read(dut, axil) == {**values, epoch: word}[axil]


@regs_test
async def move_code(bench: Bench) -> None:
    """CTRL_WINDOW_LO reads as of the last move, whatever the core has said of others, until the
    next one is decided. A write without a strobe moves nothing."""
    dut = bench.dut
    rng, register = bench.rng, bench.regs["CTRL_WINDOW_LO"]
    codes = [CommitCode.OK, CommitCode.BASE_ALIGN, CommitCode.WINDOW_MEMORY]
    before = place = 0
    for code in rng.sample(3 * codes, 3 * len(codes)):
        asked = rng.getrandbits(20) << 12
        dut.commit_code.value = rng.choice([one for one in codes if one != before & 15])
        write = cocotb.start_soon(raw_write(dut, register.address, asked, 0xF, 0, 0))
        await RisingEdge(dut.commit_move)
        for _ in range(3):
            assert await raw_read(dut, register.address) == before, "a move that is not decided"
        await FallingEdge(dut.clk)
        assert not write.done(), "the answer to a move that is not decided"
        dut.commit_done.value, dut.commit_code.value = 1, int(code)
        await FallingEdge(dut.clk)
        dut.commit_done.value = 0
        assert await with_timeout(write, 1, "us") == Resp.OKAY
        place = asked if code is CommitCode.OK else place
        before = place | int(code)
        assert await raw_read(dut, register.address) == before
        nothing = cocotb.start_soon(raw_write(dut, register.address, rng.getrandbits(32), 0, 0, 0))
        await ClockCycles(dut.clk, 50)
        assert nothing.done(), "what moves nothing waits for a move"
        assert nothing.result() == Resp.OKAY
        assert await raw_read(dut, register.address) == before
