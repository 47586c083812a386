# SPDX-License-Identifier: Apache-2.0
"""Ranges of the status registers of a region, and of the number of completed regions.

The model's status holds for the judged requests. Requests in flight, a commit in progress, and
lines with several possible states or an unknown one widen it, for their own region only.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cocotbext.cxl.wire.messages import S2MDRS
from models.access_decode import Kind
from models.aggregated_line import AggregatedLine
from models.commit_check import check_commit
from models.device import DeviceModel
from models.info_status_lines import WORKERS_A_LINE, StatusView, unpack_words
from models.modes import GATED, Mode
from models.regions import MAX_WORKERS, STATUS_SELECTOR, WORKER_LINES_SELECTOR, RegionConfig
from verif.scoreboard.line_judge import LineJudge
from verif.scoreboard.operations import Op, describe
from verif.scoreboard.ranges import Before, Cleared, Span, either, exactly

KEPT = 64
"""Commits of a region that may lie within one read of its registers."""
LEVELS = ("done", "complete_lines", "saturated", "illegal_seen", "closed")
"""Figures that only grow within an epoch."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Settled commit of a region.

    Attributes:
        count: Value of `RegionStatusRanges._commits` of the region at that time.
        epoch: Epoch of the region after it.
        code: Result code of the commit.
        lines: Number of lines of the region after it.
    """

    count: int
    epoch: int
    code: int
    lines: int


@dataclass(slots=True)
class Glimpse:
    """Possible register values of a region when a read begins.

    Attributes:
        values: Range by name of the field.
        commits: Value of `RegionStatusRanges._commits` of the region.
        busy: Whether a commit or close of the region is pending.
    """

    values: dict[str, Span]
    commits: int
    busy: bool


class RegionStatusRanges:
    """Predictor of the ranges of each region's status registers while requests are in flight.

    Args:
        model: Device model, with the status after the judged requests.
        judge: Unjudged requests and doubtful lines.
        configs: Committed descriptor by region, None without one; a list that the scoreboard
            changes.
    """

    def __init__(
        self, model: DeviceModel, judge: LineJudge, configs: Sequence[RegionConfig | None]
    ) -> None:
        self.model = model
        self.judge = judge
        self.configs = configs
        self._commits = [0] * len(configs)
        self._settled: list[deque[Settled]] = [deque(maxlen=KEPT) for _ in configs]
        self._counted = [False] * len(configs)
        self._might = [False] * len(configs)
        self._done = 0
        self._perhaps = 0

    # -- events -------------------------------------------------------------------------------
    def commit_begin(self, region: int) -> None:
        """Record the start of a write of EPOCH or CLOSE."""
        self._commits[region] += 1
        self.request(region)

    @property
    def commits(self) -> int:
        """Return the number of starts and settlements of commits of all regions, a change of which
        shows that a commit has begun or has been settled.
        """
        return sum(self._commits)

    def request(self, region: int) -> None:
        """Record a request for a region.

        With a pending commit the request may still complete the old round, which the number of
        completed regions then may include.
        """
        if self.judge.pending(region) and self._now(region)["done"].high:
            self._might[region] = True

    def committed(self, region: int, accepted: bool) -> None:
        """Record a settled commit of a region, with its code; an accepted one starts a new
        round.
        """
        self._commits[region] += 1
        status, config = self.model.region_status(region), self.configs[region]
        lines = config.lines if config is not None else 0
        settled = Settled(self._commits[region], status.epoch, status.code, lines)
        self._settled[region].append(settled)
        if accepted:
            self._perhaps += self._might[region] and not self._counted[region]
            self._counted[region] = False
        self._might[region] = bool(self.judge.pending(region))

    def closed(self, region: int) -> None:
        """Record a settled close of a region; it counts as completed, once in a round."""
        self._commits[region] += 1
        self.judged(region)

    def judged(self, region: int) -> None:
        """Count a region as completed, once in a round, when judged requests have certainly made it
        DONE.
        """
        if self._counted[region] or not self.model.region_status(region).done:
            return
        if self._now(region)["done"].low:
            self._counted[region] = True
            self._done += 1

    def times_done(self) -> Span:
        """Return the range of the number of times, over all regions, that a round was completed."""
        more = self._perhaps
        for region, counted in enumerate(self._counted):
            if not counted and self.configs[region] is not None:
                more += self._now(region)["done"].high
            if self.judge.pending(region):
                more += 1
        return Span(self._done, self._done + more)

    # -- reads --------------------------------------------------------------------------------
    def begin(self, region: int) -> Glimpse:
        """Return the state that `end` needs of the begin of a read of a region's status."""
        busy = bool(self.judge.pending(region))
        return Glimpse(self._now(region), self._commits[region], busy)

    def end(self, region: int, before: Glimpse) -> dict[str, Span]:
        """Return the ranges of the status values that a read which ends now may return.

        Args:
            region: Number of the region.
            before: Result of `begin` when the read began.

        Returns:
            Range by name: committed, code, epoch, done, complete_lines, saturated, illegal_seen,
            closed. A commit within the read leaves most of them open.
        """
        now = self._now(region)
        raced = before.busy or before.commits != self._commits[region]
        pending = self.judge.pending(region)
        if not raced and not pending:
            return {
                name: Span(min(before.values[name].low, span.low), span.high, span.also)
                if name in LEVELS
                else span
                for name, span in now.items()
            }
        others = [one for number, one in enumerate(self.configs) if one and number != region]
        control = self.model.control.base_line
        codes = [
            int(check_commit(self.model.params, one.config, others, control)) for one in pending
        ]
        within = [one for one in self._settled[region] if one.count > before.commits]
        codes += [one.code for one in within]
        epochs = [one.epoch for one in pending] + [one.epoch for one in within]
        lines = max((one.config.lines for one in pending), default=0)
        lines = max((lines, *(one.lines for one in within)))
        most = max(lines, now["complete_lines"].high, before.values["complete_lines"].high)
        was, present = ({n: low for n, (low, *_) in one.items()} for one in (before.values, now))
        return {
            "committed": Span(was["committed"], 1),
            "code": either(was["code"], present["code"], *codes),
            "epoch": either(was["epoch"], present["epoch"], *epochs),
            "done": Span(0, 1),
            "complete_lines": Span(0, most),
            "saturated": Span(0, 1),
            "illegal_seen": Span(0, 1),
            "closed": Span(0, 1),
        }

    def _now(self, region: int) -> dict[str, Span]:
        status = self.model.region_status(region)
        config = self.configs[region]
        judge = self.judge
        doubt = judge.doubt(region)
        fewer, more = doubt.fewer, doubt.more
        adding = {op.key for op in judge.ops(region) if op.access.kind is Kind.CONTRIBUTION}
        gated = config is not None and config.mode in GATED
        lines = config.lines if config is not None else 0
        complete = Span(
            status.complete_lines - fewer[0],
            min(lines, status.complete_lines + more[0] + len(adding)),
        )
        counts = config is not None and config.mode is not Mode.IDENTITY
        saturated, illegal = self.model.flagged_lines(region)
        return {
            "committed": exactly(int(status.committed)),
            "code": exactly(status.code),
            "epoch": exactly(status.epoch),
            "complete_lines": complete,
            "done": Span(
                int(counts and (status.closed or complete.low == lines)),
                int(counts and (status.closed or complete.high == lines)),
            ),
            "closed": exactly(int(status.closed)),
            "saturated": Span(
                int(saturated > fewer[1]), int(saturated + more[1] > 0 or bool(adding))
            ),
            "illegal_seen": Span(
                int(illegal > fewer[2]), int(illegal + more[2] > 0 or (bool(adding) and gated))
            ),
        }


