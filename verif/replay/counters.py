# SPDX-License-Identifier: Apache-2.0
"""Counters of the device that a replay looks at, by register name."""

from __future__ import annotations

from models.nf_regs import REG_MAP
from models.register_map import Counts

USED = ("CONTRIBUTION", "SLOT_HIT", "SLOT_MISS", "EVICTION", "RX_FLIT", "TX_FLIT")
"""They tell what a replay cost."""
ZERO = tuple(
    name
    for name in REG_MAP.counters(Counts.ACCESS, Counts.LINK)
    if name not in (*USED, "MEM_POISON")  # poison of the memory is seen in the answers
)
"""They stay 0 in a replay: every request of it is legal, single and clean."""
