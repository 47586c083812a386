# SPDX-License-Identifier: Apache-2.0
"""Summary of all that the checkers derive, which the cases of this folder compare."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, fields, is_dataclass
from typing import Any

from models.aggregated_line import AggregatedLine
from models.control_window import ControlWindow
from models.expected_response import AccessError
from models.memory import MemoryLine
from models.regions import RegionConfig
from verif.coverage.device_coverage import NfCoverage
from verif.scoreboard.operations import Op
from verif.scoreboard.ranges import Before, Span
from verif.scoreboard.region_status import Glimpse
from verif.scoreboard.register_predictor import RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard

PERIOD = 64
"""Events between two looks at all ranges."""
Summary = dict[str, Any]
"""Value by name, of which "/" separates the parts."""


_CLOSED = ("Scoreboard", "LineJudge", "LenientJudge", "MemoryPort", "RegisterPredictor", "Rules")
"""Classes of verif.scoreboard whose knowledge lies in other objects."""


def checksum(value: object, before: int = 0) -> int:
    """Return the checksum of the text of a value; `before`: that of earlier values."""
    return zlib.crc32(repr(value).encode(), before)


def plain(value: object) -> object:
    """Return a value as numbers, texts and lists, also the knowledge in an object of a checker."""
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, Op):
        return value.start, value.end
    if isinstance(value, Mapping):
        return sorted(([plain(key), plain(one)] for key, one in value.items()), key=repr)
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, list | tuple | deque):
        return [plain(one) for one in value]
    if isinstance(value, RegionConfig | AccessError | ControlWindow):
        return plain(astuple(value))
    kind = type(value)
    if not kind.__module__.startswith("verif.scoreboard.") or kind.__name__ in _CLOSED:
        return kind.__name__
    if is_dataclass(value):
        return [plain(getattr(value, one.name)) for one in fields(value)]
    return plain(vars(value))


class Watch:
    """Note of the values that checkers expect, for `summary`.

    Args:
        scoreboard: Scoreboard, whose observer is `coverage`.
        predictor: Its register predictor.
        coverage: Functional coverage.
    """

    def __init__(
        self, scoreboard: Scoreboard, predictor: RegisterPredictor, coverage: NfCoverage
    ) -> None:
        self.scoreboard, self.predictor, self.coverage = scoreboard, predictor, coverage
        self.spans: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.checks: Counter[str] = Counter()
        self._before: dict[str, Before] = {}
        """Knowledge at the last look, as at the begin of a read."""
        self._begun: dict[int, Glimpse] = {}
        self._capture = scoreboard.capture, scoreboard.capture.begin(scoreboard.now)
        self._first(coverage, "judged", self._judged)
        self._first(coverage, "register_read", self._read)
        self._first(coverage, "answered", self._answered)
        self._first(scoreboard, "compare_status", self._status)
        self._first(scoreboard, "compare_counter", lambda name, _, want: self._span(name, want))
        scoreboard.judge.observed = coverage.judged

    @staticmethod
    def _first(owner: Any, method: str, then: Callable[..., None]) -> None:
        called = getattr(owner, method)

        def both(*values: Any) -> Any:
            then(*values)
            return called(*values)

        setattr(owner, method, both)

    def _span(self, name: str, span: Span) -> None:
        total = self.spans[name]
        total[0] += 1
        total[1] += span.low
        total[2] += span.high + sum(span.also)

    def _check(self, name: str, value: object) -> None:
        self.checks[name] = checksum(value, self.checks[name])

    def _judged(self, op: Op, _before: Any, after: AggregatedLine, expected: Any) -> None:
        seen = sorted(after.data), sorted(after.marked), after.counted_complete
        self._check(f"judged/{op.access.kind.name}", (op.start, op.end, expected.response, seen))

    def _answered(self, op: Op, _config: Any) -> None:
        rule = self.scoreboard.devload  # the answer is counted already
        allowed = [level for level in range(4) if rule.check(op, op.window, level) is None]
        self._check("DevLoad", allowed)

    def _read(self, name: str, _data: int, certain: Mapping[str, int]) -> None:
        self._check(f"certain/{name}", sorted(certain.items()))

    def _status(self, region: int, got: Mapping[str, Any], want: Mapping[str, Span]) -> None:
        for name in got:
            self._span(f"region {region} {name}", want[name])

    def look(self) -> None:
        """Note all ranges of the present moment."""
        scoreboard, predictor = self.scoreboard, self.predictor
        counters = [*scoreboard.counters.items(), *predictor.link_counters.items()]
        counters += [(f"IRQ {name}", bit) for name, bit in predictor.interrupts.bits.items()]
        for name, counter in counters:
            self._span(f"now {name}", counter.span())
            if name in self._before:
                self._span(f"since {name}", counter.end(self._before[name]))
            self._before[name] = counter.begin()
        for region, fallback in enumerate(scoreboard.fallback):
            self._span("now FALLBACK", fallback.span())
            begun = scoreboard.status.begin(region)
            for name, span in scoreboard.status.end(region, begun).items():
                self._span(f"now {name}", span)
            since, self._begun[region] = self._begun.get(region, begun), begun
            self._check("status since", scoreboard.status.end(region, since))
        self._span("now INIT_BUSY", scoreboard.memory.initialiser.busy())
        self._span("now pin", predictor.interrupts.pin())
        for name, value in self._state():
            self._check(f"now {name}", value)

    def _state(self) -> Iterator[tuple[str, object]]:
        """Yield further knowledge of the checkers, by name; sets are sorted."""
        board, predictor, judge = self.scoreboard, self.predictor, self.scoreboard.judge
        rule, capacity, link = board.devload, board.capacity, predictor.link
        regions = range(len(board.configs))
        oldest = board.oldest()
        yield "waiting", (board.waiting, oldest and oldest.start, board.busy, board.now)
        yield "regions at work", sorted(board.busy_regions())
        yield "capacity times", (capacity.on, [one.times() for one in capacity.regions])
        parts = (rule, capacity, board.capture, board.control, board.status, board.ram)
        for one in (*parts, board.memory.initialiser, predictor.interrupts, judge.record_trust):
            yield type(one).__name__, plain(one)
        yield "counts", (judge.below, judge.above)
        yield "memory", [self._memory(config) for config in board.configs if config is not None]
        yield "unknown lines", sorted(map(str, judge.unknown))
        yield "trust", [region in judge.record_trust for region in regions]
        yield "doubts", [judge.doubt(region) for region in regions]
        yield "ambiguous lines", [len(list(judge.alternatives(region))) for region in regions]
        pending = [one for region in regions for one in judge.pending(region)]
        yield "commits", [(one.start, one.end, one.strict, one.in_band) for one in pending]
        yield "races", board.races.unsettled()
        yield "views", [board.views.now(region) for region in regions]
        yield "flips", (board.ram.bad(), board.ram.corrected())
        yield "commits now", [predictor.rules.committing_now(tight) for tight in (True, False)]
        yield "link", link and (link.faulty, link.up, link.asked, link.errors())
        yield "values", sorted(predictor.values.items())
        for name, some in (("before", predictor.before), ("others", predictor.others)):
            yield name, sorted((register, sorted(values)) for register, values in some.items())
        # A value that no access can show: the text of the finding names those that are possible.
        capture, last = board.capture, self._capture
        self._capture = capture, capture.begin(board.now)
        for of, before in (last, self._capture):
            if of is capture:  # no reset has come between
                yield "capture", capture.check("ERR_TAG", {"VALUE": -1}, before)
                yield "capture", sorted(capture.certain)
                yield "capture", capture.check("ERR_INFO", {"VALID": 0, "TAG": -1}, before)
                yield "capture", sorted(capture.certain)

    def _memory(self, config: RegionConfig) -> list[MemoryLine]:
        """Return the first lines of the state area of a region."""
        memory = self.scoreboard.model.memory
        return [memory.load(config.state_line + at) for at in range(8)]

    def summary(self, found: Iterable[str]) -> Summary:
        """Return all that the checkers derived, by name; `found`: the findings."""
        board, judge = self.scoreboard, self.scoreboard.judge
        keys: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for one in found:  # number of findings with a key, and checksum of their texts
            key = keys[getattr(one, "key", one)]
            key[:] = key[0] + 1, checksum(str(one), key[1])
        numbers = ("requests", "responses", "engine_ops", "waiting", "now", "wrong")
        hits = self.coverage.model.hits().items()
        values = {
            **{f"found/{key}": number for key, number in keys.items()},
            **{f"count/{name}": getattr(judge, name) for name in ("judged", "raced", "unjudged")},
            **{f"count/{name}": getattr(board, name, 0) for name in numbers},
            **{f"span/{name}": span for name, span in self.spans.items()},
            **{f"check/{name}": value for name, value in self.checks.items()},
            **{f"bin/{point}/{name}": n for point, bins in hits for name, n in bins.items()},
        }
        return dict(sorted(values.items()))
