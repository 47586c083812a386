# SPDX-License-Identifier: Apache-2.0
"""Region numbers: everything that the device keeps for each region was seen in each of them."""

from __future__ import annotations

from models.aggregated_line import AggregatedLine
from models.regions import Cause, Kind, RegionConfig
from verif.coverage.cover_model import CoverModel
from verif.scoreboard.operations import Op

MAX_REGIONS = 16
REGIONS = tuple(str(region) for region in range(MAX_REGIONS))
EVENTS = (
    "commit",
    "commit refused",
    "write IDENTITY",
    "read IDENTITY",
    "write G_BINARY",
    "write G_TERNARY",
    "write FP32",
    "result G_BINARY",
    "result G_TERNARY",
    "result FP32",
    "plane",
    "raw",
    "early",
    "poisoned",
    "illegal code",
    "line complete",
    "DONE",
    "refused LD_MASK",
    "refused SELECTOR",
    "refused BIND",
    "refused PARTIAL",
    "write-back",
    "initialised",
    "fetched",
)
_KINDS = {Kind.RESULT: "result ", Kind.CONTRIBUTION: "write "}


class RegionPoints:
    """Feed it with `op`, `judged`, `committed` and `record`."""

    def __init__(self, model: CoverModel) -> None:
        self.events = model.cross(
            "region number",
            "each thing that a region has of its own (descriptor, masks, flags, counters, records) "
            "in each region; numbers from 8 on exist in builds with more than 8 regions",
            {"region": REGIONS, "event": EVENTS},
            test="test_systematic::regions",
        )

    def op(self, op: Op) -> None:
        """An answered operation."""
        access = op.access
        if access.region is None:
            return
        cause = access.cause
        if cause in (Cause.LD_MASK, Cause.SELECTOR, Cause.BIND, Cause.PARTIAL):
            self.events.hit(REGIONS[access.region], f"refused {cause.name}")
        elif access.kind is Kind.IDENTITY:
            way = "write" if access.write else "read"
            self.events.hit(REGIONS[access.region], f"{way} IDENTITY")

    def judged(
        self,
        op: Op,
        config: RegionConfig,
        before: AggregatedLine,
        after: AggregatedLine,
        done: bool,
    ) -> None:
        """An operation on a line that raced with none; `done`: the region is complete after it."""
        access, hit = op.access, self.events.hit
        region = REGIONS[access.region]
        kind = _KINDS.get(access.kind)
        if kind is not None:
            hit(region, kind + config.mode.name)
        else:
            hit(region, "raw" if access.kind is Kind.RAW else "plane")
        if access.kind is Kind.CONTRIBUTION:
            if after.poisoned and not before.poisoned:
                hit(region, "poisoned")
            if after.illegal and not before.illegal:
                hit(region, "illegal code")
            if after.counted_complete and not before.counted_complete:
                hit(region, "line complete")
                if done:
                    hit(region, "DONE")
        elif len(before.data) < config.workers:
            hit(region, "early")

    def committed(self, region: int, code: int) -> None:
        """A commit was decided."""
        self.events.hit(REGIONS[region], "commit refused" if code else "commit")

    def record(self, region: int, place: str, write: bool) -> None:
        """A bookkeeping line of the region was moved; `place` as `MemoryPort.located` names it."""
        event = ("initialised" if place == "initialiser" else "write-back") if write else "fetched"
        self.events.hit(REGIONS[region], event)
