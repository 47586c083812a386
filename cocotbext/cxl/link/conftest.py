# SPDX-License-Identifier: Apache-2.0
"""Test bench that joins a host's and a device's link partner, without a simulator."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.flit_event import FlitKind
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.flits import Direction, WireFlit
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage
from cocotbext.cxl.wire.packer import PackOptions

Change = Callable[[WireFlit], WireFlit]
RETRAIN_CLOCKS = 5


class LinkBench:
    """Link partners of a host and a device, joined without a simulator; one step is one clock.

    ``at_pins`` changes the flits of a direction before the tracker on the pins of the device sees
    them, ``after_pins`` changes them later. ``delay`` is the number of clocks that flits of a
    direction take.
    """

    def __init__(
        self, stub: DeviceStub, config: LinkConfig, tracker: LinkTracker | None = None
    ) -> None:
        self.config, self.host, self.stub, self.tracker = config, HostLink(config), stub, tracker
        self.device = stub.link
        self.at_pins: dict[Direction, Change] = {}
        self.after_pins: dict[Direction, Change] = {}
        self.ready: Callable[[], bool] = lambda: True
        self.delay = {Direction.M2S: 0, Direction.S2M: 0}
        self.clock, self.retrain = 0, False
        self.responses: list[S2MMessage] = []
        self.seen = 0
        """Messages that the tracker has seen."""
        self.kinds: set[FlitKind] = set()
        self._phy_at = -1
        self._wires: dict[Direction, deque[WireFlit | None]] = {d: deque() for d in Direction}

    @classmethod
    def make(cls, seed: int = 0, **settings: Any) -> LinkBench:
        """Return a bench with a device whose responses take 1 to 9 clocks.

        ``settings`` are those of the host's LinkConfig; its dense packing, retry and retry time-out
        are used for the device too.
        """
        rng = random.Random(seed)
        host = LinkConfig(rng=rng, **settings)
        pack = PackOptions(dense=host.pack.dense, multi_header=bool(seed & 1), rng=rng)
        device = LinkConfig(rng=rng, retry=host.retry, retry_timeout=host.retry_timeout, pack=pack)
        return cls(DeviceStub(DeviceLink(device), (1, 9), rng), host)

    def step(self) -> None:
        self.clock += 1
        asked = self.retrain or any(end.retry.retrain_request for end in (self.host, self.device))
        if asked and self.config.retry and self.host.phy:
            self.retrain, self._phy_at = False, self.clock + RETRAIN_CLOCKS
            self.set_phy(False)
        elif self.clock == self._phy_at:
            self.set_phy(True)
        down, up = self.host.next_flit(), self.stub.next_flit(self.ready())
        self._move(Direction.M2S, down, self.stub.receive)
        self._move(Direction.S2M, up, self.to_host)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def run(self, until: Callable[[], bool], limit: int = 60_000) -> None:
        end = self.clock + limit
        while not until():
            self.step()
            assert self.clock < end, "stuck"

    def up(self) -> LinkBench:
        """Run 60 clocks, check that both ends are active, and return the bench."""
        self.steps(60)
        assert self.host.active
        assert self.device.active
        return self

    def answered(self, messages: list[M2SMessage]) -> None:
        """Send requests and check that each gets one response, then that the link becomes quiet.

        The messages must be in the order of their tags.
        """
        self.responses.clear()
        for message in messages:
            self.host.send(message)
        self.run(lambda: len(self.responses) >= len(messages))
        self.steps(600)
        assert sorted(one.tag for one in self.responses) == [one.tag for one in messages]
        assert self.host.tx_idle
        assert self.stub.idle
        self.clean()

    def clean(self) -> None:
        """Check that neither end has recorded a broken rule."""
        assert (self.host.issues, self.device.issues) == ([], [])

    def set_phy(self, up: bool) -> None:
        """Set the physical layer of both ends; flits on the wires are lost."""
        for end in (self.host, self.device):
            end.set_phy(up)
        for wire in self._wires.values():
            wire.clear()
        if self.tracker is not None and not up:
            self.tracker.phy_down()

    def observe(self, direction: Direction, flit: WireFlit) -> None:
        """Pass a flit to the tracker, if there is one, and count its messages."""
        if self.tracker is not None:
            event = self.tracker.observe(direction, *flit, self.clock)
            self.kinds.add(event.kind)
            self.seen += len(event.messages)

    def to_host(self, protocol_id: int, flit: int) -> None:
        """Pass a flit to the host and collect the responses in it."""
        self.responses += self.host.receive(protocol_id, flit)

    def _move(
        self, direction: Direction, flit: WireFlit | None, deliver: Callable[[int, int], None]
    ) -> None:
        if flit is not None:
            flit = self.at_pins.get(direction, _same)(flit)
            self.observe(direction, flit)
            flit = self.after_pins.get(direction, _same)(flit)
        wire = self._wires[direction]
        wire.append(flit)
        if len(wire) > self.delay[direction]:
            arrived = wire.popleft()
            if arrived is not None:
                deliver(*arrived)


def _same(flit: WireFlit) -> WireFlit:
    return flit
