# SPDX-License-Identifier: Apache-2.0
"""Block test of a protected RAM alone (`nf_data_fifo`): bits flip in rows that are waiting."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, Timer

from verif.parameters import build_parameters
from verif.tests.packed_structs import layout, pack, unpack

FLIP, FAULT = layout("ram_flip_t"), layout("ram_fault_t")
PARAMETERS = {"RAM": 0, "ECC": 1, "WIDTH": 520, "DATA_W": 512, "DEPTH": 2, **build_parameters()}
ECC, WIDTH, DATA_W, DEPTH = (PARAMETERS[name] for name in ("ECC", "WIDTH", "DATA_W", "DEPTH"))
WORDS = -(-DATA_W // 64)
NONE, PARITY, SECDED = range(3)
CHECK_W = (1, WORDS, 8 * WORDS)[ECC]
TOTAL = DATA_W + CHECK_W


@dataclass
class Row:
    """A message that waits, and the bits of it that are wrong."""

    word: int
    flips: list[int] = field(default_factory=list)

    def code_words(self) -> list[int]:
        """Wrong bits of each word that has check bits of its own."""
        wrong = [0] * WORDS
        for place in self.flips:
            if ECC == PARITY:
                wrong[(place if place < DATA_W else place - DATA_W) % WORDS] += 1
            else:
                wrong[place // 64 if place < DATA_W else (place - DATA_W) // 8] += 1
        return wrong

    @property
    def bad(self) -> bool:
        """The code sees it, and cannot put it right."""
        if ECC == NONE:
            return False
        words = self.code_words()
        return any(n % 2 for n in words) if ECC == PARITY else 2 in words

    @property
    def corrected(self) -> bool:
        return ECC == SECDED and not self.bad and bool(self.flips)

    @property
    def data(self) -> int:
        """What comes out."""
        if self.corrected:
            return self.word
        return self.word ^ sum(1 << place for place in self.flips if place < DATA_W)


class RamBench:
    """The FIFO with its flips; a row is numbered by the order of the messages."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.rows: deque[Row] = deque()
        self.pushed = self.popped = 0
        self.seen = {"clean": 0, "bad": 0, "corrected": 0}

    async def start(self) -> None:
        dut = self.dut
        dut.rst_n.value, dut.flip.value = 0, 0
        dut.in_valid.value, dut.in_data.value, dut.out_ready.value = 0, 0, 0
        Clock(dut.clk, 10, unit="ns", impl="gpi").start()
        await ClockCycles(dut.clk, 3)
        await FallingEdge(dut.clk)
        dut.rst_n.value = 1
        await FallingEdge(dut.clk)

    async def push(self) -> Row:
        row = Row(self.rng.choice((0, (1 << WIDTH) - 1, self.rng.getrandbits(WIDTH))))
        assert int(self.dut.in_ready.value)
        self.dut.in_valid.value, self.dut.in_data.value = 1, row.word
        await FallingEdge(self.dut.clk)
        self.dut.in_valid.value = 0
        self.rows.append(row)
        self.pushed += 1
        return row

    async def flip(self, number: int, place: int, ram: int = PARAMETERS["RAM"]) -> None:
        """A bit of the message `number` flips."""
        await self.flip_row(number % DEPTH, place, ram)

    async def push_beside(self, row: int, place: int) -> Row:
        """A message comes in the clock in which a bit of a row flips."""
        self.dut.flip.value = pack(FLIP, valid=1, ram=PARAMETERS["RAM"], row=row, place=place)
        pushed = await self.push()
        self.dut.flip.value = 0
        return pushed

    async def flip_row(self, row: int, place: int, ram: int = PARAMETERS["RAM"]) -> None:
        """A bit of a row flips, if the RAM has this row."""
        self.dut.flip.value = pack(FLIP, valid=1, ram=ram, row=row, place=place)
        await FallingEdge(self.dut.clk)
        self.dut.flip.value = 0

    async def pop(self) -> None:
        """Takes the oldest message and compares it with what its code makes of it."""
        dut, row = self.dut, self.rows.popleft()
        await Timer(1, "ns")
        assert int(dut.out_valid.value)
        assert not unpack(FAULT, int(dut.fault.value))["bad"], "a fault of what nobody takes"
        dut.out_ready.value = 1
        await ReadOnly()
        fault, out = unpack(FAULT, int(dut.fault.value)), int(dut.out_data.value)
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
    """Pairs of different bits: of one code word, and of any two."""
    while True:
        first = rng.randrange(TOTAL)
        near = [at for at in (first - 1, first + 1, first ^ 7, first + WORDS) if 0 <= at < TOTAL]
        second = rng.choice([*near, rng.randrange(TOTAL)])
        if first != second:
            yield first, second


