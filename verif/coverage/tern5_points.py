# SPDX-License-Identifier: Apache-2.0
"""Cover points of G_TERN5: bytes, nets, what a read finds, and what is refused."""

from __future__ import annotations

import numpy as np

from models.aggregated_line import AggregatedLine, illegal_codes
from models.line_packing import TERN5_CODES, elements_per_line
from models.regions import CommitCode, Kind, RegionConfig
from verif.coverage.count_points import NETS, no_net
from verif.coverage.cover_model import CoverModel
from verif.coverage.value_classes import THRESHOLDS, WORKERS, threshold_class, workers_class
from verif.scoreboard.operations import Op

BYTES = ("0", "1..241", str(TERN5_CODES - 1), str(TERN5_CODES), "244..254", "255")
VIEWS = ("vote", "plane")
SEEN = ("none", "some", "all")
_TEST = "test_tern5::codes"


class Tern5Points:
    """Feed it with `judged` and `committed`."""

    def __init__(self, model: CoverModel) -> None:
        point, cross = model.point, model.cross
        self.bytes = point(
            "G_TERN5 byte",
            "bytes at the edge of what is legal",
            BYTES,
            test="test_tern5::every_byte",
        )
        self.illegal = cross(
            "G_TERN5 illegal elements",
            "how many illegal elements a line carries, where they count and where not",
            {"elements": ("5", "some", "320"), "line": ("new", "duplicate", "poisoned")},
            test=_TEST,
            ignore=lambda elements, line: elements == "5" and line != "new",
        )
        self.net = cross(
            "G_TERN5 net",
            "each edge of the threshold; nobody can reach a T above W",
            {"net": NETS, "T": THRESHOLDS},
            test="test_tern5::every_net",
            ignore=no_net,
        )
        self.workers = point(
            "G_TERN5 workers",
            "shapes of W: planes and records follow 2 W",
            WORKERS,
            test=_TEST,
        )
        self.lines = cross(
            "G_TERN5 line",
            "each view of lines that nobody, some or all have contributed to, and of poisoned ones",
            {"view": VIEWS, "seen": SEEN, "mark": ("clean", "poisoned")},
            test=_TEST,
            ignore=lambda view, seen, mark: seen == "all" and mark == "poisoned",
        )
        self.refused = point(
            "G_TERN5 refused",
            "a device without the mode, and more workers than half of what a counter holds",
            ("MODE", "PLANES"),
            test="test_tern5::refusals",
        )

    def judged(
        self, op: Op, config: RegionConfig, before: AggregatedLine, after: AggregatedLine
    ) -> None:
        """An operation on a line, and the line before and after it."""
        if op.access.kind is Kind.CONTRIBUTION:
            self._contribution(op, config, before)
            return
        view = "vote" if op.access.kind is Kind.RESULT else "plane"
        seen = "all" if after.all_seen(config.workers) else "some" if after.data else "none"
        self.lines.hit(view, seen, "poisoned" if after.poisoned else "clean")
        if view == "vote" and after.data:
            self._vote(config, after)

    def _contribution(self, op: Op, config: RegionConfig, before: AggregatedLine) -> None:
        data = getattr(op.msg, "data", b"")
        again, poison = op.access.selector in before.data, getattr(op.msg, "poison", False)
        count = illegal_codes(data, config.mode)
        if count:
            line = "duplicate" if again else "poisoned" if poison else "new"
            self.illegal.hit({5: "5", 320: "320"}.get(count, "some"), line)
        if not (again or poison):
            self.workers.hit(workers_class(config.workers))
            for byte in set(data):
                name = str(byte)
                between = BYTES[1] if byte < TERN5_CODES else BYTES[4]
                self.bytes.hit(name if name in BYTES else between)

    def _vote(self, config: RegionConfig, after: AggregatedLine) -> None:
        counts = after.reduced(config, 255).counts[0, : elements_per_line(config.mode)]
        m, t = len(after.data), config.threshold
        present = np.bincount(counts, minlength=2 * m + 1)
        kind = threshold_class(t, config.workers)
        edges = (-m, -t - 1, -t, 1 - t, 0, t - 1, t, t + 1, m)
        for name, net in zip(NETS, edges, strict=True):
            if -m <= net <= m and present[net + m]:
                self.net.hit(name, kind)

    def committed(self, config: RegionConfig, code: int) -> None:
        """A commit of a G_TERN5 region was decided."""
        if code in (CommitCode.MODE, CommitCode.PLANES):
            self.refused.hit(CommitCode(code).name)
