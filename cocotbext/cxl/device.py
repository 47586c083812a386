# SPDX-License-Identifier: Apache-2.0
"""Type-3 device model with a memory, on the pins of a host under verification (`CxlMemDevice`).

See `endpoint` for the timing contract and `link.device_stub` for link and memory, which need no
simulator. The device accepts a flit in every clock with m2s_valid.
"""

import random
from typing import Any

from cocotb.triggers import RisingEdge

from cocotbext.cxl.bus import CxlMemBus, bits_reader
from cocotbext.cxl.config import Damage
from cocotbext.cxl.endpoint import LinkEndpoint
from cocotbext.cxl.errors import ErrorLog
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.messages import LINE_BYTES, M2SMessage, S2MMessage, lines_of


class CxlMemDevice(LinkEndpoint[S2MMessage, M2SMessage]):
    """Device model that answers reads and writes from ``memory``.

    read() and write() access the memory directly, without the link. Errors of the host are logged,
    kept in ``errors`` and raised by check(): broken link rules, illegal messages, addresses beyond
    ``size``, and bad flits if retry is off. A CxlMemMonitor on the same pins checks all other link
    rules.

    Args:
        size: bytes of memory; 0 for no limit.
        link_config: packing, credits that the device grants, retry.
        latency: (min, max) clocks from a request to its response; with a random latency responses
            overtake each other.
        stub: user-defined device model that replaces all of the above.
        damage_to_host: hook that changes flits before they reach the host.
        damage_to_device: hook that changes flits after the device's pins.

    ``stub.change_response`` is a hook that changes or drops responses.
    """

    role = "device"
    peer = "host"
    link: DeviceLink

    def __init__(
        self,
        bus: CxlMemBus,
        clock: Any,
        reset: Any = None,
        reset_active_level: bool = True,
        *,
        size: int = 0,
        link_config: LinkConfig | None = None,
        latency: tuple[int, int] = (4, 4),
        rng: random.Random | None = None,
        stub: DeviceStub | None = None,
        error_log: ErrorLog | None = None,
        start: bool = True,
    ) -> None:
        super().__init__(bus, clock, reset, reset_active_level, error_log)
        if stub is None:
            stub = DeviceStub(DeviceLink(link_config), latency, rng)
            stub.memory.size = size
        self.stub = stub
        self.link, self.memory = stub.link, stub.memory
        self.damage_to_host: Damage | None = None
        self.damage_to_device: Damage | None = None
        self._retrain = False
        stub.on_request.append(self._judge_request)
        if start:
            self.start()

    # -------------------------------------------------------------------------- memory

    def read(self, address: int, length: int) -> bytes:
        """Return ``length`` bytes of the memory from byte ``address`` on, poisoned or not."""
        return self.memory.read(address, length)

    def write(self, address: int, data: bytes, *, poison: bool = False) -> None:
        """Set bytes of the memory from byte ``address`` on, without the link.

        ``poison`` becomes the poison of every line that contains one of the bytes: False clears it.
        """
        self.memory.write(address, data, poison)

    def poisoned(self, address: int, length: int) -> list[int]:
        """Return the byte addresses of the poisoned lines that a range of bytes touches."""
        lines = self.memory.lines
        touched = (line for line, _, _ in lines_of(address, length))
        return [line for line in touched if lines.get(line // LINE_BYTES, (b"", False))[1]]

    def retrain(self) -> None:
        """Request a retrain of the physical layer from the host (retrain_request)."""
        self._retrain = True

    # -------------------------------------------------------------------------- pins

    def _judge_request(self, message: M2SMessage) -> None:
        texts = message.check()
        if not self.memory.holds(message.addr):
            texts.append(f"address beyond the {self.memory.size:#x} bytes of the device")
        for text in texts:
            self._error(f"{text}: {describe_message(message)}")

    def _reset_entered(self) -> None:
        super()._reset_entered()
        self.stub.reset()

    async def _run(self) -> None:
        bus, stub, link = self.bus, self.stub, self.link
        valid, protocol_id, flit = bus.s2m_valid, bus.s2m_protocol_id, bus.s2m_flit
        m2s_valid, m2s_id, m2s_flit = map(
            bits_reader, (bus.m2s_valid, bus.m2s_protocol_id, bus.m2s_flit)
        )
        s2m_ready, phy_up = bits_reader(bus.s2m_ready, "1"), bits_reader(bus.phy_up, "1")
        valid.value = protocol_id.value = flit.value = 0
        if bus.retrain_request is not None:
            bus.retrain_request.value = 0
        edge = RisingEdge(self.clock)
        driving, now = False, "0"
        while True:
            await edge
            self.cycle += 1
            if self._in_reset:
                valid.value = 0
                driving = False
                continue
            link.set_phy(phy_up() == "1")
            before, now = now, m2s_valid()
            if now == "1":
                self._receive(m2s_id(), m2s_flit())
            elif now not in ("0", before):
                self._error(f"m2s_valid is X or Z: {now}")
            self._retrain = self._retrain and link.phy
            if bus.retrain_request is not None:
                bus.retrain_request.value = int(self._retrain or link.retry.retrain_request)
            if driving and s2m_ready() != "1":
                stub.next_flit(ready=False)
                continue
            out = stub.next_flit()
            driving = out is not None
            valid.value = int(driving)
            if out is not None:
                if self.damage_to_host is not None:
                    out = self.damage_to_host(out)
                protocol_id.value, flit.value = out

    def _receive(self, protocol_id: str, flit: str) -> None:
        wire = self._words(protocol_id, flit)
        if wire is None:
            return
        if self.damage_to_device is not None:
            wire = self.damage_to_device(wire)
        self.stub.receive(*wire)
        self._judge_link()
