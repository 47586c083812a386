# SPDX-License-Identifier: Apache-2.0
"""Register map of the controller, for the default hardware parameters.

Generated from hdl/regs/nf_regs.rdl by `python -m verif.regs.generate`; do not edit.
"""

# fmt: off
from enum import IntEnum

from verif.regs.regmap import Access, Field, Register, RegMap


class Cause(IntEnum):
    """Values of the fields that hold a Cause."""

    NONE = 0
    UNSUPPORTED = 1
    UNMAPPED = 2
    STATE_AREA = 3
    LD_MASK = 4
    SELECTOR = 5
    PARTIAL = 6
    BIND = 7


class Lrsm(IntEnum):
    """Values of the fields that hold a Lrsm."""

    NORMAL = 0
    LLRREQ = 1
    LOCAL_IDLE = 2
    PHY_REINIT = 3
    ABORT = 4


class LinkError(IntEnum):
    """Values of the fields that hold a LinkError."""

    NONE = 0
    CRC = 1
    PROTOCOL_ID = 2
    CONTROL = 3
    BEFORE_INIT = 4
    SECOND_INIT = 5
    SLOT = 6
    CREDIT = 7
    ACK = 8
    RETRY_REQ = 9
    RETRY_ACK = 10
    ABORT = 11


class Mode(IntEnum):
    """Values of the fields that hold a Mode."""

    IDENTITY = 0
    G_BINARY = 1
    G_TERNARY = 2
    FP32 = 3


class Commit(IntEnum):
    """Values of the fields that hold a Commit."""

    OK = 0
    WORKERS = 1
    THRESHOLD = 2
    LINES = 3
    BASE_ALIGN = 4
    WINDOW_MEMORY = 5
    WINDOW_OVERLAP = 6
    STATE_ALIGN = 7
    STATE_MEMORY = 8
    STATE_OVERLAP = 9


