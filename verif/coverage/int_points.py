# SPDX-License-Identifier: Apache-2.0
"""Cover points of the integer modes: codes, sums by every view, and what is refused."""

from __future__ import annotations

from models.aggregated_line import AggregatedLine
from models.line_packing import Mode, code_range, unpack_int
from models.regions import (
    PLANE_SELECTOR,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    Cause,
    CommitCode,
    Kind,
    RegionConfig,
)
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import INTS
from verif.scoreboard.operations import Op

SIGNS = ("unsigned", "signed")
VIEWS = ("plane", "SUM16", "SUM8")
WORKERS = ("1", "2..14", "15", "16", "17", "18..62", "63", "64")
CODES = ("smallest", "largest", "both", "one", "zeros", "any")
SEEN = ("none", "some", "all")
SELECTORS = ("0", "7", "15", "16", "17", "18", "19", "20", "32", "33", "34")


class IntPoints:
    """Feed it with `op`, `judged` and `committed`."""

    def __init__(self, model: CoverModel) -> None:
        cross = model.cross
        self.views = cross(
            "integer view",
            "every view by W, where planes, signs and the width of a sum change; SUM8 is there for "
            "4-bit codes of up to 16 workers",
            {"mode": INTS, "sign": SIGNS, "W": WORKERS, "view": VIEWS},
            test="test_systematic::codes",
            ignore=lambda mode, sign, W, view: _no_sum8(mode, W, view),
        )
        self.codes = cross(
            "integer codes",
            "codes at their corners: the largest sums, every sign, one element alone; the smallest "
            "unsigned codes are zeros",
            {"mode": INTS, "sign": SIGNS, "codes": CODES},
            test="test_systematic::codes",
            ignore=lambda mode, sign, codes: sign == "unsigned" and codes == "zeros",
        )
        self.lines = cross(
            "integer line",
            "each view of lines that nobody, some or all have contributed to, and of poisoned ones",
            {"mode": INTS, "view": VIEWS, "seen": SEEN, "mark": ("clean", "poisoned")},
            test="test_systematic::codes",
            ignore=lambda mode, view, seen, mark: (
                (mode == INTS[1] and view == "SUM8") or (seen == "all" and mark == "poisoned")
            ),
        )
        self.line = cross(
            "integer view line",
            "every line of every view: each shows other elements",
            {"mode": INTS, "line": ("16", "17", "18", "19", "32", "33")},
            test="test_systematic::codes",
            ignore=lambda mode, line: mode == INTS[1] and line not in ("16", "17"),
        )
        self.selectors = cross(
            "integer selector",
            "selectors beside the views: a mode or a W has fewer views than another",
            {"mode": INTS, "sum8": ("SUM8", "none"), "selector": SELECTORS},
            test="test_int::refusals",
            at_least=CHEAP,
            ignore=lambda mode, sum8, selector: mode == INTS[1] and sum8 == "SUM8",
        )
        self.refused = model.point(
            "integer commit",
            "each reserved mode, and more workers than the counters can sum",
            [*(f"MODE {code}" for code in range(6, 16)), *(f"PLANES {mode}" for mode in INTS)],
            test="test_int::refusals",
        )

    def op(self, op: Op, config: RegionConfig) -> None:
        """An answered operation of a region of integer codes."""
        if op.read and op.access.cause in (Cause.NONE, Cause.SELECTOR):
            sum8 = "SUM8" if config.mode is Mode.G_INT4 and config.workers <= 16 else "none"
            selector = str(op.access.selector)
            if selector in SELECTORS:
                self.selectors.hit(config.mode.name, sum8, selector)

    def judged(self, op: Op, config: RegionConfig, after: AggregatedLine) -> None:
        """An operation on a line, and the line after it."""
        mode, sign = config.mode.name, SIGNS[config.signed]
        if op.access.kind is Kind.CONTRIBUTION:
            data = after.data.get(op.access.selector)
            if data is not None:
                self.codes.hit(mode, sign, _codes_class(data, config))
            return
        view, line = _view(op.access.selector)
        seen = "all" if after.all_seen(config.workers) else "some" if after.data else "none"
        self.lines.hit(mode, view, seen, "poisoned" if after.poisoned else "clean")
        if line is not None:
            self.line.hit(mode, line)
        if seen == "all":
            self.views.hit(mode, sign, _workers_class(config.workers), view)

    def committed(self, config: RegionConfig, code: int) -> None:
        """A commit was decided."""
        if code == CommitCode.MODE:
            self.refused.hit(f"MODE {int(config.mode)}")
        if code == CommitCode.PLANES and config.mode.bits:
            self.refused.hit(f"PLANES {config.mode.name}")


def _view(selector: int) -> tuple[str, str | None]:
    """(view, selector where it is that of a line of sums)"""
    if selector >= SUM8_SELECTOR:
        return "SUM8", str(selector)
    if selector >= SUM16_SELECTOR:
        return "SUM16", str(selector)
    assert selector >= PLANE_SELECTOR
    return "plane", None


def _workers_class(workers: int) -> str:
    return str(workers) if str(workers) in WORKERS else WORKERS[1] if workers < 15 else WORKERS[5]


def _no_sum8(mode: str, workers: str, view: str) -> bool:
    return view == "SUM8" and (mode == INTS[1] or workers not in WORKERS[:4])


def _codes_class(data: bytes, config: RegionConfig) -> str:
    codes = unpack_int(memoryview(data), config.mode, config.signed)
    low, high = code_range(config.mode, config.signed)
    if not codes.any():
        return "smallest" if low == 0 else "zeros"
    if (codes == codes[0]).all() and codes[0] in (low, high):
        return "smallest" if codes[0] == low else "largest"
    if ((codes == low) | (codes == high)).all():
        return "both"
    return "one" if (codes != 0).sum() == 1 else "any"
