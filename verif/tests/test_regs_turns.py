# SPDX-License-Identifier: Apache-2.0
"""Block test of `nf_regs`: control window and AXI4-Lite on one bus (second edition, section 9)."""

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer, with_timeout

from models.commit_check import CommitCode
from verif.axi import Resp
from verif.tests.packed_structs import pack
from verif.tests.regs_testbench import RegsBench, regs_test

HOLE = 3
"""Number of a line of the control window without registers."""


class Turns:
    """Steps of the control window and of AXI4-Lite on the registers of region 0."""

    def __init__(self, bench: RegsBench) -> None:
        self.bench, self.dut, self.rng = bench, bench.dut, bench.rng
        self.low, self.high, self.epoch, self.control = (
            bench.regs[f"REGION[0].{leaf}"].address
            for leaf in ("BASE_LO", "BASE_HI", "EPOCH", "CTRL")
        )
        self.line = self.low >> 6
        self.values = {self.low: 0, self.high: 0}

    def drive(self, **fields: int) -> None:
        """Drive the port `ctrl_bus` of the control window; without fields it is idle."""
        self.dut.ctrl_bus.value = pack("ctrl_bus_t", **fields)

    def write(self, address: int, data: int) -> None:
        """Drive one word of a write by the control window."""
        self.drive(lock=1, line=self.line, write=1, word=address >> 2 & 15, data=data)

    async def until_free(self) -> None:
        """Wait until `ctrl_free` allows the control window to begin."""
        while not int(self.dut.ctrl_free.value):
            await FallingEdge(self.dut.clk)

    async def decide(self) -> None:
        """Answer the pending commit with code OK."""
        self.dut.commit_done.value, self.dut.commit_code.value = 1, 0
        await FallingEdge(self.dut.clk)
        self.dut.commit_done.value = 0

    async def answered_before(self) -> None:
        """Write by the control window while the response of a write by AXI4-Lite waits."""
        dut, low = self.dut, self.low
        address, expected = self.rng.choice(((low, Resp.OKAY), (HOLE << 6, Resp.SLVERR)))
        await self.bench.raw_write_held(address, self.values[low])
        for line, at in ((HOLE, 0), (self.line, self.high >> 2 & 15)):
            self.drive(lock=1, line=line, write=1, word=at, data=self.values[self.high])
            await FallingEdge(dut.clk)
            assert int(dut.s_axil_bresp.value) == expected, "the answer changed while it waited"
            self.drive()
            await FallingEdge(dut.clk)
        dut.s_axil_bready.value = 1
        await FallingEdge(dut.clk)
        dut.s_axil_bready.value = 0

    async def committing(self) -> None:
        """Commit by AXI4-Lite, and check that the control window may not begin meanwhile."""
        write = cocotb.start_soon(self.bench.raw_write(self.epoch, 0))
        await RisingEdge(self.dut.commit_valid)
        for _ in range(3):
            await FallingEdge(self.dut.clk)
            assert not int(self.dut.ctrl_free.value), "a bus that is not free"
        await self.decide()
        assert await with_timeout(write, 1, "us") == Resp.OKAY

    async def closing(self) -> None:
        """Write CTRL of the region by both in turn; one of the two writes is a CLOSE."""
        dut = self.dut
        own, data = self.rng.sample((0, 1), 2)
        await self.until_free()
        self.write(self.low, self.values[self.low])
        write = cocotb.start_soon(self.bench.raw_write(self.control, data))
        await ClockCycles(dut.clk, self.rng.randint(4, 8))
        await FallingEdge(dut.clk)
        self.write(self.control, own)
        for closes in (own, data):  # of the window, then of AXI4-Lite
            await Timer(1, "ns")
            assert int(dut.commit_close.value) == closes, "a CLOSE that the other one has hidden"
            await FallingEdge(dut.commit_done if closes else dut.clk)  # the bench answers a CLOSE
            self.drive()
        assert await with_timeout(write, 1, "us") == Resp.OKAY

    async def snapshot(self) -> None:
        """Read an empty line and the region's by the control window, while AXI4-Lite reads."""
        dut = self.dut
        read = cocotb.start_soon(self.bench.raw_read(self.low))
        await ClockCycles(dut.clk, self.rng.randrange(4))
        await FallingEdge(dut.clk)
        self.drive(line=HOLE, read=1)
        await FallingEdge(dut.clk)
        self.drive(line=self.line, read=1)
        await Timer(1, "ns")
        assert int(dut.ctrl_read.value) & 0xFFFF_FFFF == self.values[self.low]
        await FallingEdge(dut.clk)
        self.drive()
        assert await with_timeout(read, 1, "us") == self.values[self.low]

    async def turn(self) -> None:
        """Write two words and commit by the control window, while AXI4-Lite reads and writes."""
        dut, rng = self.dut, self.rng
        gap, axil = rng.randrange(12), rng.choice((self.low, self.high, self.epoch))
        word = rng.getrandbits(20) << 6
        await self.until_free()
        await FallingEdge(dut.clk)
        # A register elsewhere: its strobes are not those of the window.
        unrelated = self.bench.regs["CAP_WINDOW"].address
        other = cocotb.start_soon(self.bench.raw_write(unrelated, gap, rng.choice((1, 15))))
        read = cocotb.start_soon(self.bench.raw_read(self.high))
        for at, data in ((self.low, word), (self.high, gap)):
            self.write(at, data)
            self.values[at] = data
            await FallingEdge(dut.clk)
            assert not read.done(), "a read between two words of one write"
            if not int(dut.s_axil_arready.value):
                dut.s_axil_araddr.value = self.low  # of the next read, which is not accepted yet
        self.write(self.epoch, word)
        await ClockCycles(dut.clk, 6)
        assert read.done(), "reads go on while a commit is decided"
        assert read.result() == gap
        assert not other.done(), "a write in the turn of the window"
        await FallingEdge(dut.clk)
        assert int(dut.commit_valid.value)
        await self.decide()
        self.drive()
        assert await with_timeout(other, 1, "us") == Resp.OKAY
        assert await self.bench.raw_read(unrelated) == gap
        assert await self.bench.raw_read(axil) == {**self.values, self.epoch: word}[axil]


