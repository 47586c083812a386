# SPDX-License-Identifier: Apache-2.0
"""Block test of a protected RAM alone (`nf_data_fifo`): bits flip in rows whose message waits."""

import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, Timer

from verif.parameters import build_parameters
from verif.tests.packed_structs import pack, unpack
from verif.tests.ports import block_test

DEFAULTS = {"RAM": 0, "ECC": 1, "WIDTH": 520, "DATA_W": 512, "DEPTH": 2, "INJECT_DATA": 0}
PARAMETERS = {**DEFAULTS, **build_parameters()}
ECC, WIDTH, DATA_W, DEPTH = (PARAMETERS[name] for name in ("ECC", "WIDTH", "DATA_W", "DEPTH"))
WORDS = -(-DATA_W // 64)
NONE, PARITY, SECDED = range(3)
GROUPS = 1 << (WORDS - 1).bit_length()
CHECK_W = (1, GROUPS, 8 * WORDS)[ECC]
TOTAL = DATA_W + CHECK_W
FOLDED = ECC == PARITY and not PARAMETERS["INJECT_DATA"]
"""A flip inverts the parity bit of its group, and no bit of the data."""


@dataclass
class RamRow:
    """Row of the FIFO: the message as it was written, and the numbers of its wrong bits."""

    word: int
    flips: list[int] = field(default_factory=list)

    def code_words(self) -> list[int]:
        """Return the number of wrong bits in each code word (data and check bits) of the row."""
        wrong = [0] * GROUPS
        for place in self.flips:
            if ECC == PARITY:
                wrong[(place if place < DATA_W else place - DATA_W) % GROUPS] += 1
            else:
                wrong[place // 64 if place < DATA_W else (place - DATA_W) // 8] += 1
        return wrong

    @property
    def bad(self) -> bool:
        """True if the code detects an error that it cannot correct."""
        if ECC == NONE:
            return False
        words = self.code_words()
        return any(n % 2 for n in words) if ECC == PARITY else 2 in words

    @property
    def corrected(self) -> bool:
        return ECC == SECDED and not self.bad and bool(self.flips)

    @property
    def data(self) -> int:
        """Data that the RAM must return: corrected or as written, or with the wrong bits."""
        if self.corrected or FOLDED:
            return self.word
        return self.word ^ sum(1 << place for place in self.flips if place < DATA_W)


class RamBench:
    """Testbench of `nf_data_fifo` with bit flips.

    Messages are numbered from 0; message n is in row n modulo DEPTH.
    """

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.rows: deque[RamRow] = deque()
        self.pushed = self.popped = 0
        self.seen = {"clean": 0, "bad": 0, "corrected": 0}

    async def start(self) -> Self:
        """Reset, and return the testbench."""
        dut = self.dut
        dut.rst_n.value, dut.flip.value = 0, 0
        dut.in_valid.value, dut.in_data.value, dut.out_ready.value = 0, 0, 0
        Clock(dut.clk, 10, unit="ns", impl="gpi").start()
        await ClockCycles(dut.clk, 3)
        await FallingEdge(dut.clk)
        dut.rst_n.value = 1
        await FallingEdge(dut.clk)
        return self

    async def push(self) -> RamRow:
        row = RamRow(self.rng.choice((0, (1 << WIDTH) - 1, self.rng.getrandbits(WIDTH))))
        assert int(self.dut.in_ready.value)
        self.dut.in_valid.value, self.dut.in_data.value = 1, row.word
        await FallingEdge(self.dut.clk)
        self.dut.in_valid.value = 0
        self.rows.append(row)
        self.pushed += 1
        return row

    async def flip(self, number: int, place: int, ram: int = PARAMETERS["RAM"]) -> None:
        """Flip the bit `place` of the message `number`."""
        await self.flip_row(number % DEPTH, place, ram)

    async def push_beside(self, row: int, place: int) -> RamRow:
        """Push a message in the clock in which a bit of a row flips; return its row."""
        self.dut.flip.value = pack(
            "ram_flip_t", valid=1, ram=PARAMETERS["RAM"], row=row, place=place
        )
        pushed = await self.push()
        self.dut.flip.value = 0
        return pushed

    async def flip_row(self, row: int, place: int, ram: int = PARAMETERS["RAM"]) -> None:
        """Flip a bit of a row; without effect if the RAM has no such row or another number."""
        self.dut.flip.value = pack("ram_flip_t", valid=1, ram=ram, row=row, place=place)
        await FallingEdge(self.dut.clk)
        self.dut.flip.value = 0

    async def pop(self) -> None:
        """Pop the oldest message; check data, `out_bad` and the reported fault."""
        dut, row = self.dut, self.rows.popleft()
        await Timer(1, "ns")
        assert int(dut.out_valid.value)
        assert not unpack("ram_fault_t", int(dut.fault.value))["bad"], (
            "a fault of what nobody takes"
        )
        dut.out_ready.value = 1
        await ReadOnly()
        fault, out = unpack("ram_fault_t", int(dut.fault.value)), int(dut.out_data.value)
        assert out == row.data, f"{row.flips}: {out ^ row.word:#x} is wrong"
        assert int(dut.out_bad.value) == row.bad, f"{row.flips}: bad is {dut.out_bad.value}"
        assert fault["bad"] == row.bad, f"{row.flips}: {fault}"
        assert fault["corrected"] == row.corrected, f"{row.flips}: {fault}"
        if row.bad or row.corrected:
            assert fault["row"] == self.popped % DEPTH
        self.seen["bad" if row.bad else "corrected" if row.corrected else "clean"] += 1
        self.popped += 1
        await FallingEdge(dut.clk)
        dut.out_ready.value = 0


def pairs(rng: random.Random) -> Iterator[tuple[int, int]]:
    """Yield pairs of different bits of a row, most of them close or in one code word."""
    while True:
        first = rng.randrange(TOTAL)
        parity = DATA_W + first % GROUPS
        places = (first - 1, first + 1, first ^ 7, first + GROUPS, parity)
        near = [at for at in places if 0 <= at < TOTAL]
        second = rng.choice([*near, rng.randrange(TOTAL)])
        if first != second:
            yield first, second


@block_test(lambda dut: RamBench(dut).start())
async def every_bit(bench: RamBench) -> None:
    """Check each single bit of a row, data and check: detected (parity) or corrected (SECDED)."""
    for place in range(TOTAL):
        row = await bench.push()
        await bench.flip(bench.pushed - 1, place)
        row.flips.append(place)
        await bench.pop()
    want = {NONE: "clean", PARITY: "bad", SECDED: "corrected"}[ECC]
    assert bench.seen[want] == TOTAL, bench.seen


@block_test(lambda dut: RamBench(dut).start())
async def two_bits(bench: RamBench) -> None:
    """Check two wrong bits of a row: with SECDED bad in one code word, corrected in two."""
    for places in itertools.islice(pairs(bench.rng), 400):
        row = await bench.push()
        for place in places:
            await bench.flip(bench.pushed - 1, place)
            row.flips.append(place)
        await bench.pop()
    if ECC == SECDED:
        assert bench.seen["clean"] == 0, "two wrong bits were not seen"
        assert min(bench.seen["bad"], bench.seen["corrected"]) > 50, bench.seen


class FlipLife(RamBench):
    """Testbench of random steps that models which flips the RAM keeps: the last two."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut)
        self.flipped: deque[RamRow] = deque(maxlen=2)
        self.written_over = self.meanwhile = 0

    def mark(self, row: RamRow, place: int) -> bool:
        """Note a flip, by which the oldest of two heals; return False if this bit is wrong."""
        if place in row.flips:
            return False
        if len(self.flipped) == 2:
            self.flipped[0].flips.pop(0)
        self.flipped.append(row)
        row.flips.append(place)
        return True

    async def write(self) -> bool:
        """Push a message; return False if there is no room."""
        if room := len(self.rows) < DEPTH:
            await self.push()
        return room

    async def read(self) -> bool:
        """Pop a message; return False if there is none."""
        if waiting := bool(self.rows):
            await self.pop()
        return waiting

    async def flip_another_ram(self) -> bool:
        """Flip a bit of another RAM, which must have no effect; return True."""
        foreign = self.rng.randrange(1, 9)
        await self.flip(self.rng.randrange(DEPTH), self.rng.randrange(TOTAL), foreign)
        return True

    async def flip_no_bit(self) -> bool:
        """Flip a bit beyond the row, which must have no effect; return True."""
        beyond = self.rng.choice((TOTAL, self.rng.randrange(TOTAL, 1 << 13)))
        await self.flip(self.rng.randrange(DEPTH), beyond)
        return True

    async def flip_no_row(self) -> bool:
        """Flip a bit of a row that the RAM does not have; return True."""
        await self.flip_row(self.rng.randrange(DEPTH, 2 * DEPTH), self.rng.randrange(TOTAL))
        return True

    async def flip_in_write(self) -> bool:
        """Flip a bit during a push: of another row or, without effect, of the written one.

        Return False if the FIFO is empty or full.
        """
        if not 0 < len(self.rows) < DEPTH:
            return False
        own = self.rng.random() < 0.3
        row, place = RamRow(0) if own else self.rows[-1], self.rng.randrange(TOTAL)
        if self.mark(row, place):
            await self.push_beside((self.pushed - (not own)) % DEPTH, place)
            self.meanwhile += not own
        return True

    async def flip_waiting(self) -> bool:
        """Flip a bit of a waiting message; return False if there is none."""
        if not self.rows:
            return False
        at = self.rng.randrange(len(self.rows))
        place = self.rng.randrange(TOTAL)
        if self.mark(self.rows[at], place):
            await self.flip(self.popped + at, place)
        return True

    async def flip_empty(self) -> bool:
        """Flip a bit of an empty row and overwrite it; return False if there is no such row."""
        if not len(self.rows) < min(self.pushed, DEPTH):
            return False
        self.mark(RamRow(0), 0)
        await self.flip(self.pushed, self.rng.randrange(TOTAL))
        await self.push()
        self.written_over += 1
        return True


@block_test(lambda dut: FlipLife(dut).start())
async def life_of_a_flip(bench: FlipLife) -> None:
    """Check that a flipped bit affects one row of one RAM, until the row is written."""
    steps = (
        (0.4, bench.write),
        (0.6, bench.read),
        (0.7, bench.flip_another_ram),
        (0.75, bench.flip_no_bit),
        (0.8, bench.flip_no_row),
        (0.87, bench.flip_in_write),
        (0.95, bench.flip_waiting),
        (1.0, bench.flip_empty),
    )
    for _ in range(1500):
        drawn = bench.rng.random()
        for share, step in steps:  # the first step that is drawn and possible
            if drawn < share and await step():
                break
    while bench.rows:
        await bench.pop()
    assert min(bench.written_over, bench.meanwhile) > 20, (bench.written_over, bench.meanwhile)
    if ECC != NONE:
        assert bench.seen["bad"] + bench.seen["corrected"] > 50, bench.seen
