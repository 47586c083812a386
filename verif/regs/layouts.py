# SPDX-License-Identifier: Apache-2.0
"""Layouts of the structures in the ports of the register block (hdl/pkg/nf_pkg.sv)."""

from __future__ import annotations

# Members of the event structures of nf_pkg, most significant first, with their widths.
LINK_EVENTS = (
    ("RETRY_LOCAL", 1),
    ("RETRY_REMOTE", 1),
    ("RETRY_TIMEOUT", 1),
    ("PHY_REINIT", 1),
    ("CRC_ERROR", 1),
    ("PID_CORRECTABLE", 1),
    ("PID_UNCORRECTABLE", 1),
    ("PID_UNEXPECTED", 1),
    ("STRAY_DATA", 1),
    ("CACHE_MESSAGE", 1),
    ("PROTOCOL_ERROR", 1),
    ("RX_FLIT", 1),
    ("TX_FLIT", 1),
)
CORE_EVENTS = (
    ("SLOT_HIT", 1),
    ("SLOT_MISS", 1),
    ("EVICTION", 1),
    ("FILL", 1),
    ("DUPLICATE", 1),
    ("ILLEGAL_CODE", 9),
    ("EARLY_READ", 1),
    ("POISON_RECEIVED", 2),
    ("CONTRIBUTION", 1),
    ("REFUSED", 1),
    ("UNMAPPED", 1),
    ("UNSUPPORTED", 1),
    ("MEM_READ_ERROR", 1),
    ("MEM_WRITE_ERROR", 1),
    ("MEM_POISON", 1),
)
ACCESS_ERROR = (
    ("valid", 1),
    ("cause", 4),
    ("write", 1),
    ("opcode", 4),
    ("ldid", 4),
    ("tag", 16),
    ("addr", 46),
)
DESCRIPTOR = (
    ("base", 46),
    ("state_base", 46),
    ("lines_log2", 6),
    ("workers", 8),
    ("mode", 2),
    ("tie_minus", 1),
    ("strict", 1),
    ("bind", 1),
    ("threshold", 8),
    ("ld_mask", 16),
)
IRQ_OF_EVENT = {
    "CRC_ERROR": "LINK_ERROR",
    "PID_UNCORRECTABLE": "LINK_ERROR",
    "PROTOCOL_ERROR": "LINK_ERROR",
    "MEM_READ_ERROR": "MEM_ERROR",
    "MEM_WRITE_ERROR": "MEM_ERROR",
    "POISON_RECEIVED": "POISON",
    "MEM_POISON": "POISON",
}
Layout = tuple[tuple[str, int], ...]


def pack(layout: Layout, **values: int) -> int:
    """Value of a packed structure; members that are not named are 0."""
    word = 0
    for name, width in layout:
        value = values.pop(name, 0)
        assert 0 <= value < 1 << width, f"{name} = {value:#x}"
        word = word << width | value
    assert not values, f"no members {values}"
    return word


def unpack(layout: Layout, word: int) -> dict[str, int]:
    """Members of a packed structure."""
    out = {}
    for name, width in reversed(layout):
        out[name] = word & ((1 << width) - 1)
        word >>= width
    return out
