# SPDX-License-Identifier: Apache-2.0
"""CxlMemDevice: a Type-3 device with a memory, on the pins of a host that is to be verified.

The timing contract is in ``endpoint``; link and memory, which need no simulator, are in
``link.device_stub``. The device takes a flit in every clock with m2s_valid.
"""

from __future__ import annotations

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
    """Answers reads and writes from ``memory``, which read() and write() reach without the link.

    ``size``: bytes of memory (0: no limit). ``link_config``: packing, credits that the device
    grants, retry. ``latency`` (min, max): clocks from a request to its response; responses
    overtake each other where it is random. ``stub``: a device of your own behind the pins, in place
    of all these. ``damage_to_host`` / ``damage_to_device``: hooks that change flits before the
    device's pins / behind them. ``stub.change_response``: hook that changes or drops responses.

    Errors of the host are logged and kept in ``errors``, and check() raises the first of them: a
    broken rule of the link, a message that no host may send, an address beyond ``size``, a bad
    flit where there is no retry. A CxlMemMonitor on the same pins judges every other link rule.
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
        """Bytes of the memory as they are, poisoned or not."""
        return self.memory.read(address, length)

    def write(self, address: int, data: bytes, *, poison: bool = False) -> None:
        """Sets bytes of the memory; ``poison`` holds for every line that they touch."""
        self.memory.write(address, data, poison)

    def poisoned(self, address: int, length: int) -> list[int]:
        """Addresses of the poisoned lines among these bytes."""
        lines = self.memory.lines
        touched = (line for line, _, _ in lines_of(address, length))
        return [line for line in touched if lines.get(line // LINE_BYTES, (b"", False))[1]]

    def retrain(self) -> None:
        """Asks the host for a retrain of the physical layer (retrain_request)."""
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