@regs_test
async def window_turns(bench: RegsBench) -> None:
    """Check that control window and AXI4-Lite take turns access by access; reads pass commits."""
    turns = Turns(bench)
    for _ in range(60):
        if bench.rng.random() < 0.3:
            await bench.rng.choice((turns.answered_before, turns.committing, turns.closing))()
        await bench.rng.choice((turns.snapshot, turns.turn))()


@regs_test
async def move_code(bench: RegsBench) -> None:
    """Check that CTRL_WINDOW_LO reads place and code of the last decided move.

    Codes of other commits do not show. A write without a strobe moves nothing.
    """
    dut = bench.dut
    rng, register = bench.rng, bench.regs["CTRL_WINDOW_LO"]
    codes = [CommitCode.OK, CommitCode.BASE_ALIGN, CommitCode.WINDOW_MEMORY]
    before = place = 0
    for code in rng.sample(3 * codes, 3 * len(codes)):
        asked = rng.getrandbits(20) << 12
        dut.commit_code.value = rng.choice([one for one in codes if one != before & 15])
        write = cocotb.start_soon(bench.raw_write(register.address, asked))
        await RisingEdge(dut.commit_move)
        for _ in range(3):
            assert await bench.raw_read(register.address) == before, "a move that is not decided"
        await FallingEdge(dut.clk)
        assert not write.done(), "the answer to a move that is not decided"
        dut.commit_done.value, dut.commit_code.value = 1, int(code)
        await FallingEdge(dut.clk)
        dut.commit_done.value = 0
        assert await with_timeout(write, 1, "us") == Resp.OKAY
        place = asked if code is CommitCode.OK else place
        before = place | int(code)
        assert await bench.raw_read(register.address) == before
        nothing = cocotb.start_soon(bench.raw_write(register.address, rng.getrandbits(32), 0))
        await ClockCycles(dut.clk, 50)
        assert nothing.done(), "what moves nothing waits for a move"
        assert nothing.result() == Resp.OKAY
        assert await bench.raw_read(register.address) == before
