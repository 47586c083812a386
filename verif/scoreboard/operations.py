# SPDX-License-Identifier: Apache-2.0
"""Operations of the scoreboard: requests with their responses, and their descriptions for
findings.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SMessage, M2SReq, S2MMessage
from models.access_decode import Kind
from models.control_window import ControlWindow
from models.regions import RegionConfig

WINDOW_SHIFT = 8 + 6
"""A region's window holds 2^8 lines of 2^6 bytes for each of its lines."""


@dataclass(slots=True, eq=False)
class Op:
    """Request on the link, from its arrival at the pins (`start`) to its response (`end`).

    Times are positions in the stream of monitor events.

    Attributes:
        msg: The request.
        start: Time of arrival.
        access: Decoding of the request by the model.
        key: Key of the line in the model: (region, line), or of ordinary memory.
        window: Region whose window holds the address, whatever the access may do there, or None.
        end: Time of the response; -1 while in flight.
        response: The response, or None.
        read: Whether it is a request without data (a MemRd or alike).
        overlapped: Whether another request on the line was in flight with it.
        commit_raced: Whether a commit of its region was pending at its start or end.
        misframed: Whether Sz or BE of the flit did not fit the opcode.
        failed: Lines of device memory that answered with an error while it was in flight.
        windows: Control windows of which any may have decoded it, if they decode it differently.
        since: Of a request to the control window: knowledge of the register predictor at its start.
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
        """Return whether the request neither reads nor changes a line: refused, no effect, STATUS,
        control.
        """
        return self.access.kind in (Kind.REFUSED, Kind.NO_EFFECT, Kind.STATUS, Kind.CONTROL)


def window_of(addr: int, configs: Sequence[RegionConfig | None]) -> int | None:
    """Return the number of the region whose window holds a byte address, or None.

    Args:
        addr: Byte address.
        configs: Committed descriptor by region; None without one.
    """
    for number, config in enumerate(configs):
        if config is not None:
            shift = config.lines_log2 + WINDOW_SHIFT
            if addr >> shift == config.base >> shift:
                return number
    return None


def describe(msg: M2SMessage | S2MMessage | None) -> str:
    """Return a message as one line of text, with data in hex from the last byte to the first.

    None gives "nothing".
    """
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
    """Return a message as one line of text, with only eight bytes of read data.

    Args:
        msg: Message; one that is no data response gives the text of `describe`.
        byte: Offset of a byte in the line; the aligned eight bytes around it are shown. None shows
            the number of bytes only.
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
