# SPDX-License-Identifier: Apache-2.0
"""Where the words of a bin's name lead the knobs: what `nf close` weighs up toward an open bin.

A word is an axis value of a cross bin, or a part of one between spaces; "" stands for every bin of
the point. An aim need not be exact: it says which choices make the bin likelier.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from functools import cache
from typing import Final

from verif.coverage.cover_model import BETWEEN

_RARE = "event=poison; event=resend after poison"
_RELOADED = "lines_in_use=about SLOTS; lines_in_use=above SLOTS; lines=16..64; line_place=low"
_BAD_RECORD = "action=faults; fault_place=records; fault_rate=all; lines_in_use=above SLOTS"
_WORKERS = {
    "2^k-1": "workers=2^k - 1",
    "2^k": "workers=2^k",
    "2^k+1": "workers=2^k + 1",
    "odd": "workers=any",
    "even": "workers=any",
    "63": "workers=63",
    "64": "workers=64",
    "1": "workers=1",
    "2": "workers=2",
    "3": "workers=3",
}
_REFUSED = {
    "LD_MASK": "ld_mask=some; ld_mask=one; event=wrong LD-ID; read=wrong LD-ID",
    "SELECTOR": "event=odd selector; read=forbidden",
    "BIND": "bind=yes; event=odd selector; event=wrong LD-ID",
    "PARTIAL": "event=partial",
}
_ERRORS = {
    "SLVERR": "fault_kind=read error",
    "DECERR": "fault_kind=read error",
    "poison": "fault_kind=poison",
}

_FIRST = {
    "plane": "read=plane",
    "raw": "mode=FP32; read=raw",
    "sum": "mode=FP32; read=result",
    "store": "mode=FP32",
    "stored": "mode=FP32",
    "INFO": "read=info",
    "sums": "mode=G_INT4; mode=G_INT8; read=result",
}

AIMS: Final[dict[str, dict[str, str]]] = {
    "*": {
        "G_BINARY": "mode=G_BINARY",
        "G_TERNARY": "mode=G_TERNARY",
        "G_INT4": "mode=G_INT4",
        "G_INT8": "mode=G_INT8",
        "FP32": "mode=FP32",
        "IDENTITY": "mode=IDENTITY",
        "STRICT": "strict=yes",
        "lax": "strict=no",
        "PLUS": "tie=PLUS",
        "MINUS": "tie=MINUS",
    },
    "workers": {
        "": "regions=all; lines=1; lines_in_use=1; action=commit; commit=workers; overlap=single",
        **{str(n): f"workers={n}" for n in range(1, 65)},
    },
    "lines": {
        "": "action=commit; commit=size; commit=mode; regions=all; overlap=single",
        "0": "lines=1",
        "1": "lines=2..8",
        "2": "lines=2..8",
        "3..5": "lines=2..8; lines=16..64",
        "6..9": "lines=2^7..2^10",
        "10..13": "lines=2^11..2^13",
        "14..": "lines=more",
    },
    "LD mask": {
        "": "action=commit; commit=options; regions=all",
        "one": "ld_mask=one",
        "some": "ld_mask=some",
        "all": "ld_mask=all",
        "BIND": "bind=yes",
        "free": "bind=no",
    },
    "late write": {"": "action=close; action=contribute", "poisoned": "event=poison"},
    "final read": {
        "": "action=close; action=read",
        "result": "read=result",
        "part": "read=plane; read=raw",
        "INFO": "read=info",
    },
    "close": {"": "action=close", "busy": "overlap=loaded"},
    "INFO": {"": "read=info; action=read", "lost": "action=faults", "closed": "action=close"},
    "INFO race": {"": "read=info; overlap=racing"},
    "STATUS": {"": "read=status; action=read", "late": "action=close"},
    "worker lines": {"": "read=status; workers=64"},
    "bind shift": {
        "": "bind=yes; action=commit; commit=options",
        "0": "bind_shift=0",
        "1": "bind_shift=1",
        "2": "bind_shift=2",
        "other": "event=wrong LD-ID; event=odd selector",
    },
    "threshold": {"": "mode=G_TERNARY; action=commit; commit=options; regions=all"},
    "commit": {"": "action=commit; commit=refused; regions=all"},
    "commit change": {
        "": "action=commit; regions=all; overlap=single",
        "first": "commit=same",
        "same": "commit=same",
        "options": "commit=options",
        "W": "commit=workers",
        "lines": "commit=size",
        "mode": "commit=mode",
        "moved": "commit=moved",
        "several": "commit=moved",
    },
    "commit meets": {
        "": "action=commit; commit_when=in background; commit_when=under load; overlap=loaded",
        "evictions": "lines_in_use=above SLOTS",
        "fills": "lines_in_use=above SLOTS",
        "initialiser": "lines=2^7..2^10; lines=2^11..2^13",
        "stores": "mode=FP32",
        "sums": "mode=FP32",
        "plain": "action=plain write; action=plain read",
    },
    "first touch": {
        "": "action=commit; lines_in_use=2..4; overlap=single; action=read",
        "older": "commit=same",
        "other": "commit=workers; commit=size; commit=mode",
        "new": "commit=moved",
        "part": "read=plane; read=raw",
    },
    "region number": {
        "": "regions=all; lines=1; lines=2..8; workers=1; workers=2; workers=3; share=complete; "
        "lines_in_use=1",
        "refused": "commit=refused; action=commit",
        **_REFUSED,
        "plane": "read=plane; action=read",
        "raw": "mode=FP32; read=raw; action=read",
        "result": "read=result; action=read",
        "early": "share=half; action=read",
        "poisoned": _RARE,
        "illegal": "mode=G_TERNARY; event=illegal codes",
        "write-back": _RELOADED,
        "fetched": _RELOADED,
        "initialised": "lines=16..64",
    },
    "refusal": _REFUSED,
    "LD-ID allowed": {**_REFUSED, "MEM_WR_PTL": "event=partial"},
    "selector edge": {
        "": "event=odd selector; read=forbidden; workers=4..16; workers=3",
        "MEM_WR_PTL": "event=partial; event=odd selector",
        "MEM_RD": "action=read",
        "MEM_RD_DATA": "action=read",
    },
    "state area edge": {"": "action=odd address; regions=3..4; lines=1; lines=2..8"},
    "window bit": {"": "action=odd address; regions=all; lines=1"},
    "other opcodes": {"": "action=odd opcode"},
    "opcode": {"": "action=odd opcode"},
    "contribution": {
        "": "overlap=after; lines_in_use=1; share=complete",
        **_WORKERS,
        "again": "event=duplicate, same data; event=duplicate, other data",
    },
    "lookup": {
        **_WORKERS,
        "read": "action=read",
        "miss,": _RELOADED,
        "parked:": f"{_RELOADED}; latency=2..40",
        "hit": "lines_in_use=1",
        "dirty": "overlap=after",
    },
    "line read": {"": "action=read; overlap=after; values=counts"},
    "line write": {"": "overlap=after; share=complete"},
    **{
        point: {
            "poisoned": _RARE,
            "lost": f"{_BAD_RECORD}; fault_kind=read error; fault_kind=write error",
            "bad": f"{_BAD_RECORD}; {_RARE}",
            "forwarded": "lines_in_use=1; burst=5..16; arrival=by line",
            "complete": "share=complete; workers=1; workers=2",
            "early": "share=half",
            "seen": "event=duplicate, same data; event=duplicate, other data",
            "part": "read=plane; read=raw; action=read",
            "result": "read=result; action=read",
            "stored": "mode=FP32",
        }
        for point in ("line read*", "line write*")
    },
    **{
        point: {
            "fetched": _RELOADED,
            "back": _RELOADED,
            "poisoned": _RARE,
            "poison": _RARE,
            "same": "event=duplicate, same data",
            "other": "event=duplicate, other data",
            "part": "read=plane; read=raw; action=read",
            "result": "read=result; action=read",
            "but": "share=one missing",
            "some": "share=half",
            "duplicate": "event=duplicate, same data; event=duplicate, other data",
        }
        for point in ("duplicate", "poisoned line", "early read")
    },
    "illegal codes": {
        "": "mode=G_TERNARY; event=illegal codes; lines_in_use=1",
        "duplicate": "event=duplicate, other data",
        "poisoned": _RARE,
    },
    "lost line": {
        "": f"{_BAD_RECORD}; fault_kind=read error; fault_kind=write error; latency=1..3",
        "result": "read=result; action=read",
        "part": "read=plane; read=raw; action=read",
    },
    "record error": {"": _BAD_RECORD, **_ERRORS},
    "fill": {"bad": _BAD_RECORD, "untrusted": _BAD_RECORD, "": _RELOADED},
    "memory side-band": {
        "": "action=faults; fault_rate=all; lines_in_use=2..4; lines_in_use=above SLOTS",
        **_ERRORS,
        "MEMORY": "fault_place=plain; action=plain read; action=plain write",
        "IDENTITY": "fault_place=IDENTITY",
        "FP32": "fault_place=FP32 data",
        "bookkeeping": "fault_place=records",
        "plane": "fault_place=records",
        "eviction": "fault_place=records; fault_kind=write error",
        "write": "fault_kind=write error",
    },
    "memory": {"": "action=faults; fault_place=plain; fault_rate=all; action=plain read"},
    "FP32 store": {"": "event=partial", "poisoned": _RARE},
    "FP32 operands": {"": "values_fp32=corners; values_fp32=any bits; values_fp32=subnormal"},
    "FP32 rounding": {"": "values_fp32=rounding ties; values_fp32=cancellation"},
    "net": {"": "mode=G_TERNARY; values=near threshold; values=counts; values=unanimous"},
    "majority": {"": "mode=G_BINARY; values=counts; values=ties; values=unanimous"},
    "plane content": {"": "values=unanimous; values=uniform counts; workers=64; workers=63"},
    "carry": {"": "values=unanimous; workers=64; workers=63; lines_in_use=1"},
    "integer view": {
        "": "share=complete; action=read; lines_in_use=1",
        **_WORKERS,
        "15": "workers=15",
        "16": "workers=16",
        "17": "workers=17",
        "2..14": "workers=4..16",
        "18..62": "workers=any",
        "plane": "read=plane",
        "SUM16": "read=result",
        "SUM8": "read=result; workers=4..16",
    },
    "integer line": {"": "action=read; lines_in_use=1", "some": "share=half", "poisoned": _RARE},
    "integer codes": {"": "values=unanimous; values=correlated; values=independent"},
    "integer view line": {"": "action=read; read=result; lines_in_use=1"},
    "integer selector": {"": "action=read; read=forbidden; read=result", "SUM8": "workers=4..16"},
    "integer commit": {"": "action=commit; commit=refused; regions=all"},
    "capacity limits": {"": "action=register; register=capacity"},
    "devload levels": {"": "action=register; register=devload"},
    "devload change": {"": "action=register; register=devload; register=capacity"},
    "fallback": {
        "": "action=register; register=capacity; register=fallback clear; register=status; "
        "lines_in_use=above SLOTS"
    },
    "interrupt": {
        "": "action=register; register=irq enable; register=status; register=irq clear",
        "MEM_ERROR": "action=faults; fault_rate=all",
        "POISON": "event=poison",
        "FALLBACK": "register=capacity; lines_in_use=above SLOTS",
    },
    "done": {
        "": "action=commit; commit=same; workers=1; workers=2; lines=1; share=complete; "
        "register=status; action=register"
    },
    "memory latency": {"64..": "latency=100..300", "0..3": "latency=1..3; stalls=none"},
    "memory channel": {"8..": "stalls=heavy", "2..7": "stalls=heavy; stalls=some"},
    "record interrupted": {"": "memory_order=interleaved; lines_in_use=above SLOTS"},
    "waiting*": {"": f"{_RELOADED}; latency=2..40"},
    "parked list": {"": f"{_RELOADED}; latency=2..40; arrival=by line"},
    "defer*": {"": f"{_RELOADED}; latency=2..40; latency=100..300; overlap=racing"},
    "behind a deferred operation": {"": f"{_RELOADED}; latency=100..300; arrival=by line"},
    "engine stall": {"": f"{_RELOADED}; latency=2..40; stalls=heavy"},
    "eviction*": {"": f"{_RELOADED}; stalls=heavy"},
    "write-backs under way": {"": f"{_RELOADED}; stalls=heavy; latency=100..300; overlap=after"},
    "line on its way out": {"": "lines_in_use=above SLOTS; lines=16..64; burst=5..16"},
    "fill *": {"": f"{_RELOADED}; latency=2..40; latency=100..300; action=read", **_FIRST},
    "fills under way": {"": f"{_RELOADED}; latency=100..300; action=read"},
    "written marks": {"": f"{_RELOADED}; lines=more; action=commit; commit=same"},
    "kept sum": {
        "": "mode=FP32; keep_sum=yes; share=complete; lines_in_use=2..4; action=read; read=result",
        "part": "event=partial",
        "poisoned": "event=poison",
        "back": _RELOADED,
        "fetched": _RELOADED,
        "commit": "action=commit; commit=same",
    },
    "first store": {
        "": f"mode=FP32; {_RELOADED}",
        "part": "event=partial",
        "poisoned": "event=poison",
        "refuses": "action=faults; fault_place=FP32 data; fault_kind=write error",
    },
}


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """`knob=choice; knob=choice`."""
    for part in text.split("; "):
        knob, _, choice = part.partition("=")
        yield knob, choice


CHEAP: Final = frozenset(
    pairs(
        "lines=1; lines=2..8; lines=16..64; latency=1..3; latency=2..12; stalls=none; stalls=some; "
        "host_gaps=none; ready=always; credits=many"
    )
)
"""What costs few cycles: for knobs that a bin has no aim for."""


@cache
def aims(point: str, bin_name: str) -> frozenset[tuple[str, str]]:
    """Knobs and choices that make the bin likelier, and the run short; none if nothing is known."""
    found = set(_found(point, bin_name))
    if not found:
        return frozenset()
    knobs = {knob for knob, _ in found}
    return frozenset(found | {(knob, choice) for knob, choice in CHEAP if knob not in knobs})


def _found(point: str, bin_name: str) -> Iterator[tuple[str, str]]:
    values = bin_name.split(BETWEEN)
    words = {"", *values, *(word for value in values for word in value.split())}
    for glob, table in AIMS.items():
        if fnmatch.fnmatch(point, glob):
            for word, text in table.items():
                if word in words:
                    yield from pairs(text)
