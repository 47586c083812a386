# SPDX-License-Identifier: Apache-2.0
"""Sparse store of the memory agent: content of each written line, and the set of poisoned lines."""

import random

from models.register_types import byte_mask
from verif.mem.memory_config import FULL_STROBE, LINE_BITS, Background

_ALL_ONES = (1 << LINE_BITS) - 1


class MemStore:
    """Content of the memory: written lines over a background for the others."""

    def __init__(self, background: Background = Background.GARBAGE, seed: int = 0) -> None:
        self.background = background
        self.seed = seed
        self.lines: dict[int, int] = {}
        self.poisoned: set[int] = set()

    def background_line(self, line: int) -> int:
        """Return the content of a line that was never written, as a 512-bit number; equal for every
        call.
        """
        if self.background is Background.ZEROS:
            return 0
        if self.background is Background.ONES:
            return _ALL_ONES
        return random.Random(self.seed << 48 | line).getrandbits(LINE_BITS)

    def read(self, line: int) -> tuple[int, bool]:
        """Return the content of a line as a 512-bit number, and whether it is poisoned."""
        data = self.lines[line] if line in self.lines else self.background_line(line)
        return data, line in self.poisoned

    def write(self, line: int, data: int, strobe: int = FULL_STROBE, poison: bool = False) -> None:
        """Write the enabled bytes of a line; only a clean full write clears its poison.

        Args:
            line: Number of the line.
            data: 512-bit number.
            strobe: Byte enables.
            poison: Whether the data are poisoned.
        """
        if strobe != FULL_STROBE:
            mask = byte_mask(strobe, LINE_BITS // 8)
            data = self.read(line)[0] & ~mask | data & mask
        elif not poison:
            self.poisoned.discard(line)
        self.lines[line] = data
        if poison:
            self.poison(line)

    def poison(self, line: int) -> None:
        """Mark a line as poisoned, as an error of the medium would; its data stay."""
        self.poisoned.add(line)
