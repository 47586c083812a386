# SPDX-License-Identifier: Apache-2.0
"""Operations of the scoreboard: requests with their responses, and their texts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SMessage, M2SReq, S2MMessage
from models.control_window import ControlWindow
from models.regions import Kind, RegionConfig

WINDOW_SHIFT = 8 + 6
"""A region's window holds 2^8 lines of 2^6 bytes for each of its lines."""


@dataclass(slots=True, eq=False)
class Op:
    """One request from its first view on the pins (`start`) to its response (`end`).

    Times are positions in the stream of monitor events; `end` is -1 while in flight. `window` is
    the region whose window holds the address, whatever the access may do there. `misframed`: the
    flit's Sz / BE did not fit the opcode. `failed`: lines of memory that answered with an error
    while it was in flight. `windows`: control windows of which any may have decoded it, if they
    differ in that. `since`: of a read of registers, what was known when it came.
    """

    msg: M2SMessage
    start: int
    access: Any
    key: Hashable = None
    window: int | None = None
    end: int = -1
    response: S2MMessage | None = None
    read: bool = False
    overlapped: bool = False
    commit_raced: bool = False
    misframed: bool = False
    failed: set[int] = field(default_factory=set)
    windows: tuple[ControlWindow, ...] = ()
    since: Any = None

    @property
    def inert(self) -> bool:
        """Return whether the access neither reads nor changes a line."""
        return self.access.kind in (Kind.REFUSED, Kind.NO_EFFECT, Kind.STATUS, Kind.CONTROL)


def window_of(addr: int, configs: Sequence[RegionConfig | None]) -> int | None:
    """Return the region whose window holds a byte address, or None."""
    for number, config in enumerate(configs):
        if config is not None:
            shift = config.lines_log2 + WINDOW_SHIFT
            if addr >> shift == config.base >> shift:
                return number
    return None


def describe(msg: M2SMessage | S2MMessage | None) -> str:
    """Format a message on one line, with data from the last byte to the first."""
    if msg is None:
        return "nothing"
    if isinstance(msg, S2MNDR):
        return f"NDR(op={int(msg.opcode)} tag={msg.tag:#x} ldid={msg.ldid})"
    if isinstance(msg, S2MDRS):
        return _drs(msg, f"data={msg.data[::-1].hex()}")
    name = getattr(msg.opcode, "name", str(msg.opcode))
    text = f"{name}(tag={msg.tag:#x} ldid={msg.ldid} addr={msg.addr:#x}"
    if isinstance(msg, M2SReq):
        return text + ")"
    return text + f" poison={int(msg.poison)} be={msg.be:#x} data={msg.data[::-1].hex()})"


def describe_near(msg: M2SMessage | S2MMessage | None, byte: int | None) -> str:
    """Format a message like `describe`, but only eight bytes of read data around `byte`, or
    none.
    """
    if not isinstance(msg, S2MDRS):
        return describe(msg)
    if byte is None:
        return _drs(msg, f"{len(msg.data)} bytes")
    first = byte & ~7
    return _drs(msg, f"bytes {first}..{first + 7}: {msg.data[first : first + 8].hex(' ')}")


def _drs(msg: S2MDRS, data: str) -> str:
    return (
        f"DRS(op={int(msg.opcode)} tag={msg.tag:#x} ldid={msg.ldid} "
        f"poison={int(msg.poison)} {data})"
    )
