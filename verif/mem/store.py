# SPDX-License-Identifier: Apache-2.0
"""Sparse backing store of the memory agent: one int per line, and the set of poisoned lines."""

from __future__ import annotations

import random

from models.register_map import byte_mask
from verif.mem.memory_config import FULL_STROBE, LINE_BITS, Background

_ALL_ONES = (1 << LINE_BITS) - 1


class MemStore:
    """Written lines over a configurable background."""

    def __init__(self, background: Background = Background.GARBAGE, seed: int = 0) -> None:
        self.background = background
        self.seed = seed
        self.lines: dict[int, int] = {}
        self.poisoned: set[int] = set()

    def background_line(self, line: int) -> int:
        """Return the content of a line that was never written; it is the same for every call."""
        if self.background is Background.ZEROS:
            return 0
        if self.background is Background.ONES:
            return _ALL_ONES
        return random.Random(self.seed << 48 | line).getrandbits(LINE_BITS)

    def read(self, line: int) -> tuple[int, bool]:
        """Return data and poison of a line."""
        data = self.lines.get(line)
        if data is None:
            data = self.background_line(line)
        return data, line in self.poisoned

    def write(self, line: int, data: int, strobe: int = FULL_STROBE, poison: bool = False) -> None:
        """Write the enabled bytes; only a full write clears the poison of the line."""
        if strobe == FULL_STROBE:
            self.lines[line] = data
            if poison:
                self.poison(line)
            else:
                self.poisoned.discard(line)
            return
        mask = byte_mask(strobe, LINE_BITS // 8)
        old, _ = self.read(line)
        self.lines[line] = (old & ~mask) | (data & mask)
        if poison:
            self.poison(line)

    def poison(self, line: int) -> None:
        """Mark a line as poisoned, as an error of the medium would; its data stays."""
        self.poisoned.add(line)
