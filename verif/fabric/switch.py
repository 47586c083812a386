# SPDX-License-Identifier: Apache-2.0
"""Switch between the hosts and the devices of a pool.

Upstream links carry messages: a host chooses the tags of its requests, and pairs responses by tag.
The switch stamps requests with the LD-ID of the host, which is the number of its port, and returns
a response to the port that its LD-ID names. Downstream links are the links of the devices. Between
a host and a device messages keep their order in each direction, after delays drawn at random;
nothing orders messages of different devices or hosts.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import cocotb
from cocotb.triggers import Event, SimTimeoutError, Timer, with_timeout

from cocotbext.cxl.monitor import ObservedResponse
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage
from verif.env.config import CLOCK_NS
from verif.env.env import clock_now
from verif.fabric.pool_points import PoolPoints
from verif.sequences.base import RACE_LIMIT

if TYPE_CHECKING:
    from verif.env.env import NfEnv

T = TypeVar("T")
ROOM = 32
"""Requests of a host that may be in flight at once."""
RESPONSE_CLOCKS = 20_000
"""Clocks after which a response is lost; pauses of a host are shorter."""


class Lane(Generic[T]):
    """Messages from one port to another: in order, each after a drawn delay."""

    def __init__(
        self, port: HostPort, delay: Callable[[], int], deliver: Callable[[T], Awaitable[None]]
    ) -> None:
        self.port, self.delay, self.deliver = port, delay, deliver
        self.items: deque[tuple[int, T]] = deque()
        self.filled = Event()
        cocotb.start_soon(self._run())

    def put(self, item: T) -> None:
        """Add a message."""
        self.items.append((clock_now() + self.delay(), item))
        self.filled.set()

    async def _run(self) -> None:
        while True:
            while not self.items:
                self.filled.clear()
                await self.filled.wait()
            due, item = self.items.popleft()
            if (left := due - clock_now()) > 0:
                await Timer(left * CLOCK_NS, "ns")
            await self.port.running.wait()
            await self.deliver(item)


@dataclass(eq=False, slots=True)
class Request:
    """Request of a host, and its response once it arrived."""

    device: int
    message: M2SMessage
    done: Event
    response: S2MMessage | None = None

    async def wait(self) -> S2MMessage:
        """Wait for the response and return it.

        Raises:
            AssertionError: It has not arrived in `RESPONSE_CLOCKS`.
        """
        with suppress(SimTimeoutError):
            await with_timeout(self.done.wait(), RESPONSE_CLOCKS * CLOCK_NS, "ns")
        assert self.response is not None, f"a rank got no response to {self.message}"
        return self.response


class HostPort:
    """Port of a host; its number is the LD-ID of the host.

    Attributes:
        running: Not set while the host is paused.
        stray: Responses that no request of this host waits for.
        sent: Number of requests that have left the switch.
    """

    def __init__(self, switch: Switch, number: int) -> None:
        self.number, self.switch = number, switch
        self.waiting: dict[int, Request] = {}
        self.running = Event()
        self.running.set()
        self.sent = 0
        self.stray: list[S2MMessage] = []
        self._room = Event()
        count = range(len(switch.devices))
        self.lanes: list[Lane[M2SMessage]] = [
            Lane(self, switch.delay, switch.downstream(number, device)) for device in count
        ]
        self.back: list[Lane[S2MMessage]] = [Lane(self, switch.delay, self._arrived) for _ in count]

    async def issue(self, device: int, message: M2SMessage) -> Request:
        """Send a request to a device, once the host has room, and return without the response.

        The host draws the tag from as few as possible, so that hosts use equal tags.
        """
        while len(self.waiting) >= ROOM:
            self._room.clear()
            await self._room.wait()
        tag = self.switch.rng.choice([t for t in range(2 * ROOM) if t not in self.waiting])
        request = Request(device, message.with_tag(tag), Event())
        self.waiting[tag] = request
        self.lanes[device].put(request.message)
        return request

    async def call(self, device: int, message: M2SMessage) -> S2MMessage:
        """Send a request to a device and return the response."""
        return await (await self.issue(device, message)).wait()

    async def _arrived(self, response: S2MMessage) -> None:
        request = self.waiting.pop(response.tag, None)
        if request is None:
            self.stray.append(response)
            return
        request.response = response
        request.done.set()
        self._room.set()

    def pause(self) -> None:
        """Hold all messages of the host until `resume`."""
        self.running.clear()

    def resume(self) -> None:
        """Let the messages of the host go on."""
        self.running.set()


class Switch:
    """Switch of a pool; create it when the devices are connected.

    Args:
        devices: Environments of the devices.
        hosts: Number of host ports, at most 16.
        rng: Source of all draws.
        most: Longest delay of a message, in clocks.
    """

    def __init__(
        self, devices: Sequence[NfEnv], hosts: int, rng: random.Random, most: int = 12
    ) -> None:
        self.devices, self.rng = devices, rng
        self.most = most
        models = [env.scoreboard.model for env in devices]
        self.points = PoolPoints(devices[0].coverage.model, models)
        self.ports = [HostPort(self, number) for number in range(hosts)]
        self.strange: list[S2MMessage] = []
        """Responses whose LD-ID no port has."""
        self.seen: list[int] = []
        """Number of responses of each device."""
        for env in devices:
            env.cxl.monitor.on_response.append(self._upstream(len(self.seen)))
            self.seen.append(0)

    def delay(self) -> int:
        """Draw the delay of a message in clocks; about half of the messages have none."""
        return max(0, self.rng.randint(-self.most, self.most))

    def downstream(self, port: int, device: int) -> Callable[[M2SMessage], Awaitable[None]]:
        """Return what stamps the requests of a port and sends them to a device."""

        async def send(message: M2SMessage) -> None:
            self.ports[port].sent += 1
            for to, stamped in self.stamped(port, device, message):
                self.points.sent(to, stamped)
                await self.devices[to].host.issue(stamped, RACE_LIMIT, keep_tag=True)

        return send

    def stamped(self, port: int, device: int, message: M2SMessage) -> list[tuple[int, M2SMessage]]:
        """Return what goes to which device for a request of a port."""
        return [(device, replace(message, ldid=port))]

    def _upstream(self, device: int) -> Callable[[ObservedResponse], None]:
        def route(observed: ObservedResponse) -> None:
            self.seen[device] += 1
            self.points.answered(device, observed.message)
            for port, response in self.routed(observed.message):
                if port < len(self.ports):
                    self.ports[port].back[device].put(response)
                else:
                    self.strange.append(response)

        return route

    def routed(self, response: S2MMessage) -> list[tuple[int, S2MMessage]]:
        """Return what goes to which port for a response of a device."""
        return [(response.ldid, response)]

    def errors(self) -> list[str]:
        """Return what is wrong at the end of a test: a message that nobody waits for, or no message
        of a device.
        """
        found = [f"switch: {one} is of no host" for one in self.strange]
        for port in self.ports:
            found += [
                f"switch: the host of rank {port.number} waits for no {one}" for one in port.stray
            ]
        idle = [str(device) for device, seen in enumerate(self.seen) if not seen]
        return [*found, *(f"switch: no response of device {device}" for device in idle)]
