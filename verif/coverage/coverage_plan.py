# SPDX-License-Identifier: Apache-2.0
"""Coverage plan of the sampled points: reason, test and floor of each point, from `plan.toml`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from verif.coverage.cover_model import CoverCross, CoverModel, CoverPoint


class PlanEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plan of one point; the header of `plan.toml` describes the fields."""

    reason: str
    test: str
    at_least: int = 1


@cache
def entries() -> dict[str, PlanEntry]:
    """Return the plan of every sampled point by its name."""
    source = Path(__file__).with_name("plan.toml").read_bytes()
    return msgspec.toml.decode(source, type=dict[str, PlanEntry])


class Planned:
    """Factory of points that takes reason, test and floor from the plan; KeyError for a point
    without a plan.
    """

    def __init__(self, model: CoverModel) -> None:
        self.model = model

    def point(self, name: str, bins: Iterable[str], *, illegal: Iterable[str] = ()) -> CoverPoint:
        """Add a point, see `CoverModel.point`."""
        plan = entries()[name]
        return self.model.point(
            name, plan.reason, bins, test=plan.test, at_least=plan.at_least, illegal=illegal
        )

    def cross(
        self,
        name: str,
        axes: Mapping[str, Sequence[str]],
        *,
        ignore: Callable[..., bool] | None = None,
    ) -> CoverCross:
        """Add a cross, see `CoverModel.cross`."""
        plan = entries()[name]
        return self.model.cross(
            name, plan.reason, axes, test=plan.test, at_least=plan.at_least, ignore=ignore
        )
