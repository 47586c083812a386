# SPDX-License-Identifier: Apache-2.0
"""Field codes of the CXL.mem messages (spec: link spec §5); users import them from ``messages``."""

from __future__ import annotations

from enum import Enum, IntEnum


class ReqOp(IntEnum):
    """M2S Req opcodes (4 bits)."""

    MEM_INV = 0
    MEM_RD = 1
    MEM_RD_DATA = 2
    MEM_RD_FWD = 3
    MEM_WR_FWD = 4
    MEM_SPEC_RD = 8
    MEM_INV_NT = 9


class RwdOp(IntEnum):
    """M2S RwD opcodes (4 bits)."""

    MEM_WR = 1
    MEM_WR_PTL = 2


class NdrOp(IntEnum):
    """S2M NDR opcodes (3 bits)."""

    CMP = 0
    CMP_S = 1
    CMP_E = 2


class DrsOp(IntEnum):
    """S2M DRS opcodes (3 bits)."""

    MEM_DATA = 0


class DevLoad(IntEnum):
    """Load of the device, as it stands in every response."""

    LIGHT = 0
    OPTIMAL = 1
    MODERATE = 2
    SEVERE = 3


class MetaField(IntEnum):
    """Which metadata field a message touches."""

    META0_STATE = 0
    NO_OP = 3


class MetaValue(IntEnum):
    """Metadata value (a coherence state)."""

    INVALID = 0
    ANY = 2
    SHARED = 3


class SnpType(IntEnum):
    """Snoop type of an M2S message."""

    NO_OP = 0
    SNP_DATA = 1
    SNP_CUR = 2
    SNP_INV = 3


class Completion(Enum):
    """Which response, if any, ends a request."""

    NONE = "none"
    NDR = "ndr"
    DRS = "drs"
