# SPDX-License-Identifier: Apache-2.0
"""Byte ranges of any alignment as lines of 64 bytes with byte enables (spec: link spec §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LINE_BYTES: Final = 64
ADDR_BITS: Final = 52


def lines_of(address: int, length: int) -> Iterator[tuple[int, int, int]]:
    """The lines of ``length`` bytes from byte ``address`` on: (line's address, first byte, bytes).

    ValueError: the range is not within the 2**52 bytes that a message can address.
    """
    end = address + length
    if address < 0 or length < 0 or end > 1 << ADDR_BITS:
        raise ValueError(f"{length} bytes from {address:#x} do not fit in {ADDR_BITS} address bits")
    return _lines(address, end)


def _lines(address: int, end: int) -> Iterator[tuple[int, int, int]]:
    while address < end:
        first = address % LINE_BYTES
        size = min(LINE_BYTES - first, end - address)
        yield address - first, first, size
        address += size


def byte_enables(first: int, size: int) -> int:
    """Byte enables of ``size`` bytes from byte ``first`` of a line on."""
    return ((1 << size) - 1) << first
