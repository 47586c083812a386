# SPDX-License-Identifier: Apache-2.0
"""The table of knobs: {knob: ({choice: default weight}, reason)}; see `weights.KNOBS`."""

from __future__ import annotations

from typing import Final

TABLE: Final[dict[str, tuple[dict[str, float], str]]] = {
    # -- regions ------------------------------------------------------------------------------
    "regions": (
        {"1": 1, "2": 2, "3..4": 3, "all": 1},
        "regions in use at once: they share slots, waiting queue and memory port",
    ),
    "mode": (
        {"G_BINARY": 4, "G_TERNARY": 4, "FP32": 3, "IDENTITY": 1, "G_INT4": 1.5, "G_INT8": 1.5},
        "each mode has its own path through the engine",
    ),
    "workers": (
        {
            "1": 1,
            "2": 1,
            "3": 1,
            "4..16": 2,
            "any": 2,
            "2^k - 1": 1,
            "2^k": 1,
            "2^k + 1": 1,
            "63": 1,
            "64": 1,
            **{str(exactly): 0 for exactly in range(4, 63)},  # for whoever wants one of them
        },
        "W decides how many planes are kept, and where the vote has a tie",
    ),
    "lines": (
        {"1": 2, "2..8": 4, "16..64": 2, "2^7..2^10": 2, "2^11..2^13": 1, "more": 0.5},
        "LINES_LOG2: index, window and record address all shift by it",
    ),
    "threshold": (
        {"1": 3, "inside": 4, "W": 1, "above W": 1, "255": 1},
        "T against the counts that W allows, and its upper bits",
    ),
    "tie": ({"PLUS": 1, "MINUS": 1}, "the side that a tied vote goes to"),
    "strict": ({"no": 2, "yes": 1}, "early reads come back poisoned"),
    "bind": ({"no": 3, "yes": 1}, "worker w may be written by LD-ID w >> BIND_SHIFT alone"),
    "bind_shift": ({"0": 2, "1": 1, "2": 1}, "workers of an LD-ID with BIND: 1, 2 or 4"),
    "keep_sum": (
        {"no": 1, "yes": 1},
        "FP32: sums are kept beside the records, or gathered each time",
    ),
    "ld_mask": ({"all": 3, "some": 2, "one": 1}, "which LD-IDs may touch the region"),
    "window": (
        {"memory end": 1, "beside another": 2, "address top": 1, "anywhere": 3},
        "a window match compares every address bit above the window",
    ),
    "state": (
        {"memory start": 1, "memory end": 1, "beside another": 2, "anywhere": 3},
        "edges of the state-area check",
    ),
    # -- work ---------------------------------------------------------------------------------
    "lines_in_use": (
        {"1": 2, "2..4": 3, "about SLOTS": 1, "above SLOTS": 1},
        "few lines: hits back to back; more than slots: evictions and fills",
    ),
    "line_place": (
        {"low": 2, "high": 1, "spread": 3},
        "sparse lines over a large region use the upper index bits",
    ),
    "arrival": (
        {"shuffled": 3, "by line": 3, "by worker": 2, "bursts": 2},
        "distance between two accesses of one line; the result must not depend on it",
    ),
    "share": (
        {"complete": 5, "one missing": 2, "half": 2},
        "how many of the workers contribute: complete lines, early reads",
    ),
    "overlap": (
        {"after": 3, "racing": 3, "loaded": 3, "single": 1},
        "requests in flight on a line: any number with reads afterwards; five that race with "
        "reads; two, and commits under that load; one",
    ),
    "burst": (
        {"1": 3, "2..4": 3, "5..16": 2},
        "requests in a row to one region before another one takes its turn",
    ),
    # -- data ---------------------------------------------------------------------------------
    "values": (
        {
            "independent": 2,
            "correlated": 2,
            "unanimous": 2,
            "near unanimous": 2,
            "ties": 2,
            "near threshold": 2,
            "counts": 2,
            "uniform counts": 1,
        },
        "real gradients correlate: unanimous lines set the top plane, ties use the tie rule",
    ),
    "values_fp32": (
        {
            "any bits": 1,
            "one scale": 1,
            "corners": 2,
            "equal corners": 2,
            "cancellation": 2,
            "rounding ties": 2,
            "huge": 1,
            "subnormal": 1,
            "scales": 2,
        },
        "classes of operands and results of the ordered sum",
    ),
    "event": (
        {
            "none": 12,
            "duplicate, same data": 1,
            "duplicate, other data": 1,
            "poison": 0.5,
            "illegal codes": 1,
            "partial": 1,
            "wrong LD-ID": 0.3,
            "odd selector": 0.3,
            "resend after poison": 0.5,
        },
        "what may happen to a contribution",
    ),
    "byte_enables": (
        {"none": 1, "one": 1, "all": 1, "mixed": 3, "half": 1},
        "partial writes are merged byte by byte where they are honoured; all 64 is still partial",
    ),
    # -- stream of operations -----------------------------------------------------------------
    "action": (
        {
            "contribute": 14,
            "read": 4,
            "plain write": 1.5,
            "plain read": 1.5,
            "odd opcode": 0.3,
            "odd address": 0.5,
            "register": 1,
            "commit": 0.8,
            "close": 0.15,
            "wait": 0.3,
            "drain": 0.2,
            "memory": 0.2,
            "faults": 0.15,
        },
        "what the host does next",
    ),
    "read": (
        {
            "result": 5,
            "plane": 4,
            "raw": 3,
            "info": 1,
            "status": 0.7,
            "forbidden": 0.5,
            "wrong LD-ID": 0.3,
        },
        "selector class of a read",
    ),
    "commit": (
        {
            "same": 6,
            "options": 1,
            "workers": 1,
            "mode": 1,
            "size": 1,
            "moved": 0.5,
            "refused": 1,
        },
        "what a commit changes: nothing, options, W, mode or size on the same area, the place; or "
        "a descriptor that must be refused",
    ),
    "commit_when": (
        {"idle": 1, "under load": 2, "in background": 2},
        "what is in flight when EPOCH is written, and whether traffic goes on meanwhile",
    ),
    "register": (
        {
            "status": 3,
            "counter": 2,
            "region": 2,
            "irq enable": 1,
            "irq clear": 2,
            "clear counters idle": 1,
            "clear counters busy": 0.5,
            "capacity": 1,
            "devload": 1,
            "multi header": 1,
            "fallback clear": 1,
            "error rearm": 1,
        },
        "register accesses among the traffic",
    ),
    # -- surroundings -------------------------------------------------------------------------
    "latency": (
        {"1..3": 3, "2..12": 3, "2..40": 3, "100..300": 1},
        "memory latency in clocks: how many misses are open at once",
    ),
    "stalls": ({"none": 3, "some": 2, "heavy": 1}, "back-pressure of the memory's channels"),
    "memory_order": (
        {"in order": 1, "reordered": 1, "interleaved": 1},
        "AXI promises no order between IDs",
    ),
    "background": (
        {"garbage": 4, "ones": 1, "zeros": 1},
        "what memory holds before anybody has written it",
    ),
    "fault_place": (
        {"plain": 2, "IDENTITY": 1, "FP32 data": 2, "records": 2, "any access": 2},
        "whose access meets an error or poison of the memory",
    ),
    "fault_kind": (
        {"read error": 2, "write error": 2, "poison": 2},
        "what the memory does wrong there",
    ),
    "fault_rate": ({"few": 2, "half": 1, "all": 1}, "share of the lines of a place that are bad"),
    "packing": ({"dense": 2, "sparse": 2}, "how the host fills its flits"),
    "host_gaps": ({"none": 3, "some": 1, "many": 1}, "clocks in which the host sends nothing"),
    "ready": ({"always": 3, "often": 1, "seldom": 1}, "back-pressure on the device's output"),
    "credits": (
        {"many": 3, "few": 1, "two": 1},
        "response credits that the host grants, and how late they come back",
    ),
}
