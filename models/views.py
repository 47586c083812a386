# SPDX-License-Identifier: Apache-2.0
"""INFO of a line and STATUS of a region, as lines read by a host.

Little-endian, from bit 0; unnamed bits are zero. INFO is epoch (32), generation (32), bitmap (64),
m (8), flags. Each figure of STATUS is a 32-bit word. Spec: controller, second edition, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from models.line_packing import LINE_BYTES

WORD = (1 << 32) - 1
WORKERS_A_LINE = 16


@dataclass(frozen=True)
class LineInfo:
    """Content of INFO of a line."""

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
        """Return the line."""
        flags = (self.complete, self.poisoned, self.lost, self.saturated, self.closed)
        word = sum(int(flag) << 136 + bit for bit, flag in enumerate(flags))
        word |= self.epoch | self.generation << 32 | self.bitmap << 64 | self.m << 128
        return word.to_bytes(LINE_BYTES, "little")

    @classmethod
    def unpack(cls, line: bytes) -> LineInfo:
        """Decode a line. Raise ValueError if undefined bits are set."""
        word = int.from_bytes(line, "little")
        if word >> 141:
            raise ValueError(f"INFO has bits above its flags: {word:#x}")
        flags = [bool(word >> 136 + bit & 1) for bit in range(5)]
        bitmap = word >> 64 & (1 << 64) - 1
        return cls(word & WORD, word >> 32 & WORD, bitmap, word >> 128 & 0xFF, *flags)


@dataclass(frozen=True)
class StatusView:
    """Content of STATUS of a region, in the order of its words; counts since the last commit."""

    epoch: int
    complete_lines: int
    done: int
    fallback: int
    refused: int
    late: int
    poisoned_lines: int

    def pack(self) -> bytes:
        """Return the line."""
        return pack_words(astuple(self))

    @classmethod
    def unpack(cls, line: bytes) -> StatusView:
        """Decode a line. Raise ValueError if undefined words are set."""
        words = unpack_words(line)
        if any(words[7:]):
            raise ValueError(f"STATUS has words behind its last: {words}")
        return cls(*words[:7])


def pack_words(words: Sequence[int]) -> bytes:
    """Pack 32-bit words from the start of a line; the rest is zero."""
    return b"".join((word & WORD).to_bytes(4, "little") for word in words).ljust(LINE_BYTES, b"\0")


def unpack_words(line: bytes) -> list[int]:
    """Return the 16 words of a line."""
    return [int.from_bytes(line[at : at + 4], "little") for at in range(0, LINE_BYTES, 4)]
