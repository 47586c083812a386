# SPDX-License-Identifier: Apache-2.0
"""Random placement of regions: windows above the memory, state areas in it, without overlap."""

import random
from typing import Any

from models.control_window import CONTROL_LINES
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import SELECTOR_BITS, RegionConfig, record_lines, state_lines

WINDOW_SPACE = 1 << 44
"""Windows are spread over this many lines, so that high address bits take part."""


class RegionLayout:
    """Allocator of windows and state areas for descriptors; the lower half of memory stays
    ordinary.
    """

    def __init__(self, params: DeviceParams, rng: random.Random) -> None:
        self.params = params
        self.rng = rng
        self.next_line = params.mem_lines // 2
        self.windows: list[tuple[int, int]] = []

    @property
    def plain_lines(self) -> int:
        """Return the number of lines, from line 0 on, that never belong to a state area."""
        return self.params.mem_lines // 2

    def region(self, mode: Mode, lines_log2: int, workers: int, **options: Any) -> RegionConfig:
        """Return a legal descriptor with a new window and state area.

        Args:
            mode: Mode of the region.
            lines_log2: Number of lines of the region, as power of two.
            workers: Number of workers.
            options: Other fields of `RegionConfig`.

        Raises:
            ValueError: The memory is used up.
        """
        base = self._window(lines_log2 + SELECTOR_BITS)
        draft = RegionConfig(base, 0, lines_log2, workers, mode, **options)
        size = state_lines(draft, self.params.cnt_w)
        align = record_lines(draft.most, self.params.cnt_w) if mode.low_bit else 1
        # A gap takes little of what is left: areas that fit without gaps fit with them.
        room = max(0, self.params.mem_lines - self.next_line - size)
        start = self.next_line + min(self.rng.randrange(3), room // 16 // align) * align
        start += -start % align
        if start + size > self.params.mem_lines:
            raise ValueError("no memory left for a state area")
        self.next_line = start + size
        return RegionConfig(base, start << 6, lines_log2, workers, mode, **options)

    def control_window(self) -> int:
        """Return a free place for the control window, as a byte address; it counts as used from now
        on.
        """
        return self._window(CONTROL_LINES.bit_length() - 1)

    def _window(self, log2: int) -> int:
        size = 1 << log2
        while True:
            if self.rng.random() < 0.5 or not self.windows:
                start = self.rng.randrange(self.params.mem_lines, WINDOW_SPACE)
            else:  # directly after another window: the edges touch
                start = sum(self.rng.choice(self.windows))
            start += -start % size
            if all(start >= s + n or s >= start + size for s, n in self.windows):
                self.windows.append((start, size))
                return start << 6
