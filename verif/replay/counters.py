# SPDX-License-Identifier: Apache-2.0
"""Counters of the device that a replay looks at, by register name."""

from __future__ import annotations

ZERO = (
    *("DUPLICATE", "ILLEGAL_CODE", "EARLY_READ", "POISON_RECEIVED"),
    *("REFUSED", "UNMAPPED", "UNSUPPORTED", "MEM_READ_ERROR", "MEM_WRITE_ERROR"),
    *("CRC_ERROR", "PID_CORRECTABLE", "PID_UNCORRECTABLE", "PID_UNEXPECTED"),
    *("STRAY_DATA", "CACHE_MESSAGE", "PROTOCOL_ERROR"),
)
"""They stay 0 in a replay: every request of it is legal, single and clean."""
USED = ("CONTRIBUTION", "SLOT_HIT", "SLOT_MISS", "EVICTION", "RX_FLIT", "TX_FLIT")
"""They tell what it cost."""
