# SPDX-License-Identifier: Apache-2.0
"""Lookup: the life of a kept FP32 sum, stores that go early, and deferred operations.

`nf_lookup_cover.sv` counts, under Verilator alone; the codes are listed here in its order.
"""

from __future__ import annotations

from verif.coverage.cover_model import CoverModel
from verif.coverage.white_box import WhiteBoxPoints

LOOKUP = "u_core.u_engine.u_lookup.u_cover"

KEPT = (
    "kept",
    "kept again: two sums at once",
    "read at once",
    "read after it has waited",
    "ended by a whole store",
    "ended by a part of a line",
    "ended by a poisoned store",
    "written back",
    "fetched",
    "ended by a commit",
    "dropped: memory has it",
)
EARLY = (
    "goes to memory at once",
    "waits: part of a line",
    "waits: poisoned",
    "waits: no room",
    "memory answers before the record comes",
    "memory refuses it before the record comes",
    "the record comes before memory answers",
)
DEFERRED = (
    "hits its line by now",
    "is parked with its line",
    "misses: record fetched",
    "misses: no record",
    "waits long: an FP32 operation gives way",
    "waits for a slot",
    "waits for room for its fill",
    "waits for room for an eviction",
    "waits for room at its exit",
    "waits for its turn",
)


class KeptPoints(WhiteBoxPoints):
    """Kept sums, first stores, deferred operations."""

    module = LOOKUP

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        for array, name, reason, test, codes in (
            (
                "kept",
                "kept sum",
                "every way in which a sum comes to be kept, is served, and ends",
                "test_kept_sums::served",
                KEPT,
            ),
            (
                "early",
                "first store",
                "a store that misses goes to memory while its record is fetched: which of the two "
                "answers first, and what keeps it back",
                "test_systematic::full_exits",
                EARLY,
            ),
            (
                "deferred",
                "deferred operation",
                "what the oldest deferred operation waits for, and what becomes of it",
                "test_pressure::hammer",
                DEFERRED,
            ),
        ):
            self.add(array, name, reason, {"event": codes}, test=test)
