# SPDX-License-Identifier: Apache-2.0
"""Commits: their codes, shapes and options of regions, what a new round finds of the old one."""

from __future__ import annotations

from models.aggregated_line import AggregatedLine
from models.line_packing import Mode
from models.regions import CommitCode, Kind, RegionConfig
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import (
    AGGREGATING,
    LINES,
    MODES,
    THRESHOLDS,
    lines_class,
    own_points,
    threshold_class,
)
from verif.scoreboard.operations import Op

CHANGES = (
    "first",
    "same",
    "options",
    "W",
    "lines",
    "mode",
    "window moved",
    "area moved",
    "several",
)
NUMBERS = ("0", "same", "next", "2^32-1", "other")
MASKS = ("none", "one", "some", "all")
TOUCHES = ("write", "result", "part")
FOUND = ("new area", "older round", "other shape")
_SHAPE = {
    "workers": "W",
    "lines_log2": "lines",
    "mode": "mode",
    "base": "window moved",
    "state_base": "area moved",
}


class EpochPoints:
    """Feed it with `committed` and `judged`."""

    def __init__(self, model: CoverModel) -> None:
        point, cross = model.point, model.cross
        self.workers = cross(
            "workers",
            "every number of workers, per mode: bitmaps, planes and record sizes depend on it",
            {"mode": AGGREGATING, "W": [str(workers) for workers in range(1, 65)]},
            test="test_systematic::workers",
        )
        self.lines = cross(
            "lines",
            "windows of one line, of several, and so large that index bits above the slots count",
            {"mode": MODES, "LINES_LOG2": LINES},
            test="test_systematic::large_regions",
        )
        self.options = point(
            "options",
            "both values of the options that change an answer",
            [f"{o} {v}" for o in ("tie_minus", "strict", "bind", "keep_sum") for v in (0, 1)],
            test="test_scenario::mixed",
            at_least=CHEAP,
        )
        self.threshold = point(
            "threshold",
            "thresholds that a single worker, some, all or none can reach",
            THRESHOLDS,
            test="test_scenario::mixed",
        )
        self.ld_mask = cross(
            "LD mask",
            "how many logical devices a region lets in, with BIND and without",
            {"mode": MODES, "LD-IDs": MASKS, "bind": ("free", "BIND")},
            test="test_systematic::changes",
        )
        self.commit = cross(
            "commit",
            "every code of a commit, of a region that has a descriptor already and of one that "
            "has none",
            {"code": [code.name for code in CommitCode], "before": ("none", "committed")},
            test="test_descriptors::descriptor_errors",
        )
        self.change = cross(
            "commit change",
            "what a commit changes of the region that was there: records are kept or written anew; "
            "a mode to which nothing else has changed is not the same mode",
            {"change": CHANGES, "mode": MODES},
            test="test_systematic::changes",
        )
        self.number = point(
            "epoch number",
            "a commit starts a round whatever number it writes",
            NUMBERS,
            test="test_epochs::epoch_other_region",
        )
        self.commit_traffic = point(
            "commit traffic",
            "an epoch starts while requests are in flight, and with none",
            ["quiet", "busy"],
            test="test_scenario::many_commits",
            at_least=CHEAP,
        )
        self.first_touch = cross(
            "first touch",
            "the first operation on a line of a round, with what its record held before: memory of "
            "others, an older round of the same shape, or one of another shape",
            {"mode": AGGREGATING, "found": FOUND, "what": TOUCHES},
            test="test_systematic::changes",
            at_least=CHEAP,
        )
        self._old: dict[int, RegionConfig] = {}
        self._found: dict[int, str] = {}
        self._number: dict[int, int] = {}

    # -- sampling -----------------------------------------------------------------------------
    def committed(
        self, region: int, config: RegionConfig, epoch: int, code: int, busy: bool
    ) -> None:
        """A commit was decided."""
        old = self._old.get(region)
        self.commit.hit(CommitCode(code).name, "committed" if old else "none")
        if code:
            return
        self._old[region] = config
        change = _change(old, config)
        same_area = old is not None and old.state_base == config.state_base
        same_shape = change in ("same", "options", "window moved")
        self._found[region] = FOUND[0 if not same_area else 1 if same_shape else 2]
        self.number.hit(_number(self._number.get(region), epoch))
        self._number[region] = epoch
        self.commit_traffic.hit("busy" if busy else "quiet")
        for option in ("tie_minus", "strict", "bind", "keep_sum"):
            self.options.hit(f"{option} {int(getattr(config, option))}")
        if config.mode is Mode.G_TERNARY:
            self.threshold.hit(threshold_class(config.threshold, config.workers))
        allowed = {0: "none", 1: "one", 16: "all"}.get(config.ld_mask.bit_count(), "some")
        if own_points(config.mode):
            return
        self.change.hit(change, config.mode.name)
        self.lines.hit(config.mode.name, lines_class(config.lines_log2))
        self.ld_mask.hit(config.mode.name, allowed, "BIND" if config.bind else "free")
        if config.mode is not Mode.IDENTITY:
            self.workers.hit(config.mode.name, str(config.workers))

    def judged(self, op: Op, config: RegionConfig, before: AggregatedLine) -> None:
        """An operation on a line that raced with none; `before` is the line as it was."""
        if before.data or before.poisoned:
            return
        kind = op.access.kind
        what = TOUCHES[0 if kind is Kind.CONTRIBUTION else 1 if kind is Kind.RESULT else 2]
        self.first_touch.hit(config.mode.name, self._found[op.access.region], what)


def _change(old: RegionConfig | None, new: RegionConfig) -> str:
    if old is None:
        return "first"
    shape = [name for field, name in _SHAPE.items() if getattr(old, field) != getattr(new, field)]
    if shape:
        return shape[0] if len(shape) == 1 else "several"
    return "same" if old == new else "options"


def _number(old: int | None, new: int) -> str:
    if new in (0, 2**32 - 1):
        return "0" if new == 0 else "2^32-1"
    if old is None:
        return "other"
    return {0: "same", 1: "next"}.get(new - old, "other")
