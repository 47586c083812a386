# SPDX-License-Identifier: Apache-2.0
"""Switch with a fault, for negative twins: a checker of the pool must find each."""

from __future__ import annotations

from dataclasses import replace

from cocotbext.cxl.wire.messages import S2MDRS, M2SMessage, M2SRwD, S2MMessage
from verif.fabric.switch import Switch

RARE = 20
"""One message in so many has the fault."""
FAULTS = (
    "other LD-ID",
    "other device",
    "lost request",
    "request twice",
    "old data",
    "lost response",
    "response by tag alone",
    "old response",
    "response of another tag",
)


class FaultySwitch(Switch):
    """Switch with one of `FAULTS`."""

    fault = ""
    written = read = bytes(64)

    def stamped(self, port: int, device: int, message: M2SMessage) -> list[tuple[int, M2SMessage]]:
        """Return what goes to which device for a request of a port."""
        right = super().stamped(port, device, message)
        old = self.written
        if isinstance(message, M2SRwD) and any(message.data):
            self.written = message.data
        if self.rng.randrange(RARE):
            return right
        [(_, stamped)] = right
        match self.fault:
            case "other LD-ID":
                return [(device, replace(stamped, ldid=(port + 1) % len(self.ports)))]
            case "other device":
                return [((device + 1) % len(self.devices), stamped)]
            case "lost request":
                return []
            case "request twice":
                return right * 2
            case "old data" if isinstance(stamped, M2SRwD) and any(stamped.data):
                return [(device, replace(stamped, data=old))]
        return right

    def routed(self, response: S2MMessage) -> list[tuple[int, S2MMessage]]:
        """Return what goes to which port for a response of a device."""
        old = self.read
        if isinstance(response, S2MDRS):
            self.read = response.data
        if self.fault == "response by tag alone":
            waiting = [port.number for port in self.ports if response.tag in port.waiting]
            return [(waiting[0] if waiting else response.ldid, response)]
        if self.rng.randrange(RARE):
            return super().routed(response)
        match self.fault:
            case "lost response":
                return []
            case "old response" if isinstance(response, S2MDRS):
                response = replace(response, data=old)
            case "response of another tag":
                response = replace(response, tag=response.tag ^ 1)
        return super().routed(response)
