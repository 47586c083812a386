# SPDX-License-Identifier: Apache-2.0
"""Operands of FP32 sums: ties, carries, cancellation, subnormals, corners, and lone lines."""

import random
import struct
from collections.abc import Sequence
from itertools import product

from models.modes import Mode
from verif.sequences.base import NfSequence
from verif.sequences.line_data import FP32_CORNERS

SIGN = 1 << 31
HIDDEN = 1 << 23
LARGEST = 0x7F7F_FFFF


def bits_of(sign: int, exponent: int, mantissa: int) -> int:
    """Return a binary32 word from its sign, biased exponent and mantissa."""
    return sign << 31 | exponent << 23 | mantissa


def _tie(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words of a value and about half a unit in its last place, of either sign."""
    exponent = rng.randint(26, 254)
    value = bits_of(0, exponent, rng.getrandbits(23) if rng.random() < 0.7 else HIDDEN - 1)
    half = bits_of(rng.getrandbits(1), exponent - 24, 0)
    return value, half + rng.choice((0, 0, 1, -1))


def _cancel(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words of x, and of -x or a neighbour of -x."""
    value = rng.getrandbits(31) % (LARGEST + 1) | rng.getrandbits(1) << 31
    return value, max((value ^ SIGN) + rng.choice((0, 0, 1, -1)), 0) & 0xFFFF_FFFF


def _carry(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words of one sign and similar exponents: the sum carries out and is rounded."""
    exponent, sign = rng.randint(1, 254), rng.getrandbits(1)
    near = rng.randint(0, min(3, exponent - 1))
    high = bits_of(sign, exponent, rng.getrandbits(23) | 1)
    return high, bits_of(sign, exponent - near, rng.getrandbits(23) | 1)


def _carry_sticky(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words whose sum carries out and is a tie except for one lower bit.

    The last bit is even, so only the sticky bit makes the result round up.
    """
    distance = rng.randint(1, 20)
    while True:
        whole = rng.randrange(1 << 23 - distance, 1 << 24 - distance)
        high = (1 << 24) - 1 - rng.randrange(min(whole, 1 << 20))
        if (high + whole) % 4 == 1:
            break
    exponent, sign = rng.randint(distance + 1, 253), rng.getrandbits(1)
    low = (whole << distance) + (1 << rng.randrange(distance))
    larger = bits_of(sign, exponent, high % HIDDEN)
    return larger, bits_of(sign, exponent - distance, low % HIDDEN)


def _overflow(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words: one of the two largest, and one with which the sum may overflow."""
    sign = rng.getrandbits(1)
    small = bits_of(sign, rng.randint(228, 231), rng.choice((0, 0, 1, HIDDEN - 1)))
    return LARGEST - rng.choice((0, 0, 1)) | sign << 31, small


def _subnormal(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words whose sum or difference is close to the smallest normal value."""
    high = bits_of(0, rng.choice((0, 1, 1, 2, 3, rng.randint(1, 28))), rng.getrandbits(23))
    low = bits_of(rng.getrandbits(1), rng.choice((0, 0, 1, 2)), rng.getrandbits(23))
    return high | rng.getrandbits(1) << 31, low


def _near(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words with exponents 0 to 30 apart, to hit every position of the sticky bit."""
    exponent = rng.randint(31, 254)
    other = exponent - rng.randint(0, 30)
    value = bits_of(rng.getrandbits(1), exponent, rng.choice((0, rng.getrandbits(23))))
    return value, bits_of(rng.getrandbits(1), other, rng.getrandbits(23))


def _power(rng: random.Random) -> tuple[int, int]:
    """Draw binary32 words of a power of two and a much smaller value of opposite sign.

    The difference needs one more bit.
    """
    exponent, sign = rng.randint(29, 254), rng.getrandbits(1)
    half = HIDDEN // 2
    low = rng.choice((0, 1, half - 1, half, half + 1, HIDDEN - 1, rng.getrandbits(23)))
    return bits_of(sign, exponent, 0), bits_of(1 - sign, exponent - rng.randint(22, 28), low)


KINDS = (_tie, _cancel, _carry, _carry_sticky, _overflow, _subnormal, _near, _power)


def pair(rng: random.Random) -> tuple[int, int]:
    """Draw two binary32 words by one of `KINDS`, in either order."""
    a, b = rng.choice(KINDS)(rng)
    return (a, b) if rng.random() < 0.5 else (b, a)


def _line(words: Sequence[int]) -> bytes:
    """Pack 16 binary32 words into a line."""
    return struct.pack("<16I", *words)


class PairSequence(NfSequence):
    """FP32 sums of many lines of 16 operand pairs, by two workers; some lines have a third one.

    Four pairs of each line are from the cross product of zeros, infinities, NaNs and other corners.
    """

    async def body(self) -> None:
        workers = self.randint(3, 64)
        config = await self.start_region(None, Mode.FP32, 6, workers)
        lines = range(self.cfg.count(config.lines))
        corners = list(product(FP32_CORNERS, FP32_CORNERS))
        self.rng.shuffle(corners)
        for line in lines:
            pairs = [pair(self.rng) for _ in range(12)]
            pairs += [corners.pop() if corners else pair(self.rng) for _ in range(4)]
            who = sorted(self.sample(range(workers), 2))
            for worker, words in zip(who, zip(*pairs, strict=True), strict=True):
                await self.contribute(config, worker, line, _line(words))
            if self.random() < 0.3:
                third = _line([pair(self.rng)[0] for _ in range(16)])
                await self.contribute(config, self.randrange(workers), line, third)
        await self.drain()
        await self.read_lines(config, lines)


class LoneLineSequence(NfSequence):
    """FP32 sums of no, one or few workers, and single workers' lines: bit-exact, also NaNs."""

    async def body(self) -> None:
        config = await self.start_region(None, Mode.FP32, 3, self.randint(33, 64))
        present: dict[int, list[int]] = {}
        for line in range(config.lines):
            present[line] = self.sample(range(config.workers), self.choice((0, 1, 1, 2, 5)))
            for worker in present[line]:
                words = [self.choice(FP32_CORNERS) for _ in range(16)]
                await self.contribute(config, worker, line, _line(words))
        await self.drain()
        for _ in range(self.cfg.count(60)):
            line = self.randrange(config.lines)
            worker = self.choice([*present[line], self.randrange(config.workers)])
            await self.read_region(config, line, self.choice((0, 64 + worker)))
        await self.drain()
