# SPDX-License-Identifier: Apache-2.0
"""Directed uses of the generator: for each one, the weights that lead it where it is to go."""

from __future__ import annotations

from typing import Final

from verif.scenario.weights import Overrides

_NO_IDENTITY = {"IDENTITY": 0.0}
_LOW_BIT = {"FP32": 0.0, "IDENTITY": 0.0}
_FAST = {
    "latency": {"2..40": 0.0, "100..300": 0.0},
    "host_gaps": {"some": 0.0, "many": 0.0},
    "ready": {"seldom": 0.0},
    "credits": {"few": 0.0, "two": 0.0},
}
_QUIET = {"commit": 0.1, "register": 0.2, "memory": 0.0, "faults": 0.0, "wait": 0.0, "drain": 0.0}

USES: Final[dict[str, Overrides]] = {
    # Accesses of one line, back to back: every distance, forwarding, hits under each other.
    "hot_slots": {
        **_FAST,
        "mode": _NO_IDENTITY,
        "regions": {"3..4": 0.0, "all": 0.0},
        "lines_in_use": {"1": 3.0, "2..4": 3.0, "about SLOTS": 0.0, "above SLOTS": 0.0},
        "arrival": {"by line": 6.0, "by worker": 0.0},
        "burst": {"1": 0.0, "5..16": 6.0},
        "overlap": {"after": 4.0, "racing": 3.0, "loaded": 0.0, "single": 0.0},
        "event": {"duplicate, same data": 2.0, "duplicate, other data": 2.0},
        "action": {**_QUIET, "plain write": 0.3, "plain read": 0.3, "odd address": 0.0},
    },
    # More lines than slots, far apart in large regions: evictions and fills, upper index bits.
    "wide_regions": {
        "mode": _NO_IDENTITY,
        "workers": {"1": 0.0, "any": 4.0},
        "lines": {"1": 0.0, "2..8": 0.0, "16..64": 0.0, "2^11..2^13": 3.0, "more": 2.0},
        "lines_in_use": {"1": 0.0, "2..4": 0.0, "about SLOTS": 1.0, "above SLOTS": 4.0},
        "line_place": {"low": 1.0, "high": 1.0, "spread": 6.0},
        "arrival": {"by line": 0.0, "by worker": 4.0},
        "action": _QUIET,
    },
    # Epochs by the hundred, most of them under load.
    "many_commits": {
        **_FAST,
        "overlap": {"after": 0.0, "racing": 0.0, "loaded": 1.0, "single": 0.0},
        "action": {"commit": 12.0, "memory": 0.0, "faults": 0.0, "wait": 0.0},
        "commit": {"same": 30.0},
        "lines_in_use": {"above SLOTS": 0.0},
    },
    # Regions that change W, mode or size on their own area, and descriptors that are refused.
    "reshaped_regions": {
        "overlap": {"single": 6.0},
        "action": {"commit": 3.0, "faults": 0.0},
        "commit": {"workers": 3.0, "mode": 3.0, "size": 3.0, "moved": 2.0, "refused": 3.0},
    },
    # Errors and poison of the memory on every kind of line.
    "memory_faults": {
        "action": {"faults": 2.0, "memory": 0.5},
        "lines_in_use": {"about SLOTS": 2.0, "above SLOTS": 2.0},
        "mode": {"FP32": 4.0, "IDENTITY": 2.0},
        "latency": {"100..300": 0.0},
    },
    # Workers that agree, nearly agree, and are tied; counts at their edges.
    "correlated_workers": {
        **_FAST,
        "mode": _LOW_BIT,
        "regions": {"3..4": 0.0, "all": 0.0},
        "values": {"independent": 0.0},
        "share": {"complete": 12.0, "one missing": 2.0, "half": 0.5},
        "lines_in_use": {"1": 3.0, "2..4": 1.0, "about SLOTS": 0.0, "above SLOTS": 0.0},
        "event": {"none": 40.0},
        "action": {**_QUIET, "contribute": 30.0, "plain write": 0.2, "plain read": 0.2},
    },
    # The classes of operands, results and rounding of the ordered sum.
    "fp32_values": {
        **_FAST,
        "mode": {"G_BINARY": 0.0, "G_TERNARY": 0.0, "IDENTITY": 0.0},
        "workers": {"4..16": 6.0, "any": 0.5, "63": 0.0, "64": 0.2, "2^k - 1": 0.5, "2^k + 1": 0.5},
        "values_fp32": {"any bits": 2.0, "rounding ties": 4.0},
        "event": {"none": 40.0},
        "action": {**_QUIET, "read": 2.0, "plain write": 0.2, "plain read": 0.2},
    },
    # Registers while traffic runs.
    "register_traffic": {
        "action": {"register": 8.0, "faults": 0.0},
        "lines_in_use": {"about SLOTS": 2.0},
    },
    # Accesses that must be refused, among legal ones.
    "refused_accesses": {
        "action": {"odd opcode": 2.0, "odd address": 6.0, "register": 2.0},
        "event": {"wrong LD-ID": 3.0, "odd selector": 3.0, "partial": 3.0},
        "read": {"forbidden": 5.0, "wrong LD-ID": 3.0},
        "ld_mask": {"all": 1.0, "some": 3.0, "one": 2.0},
        "bind": {"no": 1.0, "yes": 2.0},
    },
    # Hundreds of clocks of latency: many misses, stores and gathers open at a time.
    "slow_memory": {
        "latency": {"1..3": 0.0, "2..12": 0.0, "2..40": 1.0, "100..300": 3.0},
        "memory_order": {"in order": 0.5},
        "lines_in_use": {"1": 0.5, "about SLOTS": 2.0, "above SLOTS": 3.0},
        "action": {**_QUIET, "read": 8.0},
        "lines": {"1": 0.5, "16..64": 3.0},
    },
}
