# SPDX-License-Identifier: Apache-2.0
"""Device memory as known to a host: data, poison, and bytes of undetermined value.

Some lines have no specified content: a state area that a region has left, or a line whose write
returned an AXI error. Their bytes are marked unknown, and a check must not compare them. Spec:
controller §2; poison in plain memory: hdl/README.md, Choices.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass

from models.line_packing import LINE_BYTES

ALL_BYTES = (1 << LINE_BYTES) - 1
ZERO_LINE = bytes(LINE_BYTES)


@dataclass(frozen=True)
class MemoryLine:
    """Content of one 64-byte line of memory.

    ``known`` has bit i set if the value of byte i is determined; ``poison_known`` is the same for
    ``poison``.
    """

    data: bytes = ZERO_LINE
    poison: bool = False
    known: int = ALL_BYTES
    poison_known: bool = True


UNKNOWN_LINE = MemoryLine(known=0, poison_known=False)
_CLEAN = MemoryLine()


def merge(old: bytes, new: bytes, enables: int) -> bytes:
    """Return 64 bytes: byte i of ``new`` if bit i of ``enables`` is set, else of ``old``."""
    return bytes(
        n if enables >> i & 1 else o for i, (o, n) in enumerate(zip(old, new, strict=True))
    )


class Memory:
    """Sparse memory of 64-byte lines, by line number (byte address / 64)."""

    def __init__(self, initial: Callable[[int], MemoryLine] | None = None) -> None:
        """Create a memory.

        ``initial`` returns the content of an unwritten line; by default it is zeros without poison.
        """
        self._initial = initial
        self._lines: dict[int, MemoryLine] = {}
        self._unknown: list[tuple[int, int]] = []

    def load(self, line: int) -> MemoryLine:
        """Return the content of a line; UNKNOWN_LINE if it was forgotten and not written since."""
        entry = self._lines.get(line)
        if entry is not None:
            return entry
        if self._unknown:
            at = bisect_right(self._unknown, (line, 1 << 62)) - 1
            if at >= 0 and line < self._unknown[at][1]:
                return UNKNOWN_LINE
        return self._initial(line) if self._initial is not None else _CLEAN

    def store(self, line: int, entry: MemoryLine) -> None:
        """Replace the content of a line."""
        self._lines[line] = entry

    def write(self, line: int, data: bytes, enables: int | None, poison: bool) -> None:
        """Apply a write of a host to a line; ``enables`` None means a full write.

        A full write sets or clears the poison; a partial one can only set it.
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
        """Mark lines [start, start + count) as unknown from here on."""
        if count <= 0:
            return
        end = start + count
        if count < len(self._lines):
            for line in range(start, end):
                self._lines.pop(line, None)
        else:
            for line in [line for line in self._lines if start <= line < end]:
                del self._lines[line]
        # Disjoint sorted ranges, so that load() needs only the one to its left.
        keep: list[tuple[int, int]] = []
        for low, high in self._unknown:
            if high < start or low > end:
                keep.append((low, high))
            else:
                start, end = min(start, low), max(end, high)
        insort(keep, (start, end))
        self._unknown = keep
