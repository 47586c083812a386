# SPDX-License-Identifier: Apache-2.0
"""Messages to flits and back, both directions: the one import for users (spec: link spec §6)."""

from cocotbext.cxl.wire.pack_m2s import M2SPacker
from cocotbext.cxl.wire.pack_s2m import S2MPacker
from cocotbext.cxl.wire.packer import Credits, Packed, PackOptions
from cocotbext.cxl.wire.unpack import FlitReport, Issue, IssueKind, M2SUnpacker, S2MUnpacker

__all__ = [
    "Credits",
    "FlitReport",
    "Issue",
    "IssueKind",
    "M2SPacker",
    "M2SUnpacker",
    "PackOptions",
    "Packed",
    "S2MPacker",
    "S2MUnpacker",
]
