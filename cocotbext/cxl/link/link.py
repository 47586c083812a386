# SPDX-License-Identifier: Apache-2.0
"""Link partners without a simulator: HostLink and DeviceLink (spec: link spec §6 to §9).

One call of ``next_flit`` or ``stall`` is one clock of the sender. ``receive`` takes what came over
the wire and returns the messages that it completed. Both ends are the same machine with the
channels swapped, so a HostLink and a DeviceLink can be wired back to back.
"""

from __future__ import annotations

from cocotbext.cxl.link.hooks import HookedPartner
from cocotbext.cxl.link.partner import LinkPartner, WireFlit
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage
from cocotbext.cxl.wire.packer import M2SPacker, S2MPacker
from cocotbext.cxl.wire.unpack import M2SUnpacker, S2MUnpacker

__all__ = ["DeviceLink", "HostLink", "LinkPartner", "WireFlit"]


class HostLink(HookedPartner[M2SMessage, S2MMessage]):
    """The host's end: sends Req and RwD, receives NDR and DRS."""

    tx_direction = Direction.M2S
    _return_shift = 20
    _grant_shift = 24
    _packer = M2SPacker
    _unpacker = S2MUnpacker


class DeviceLink(HookedPartner[S2MMessage, M2SMessage]):
    """The device's end: sends NDR and DRS, receives Req and RwD."""

    tx_direction = Direction.S2M
    _return_shift = 24
    _grant_shift = 20
    _packer = S2MPacker
    _unpacker = M2SUnpacker
