# SPDX-License-Identifier: Apache-2.0
"""Line contents: random ones of each format with corner values, forged records; byte enables."""

import random
import struct

from models.line_packing import LINE_BYTES, TERN5_CODES
from models.modes import Mode

ZEROS = bytes(LINE_BYTES)
ONES = b"\xff" * LINE_BYTES
ILLEGAL = b"\x55" * LINE_BYTES
"""Line of 256 illegal ternary codes 01 (sign without gate)."""
LOW_BIT = (Mode.G_BINARY, Mode.G_TERNARY)
AGGREGATING = (*LOW_BIT, Mode.FP32)
_GATE_BITS = int.from_bytes(b"\xaa" * LINE_BYTES, "little")

FP32_CORNERS = (
    0x0000_0000,  # +0
    0x8000_0000,  # -0
    0x0000_0001,  # smallest subnormal
    0x807F_FFFF,  # largest negative subnormal
    0x0080_0000,  # smallest normal
    0x7F7F_FFFF,  # largest finite
    0xFF7F_FFFF,
    0x7F80_0000,  # +inf
    0xFF80_0000,  # -inf
    0x7FC0_0000,  # the canonical NaN
    0x7F80_0001,  # a signalling NaN
    0xFFFF_FFFF,
    0x3F80_0000,  # 1
    0xBF80_0000,  # -1
    0x3380_0000,  # 2^-24: half an ulp of 1
    0x3380_0001,
)
GENERATION_AT = 67


def random_line(rng: random.Random) -> bytes:
    """Draw 64 random bytes; about one line in eight is all zeros or all ones."""
    kind = rng.random()
    if kind < 0.06:
        return ZEROS
    if kind < 0.12:
        return ONES
    return rng.randbytes(LINE_BYTES)


def ternary_line(rng: random.Random, illegal: float = 0.0) -> bytes:
    """Draw a line of 256 ternary codes; with probability `illegal` codes may be illegal (01).

    A code is a sign bit and a gate bit. Without its gate the sign must be 0.
    """
    word = rng.getrandbits(512)
    if rng.random() >= illegal:
        gate = word & _GATE_BITS
        word = gate | (word & gate >> 1)
    return word.to_bytes(LINE_BYTES, "little")


def tern5_line(rng: random.Random, illegal: float = 0.0) -> bytes:
    """Draw a line of 64 G_TERN5 bytes (five trits each).

    `illegal` is the probability that bytes of 243 and above, which are illegal, may occur.
    """
    top = 256 if rng.random() < illegal else TERN5_CODES
    return bytes(rng.randrange(top) for _ in range(LINE_BYTES))


def fp32_line(rng: random.Random) -> bytes:
    """Draw a line of 16 binary32 values: corners, values in -1..1, or of exponents 2^-9 to 2^9."""
    kind = rng.random()
    if kind < 0.3:
        words = [rng.choice(FP32_CORNERS) for _ in range(16)]
        return struct.pack("<16I", *words)
    if kind < 0.6:
        return struct.pack("<16f", *(rng.uniform(-1, 1) for _ in range(16)))
    words = [
        rng.getrandbits(1) << 31 | rng.randint(118, 136) << 23 | rng.getrandbits(23)
        for _ in range(16)
    ]
    return struct.pack("<16I", *words)


def line_for(mode: Mode, rng: random.Random, illegal: float = 0.0) -> bytes:
    """Draw a line in the format of a mode; with probability `illegal`, codes may be illegal."""
    if mode is Mode.G_TERNARY:
        return ternary_line(rng, illegal)
    if mode is Mode.G_TERN5:
        return tern5_line(rng, illegal)
    if mode is Mode.FP32:
        return fp32_line(rng)
    return random_line(rng)


def forged(generation: int, bitmap: int, kept: bool = False) -> bytes:
    """Return a 64-byte bookkeeping line as the device would write it.

    The layout of a record is private to the device (hdl/README.md, State area): the bitmap of the
    workers in bits 63:0, then poison, lost and saturated, the generation in bits 98:67, and KEPT in
    bit 99. The generation of a region is the number of its commits. A host can place such a line in
    an area before it belongs to a region, and, as FP32 data, afterwards.

    Args:
        generation: number of the commit whose record to forge.
        bitmap: workers seen, one bit each.
        kept: set KEPT, the claim that the sum of the line is stored after the bookkeeping line.
    """
    flags = int(kept) << (GENERATION_AT + 32)
    return (flags | generation << GENERATION_AT | bitmap).to_bytes(LINE_BYTES, "little")


def byte_enables(rng: random.Random) -> int:
    """Draw 64 byte enables: none, one, all, or a random mask (5 of 8 draws)."""
    kind = rng.randrange(8)
    if kind == 0:
        return 0
    if kind == 1:
        return 1 << rng.randrange(64)
    if kind == 2:
        return (1 << 64) - 1
    return rng.getrandbits(64)
