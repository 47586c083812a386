# SPDX-License-Identifier: Apache-2.0
"""What STATUS of a region may tell: selector 2 its figures, selectors 3 to 6 lines of each worker.

spec: controller, second edition, section 4. STATUS belongs to no line, so its words are compared
like registers: each with the range from what was certain when the read began to what was possible
when it ended. While nothing is in flight every range is one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cocotbext.cxl.wire.messages import S2MDRS
from models.aggregated_line import AggregatedLine
from models.device import DeviceModel
from models.line_packing import Mode
from models.regions import MAX_WORKERS, STATUS_SELECTOR, WORKER_LINES_SELECTOR, Kind
from models.views import WORKERS_A_LINE, StatusView, unpack_words
from verif.scoreboard.operations import Op, describe
from verif.scoreboard.quiescence import Quiescence
from verif.scoreboard.ranges import Before, Cleared, Span
from verif.scoreboard.region_status import Glimpse, RegionStatusRanges

ANY = Span(0, (1 << 32) - 1)
_COUNTS = ("refused", "late", "poisoned_lines")


def _line_counts(line: AggregatedLine) -> list[int]:
    """Late, marked as poisoned, and times that each worker was new to it."""
    seen = line.times_seen
    return [line.late, int(line.counted_poisoned), *(seen.get(w, 0) for w in range(MAX_WORKERS))]


@dataclass(slots=True)
class Seen:
    """What was known when a read of STATUS began."""

    status: Glimpse
    counts: list[Span]
    fallback: Before | None
    commits: int


class RegionViews:
    """Feed it with `request`, `raced`, `committed`, `response`."""

    def __init__(
        self, model: DeviceModel, quiescence: Quiescence, status: RegionStatusRanges, regions: int
    ) -> None:
        self.model = model
        self.quiescence = quiescence
        self.status = status
        self.fallback: Sequence[Cleared] = ()
        """What each region has raised of FALLBACK since software cleared it; empty: not known."""
        self.on_read: Callable[[Op, list[int], bool], None] = lambda _op, _words, _exact: None
        """Hears of each answer: its words, and whether each could have one value only."""
        self._open: dict[Op, Seen] = {}
        self._commits = [0] * regions
        self._raced = [0] * regions
        self._doubt = [0] * regions

    # -- events -------------------------------------------------------------------------------
    def request(self, op: Op) -> None:
        """A request has begun."""
        if op.access.kind is not Kind.STATUS:
            return
        region = op.access.region
        raised = self.fallback[region].begin() if self.fallback else None
        self._open[op] = Seen(
            self.status.begin(region), self._now(region), raised, self._commits[region]
        )

    def raced(self, op: Op) -> None:
        """A request is answered; a refusal that races with a commit counts on either side of it."""
        region = op.access.region
        if op.access.kind is Kind.REFUSED and region is not None and self._committing(region):
            self._raced[region] += 1

    def committed(self, region: int, accepted: bool) -> None:
        """A commit is settled."""
        self._commits[region] += 1
        if accepted:
            self._doubt[region] = self._raced[region]
        self._raced[region] = 0

    def _committing(self, region: int) -> bool:
        return any(not one.closes for one in self.quiescence.pending(region))

    # -- answers ------------------------------------------------------------------------------
    def response(self, op: Op, report: Callable[[str, str, str], None]) -> None:
        """A request was answered; `report` hears what is wrong with STATUS, its key, the data."""
        wrong = self.wrong(op) if op in self._open else None
        if wrong is not None:
            text = f"{describe(op.response)} to {describe(op.msg)}"
            report(wrong, f"STATUS view of selector {op.access.selector}", text)

    def wrong(self, op: Op) -> str | None:
        """What is wrong with the answer to a read of STATUS."""
        before = self._open.pop(op)
        if not isinstance(op.response, S2MDRS):
            return None
        region, selector = op.access.region, op.access.selector
        words = unpack_words(op.response.data)
        raced = before.commits != self._commits[region] or self._committing(region)
        counts = [
            ANY if raced else Span(min(old.low, now.low), max(old.high, now.high))
            for old, now in zip(before.counts, self._now(region), strict=True)
        ]
        if selector == STATUS_SELECTOR:
            want = self._figures(region, before, counts)
        else:
            first = len(_COUNTS) + (selector - WORKER_LINES_SELECTOR) * WORKERS_A_LINE
            each = counts[first : first + WORKERS_A_LINE]
            names = range(first - len(_COUNTS), MAX_WORKERS)
            want = {f"lines of worker {w}": one for w, one in zip(names, each, strict=False)}
        self.on_read(op, words, all(one.low == one.high for one in want.values()))
        for index, (name, span) in enumerate(want.items()):
            if words[index] not in span:
                return f"STATUS of region {region}: {name} is {words[index]}, expected {span}"
        if any(words[len(want) :]):
            return f"STATUS of region {region}: words behind the last are {words[len(want) :]}"
        return None

    def _figures(self, region: int, before: Seen, counts: list[Span]) -> dict[str, Span]:
        ranges = self.status.end(region, before.status)
        raised = ANY
        if before.fallback is not None:
            times = self.fallback[region].end(before.fallback)
            raised = Span(int(times.low > 0), int(times.high > 0))
        named = dict(zip(_COUNTS, counts, strict=False))
        order = StatusView.__dataclass_fields__
        return {name: (ranges | {"fallback": raised} | named)[name] for name in order}

    def _now(self, region: int) -> list[Span]:
        """Refused, late, poisoned lines, lines of each worker."""
        view = self.model.status_view(region)
        unsure = self._doubt[region]
        open_refused = sum(op.access.kind is Kind.REFUSED for op in self.quiescence.ops(region))
        refused = Span(view.refused - unsure, view.refused + unsure + open_refused)
        if any(key[0] == region for key in self.quiescence.unknown if isinstance(key, tuple)):
            return [refused, *(ANY for _ in range(MAX_WORKERS + 2))]
        counts = [view.late, view.poisoned_lines, *self.model.worker_lines(region)]
        low, high = list(counts), list(counts)
        for states in self.quiescence.alternatives(region):
            lines = [state.snap.line for state in states]
            each = [_line_counts(line) for line in lines if line is not None]
            for index, first in enumerate(each[0]):
                low[index] += min(one[index] for one in each) - first
                high[index] += max(one[index] for one in each) - first
        config = self.model.config(region)
        stored = config is not None and config.mode is Mode.FP32
        for op in self.quiescence.ops(region):
            if op.access.kind is Kind.CONTRIBUTION:
                high[0] += 1
                high[1] += stored or bool(getattr(op.msg, "poison", False))
                high[2 + op.access.selector] += 1
        return [refused, *map(Span, low, high)]
