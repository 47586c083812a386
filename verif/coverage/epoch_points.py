# SPDX-License-Identifier: Apache-2.0
"""Commits: their codes, the shapes and options of regions, and the traffic that they meet."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import CommitCode, RegionConfig
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.transaction_points import AGGREGATING


class EpochPoints:
    """Feed it with `committed`."""

    def __init__(self, model: CoverModel) -> None:
        point = model.point
        self.workers = point(
            "workers",
            "the edges of W, per mode",
            [f"{m.name} {k}" for m in AGGREGATING for k in "1nN"],
            test="test_modes::g_binary",
            at_least=CHEAP,
        )
        self.lines = point(
            "lines",
            "windows of one line and of several",
            ["1", ">1"],
            test="test_mixed::mixed_regions",
            at_least=CHEAP,
        )
        self.options = point(
            "options",
            "both values of the options that change an answer",
            [f"{o} {v}" for o in ("tie_minus", "strict", "bind") for v in (0, 1)]
            + [f"threshold {k}" for k in ("1", ">1")],
            test="test_modes::g_ternary",
            at_least=CHEAP,
        )
        self.commit = point(
            "commit",
            "every code of a commit",
            [code.name for code in CommitCode],
            test="test_descriptors::descriptor_errors",
            at_least=CHEAP,
        )
        self.commit_traffic = point(
            "commit traffic",
            "an epoch starts while requests are in flight, and with none",
            ["quiet", "busy"],
            test="test_epochs::epoch_other_region",
            at_least=CHEAP,
        )

    def committed(self, config: RegionConfig, code: int, busy: bool) -> None:
        """A commit was decided."""
        self.commit.hit(CommitCode(code).name)
        if code:
            return
        self.commit_traffic.hit("busy" if busy else "quiet")
        self.lines.hit(">1" if config.lines_log2 else "1")
        if config.mode is not Mode.IDENTITY:
            edge = {1: "1", 64: "N"}.get(config.workers, "n")
            self.workers.hit(f"{config.mode.name} {edge}")
        for option in ("tie_minus", "strict", "bind"):
            self.options.hit(f"{option} {int(getattr(config, option))}")
        self.options.hit(f"threshold {'1' if config.threshold == 1 else '>1'}")
