# SPDX-License-Identifier: Apache-2.0
"""INFO of a line and STATUS of a region, as lines that a host reads.

spec: controller, second edition, section 4. Little-endian, from bit 0; what is not named is zero.
INFO is epoch (32), generation (32), bitmap (64), m (8), flags. Each figure of STATUS has a word of
32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from models.line_packing import LINE_BYTES

WORD = (1 << 32) - 1
WORKERS_A_LINE = 16


@dataclass(frozen=True)
class LineInfo:
    """What INFO of a line tells."""

    epoch: int
    generation: int
    bitmap: int
    m: int
    complete: bool
    poisoned: bool
    lost: bool
    saturated: bool
    closed: bool

    def pack(self) -> bytes:
        """The line."""
        flags = (self.complete, self.poisoned, self.lost, self.saturated, self.closed)
        word = sum(int(flag) << 136 + bit for bit, flag in enumerate(flags))
        word |= self.epoch | self.generation << 32 | self.bitmap << 64 | self.m << 128
        return word.to_bytes(LINE_BYTES, "little")

    @classmethod
    def unpack(cls, line: bytes) -> LineInfo:
        """What a line says; ValueError if bits are set that mean nothing."""
        word = int.from_bytes(line, "little")
        if word >> 141:
            raise ValueError(f"INFO has bits above its flags: {word:#x}")
        flags = [bool(word >> 136 + bit & 1) for bit in range(5)]
        bitmap = word >> 64 & (1 << 64) - 1
        return cls(word & WORD, word >> 32 & WORD, bitmap, word >> 128 & 0xFF, *flags)


@dataclass(frozen=True)
class StatusView:
    """What STATUS of a region tells, in the order of its words; counts since its last commit."""

    epoch: int
    complete_lines: int
    done: int
    fallback: int
    refused: int
    late: int
    poisoned_lines: int

    def pack(self) -> bytes:
        """The line."""
        return pack_words(astuple(self))

    @classmethod
    def unpack(cls, line: bytes) -> StatusView:
        """What a line says; ValueError if words are set that mean nothing."""
        words = unpack_words(line)
        if any(words[7:]):
            raise ValueError(f"STATUS has words behind its last: {words}")
        return cls(*words[:7])


def pack_words(words: Sequence[int]) -> bytes:
    """Words of 32 bits from the start of a line; those that are left are zero."""
    return b"".join((word & WORD).to_bytes(4, "little") for word in words).ljust(LINE_BYTES, b"\0")


def unpack_words(line: bytes) -> list[int]:
    """The 16 words of a line."""
    return [int.from_bytes(line[at : at + 4], "little") for at in range(0, LINE_BYTES, 4)]
