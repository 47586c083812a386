# SPDX-License-Identifier: Apache-2.0
"""FP32 sums of operands drawn for each other: ties, cancellations, carries, boundaries."""

from __future__ import annotations

import itertools
import random
import struct

from models.line_packing import Mode
from verif.sequences.base import NfSequence
from verif.sequences.line_data import FP32_CORNERS

SIGN = 1 << 31
HIDDEN = 1 << 23
LARGEST = 0x7F7F_FFFF


def bits_of(sign: int, exponent: int, mantissa: int) -> int:
    """binary32 from its fields (biased exponent)."""
    return sign << 31 | exponent << 23 | mantissa


def _tie(rng: random.Random) -> tuple[int, int]:
    """A value and half a unit in its last place, a little less or more, of either sign."""
    exponent = rng.randint(26, 254)
    value = bits_of(0, exponent, rng.getrandbits(23) if rng.random() < 0.7 else HIDDEN - 1)
    half = bits_of(rng.getrandbits(1), exponent - 24, 0)
    return value, half + rng.choice((0, 0, 1, -1))


def _cancel(rng: random.Random) -> tuple[int, int]:
    """x and -x, or a neighbour of -x."""
    value = rng.getrandbits(31) % (LARGEST + 1) | rng.getrandbits(1) << 31
    return value, max((value ^ SIGN) + rng.choice((0, 0, 1, -1)), 0) & 0xFFFF_FFFF


def _carry(rng: random.Random) -> tuple[int, int]:
    """Two values of one exponent and sign: the sum carries out, and rounds on the way."""
    exponent, sign = rng.randint(1, 254), rng.getrandbits(1)
    near = rng.randint(0, min(3, exponent - 1))
    return (
        bits_of(sign, exponent, rng.getrandbits(23) | 1),
        bits_of(sign, exponent - near, rng.getrandbits(23) | 1),
    )


def _carry_sticky(rng: random.Random) -> tuple[int, int]:
    """A sum that carries out, then is a tie but for one bit anywhere below: even last bit, rounded
    up."""
    distance = rng.randint(1, 20)
    while True:
        whole = rng.randrange(1 << 23 - distance, 1 << 24 - distance)
        high = (1 << 24) - 1 - rng.randrange(min(whole, 1 << 20))
        if (high + whole) % 4 == 1:
            break
    exponent, sign = rng.randint(distance + 1, 253), rng.getrandbits(1)
    low = (whole << distance) + (1 << rng.randrange(distance))
    return (
        bits_of(sign, exponent, high % HIDDEN),
        bits_of(sign, exponent - distance, low % HIDDEN),
    )


def _overflow(rng: random.Random) -> tuple[int, int]:
    """The largest values, and what brings them to infinity or just not."""
    sign = rng.getrandbits(1)
    small = bits_of(sign, rng.randint(228, 231), rng.choice((0, 0, 1, HIDDEN - 1)))
    return LARGEST - rng.choice((0, 0, 1)) | sign << 31, small


def _subnormal(rng: random.Random) -> tuple[int, int]:
    """Values around the smallest normal one: sums and differences on both sides of it."""
    high = bits_of(0, rng.choice((0, 1, 1, 2, 3, rng.randint(1, 28))), rng.getrandbits(23))
    low = bits_of(rng.getrandbits(1), rng.choice((0, 0, 1, 2)), rng.getrandbits(23))
    return high | rng.getrandbits(1) << 31, low


def _near(rng: random.Random) -> tuple[int, int]:
    """Exponents 0 to 30 apart, so that every place of the sticky bit is met."""
    exponent = rng.randint(31, 254)
    other = exponent - rng.randint(0, 30)
    return (
        bits_of(rng.getrandbits(1), exponent, rng.choice((0, rng.getrandbits(23)))),
        bits_of(rng.getrandbits(1), other, rng.getrandbits(23)),
    )


def _power(rng: random.Random) -> tuple[int, int]:
    """A power of two less what is far below it: the difference has one place more."""
    exponent, sign = rng.randint(29, 254), rng.getrandbits(1)
    half = HIDDEN // 2
    low = rng.choice((0, 1, half - 1, half, half + 1, HIDDEN - 1, rng.getrandbits(23)))
    return (
        bits_of(sign, exponent, 0),
        bits_of(1 - sign, exponent - rng.randint(22, 28), low),
    )


KINDS = (_tie, _cancel, _carry, _carry_sticky, _overflow, _subnormal, _near, _power)


def pair(rng: random.Random) -> tuple[int, int]:
    """Two operands of one of the kinds, in either order."""
    a, b = rng.choice(KINDS)(rng)
    return (a, b) if rng.random() < 0.5 else (b, a)


class PairSequence(NfSequence):
    """Many lines of 16 pairs: workers 0 and 1 give a pair, others perhaps a third operand."""

    lines_log2: int = 6

    async def body(self) -> None:
        rng = self.rng
        workers = rng.randint(3, 64)
        config = self.layout.region(Mode.FP32, self.lines_log2, workers)
        await self.commit(rng.randrange(self.cfg.hw.regions), config)
        lines = range(self.cfg.count(config.lines))
        # Zeros, infinities, NaNs and the like: each with each, four to a line.
        corners = list(itertools.product(FP32_CORNERS, FP32_CORNERS))
        rng.shuffle(corners)
        for line in lines:
            pairs = [pair(rng) for _ in range(12)]
            pairs += [corners.pop() if corners else pair(rng) for _ in range(4)]
            who = sorted(rng.sample(range(workers), 2))
            for worker, words in zip(who, zip(*pairs, strict=True), strict=True):
                await self.contribute(config, worker, line, struct.pack("<16I", *words))
            if rng.random() < 0.3:
                words = tuple(pair(rng)[0] for _ in range(16))
                third = struct.pack("<16I", *words)
                await self.contribute(config, rng.randrange(workers), line, third)
        await self.drain()
        for line in lines:
            await self.read_region(config, line, 0)
        await self.drain()


class LoneLineSequence(NfSequence):
    """Sums of one line and of none between others, and raw lines: byte for byte, NaNs included."""

    lines_log2: int = 3

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(Mode.FP32, self.lines_log2, rng.randint(33, 64))
        await self.commit(rng.randrange(self.cfg.hw.regions), config)
        present: dict[int, list[int]] = {}
        for line in range(config.lines):
            present[line] = rng.sample(range(config.workers), rng.choice((0, 1, 1, 2, 5)))
            for worker in present[line]:
                words = [rng.choice(FP32_CORNERS) for _ in range(16)]
                await self.contribute(config, worker, line, struct.pack("<16I", *words))
        await self.drain()
        for _ in range(self.cfg.count(60)):
            line = rng.randrange(config.lines)
            worker = rng.choice([*present[line], rng.randrange(config.workers)])
            await self.read_region(config, line, rng.choice((0, 64 + worker)))
        await self.drain()
