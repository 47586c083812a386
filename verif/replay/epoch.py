# SPDX-License-Identifier: Apache-2.0
"""One epoch of a replay: contributions of every worker, and lines that the device returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.line_packing import LINE_BYTES, U8
from verif.replay.gradient_source import LineSource
from verif.replay.plan import Extent, Lines, Plan, RegionUse

Key = tuple[int, int]
"""(step, epoch counted from 0 within the step)"""


@dataclass(frozen=True)
class EpochLines:
    """Epoch with the lines that are sent and returned.

    Attributes:
        step: Training step.
        number: Number of the epoch in the step, from 0.
        epoch: Value of EPOCH with which it is committed.
        plan: Plan of the step.
        uses: Uses of regions.
        sent: Contributions uint8[W, n, 64] of each use.
        returned: Lines uint8[m, 64], filled by the transport: for each use, and each of its
            selectors, the lines that it reads.
    """

    step: int
    number: int
    epoch: int
    plan: Plan
    uses: tuple[RegionUse, ...]
    sent: tuple[U8, ...]
    returned: U8

    @staticmethod
    def read(source: LineSource, plan: Plan, key: Key, epoch: int) -> EpochLines:
        """Read the lines of an epoch from a source.

        Args:
            source: Source of the lines.
            plan: Plan of the step.
            key: (step, number of the epoch in the step).
            epoch: Value of EPOCH with which it is committed.
        """
        step, number = key
        uses = plan.epoch(number)
        sent = []
        for use in uses:
            parts = [source.lines(step, extent, use.route) for extent in use.extents]
            sent.append(np.ascontiguousarray(np.concatenate(parts, axis=1)))
        size = sum(use.lines * len(use.selectors) for use in uses)
        room = np.zeros((size, LINE_BYTES), np.uint8)
        return EpochLines(step, number, epoch, plan, uses, tuple(sent), room)

    @property
    def key(self) -> Key:
        """Return (step, number of the epoch in the step)."""
        return self.step, self.number

    @property
    def lines(self) -> int:
        """Return the number of lines per worker."""
        return sum(use.lines for use in self.uses)

    @property
    def writes(self) -> int:
        """Return the number of contributions of all workers."""
        return self.lines * self.plan.workers

    @property
    def got(self) -> tuple[Lines, ...]:
        """Return the returned lines of each use, as views of ``returned``."""
        return views(self.uses, self.returned)

    def extents(self) -> Iterator[tuple[Extent, RegionUse, Lines]]:
        """Yield each extent with its use of a region and its returned lines, as views of
        ``returned``.
        """
        return extents(self.uses, self.returned)


def views(uses: tuple[RegionUse, ...], returned: U8) -> tuple[Lines, ...]:
    """Split the returned lines uint8[m, 64] of an epoch by use of a region; the results are
    views.
    """
    out, at = [], 0
    for use in uses:
        count = len(use.selectors)
        own = returned[at : at + count * use.lines].reshape(count, use.lines, LINE_BYTES)
        out.append(Lines(use.selectors, own))
        at += count * use.lines
    return tuple(out)


def extents(uses: tuple[RegionUse, ...], returned: U8) -> Iterator[tuple[Extent, RegionUse, Lines]]:
    """Yield each extent of an epoch with its use of a region and its returned lines, as views.

    Args:
        uses: Uses of regions in the epoch.
        returned: Returned lines uint8[m, 64].
    """
    for use, got in zip(uses, views(uses, returned)):
        at = 0
        for extent in use.extents:
            yield extent, use, got.part(slice(at, at + extent.lines))
            at += extent.lines
