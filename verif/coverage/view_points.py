# SPDX-License-Identifier: Apache-2.0
"""What the second edition adds for hosts: shared LD-IDs, rounds that close, INFO and STATUS."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import M2SRwD
from models.aggregated_line import AggregatedLine
from models.regions import STATUS_SELECTOR, VIEW_SELECTORS, Cause, Kind, RegionConfig
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import AGGREGATING, INTS, LOW_BIT, TERN5
from verif.scoreboard.operations import Op

_WRITES = (Kind.CONTRIBUTION, Kind.IDENTITY)
_READS = {
    Kind.RESULT: "result",
    Kind.SUM: "result",
    Kind.PLANE: "part",
    Kind.RAW: "part",
    Kind.INFO: "INFO",
}
_MODES = (*AGGREGATING, *INTS, TERN5)
_FLAGS = ("complete", "poisoned", "lost", "saturated", "closed")
_FIGURES = ("complete lines", "done", "FALLBACK", "refused", "late", "poisoned lines")


class ViewPoints:
    """Feed it with `op`, `judged`, `closed` and `status`."""

    def __init__(self, model: CoverModel) -> None:
        point, cross = model.point, model.cross
        self.bind_shift = cross(
            "bind shift",
            "writes by the LD-ID that owns the worker, by the one that would own it without the "
            "shift, and by another one; without a shift the first two are the same",
            {"shift": ("0", "1", "2"), "LD-ID": ("owner", "unshifted", "other")},
            test="test_protection::bind_shifts",
            ignore=lambda shift, ldid: shift == "0" and ldid == "unshifted",
        )
        self.late = cross(
            "late write",
            "what comes after CLOSE: a worker that is new to the line or was seen, clean or "
            "poisoned, on a line that is untouched, has some workers, or all of them (which has "
            "no new one); an untouched line has seen nobody",
            {
                "mode": _MODES,
                "worker": ("new", "seen"),
                "data": ("clean", "poisoned"),
                "line": ("untouched", "some", "complete"),
            },
            test="test_systematic::closed",
            ignore=lambda _mode, worker, _data, line: (
                line == ("untouched" if worker == "seen" else "complete")
            ),
        )
        self.final = cross(
            "final read",
            "reads of a closed region: of untouched, incomplete and complete lines, which are "
            "early no more, STRICT or not",
            {
                "mode": _MODES,
                "read": ("result", "part", "INFO"),
                "strict": ("lax", "STRICT"),
                "line": ("untouched", "some", "complete"),
            },
            test="test_systematic::closed",
        )
        self.close = point(
            "close",
            "a round is closed while requests are in flight, and with none",
            ("quiet", "busy"),
            test="test_views::close",
            at_least=CHEAP,
        )
        self.info = cross(
            "INFO",
            "each flag of INFO set and clear, in each mode; only counts of votes saturate",
            {"mode": _MODES, "flag": _FLAGS, "value": ("0", "1")},
            test="test_views::info",
            ignore=lambda mode, flag, value: (
                mode not in LOW_BIT and (flag, value) == ("saturated", "1")
            ),
        )
        self.info_race = point(
            "INFO race",
            "INFO while contributions to its line are in flight, and after a commit under traffic",
            ("alone", "racing", "with commit"),
            test="test_views::info",
            at_least=CHEAP,
        )
        self.figures = cross(
            "STATUS",
            "each figure of a region's STATUS at zero and above, exact and while requests race",
            {"figure": _FIGURES, "value": ("0", "more"), "when": ("quiet", "racing")},
            test="test_views::status",
        )
        self.workers = cross(
            "worker lines",
            "lines of the workers of each selector: none, some, and more than a byte holds",
            {
                "selector": [str(one) for one in VIEW_SELECTORS[1:]],
                "lines": ("0", "1..255", "256.."),
            },
            test="test_views::many_lines",
        )

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """An answered operation."""
        access, msg = op.access, op.msg
        if config is None or not config.bind or not isinstance(msg, M2SRwD):
            return
        if access.kind in _WRITES or access.cause is Cause.BIND:
            who = "unshifted" if msg.ldid == access.selector else "other"
            if msg.ldid == config.owner(access.selector):
                who = "owner"
            self.bind_shift.hit(str(config.bind_shift), who)

    def closed(self, _region: int, busy: bool) -> None:
        """A round was closed; `busy`: with requests in flight."""
        self.close.hit("busy" if busy else "quiet")

    def judged(
        self,
        op: Op,
        config: RegionConfig,
        before: AggregatedLine,
        after: AggregatedLine,
        closed: bool,
    ) -> None:
        """An operation on a line, and the line before and after it."""
        mode, seen = config.mode.name, len(before.data)
        line = "complete" if seen == config.workers else "some" if seen else "untouched"
        if closed and op.access.kind is Kind.CONTRIBUTION:
            worker = "seen" if op.access.selector in before.data else "new"
            data = "poisoned" if getattr(op.msg, "poison", False) else "clean"
            self.late.hit(mode, worker, data, line)
        elif closed:
            strict = "STRICT" if config.strict else "lax"
            self.final.hit(mode, _READS[op.access.kind], strict, line)
        if op.access.kind is not Kind.INFO:
            return
        complete = seen == config.workers and not before.lost
        saturated = mode in LOW_BIT and before.saturated
        flags = (complete, before.poisoned, before.lost, saturated, closed)
        for name, flag in zip(_FLAGS, flags, strict=True):
            self.info.hit(mode, name, str(int(flag)))
        with_commit = "with commit" if op.commit_raced else "racing"
        self.info_race.hit(with_commit if op.overlapped or op.commit_raced else "alone")

    def status(self, op: Op, words: list[int], exact: bool) -> None:
        """STATUS was read; `exact`: nothing raced with it."""
        selector, when = op.access.selector, "quiet" if exact else "racing"
        if selector == STATUS_SELECTOR:
            for name, word in zip(_FIGURES, words[1:], strict=False):
                self.figures.hit(name, "more" if word else "0", when)
            return
        for word in words:
            lines = "256.." if word > 255 else "1..255" if word else "0"
            self.workers.hit(str(selector), lines)