@cocotb.test()
async def every_bit(dut: Any) -> None:
    """Each bit of a row, data and check: it is seen (parity) or put right (SECDED)."""
    bench = RamBench(dut)
    await bench.start()
    for place in range(TOTAL):
        row = await bench.push()
        await bench.flip(bench.pushed - 1, place)
        row.flips.append(place)
        await bench.pop()
    want = {NONE: "clean", PARITY: "bad", SECDED: "corrected"}[ECC]
    assert bench.seen[want] == TOTAL, bench.seen


@cocotb.test()
async def two_bits(dut: Any) -> None:
    """Two bits of a row: bad under SECDED if they are of one word, else both are put right."""
    bench = RamBench(dut)
    await bench.start()
    for places in itertools.islice(pairs(bench.rng), 400):
        row = await bench.push()
        for place in places:
            await bench.flip(bench.pushed - 1, place)
            row.flips.append(place)
        await bench.pop()
    if ECC == SECDED:
        assert bench.seen["clean"] == 0, "two wrong bits were not seen"
        assert min(bench.seen["bad"], bench.seen["corrected"]) > 50, bench.seen


@cocotb.test()
async def life_of_a_flip(dut: Any) -> None:
    """A flipped bit is of one row of one RAM, stays until the row is written, and no longer."""
    bench = RamBench(dut)
    rng = bench.rng
    await bench.start()
    written_over = beside = 0
    flipped: deque[Row] = deque(maxlen=2)  # a RAM keeps two
    for _ in range(1500):
        what = rng.random()
        if what < 0.4 and len(bench.rows) < DEPTH:
            await bench.push()
        elif what < 0.6 and bench.rows:
            await bench.pop()
        elif what < 0.7:
            foreign = rng.randrange(1, 9)
            await bench.flip(rng.randrange(DEPTH), rng.randrange(TOTAL), foreign)
        elif what < 0.75:
            beyond = rng.choice((TOTAL, rng.randrange(TOTAL, 1 << 13)))
            await bench.flip(rng.randrange(DEPTH), beyond)
        elif what < 0.8:
            await bench.flip_row(rng.randrange(DEPTH, 2 * DEPTH), rng.randrange(TOTAL))
        elif what < 0.87 and 0 < len(bench.rows) < DEPTH:
            # Beside a write: of another row, or of the row that is written, whose bit is right.
            own = rng.random() < 0.3
            row, place = Row(0) if own else bench.rows[-1], rng.randrange(TOTAL)
            if place in row.flips:
                continue
            if len(flipped) == 2:
                flipped[0].flips.pop(0)
            flipped.append(row)
            row.flips.append(place)
            await bench.push_beside((bench.pushed - (not own)) % DEPTH, place)
            beside += not own
        elif what < 0.95 and bench.rows:
            at = rng.randrange(len(bench.rows))
            row, place = bench.rows[at], rng.randrange(TOTAL)
            if place in row.flips:
                continue
            if len(flipped) == 2:  # the oldest one heals
                flipped[0].flips.pop(0)
            flipped.append(row)
            row.flips.append(place)
            await bench.flip(bench.popped + at, place)
        elif bench.pushed > len(bench.rows) and len(bench.rows) < DEPTH:
            # An empty row: written over before anybody reads it.
            if len(flipped) == 2:
                flipped[0].flips.pop(0)
            flipped.append(Row(0, [0]))
            await bench.flip(bench.pushed, rng.randrange(TOTAL))
            await bench.push()
            written_over += 1
    while bench.rows:
        await bench.pop()
    assert min(written_over, beside) > 20, (written_over, beside)
    if ECC != NONE:
        assert bench.seen["bad"] + bench.seen["corrected"] > 50, bench.seen
