# SPDX-License-Identifier: Apache-2.0
"""Device memory as a host can know it: data, poison, and bytes of undetermined value.

spec: controller §2; poison in plain memory: hdl/README.md, Choices. Some lines have no specified
content: a state area that a region has left, or a line whose write met an AXI error. Their bytes
are marked unknown, and a check must not compare them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass

from models.line_packing import LINE_BYTES

ALL_BYTES = (1 << LINE_BYTES) - 1
ZERO_LINE = bytes(LINE_BYTES)


@dataclass(frozen=True)
class MemoryLine:
    """One line: ``known`` has a bit per byte whose value is determined."""

    data: bytes = ZERO_LINE
    poison: bool = False
    known: int = ALL_BYTES
    poison_known: bool = True


UNKNOWN_LINE = MemoryLine(known=0, poison_known=False)
_CLEAN = MemoryLine()


def merge(old: bytes, new: bytes, enables: int) -> bytes:
    """``new`` where bit i of ``enables`` is set for byte i, else ``old``."""
    return bytes(
        n if enables >> i & 1 else o for i, (o, n) in enumerate(zip(old, new, strict=True))
    )


class Memory:
    """Sparse memory of 64-byte lines, by line address."""

    def __init__(self, initial: Callable[[int], MemoryLine] | None = None) -> None:
        """``initial`` gives the content of a line never written (default: zeros, no poison)."""
        self._initial = initial
        self._lines: dict[int, MemoryLine] = {}
        self._unknown: list[tuple[int, int]] = []

    def load(self, line: int) -> MemoryLine:
        """The line's content."""
        entry = self._lines.get(line)
        if entry is not None:
            return entry
        if self._unknown:
            at = bisect_right(self._unknown, (line, 1 << 62)) - 1
            if at >= 0 and line < self._unknown[at][1]:
                return UNKNOWN_LINE
        return self._initial(line) if self._initial is not None else _CLEAN

    def store(self, line: int, entry: MemoryLine) -> None:
        """Replace the line."""
        self._lines[line] = entry

    def write(self, line: int, data: bytes, enables: int | None, poison: bool) -> None:
        """A host write; ``enables`` None: the full line.

        A full write decides the poison; a partial one can only add to it.
        """
        if enables is None:
            self._lines[line] = MemoryLine(data, poison)
            return
        old = self.load(line)
        self._lines[line] = MemoryLine(
            data=merge(old.data, data, enables),
            poison=old.poison or poison,
            known=old.known | enables,
            poison_known=old.poison_known or poison,
        )

    def forget(self, start: int, count: int) -> None:
        """Lines [start, start + count) have no known content from here on."""
        if count <= 0:
            return
        end = start + count
        if count < len(self._lines):
            for line in range(start, end):
                self._lines.pop(line, None)
        else:
            for line in [line for line in self._lines if start <= line < end]:
                del self._lines[line]
        # Kept as disjoint sorted ranges, so that load() needs only the one to its left.
        keep: list[tuple[int, int]] = []
        for low, high in self._unknown:
            if high < start or low > end:
                keep.append((low, high))
            else:
                start, end = min(start, low), max(end, high)
        insort(keep, (start, end))
        self._unknown = keep
