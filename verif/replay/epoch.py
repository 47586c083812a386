# SPDX-License-Identifier: Apache-2.0
"""The lines of one epoch of a replay: what every worker sends, and what has come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.line_packing import LINE_BYTES, U8
from verif.replay.plan import Extent, Plan, RegionUse
from verif.replay.source import LineSource
from verif.replay.tensors import Lines

Key = tuple[int, int]
"""(step, epoch counted from 0 within the step)"""


@dataclass(frozen=True)
class EpochLines:
    """Lines of the regions of an epoch, before and after it went through a device.

    ``sent`` holds uint8[W, n, 64] for each use; ``returned`` uint8[m, 64] is filled by the
    transport: for each use its results, then its count planes.
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
        """The lines that the source has for an epoch, which is committed as ``epoch``."""
        step, number = key
        uses = plan.epoch(number)
        sent = []
        for use in uses:
            mode = use.config.mode
            parts = [source.lines(step, extent, mode) for extent in use.extents]
            sent.append(np.ascontiguousarray(np.concatenate(parts, axis=1)))
        size = sum(use.lines * (1 + plan.planes(use.config.mode)) for use in uses)
        room = np.zeros((size, LINE_BYTES), np.uint8)
        return EpochLines(step, number, epoch, plan, uses, tuple(sent), room)

    @property
    def key(self) -> Key:
        """Its place in the replay."""
        return self.step, self.number

    @property
    def lines(self) -> int:
        """Lines a worker."""
        return sum(use.lines for use in self.uses)

    @property
    def writes(self) -> int:
        """Contributions of all workers."""
        return self.lines * self.plan.workers

    @property
    def got(self) -> tuple[U8, ...]:
        """Views of ``returned``, uint8[1 + planes, n, 64] for each use."""
        return views(self.plan, self.uses, self.returned)

    def extents(self) -> Iterator[tuple[Extent, RegionUse, Lines]]:
        """What came back, extent by extent; the arrays are views."""
        return extents(self.plan, self.uses, self.returned)


def views(plan: Plan, uses: tuple[RegionUse, ...], returned: U8) -> tuple[U8, ...]:
    """The lines uint8[m, 64] of an epoch as uint8[1 + planes, n, 64] for each use."""
    out, at = [], 0
    for use in uses:
        count = 1 + plan.planes(use.config.mode)
        out.append(returned[at : at + count * use.lines].reshape(count, use.lines, LINE_BYTES))
        at += count * use.lines
    return tuple(out)


def extents(
    plan: Plan, uses: tuple[RegionUse, ...], returned: U8
) -> Iterator[tuple[Extent, RegionUse, Lines]]:
    """The lines uint8[m, 64] of an epoch, extent by extent."""
    for use, got in zip(uses, views(plan, uses, returned)):
        at = 0
        for extent in use.extents:
            part = got[:, at : at + extent.lines]
            yield extent, use, Lines(part[0], part[1:])
            at += extent.lines
