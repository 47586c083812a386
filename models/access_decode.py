# SPDX-License-Identifier: Apache-2.0
"""Decoding of a message's address: what the device does with the message, and causes of a refusal.

A line address is bits [51:6] of the byte address. Spec: controller §2, second edition §10.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from cocotbext.cxl.wire.messages import M2SMessage, M2SRwD, ReqOp, RwdOp
from models.control_window import ControlWindow, whole_words
from models.modes import Mode
from models.parameters import LINE_ADDRESS_BITS, DeviceParams
from models.regions import (
    INFO_SELECTOR,
    PLANE_COUNT,
    PLANE_SELECTOR,
    RAW_SELECTOR,
    SELECTOR_BITS,
    SELECTORS,
    VIEW_SELECTORS,
    RegionConfig,
    state_lines,
    sum_selectors,
)


class Cause(IntEnum):
    """Cause of a refused access, as in ERR_INFO. The lowest cause that applies is reported."""

    NONE = 0
    UNSUPPORTED = 1
    UNMAPPED = 2
    STATE_AREA = 3
    LD_MASK = 4
    SELECTOR = 5
    PARTIAL = 6
    BIND = 7
    CONTROL = 8


class Kind(IntEnum):
    """Kind of a decoded access: what the device does with the message."""

    REFUSED = 0
    NO_EFFECT = 1
    """MemInv, MemInvNT: answered without effect."""
    DROPPED = 2
    """MemSpecRd: not answered."""
    MEMORY = 3
    """Ordinary memory."""
    IDENTITY = 4
    """Plain memory with the protection of an IDENTITY region."""
    CONTRIBUTION = 5
    """Write of one worker's line (low-bit or FP32)."""
    RESULT = 6
    """Read of the vote or of the FP32 sum."""
    PLANE = 7
    """Read of a count plane (low-bit)."""
    RAW = 8
    """Read of one worker's line (FP32)."""
    INFO = 9
    """Read of a line's bookkeeping."""
    STATUS = 10
    """Read of the region's figures, or of the lines contributed by its workers."""
    SUM = 11
    """Read of a line of sums (G_INT4, G_INT8)."""
    CONTROL = 12
    """Read or write of a line of registers through the control window."""


READ_KINDS = (Kind.RESULT, Kind.PLANE, Kind.RAW, Kind.SUM)
"""Reads of the content of a line, which may be early; `Kind.INFO` never is."""


@dataclass(frozen=True)
class Access:
    """Decoding of one message: what the device does with it, and where.

    Attributes:
        kind: kind of access.
        write: whether the message is a write.
        line: line within the worker's n lines in a window, line of the control window, else the
            line address.
        cause: cause of a refusal, else NONE.
        region: number of the region; None outside windows.
        selector: worker number of a write, or what a read reads; None outside windows.
        memory_line: line of device memory of a MEMORY or IDENTITY access, else None.
    """

    kind: Kind
    write: bool
    line: int
    cause: Cause = Cause.NONE
    region: int | None = None
    selector: int | None = None
    memory_line: int | None = None


def is_partial(msg: M2SMessage) -> bool:
    """Return True for MemWrPtl, whatever its byte enables."""
    return isinstance(msg, M2SRwD) and msg.opcode == RwdOp.MEM_WR_PTL


def decode_access(
    msg: M2SMessage,
    params: DeviceParams,
    regions: Sequence[RegionConfig | None],
    illegal_framing: bool = False,
    control: ControlWindow | None = None,
) -> Access:
    """Decode ``msg`` with the committed descriptors.

    Args:
        msg: message from the host.
        params: build parameters of the device.
        regions: descriptor by region number; None if not committed.
        illegal_framing: the data message had illegal Sz/BE header bits; it counts as unsupported.
        control: control window, if any.
    """
    write = isinstance(msg, M2SRwD)
    address_line = (msg.addr >> 6) & ((1 << LINE_ADDRESS_BITS) - 1)
    if (special := _decode_opcode(msg, address_line, illegal_framing)) is not None:
        return special
    if control is not None and control.holds(address_line):
        return _decode_control(msg, address_line, control)
    for number, config in enumerate(regions):
        if config is None:
            continue
        shift = config.lines_log2 + SELECTOR_BITS
        if address_line >> shift == config.base_line >> shift:
            return _decode_window(msg, address_line, number, config)

    if address_line >= params.mem_lines:
        return Access(Kind.REFUSED, write, address_line, Cause.UNMAPPED)
    for config in regions:
        if config is not None:
            offset = address_line - config.state_line
            if 0 <= offset < state_lines(config, params.cnt_w):
                return Access(Kind.REFUSED, write, address_line, Cause.STATE_AREA)
    return Access(Kind.MEMORY, write, address_line, memory_line=address_line)


