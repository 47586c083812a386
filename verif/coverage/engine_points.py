# SPDX-License-Identifier: Apache-2.0
"""The slot engine: hits, misses, evictions and rare events of a line, as its counters tell."""

from __future__ import annotations

from models.nf_regs import REG_MAP
from models.register_map import Counts
from verif.coverage.cover_model import CHEAP, CoverModel

_REGION_STATUS = REG_MAP.region_register("STATUS")


class EnginePoints:
    """Feed it with `register`."""

    def __init__(self, model: CoverModel) -> None:
        self.slots = model.point(
            "slots",
            "the pool was hit, missed, evicted from and refilled",
            REG_MAP.counters(Counts.SLOTS),
            test="test_eviction::eviction",
            at_least=CHEAP,
        )
        self.line_flags = model.point(
            "line events",
            "rare events of a line were counted by the device",
            ["DUPLICATE", "ILLEGAL_CODE", "EARLY_READ", "SATURATED"],
            test="test_events::duplicates",
        )

    def register(self, name: str, value: int) -> None:
        """A register was read."""
        if name in self.slots.bins and value:
            self.slots.hit(name)
        elif name in self.line_flags.bins and value:
            self.line_flags.hit(name)
        elif name.endswith("].STATUS") and _REGION_STATUS.field("SATURATED").extract(value):
            self.line_flags.hit("SATURATED")
