# SPDX-License-Identifier: Apache-2.0
"""Record trust: regions of which memory refused the write of a record, and lines that need theirs.

From a refusal to the next commit nothing that is read from the region's records is taken for
state (hdl/README.md, Trust). A line that is in a slot of the device is not touched by that, and
slots cannot be seen: so each answer must fit its line as it was, or lost. Seen are the write-
backs, and that nobody has asked for a line: such a line is in no slot, and lost for certain.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class RecordTrust:
    """Trust in the records of each region, which ends with a refused write of a record to memory.

    From such a refusal to the next commit the device takes nothing that it reads from the region's
    records for state (hdl/README.md, Trust): a line that is not in a slot on chip has lost its
    state. A key is (region, line).
    """

    def __init__(self) -> None:
        self._refused: dict[int, bool] = {}
        """Regions with a refused write; False once a commit has begun since."""
        self._certain: set[int] = set()
        """Those of them whose refusal cannot be one of the round before, or of the next."""
        self._on_chip: set[Hashable] = set()
        """Lines that may be in a slot."""

    def __contains__(self, region: int | None) -> bool:
        """Return whether any line of the region may have lost its state since a refused write."""
        return region in self._refused

    def refused(self, region: int, committing: bool) -> None:
        """Record that memory refused the write of a record.

        Args:
            region: Region of the record.
            committing: Whether a commit of the region is pending, so that the record may be one of
                the old round or of the new one.
        """
        self._refused[region] = True
        if not committing:
            self._certain.add(region)

    def requested(self, key: Hashable, region: int | None) -> bool:
        """Record a request for a line with no other request in flight, which brings the line on
        chip.

        Args:
            key: Key of the line.
            region: Its region; None for ordinary memory.

        Returns:
            True if the state of the line is certainly lost: a record was refused in this round, and
            the line was not on chip.
        """
        lost = region in self._certain and key not in self._on_chip
        self._on_chip.add(key)
        return lost

    def evicted(self, key: Hashable) -> None:
        """Record that the record of a line without a request in flight was written back: it left
        its slot.
        """
        self._on_chip.discard(key)

    def commit_begun(self, region: int) -> None:
        """Record the start of a write of EPOCH: a refusal so far is one of the old round."""
        self._certain.discard(region)
        if region in self._refused:
            self._refused[region] = False

    def committed(self, region: int, busy: Iterable[Hashable]) -> None:
        """Record an accepted commit of a region, which restores trust unless a write was refused
        since it began.

        Args:
            region: Number of the region.
            busy: Keys of lines with requests that the commit may have overtaken; these may be on
                chip.
        """
        if self._refused.get(region) is False:  # no refusal since the commit began
            del self._refused[region]
        old = {key for key in self._on_chip if isinstance(key, tuple) and key[0] == region}
        self._on_chip -= old
        self._on_chip.update(busy)