REG_MAP = RegMap(
    registers=(
        Register("ID", 0x000, (Field("VALUE", 0, 32, Access.RO, reset=0x4e463031),)),
        Register("VERSION", 0x004, (
            Field("MINOR", 0, 16, Access.RO, reset=0x1),
            Field("MAJOR", 16, 16, Access.RO, reset=0x1),
        )),
        Register("PARAMS0", 0x008, (
            Field("REGIONS", 0, 8, Access.RO, reset=0x8, reset_parameter="REGIONS"),
            Field("SLOTS", 8, 16, Access.RO, reset=0x40, reset_parameter="SLOTS"),
            Field("CNT_W", 24, 8, Access.RO, reset=0x8, reset_parameter="CNT_W"),
        )),
        Register("PARAMS1", 0x00c, (
            Field("MEM_LINES_LOG2", 0, 8, Access.RO, reset=0x14, reset_parameter="MEM_LINES_LOG2"),
            Field("RETRY_DEPTH", 8, 8, Access.RO, reset=0x40, reset_parameter="RETRY_DEPTH"),
            Field("REQ_CREDITS", 16, 8, Access.RO, reset=0x40, reset_parameter="REQ_CREDITS"),
            Field("RWD_CREDITS", 24, 8, Access.RO, reset=0x20, reset_parameter="RWD_CREDITS"),
        )),
        Register("CTRL", 0x010, (
            Field("CLEAR_COUNTERS", 0, 1, Access.PULSE, volatile=True),
            Field("MULTI_HEADER", 1, 1, Access.RW),
        )),
        Register("STATUS", 0x014, (
            Field("LINK_UP", 0, 1, Access.RO, volatile=True),
            Field("COMMIT_BUSY", 1, 1, Access.RO, volatile=True),
            Field("INIT_BUSY", 2, 1, Access.RO, volatile=True),
        )),
        Register("IRQ_STATUS", 0x018, (
            Field("DONE", 0, 1, Access.W1C, volatile=True),
            Field("FALLBACK", 1, 1, Access.W1C, volatile=True),
            Field("ACCESS_ERROR", 2, 1, Access.W1C, volatile=True),
            Field("LINK_ERROR", 3, 1, Access.W1C, volatile=True),
            Field("MEM_ERROR", 4, 1, Access.W1C, volatile=True),
            Field("POISON", 5, 1, Access.W1C, volatile=True),
        )),
        Register("IRQ_ENABLE", 0x01c, (
            Field("DONE", 0, 1, Access.RW),
            Field("FALLBACK", 1, 1, Access.RW),
            Field("ACCESS_ERROR", 2, 1, Access.RW),
            Field("LINK_ERROR", 3, 1, Access.RW),
            Field("MEM_ERROR", 4, 1, Access.RW),
            Field("POISON", 5, 1, Access.RW),
        )),
        Register("DONE", 0x020, (
            Field("VALUE", 0, 8, Access.RO, volatile=True, width_parameter="REGIONS"),
        )),
        Register("FALLBACK", 0x024, (
            Field("VALUE", 0, 8, Access.W1C, volatile=True, width_parameter="REGIONS"),
        )),
        Register("ERR_INFO", 0x028, (
            Field("VALID", 0, 1, Access.W1C, volatile=True),
            Field("CAUSE", 4, 4, Access.RO, volatile=True, enum="Cause"),
            Field("WRITE", 8, 1, Access.RO, volatile=True),
            Field("OPCODE", 12, 4, Access.RO, volatile=True),
            Field("LDID", 16, 4, Access.RO, volatile=True),
        )),
        Register("ERR_ADDR_LO", 0x02c, (Field("VALUE", 0, 32, Access.RO, volatile=True),)),
        Register("ERR_ADDR_HI", 0x030, (Field("VALUE", 0, 20, Access.RO, volatile=True),)),
        Register("ERR_TAG", 0x034, (Field("VALUE", 0, 16, Access.RO, volatile=True),)),
        Register("CAP_WINDOW", 0x038, (
            Field("VALUE", 0, 9, Access.RW, reset=0x40, maximum=0x100),
        )),
        Register("CAP_THRESHOLD", 0x03c, (Field("VALUE", 0, 9, Access.RW, reset=0x100),)),
        Register("DEVLOAD_THRESHOLD", 0x040, (
            Field("OPTIMAL", 0, 8, Access.RW, reset=0x10),
            Field("MODERATE", 8, 8, Access.RW, reset=0x30),
            Field("SEVERE", 16, 8, Access.RW, reset=0x60),
        )),
        Register("LINK_STATE", 0x044, (
            Field("LRSM", 0, 3, Access.RO, volatile=True, enum="Lrsm"),
            Field("RRSM", 4, 1, Access.RO, volatile=True),
            Field("ABORTED", 8, 1, Access.RO, volatile=True),
        )),
        Register("LINK_ERR_INFO", 0x048, (
            Field("VALID", 0, 1, Access.W1C, volatile=True),
            Field("KIND", 4, 4, Access.RO, volatile=True, enum="LinkError"),
        )),
        Register("SLOT_HIT", 0x100, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("SLOT_MISS", 0x104, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("EVICTION", 0x108, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("FILL", 0x10c, (Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),)),
        Register("DUPLICATE", 0x110, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("ILLEGAL_CODE", 0x114, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("EARLY_READ", 0x118, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("POISON_RECEIVED", 0x11c, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("CONTRIBUTION", 0x120, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("REFUSED", 0x124, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("UNMAPPED", 0x128, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("UNSUPPORTED", 0x12c, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("MEM_READ_ERROR", 0x130, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("MEM_WRITE_ERROR", 0x134, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("MEM_POISON", 0x138, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("CRC_ERROR", 0x140, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("PID_CORRECTABLE", 0x144, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("PID_UNCORRECTABLE", 0x148, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("PID_UNEXPECTED", 0x14c, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("STRAY_DATA", 0x150, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("CACHE_MESSAGE", 0x154, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("PROTOCOL_ERROR", 0x158, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("RX_FLIT", 0x15c, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("TX_FLIT", 0x160, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("RETRY_LOCAL", 0x164, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("RETRY_REMOTE", 0x168, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("RETRY_TIMEOUT", 0x16c, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
        Register("PHY_REINIT", 0x170, (
            Field("VALUE", 0, 32, Access.RO, volatile=True, counter=True),
        )),
    ),
    region_registers=(
        Register("BASE_LO", 0x000, (Field("ADDR", 6, 26, Access.RW),)),
        Register("BASE_HI", 0x004, (Field("ADDR", 0, 20, Access.RW),)),
        Register("STATE_BASE_LO", 0x008, (Field("ADDR", 6, 26, Access.RW),)),
        Register("STATE_BASE_HI", 0x00c, (Field("ADDR", 0, 20, Access.RW),)),
        Register("LINES_LOG2", 0x010, (Field("VALUE", 0, 6, Access.RW),)),
        Register("WORKERS", 0x014, (Field("VALUE", 0, 8, Access.RW),)),
        Register("CONFIG", 0x018, (
            Field("MODE", 0, 2, Access.RW, enum="Mode"),
            Field("TIE_MINUS", 4, 1, Access.RW),
            Field("STRICT", 5, 1, Access.RW),
            Field("BIND", 6, 1, Access.RW),
        )),
        Register("THRESHOLD", 0x01c, (Field("VALUE", 0, 8, Access.RW, reset=0x1),)),
        Register("LD_MASK", 0x020, (Field("VALUE", 0, 16, Access.RW, reset=0xffff),)),
        Register("EPOCH", 0x024, (Field("VALUE", 0, 32, Access.COMMIT, volatile=True),)),
        Register("STATUS", 0x028, (
            Field("COMMITTED", 0, 1, Access.RO, volatile=True),
            Field("CODE", 4, 4, Access.RO, volatile=True, enum="Commit"),
            Field("DONE", 8, 1, Access.RO, volatile=True),
            Field("FALLBACK", 9, 1, Access.RO, volatile=True),
            Field("SATURATED", 10, 1, Access.RO, volatile=True),
            Field("ILLEGAL_SEEN", 11, 1, Access.RO, volatile=True),
        )),
        Register("COMPLETE_LINES", 0x02c, (Field("VALUE", 0, 32, Access.RO, volatile=True),)),
    ),
    region_base=0x400,
    region_stride=0x40,
)
