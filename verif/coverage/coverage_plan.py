# SPDX-License-Identifier: Apache-2.0
"""Coverage plan: bins, reason, test and least hits of each sampled point, from `plan.toml`.

`Points` is the base of the classes that sample them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from cocotbext.cxl.faults import CAMPAIGN
from cocotbext.cxl.wire.messages import ReqOp, RwdOp
from models.access_decode import Cause, Kind
from models.aggregated_line import AggregatedLine
from models.commit_check import CommitCode
from models.regions import INFO_SELECTOR, VIEW_SELECTORS, RegionConfig
from models.register_map import REG_MAP
from models.register_types import Counts, FieldAccess
from verif.coverage.cover_model import CoverModel, CoverPoint
from verif.scoreboard.operations import Op

_PATTERN = re.compile(r"\{(?:(\d+)\.\.(\d+)|(\w+))\}")
Axes = Mapping[str, list[str]]
_BOUND = re.compile(r"(above )?(\d+)")


class PlanEntry(msgspec.Struct, forbid_unknown_fields=True):
    """Entry of a cover point in `plan.toml`.

    Attributes:
        reason: Statement of what a hole would leave untested.
        test: Test that is meant to hit the bins.
        at_least: Number of hits that each bin needs in the merged nightly suite.
        bins: Names of the bins, or patterns.
        illegal: Names whose hit fails the test.
        axes: Values by name of the axis, for a cross; a string names a list of [codes].
        never: Combinations of axis values that have no bin.
    """

    reason: str
    test: str
    at_least: int = 1
    bins: list[str] = []
    illegal: list[str] = []
    axes: dict[str, str | list[str]] = {}
    never: list[dict[str, str | list[str]]] = []


class _Plan(msgspec.Struct, forbid_unknown_fields=True):
    codes: dict[str, list[str]]
    points: dict[str, PlanEntry]
    shown_by: dict[str, list[str]]


def _stored() -> Iterable[str]:
    """Yield the fields that only software changes, by their names in the plan."""
    for name, register in REG_MAP.named().items():
        for field in register.fields:
            if field.access is FieldAccess.RW and not field.volatile:
                yield name if field.name == "VALUE" else f"{name}.{field.name}"


@cache
def _plan() -> _Plan:
    source = Path(__file__).with_name("plan.toml").read_bytes()
    plan = msgspec.toml.decode(source, type=_Plan)
    enums = REG_MAP.enums
    sources = [field.name for field in REG_MAP.expand()["IRQ_STATUS"].fields]
    plan.codes |= {
        "COUNTERS": list(REG_MAP.counters(Counts.SLOTS)),
        "COMMITS": [code.name for code in CommitCode],
        "CAUSES": [cause.name for cause in Cause if cause is not Cause.NONE],
        "REQS": [op.name for op in ReqOp if op is not ReqOp.MEM_SPEC_RD],
        "RWDS": [op.name for op in RwdOp],
        "SOURCES": sources,
        "SINGLE_SOURCES": [name for name in sources if name != "FALLBACK"],
        # A flit is read again only on a link with faults: test_link_ram_flips has it.
        "RAMS": [name for name in enums["Ram"] if name != "RETRY"],
        "LRSM": list(enums["Lrsm"]),
        "LINK_ERRORS": [name for name, code in enums["LinkError"].items() if code],
        "STATUS_READS": [
            *(name for name, one in REG_MAP.named().items() if one.volatile_mask),
            *(f"selector {one}" for one in (INFO_SELECTOR, *VIEW_SELECTORS)),
        ],
        "STORED": list(_stored()),
        "FAULTS": [kind.value for kind in CAMPAIGN],
    }
    return plan


def entries() -> dict[str, PlanEntry]:
    """Return the plan of each sampled point, by name of the point."""
    return _plan().points


def shown_by() -> dict[str, tuple[str, ...]]:
    """Return the register fields that each test must see change, by name of the test."""
    return {test: tuple(values_of(fields)) for test, fields in _plan().shown_by.items()}


def codes(name: str) -> tuple[str, ...]:
    """Return a list of names that several points share, from [codes] of `plan.toml`."""
    return tuple(_plan().codes[name])


@cache
def class_of(name: str, value: int) -> str:
    """Return the class of a number: the last name of `codes(name)` whose lower bound it reaches.

    "4..15" begins at 4, "above 256" at 257.
    """
    found = ""
    for one in codes(name):
        bound = _BOUND.match(one)
        assert bound is not None, f"{name}: {one!r} is no class of numbers"
        if value >= int(bound[2]) + bool(bound[1]):
            found = one
    return found


def _names(text: str) -> Iterable[str]:
    """Yield the names that a pattern expands to: {NAME} stands for each name of a list, {0..7} for
    numbers.
    """
    fixed = _PATTERN.split(text)[::4]
    parts = [
        codes(one[3]) if one[3] else [str(n) for n in range(int(one[1]), int(one[2]) + 1)]
        for one in _PATTERN.finditer(text)
    ]
    for values in product(*parts):
        yield "".join(a + b for a, b in zip(fixed, (*values, ""), strict=True))


def values_of(given: str | list[str]) -> list[str]:
    """Return the names that an entry of `plan.toml` stands for.

    Args:
        given: Name of a list in [codes], a single value, or a list of patterns.
    """
    if isinstance(given, str):
        return _plan().codes.get(given, [given])
    return [name for text in given for name in _names(text)]


def add_point(model: CoverModel, name: str, plan: PlanEntry, axes: Axes) -> CoverPoint:
    """Add a point of the coverage plan to a model, and return it.

    Args:
        model: Coverage model.
        name: Name of the point.
        plan: Its entry in the plan.
        axes: Values by name of the axis, for a cross; empty for a point with a list of bins.
    """
    common: dict[str, Any] = {"test": plan.test, "at_least": plan.at_least}
    if axes:
        never = [{axis: values_of(some) for axis, some in one.items()} for one in plan.never]
        return model.cross(name, plan.reason, axes, never=never, **common)
    illegal = values_of(plan.illegal)
    return model.point(name, plan.reason, values_of(plan.bins), illegal=illegal, **common)


@dataclass(slots=True)
class Judged:
    """Operation on a line of a region that the scoreboard found correct.

    Attributes:
        op: Request with its response.
        config: Descriptor of the region.
        before: Line before the operation.
        after: Line after the operation.
        closed: Whether the round of the region is closed.
        done: Whether the region is done after it.
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
