# SPDX-License-Identifier: Apache-2.0
"""Base of the classes that sample planned points, and the judged operations that they get."""

from __future__ import annotations

from dataclasses import dataclass

from models.access_decode import Kind
from models.aggregated_line import AggregatedLine
from models.regions import RegionConfig
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import add_point, entries, values_of
from verif.scoreboard.operations import Op


@dataclass(slots=True)
class Judged:
    """Operation on a line of a region that the scoreboard found correct.

    Attributes:
        op: Request with its response.
        config: Descriptor of the region.
        before: Line before the operation.
        after: Line after the operation.
        closed: Whether the round of the region is closed.
        done: Whether the operation has completed the region.
    """

    op: Op
    config: RegionConfig
    before: AggregatedLine
    after: AggregatedLine
    closed: bool
    done: bool

    @property
    def mode(self) -> str:
        """Return the name of the mode of the region."""
        return self.config.mode.name

    @property
    def writes(self) -> bool:
        """Return True for a contribution, False for a read."""
        return self.op.access.kind is Kind.CONTRIBUTION


class Points:
    """Base of the classes that sample planned points.

    The first one of a model adds all planned points to it.
    """

    def __init__(self, model: CoverModel) -> None:
        self.hit = model.hit
        for name, plan in entries().items() if entries().keys() - model.points else ():
            add_point(model, name, plan, {axis: values_of(one) for axis, one in plan.axes.items()})
