# SPDX-License-Identifier: Apache-2.0
"""Formats of two lines that a host reads: INFO of a line, and STATUS of a region.

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
    """Content of the INFO line of a line: its bookkeeping in the current epoch.

    ``bitmap`` has a bit per worker that has contributed, ``m`` is their number.
    """

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
        """Return the INFO line, 64 bytes."""
        flags = (self.complete, self.poisoned, self.lost, self.saturated, self.closed)
        word = sum(int(flag) << 136 + bit for bit, flag in enumerate(flags))
        word |= self.epoch | self.generation << 32 | self.bitmap << 64 | self.m << 128
        return word.to_bytes(LINE_BYTES, "little")

    @classmethod
    def unpack(cls, line: bytes) -> LineInfo:
        """Decode the 64 bytes of an INFO line. Raise ValueError if undefined bits are set."""
        word = int.from_bytes(line, "little")
        if word >> 141:
            raise ValueError(f"INFO has bits above its flags: {word:#x}")
        flags = [bool(word >> 136 + bit & 1) for bit in range(5)]
        bitmap = word >> 64 & (1 << 64) - 1
        return cls(word & WORD, word >> 32 & WORD, bitmap, word >> 128 & 0xFF, *flags)


@dataclass(frozen=True)
class StatusView:
    """Content of the STATUS line of a region, in the order of its words.

    ``refused``, ``late`` and ``poisoned_lines`` count since the last commit.
    """

    epoch: int
    complete_lines: int
    done: int
    fallback: int
    refused: int
    late: int
    poisoned_lines: int

    def pack(self) -> bytes:
        """Return the STATUS line, 64 bytes."""
        return pack_words(astuple(self))

    @classmethod
    def unpack(cls, line: bytes) -> StatusView:
        """Decode the 64 bytes of a STATUS line. Raise ValueError if undefined words are set."""
        words = unpack_words(line)
        if any(words[7:]):
            raise ValueError(f"STATUS has words behind its last: {words}")
        return cls(*words[:7])


def pack_words(words: Sequence[int]) -> bytes:
    """Return a 64-byte line that starts with these 32-bit words; the rest is zero."""
    return b"".join((word & WORD).to_bytes(4, "little") for word in words).ljust(LINE_BYTES, b"\0")


def unpack_words(line: bytes) -> list[int]:
    """Return the 16 words (32 bits each) of a 64-byte line."""
    return [int.from_bytes(line[at : at + 4], "little") for at in range(0, LINE_BYTES, 4)]


@dataclass(frozen=True)
class RegionStatus:
    """Status registers of a region, as far as they do not depend on the micro-architecture."""

    committed: bool
    code: int
    epoch: int
    done: bool
    complete_lines: int
    saturated: bool
    illegal_seen: bool
    closed: bool
