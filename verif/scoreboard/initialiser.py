# SPDX-License-Identifier: Apache-2.0
"""STATUS.INIT_BUSY against the writes of the record initialiser on the memory port.

A commit that claims a state area has its bookkeeping lines overwritten (hdl/README.md, Trust), each
by one write with an AXI ID of its own. Until the last of them is answered INIT_BUSY is 1.
"""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import RegionConfig, records
from verif.scoreboard.ranges import Span

INIT_ID = 3
"""AXI ID of the initialiser."""


class _Area:
    """Lines of a region that are still to be overwritten, by index. What has been written is kept:
    an area of 2^30 lines is legal, and never written whole."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._written: set[int] = set()

    def write(self, index: int) -> bool:
        """A line is overwritten; whether it was still to be."""
        if not 0 <= index < self._lines or index in self._written:
            return False
        self._written.add(index)
        return True

    @property
    def done(self) -> bool:
        """Nothing is left."""
        return len(self._written) == self._lines


class Initialiser:
    """Feed it with commits and with the writes of INIT_ID."""

    def __init__(self) -> None:
        self._left: dict[int, _Area] = {}
        """Areas that are not overwritten whole, by region."""
        self._maybe: dict[int, _Area] = {}
        """The same, of an area that may not need it."""
        self._early: set[int] = set()
        """Regions with a write while their commit was under way."""

    def committed(
        self, region: int, before: RegionConfig | None, after: RegionConfig, cnt_w: int
    ) -> None:
        """A commit was accepted."""
        unfinished = region in self._left or region in self._maybe
        early = region in self._early
        self._early.discard(region)
        if after.mode is Mode.IDENTITY:
            self._left.pop(region, None)
            self._maybe.pop(region, None)
            return
        area = _Area(after.lines)
        if early:
            self._left.pop(region, None)
            self._maybe[region] = area
        elif before is None or places(before, cnt_w) != places(after, cnt_w):
            self._maybe.pop(region, None)
            self._left[region] = area
        elif unfinished and before == after:
            self._maybe[region] = area  # it goes on, or starts anew if a write was refused
        else:
            # The place is the same: it may do without, unless it has lost its trust.
            self._left.pop(region, None)
            self._maybe[region] = area

    def write(self, region: int, index: int, committing: bool) -> str | None:
        """A line was overwritten, and memory has answered; the text says what is wrong with it.

        `committing`: a commit of the region is under way.
        """
        if committing:
            self._early.add(region)
        for area in (self._left.get(region), self._maybe.get(region)):
            if area is not None and area.write(index):
                if area.done:
                    self._left.pop(region, None)
                    self._maybe.pop(region, None)
                return None
        if committing or region in self._maybe:
            return None
        return f"the initialiser writes record {index} of region {region} without need"

    def busy(self) -> Span:
        """Least and most of INIT_BUSY by what is left to do."""
        return Span(int(bool(self._left)), int(bool(self._left or self._maybe)))


def places(config: RegionConfig, cnt_w: int) -> tuple[int, int, int]:
    """Where the bookkeeping lines of a region lie: the first, their distance, and their number."""
    if config.mode is Mode.IDENTITY:
        return 0, 0, 0
    return *records(config, cnt_w), config.lines
