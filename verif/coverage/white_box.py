# SPDX-License-Identifier: Apache-2.0
"""White-box cover points: counters of the cover modules that are bound into the design.

`white_box.toml` describes the points; the `*_cover.sv` modules count them, under Verilator alone.
Bit i of `<array>_seen` tells whether element i of `<array>_hits` is above 0: reading a counter
costs one call over the simulator's interface. Counters are read when a test ends instead of being
dumped in a `final` block, because a run that was forked from a simulator ends before that block.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import PlanEntry, add_point

PLAN = Path(__file__).with_name("white_box.toml")
NO_CODE = ""
"""Name of a code without a bin."""


class PlannedPoint(PlanEntry, kw_only=True):
    """Entry of a white-box cross in `white_box.toml`.

    Attributes:
        name: Name of the point.
        module: Path of the cover module in the design.
        array: Name of the counters in it, without `_hits`.
    """

    name: str
    module: str
    array: str


class _Plan(msgspec.Struct, forbid_unknown_fields=True):
    codes: dict[str, list[str]]
    points: list[PlannedPoint]


@cache
def _plan() -> _Plan:
    return msgspec.toml.decode(PLAN.read_bytes(), type=_Plan)


class WhiteBox:
    """White-box cover point, counted by a cover module in the design.

    Args:
        model: Coverage model, to which the point is added.
        plan: Entry of the point.
        codes: For each axis the name of every code; NO_CODE for a code without a bin.
    """

    def __init__(self, model: CoverModel, plan: PlannedPoint, codes: list[list[str]]) -> None:
        self.plan = plan
        self.codes = codes
        axes = zip(plan.axes, codes, strict=True)
        named = {axis: [code for code in names if code != NO_CODE] for axis, names in axes}
        self.point = add_point(model, plan.name, plan, named)

    def values(self, index: int) -> tuple[str, ...]:
        """Return the axis values that an index of the counter array stands for.

        The last axis has the lowest bits. A code without a name gives "code N".
        """
        out: list[str] = []
        for names in reversed(self.codes):
            width = (len(names) - 1).bit_length()
            code = index & (1 << width) - 1
            index >>= width
            out.append(names[code] if code < len(names) else f"code {code}")
        return tuple(reversed(out))

    def take(self, top: Any) -> None:
        """Read the counters of the cover module and add them to the point.

        Args:
            top: Simulated design; nothing is added if it has no such module.
        """
        module = top
        for name in self.plan.module.split("."):
            module = getattr(module, name, None)
            if module is None:
                return
        array = getattr(module, f"{self.plan.array}_hits")
        for index in ones(int(getattr(module, f"{self.plan.array}_seen").value)):
            self.point.hit(*self.values(index), times=int(array[index].value))


class WhiteBoxPoints:
    """All white-box points of `white_box.toml`, added to a coverage model."""

    def __init__(self, model: CoverModel) -> None:
        self.model = model
        plan = _plan()
        self.boxes = [
            WhiteBox(
                model,
                one,
                [plan.codes[axis] if isinstance(axis, str) else axis for axis in one.axes.values()],
            )
            for one in plan.points
        ]

    def take(self, top: Any) -> None:
        """Read the counters of all cover modules in the simulated design `top`, and add them to the
        points.
        """
        for box in self.boxes:
            box.take(top)


def ones(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are 1, from bit 0 on."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
