# SPDX-License-Identifier: Apache-2.0
"""Trust: regions of which memory refused the write of a record, and lines that need theirs.

From a refusal to the next commit nothing that is read from the region's records is taken for state
(hdl/README.md, Trust). A line that is in a slot of the device is not touched by that, and slots
cannot be seen: so each answer must fit its line as it was, or lost. Seen are the write-backs, and
that nobody has asked for a line: such a line is in no slot, and lost for certain.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class Trust:
    """Fed by quiescence. A key is (region, line)."""

    def __init__(self) -> None:
        self._refused: dict[int, bool] = {}
        """Regions with a refused write; False once a commit has begun since."""
        self._certain: set[int] = set()
        """Those of them whose refusal cannot be one of the round before, or of the next."""
        self._on_chip: set[Hashable] = set()
        """Lines that may be in a slot."""

    def __contains__(self, region: int | None) -> bool:
        """Any line of the region may be lost."""
        return region in self._refused

    def refused(self, region: int, committing: bool) -> None:
        """A write of a record was refused."""
        self._refused[region] = True
        if not committing:
            self._certain.add(region)

    def requested(self, key: Hashable, region: int | None) -> bool:
        """A line is asked for while nothing is in flight on it; True if it is lost for certain."""
        lost = region in self._certain and key not in self._on_chip
        self._on_chip.add(key)
        return lost

    def evicted(self, key: Hashable) -> None:
        """A line with nothing in flight was written back."""
        self._on_chip.discard(key)

    def commit_begun(self, region: int) -> None:
        """EPOCH is being written."""
        self._certain.discard(region)
        if region in self._refused:
            self._refused[region] = False

    def committed(self, region: int, busy: Iterable[Hashable]) -> None:
        """The commit was accepted; `busy`: lines with requests that it may have overtaken."""
        if self._refused.get(region) is False:  # no refusal since the commit began
            del self._refused[region]
        old = {key for key in self._on_chip if isinstance(key, tuple) and key[0] == region}
        self._on_chip -= old
        self._on_chip.update(busy)