def _decode_opcode(msg: M2SMessage, address_line: int, illegal_framing: bool) -> Access | None:
    """Return the access of an opcode that depends on no address; None for reads and writes.

    Unsupported opcodes are refused whatever their address.
    """
    if isinstance(msg, M2SRwD):
        if illegal_framing or msg.opcode not in (RwdOp.MEM_WR, RwdOp.MEM_WR_PTL):
            return Access(Kind.REFUSED, True, address_line, Cause.UNSUPPORTED)
    elif msg.opcode == ReqOp.MEM_SPEC_RD:
        return Access(Kind.DROPPED, False, address_line)
    elif msg.opcode in (ReqOp.MEM_INV, ReqOp.MEM_INV_NT):
        return Access(Kind.NO_EFFECT, False, address_line)
    elif msg.opcode not in (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA):
        return Access(Kind.REFUSED, False, address_line, Cause.UNSUPPORTED)
    return None


def _decode_control(msg: M2SMessage, address_line: int, control: ControlWindow) -> Access:
    line = address_line - control.base_line
    if not isinstance(msg, M2SRwD):
        return Access(Kind.CONTROL, False, line)
    if is_partial(msg) and not whole_words(msg.be):
        return Access(Kind.REFUSED, True, line, Cause.PARTIAL)
    if msg.poison or not control.may_write(msg.ldid, line):
        return Access(Kind.REFUSED, True, line, Cause.CONTROL)
    return Access(Kind.CONTROL, True, line)


def _decode_window(msg: M2SMessage, address_line: int, number: int, config: RegionConfig) -> Access:
    write = isinstance(msg, M2SRwD)
    line = address_line & (config.lines - 1)
    selector = (address_line >> config.lines_log2) & (SELECTORS - 1)

    def access(kind: Kind, cause: Cause = Cause.NONE) -> Access:
        identity = kind == Kind.IDENTITY
        backing = config.state_line + selector * config.lines + line if identity else None
        return Access(kind, write, line, cause, number, selector, backing)

    if not config.ld_mask >> msg.ldid & 1:
        return access(Kind.REFUSED, Cause.LD_MASK)
    kind = _window_kind(write, selector, line, config)
    if kind == Kind.REFUSED:
        return access(kind, Cause.SELECTOR)
    if write:
        if config.mode.low_bit and is_partial(msg):
            return access(Kind.REFUSED, Cause.PARTIAL)
        if config.bind and msg.ldid != config.owner(selector):
            return access(Kind.REFUSED, Cause.BIND)
    return access(kind)


def _window_kind(write: bool, selector: int, line: int, config: RegionConfig) -> Kind:
    if config.mode == Mode.IDENTITY:
        return Kind.IDENTITY
    if write:
        return Kind.CONTRIBUTION if selector < config.workers else Kind.REFUSED
    if config.mode.low_bit and 0 <= selector - PLANE_SELECTOR < PLANE_COUNT:
        return Kind.PLANE
    if selector == INFO_SELECTOR:
        return Kind.INFO
    if selector in VIEW_SELECTORS:
        return Kind.STATUS if line == 0 else Kind.REFUSED
    if config.mode.bits:
        return Kind.SUM if selector in sum_selectors(config) else Kind.REFUSED
    if selector == 0:
        return Kind.RESULT
    if config.mode.low_bit:
        return Kind.REFUSED
    raw = RAW_SELECTOR <= selector < RAW_SELECTOR + config.workers
    return Kind.RAW if raw else Kind.REFUSED