# What STATUS of a region may tell: selector 2 its figures, selectors 3 to 6 lines of each worker.
#
# spec: controller, second edition, section 4. STATUS belongs to no line, so its words are
# compared like registers: each with the range from what was certain when the read began to what
# was possible when it ended. While nothing is in flight every range is one value.


ANY = Span(0, (1 << 32) - 1)
_COUNTS = ("refused", "late", "poisoned_lines")


def _line_counts(line: AggregatedLine) -> list[int]:
    """Return counts of one line for the STATUS view.

    They are: late contributions, 1 if it counts as poisoned, and for each of MAX_WORKERS workers
    the number of its first contributions.
    """
    seen = line.times_seen
    return [line.late, int(line.counted_poisoned), *(seen.get(w, 0) for w in range(MAX_WORKERS))]


@dataclass(slots=True)
class Seen:
    """Knowledge at the begin of a read of STATUS through a region's window.

    Attributes:
        status: Ranges of the status registers.
        counts: Ranges of refused, late and poisoned_lines, then of the lines of each worker.
        fallback: Knowledge of FALLBACK.
        commits: Number of settled commits of the region.
    """

    status: Glimpse
    counts: list[Span]
    fallback: Before
    commits: int


@dataclass(eq=False)
class RegionViews:
    """Check of reads of STATUS through a region's window: selector 2 has figures of the region,
    selectors 3 to 6 the number of lines of each worker (spec: controller, second edition, section
    4).

    Each word is compared with the range from what was certain when the read began to what was
    possible when it ended.

    Args:
        model: Device model, with the counts after the judged requests.
        judge: Unjudged requests and doubtful lines.
        status: Ranges of the status registers.
        fallback: FALLBACK of each region, since software cleared it.
        observed: Called with each response: request, its 32-bit words, and whether each word could
            have one value only (see `Observer.status_read`).
    """

    model: DeviceModel
    judge: LineJudge
    status: RegionStatusRanges
    fallback: Sequence[Cleared]
    observed: Callable[[Op, list[int], bool], None]
    _open: dict[Op, Seen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._commits, self._raced, self._doubt = ([0] * len(self.fallback) for _ in range(3))

    # -- events -------------------------------------------------------------------------------
    def request(self, op: Op) -> None:
        """Record the start of a request; of a read of STATUS, also the ranges of its words now."""
        if op.access.kind is not Kind.STATUS:
            return
        region = op.access.region
        self._open[op] = Seen(
            self.status.begin(region),
            self.now(region),
            self.fallback[region].begin(),
            self._commits[region],
        )

    def commit_begin(self, region: int) -> None:
        """Record the start of a commit or a close, after `LineJudge` has; with another one pending
        they are settled together, and refusals may lie before or after each of them.
        """
        if len(self.judge.pending(region)) == 1:
            self._raced[region] = 0

    def raced(self, op: Op) -> None:
        """Count a refused request that was answered during a commit: it may count before or after
        it.
        """
        region = op.access.region
        if op.access.kind is Kind.REFUSED and region is not None and self._committing(region):
            self._raced[region] += 1

    def committed(self, region: int, accepted: bool) -> None:
        """Record a settled commit of a region; with an accepted one the racing refusals become
        doubtful.
        """
        self._commits[region] += 1
        if accepted:
            self._doubt[region] = self._raced[region]

    def _committing(self, region: int) -> bool:
        return any(not one.closes for one in self.judge.pending(region))

    # -- answers ------------------------------------------------------------------------------
    def response(self, op: Op, report: Callable[[str, str, str], None]) -> None:
        """Check the response to a read of STATUS; nothing happens for other requests.

        Args:
            op: Answered request.
            report: Called with text, key and data of a finding.
        """
        wrong = self.wrong(op) if op in self._open else None
        if wrong is not None:
            text = f"{describe(op.response)} to {describe(op.msg)}"
            report(wrong, f"STATUS view of selector {op.access.selector}", text)

    def wrong(self, op: Op) -> str | None:
        """Return the text of the finding in the response to a read of STATUS, or None if it is
        possible.
        """
        before = self._open.pop(op)
        if not isinstance(op.response, S2MDRS):
            return None
        region, selector = op.access.region, op.access.selector
        words = unpack_words(op.response.data)
        raced = before.commits != self._commits[region] or self._committing(region)
        counts = [
            ANY if raced else Span(min(old.low, now.low), max(old.high, now.high))
            for old, now in zip(before.counts, self.now(region), strict=True)
        ]
        if selector == STATUS_SELECTOR:
            want = self._figures(region, before, counts)
        else:
            first = len(_COUNTS) + (selector - WORKER_LINES_SELECTOR) * WORKERS_A_LINE
            each = counts[first : first + WORKERS_A_LINE]
            names = range(first - len(_COUNTS), MAX_WORKERS)
            want = {f"lines of worker {w}": one for w, one in zip(names, each, strict=False)}
        self.observed(op, words, all(one.low == one.high for one in want.values()))
        for index, (name, span) in enumerate(want.items()):
            if words[index] not in span:
                return f"STATUS of region {region}: {name} is {words[index]}, expected {span}"
        if any(words[len(want) :]):
            return f"STATUS of region {region}: words after the last are {words[len(want) :]}"
        return None

    def _figures(self, region: int, before: Seen, counts: list[Span]) -> dict[str, Span]:
        ranges = self.status.end(region, before.status)
        times = self.fallback[region].end(before.fallback)
        raised = Span(int(times.low > 0), int(times.high > 0))
        named = dict(zip(_COUNTS, counts, strict=False))
        order = StatusView.__dataclass_fields__
        return {name: (ranges | {"fallback": raised} | named)[name] for name in order}

    def now(self, region: int) -> list[Span]:
        """Return the ranges of the counts of a region that STATUS shows, as they are now.

        Returns:
            Ranges of refused requests, late contributions and poisoned lines, then of the number of
            lines of each of MAX_WORKERS workers.
        """
        view = self.model.status_view(region)
        unsure = self._doubt[region]
        open_refused = sum(op.access.kind is Kind.REFUSED for op in self.judge.ops(region))
        refused = Span(view.refused - unsure, view.refused + unsure + open_refused)
        if any(key[0] == region for key in self.judge.unknown if isinstance(key, tuple)):
            return [refused, *(ANY for _ in range(MAX_WORKERS + 2))]
        counts = [view.late, view.poisoned_lines, *self.model.worker_lines(region)]
        low, high = list(counts), list(counts)
        for states in self.judge.alternatives(region):
            lines = [state.snap.line for state in states]
            each = [_line_counts(line) for line in lines if line is not None]
            for index, first in enumerate(each[0]):
                low[index] += min(one[index] for one in each) - first
                high[index] += max(one[index] for one in each) - first
        config = self.model.config(region)
        stored = config is not None and config.mode is Mode.FP32
        for op in self.judge.ops(region):
            if op.access.kind is Kind.CONTRIBUTION:
                high[0] += 1
                high[1] += stored or bool(getattr(op.msg, "poison", False))
                high[2 + op.access.selector] += 1
        return [refused, *map(Span, low, high)]
