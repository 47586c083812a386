# SPDX-License-Identifier: Apache-2.0
"""Explanation of an expected response, as text for error messages."""

from itertools import groupby

from cocotbext.cxl.wire.messages import M2SMessage, M2SRwD
from models.access_decode import Access, Cause, Kind
from models.aggregated_line import AggregatedLine
from models.device_state import DeviceState
from models.memory import ALL_BYTES
from models.modes import Mode
from models.regions import PLANE_SELECTOR, RAW_SELECTOR, SUM8_SELECTOR, SUM16_SELECTOR, RegionConfig

_CAUSES = {
    Cause.UNSUPPORTED: "the opcode is not supported",
    Cause.UNMAPPED: "the address is in no window and beyond the memory",
    Cause.STATE_AREA: "the address is in a region's state area",
    Cause.LD_MASK: "LD_MASK does not name this LD-ID",
    Cause.SELECTOR: "the selector means nothing in this mode and direction",
    Cause.PARTIAL: "MemWrPtl is refused in the low-bit modes, and of a part of a register",
    Cause.CONTROL: "the control window may not be written by this LD-ID, or with poisoned data",
    Cause.BIND: "BIND: the LD-ID is not that of the worker (w >> BIND_SHIFT)",
}


_FLAGS = {
    "poisoned": "poisoned",
    "lost": "state lost",
    "saturated": "saturated",
    "illegal": "illegal codes",
}


def _workers(numbers: list[int]) -> str:
    """Format worker numbers as ranges: [0, 1, 2, 5] as "0-2,5"; "none" for an empty list."""
    out: list[str] = []
    # Numbers that follow each other keep their distance from their place.
    for _, run in groupby(enumerate(sorted(numbers)), lambda one: one[1] - one[0]):
        found = [number for _, number in run]
        out.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    return ",".join(out) or "none"


def _line_state(config: RegionConfig, line: AggregatedLine | None) -> str:
    if line is None:
        return f"line untouched in this epoch (0 of {config.workers} workers)"
    flags = [text for name, text in _FLAGS.items() if getattr(line, name)]
    tail = f"; {', '.join(flags)}" if flags else ""
    return f"{len(line.data)} of {config.workers} workers seen ({_workers(list(line.data))}){tail}"


def _effect(
    msg: M2SMessage,
    access: Access,
    config: RegionConfig,
    line: AggregatedLine | None,
    closed: bool,
) -> str:
    seen = line is not None and access.selector is not None and line.seen(access.selector)
    complete = closed or (line is not None and line.all_seen(config.workers))
    if access.kind == Kind.CONTRIBUTION:
        assert isinstance(msg, M2SRwD)
        if config.mode.low_bit and seen:
            return f"duplicate of worker {access.selector}: counted, changes nothing"
        if closed:
            return f"contribution of worker {access.selector} is late: the region is closed"
        if msg.poison:
            return f"poisoned contribution of worker {access.selector}: line marked, data not used"
        return f"contribution of worker {access.selector} accepted"
    if access.kind == Kind.INFO:
        return "reads the line's bookkeeping; never early, Poison=0"
    worker = (access.selector or 0) - RAW_SELECTOR
    if access.kind == Kind.RAW:
        missing = line is None or not line.seen(worker)
        early = missing and not closed
        what = f"worker {worker}'s own line" + (" (not written: zeros)" if missing else "")
    else:
        early = not complete
        result = "sum" if config.mode == Mode.FP32 else "vote"
        selector = access.selector or 0
        sums = f"SUM8 line {selector - SUM8_SELECTOR}"
        if selector < SUM8_SELECTOR:
            sums = f"SUM16 line {selector - SUM16_SELECTOR}"
        plane = f"count plane {selector - PLANE_SELECTOR}"
        what = {Kind.RESULT: result, Kind.SUM: sums}.get(access.kind, plane)
        what += " so far" if early else ""
    reasons = []
    if early and config.strict:
        reasons.append("early with STRICT")
    if line is not None and line.poisoned:
        reasons.append("line poisoned")
    marked = sorted(line.marked) if line is not None else []
    if marked and (access.kind != Kind.RAW or worker in marked):
        reasons.append(f"memory marks the line of worker {_workers(marked)}")
    poison = f"Poison=1 ({', '.join(reasons)})" if reasons else "Poison=0"
    return f"reads {what}; {'early read, ' if early else ''}{poison}"


def explain_access(state: DeviceState, msg: M2SMessage, access: Access) -> str:
    """Explain an access in two lines: address decoding, then the line's state and the effect.

    Nothing is changed.

    Args:
        state: State of the device before the access.
        msg: Request.
        access: Its decoding.
    """
    region = access.region
    config = None if region is None else state.config(region)
    line = None if region is None else state.line_state(region, access.line)
    closed = region is not None and state.region_status(region).closed
    name = getattr(msg.opcode, "name", f"opcode {int(msg.opcode)}")
    head = f"{name} tag {msg.tag:#06x} ld {msg.ldid} addr {msg.addr:#x}: "
    if config is None:
        head += f"line {access.line:#x}, in no window"
    else:
        head += (
            f"region {access.region} ({config.mode.name}, n={config.lines}, W={config.workers}), "
            f"selector {access.selector}, line {access.line}"
        )
    if access.kind == Kind.REFUSED:
        return f"{head}\nrefused, {access.cause.name}: {_CAUSES[access.cause]}"
    if access.kind == Kind.NO_EFFECT:
        return f"{head}\nno effect, answered by Cmp"
    if access.kind == Kind.CONTROL:
        return f"{head}\nregisters from {access.line * 64:#05x}, compared one by one"
    if access.kind == Kind.DROPPED:
        return f"{head}\na speculative read: dropped, no answer"
    if access.memory_line is not None:
        entry = state.memory.load(access.memory_line)
        what = "IDENTITY backing" if config is not None else "ordinary memory"
        known = "" if entry.known == ALL_BYTES else ", content (partly) undetermined"
        return f"{head}\n{what} line {access.memory_line:#x}, poison {int(entry.poison)}{known}"
    assert config is not None
    if access.kind == Kind.STATUS:
        return f"{head}\nfigures of the region, compared word by word"
    effect = _effect(msg, access, config, line, closed)
    return f"{head}\n{_line_state(config, line)}{', closed' if closed else ''}; {effect}"
