# SPDX-License-Identifier: Apache-2.0
"""Test with a pool: an environment for each controller, the switch, and the regions of the pool.

Regions of a device: 0 and 1 are bells of even and odd collectives, 2 is plain memory, the others
are pairs for even and odd uses of a route. Signal n of a rank is a contribution of zeros to line n
of the bells of device n % D. Rank d % W leads device d: it commits bells and routes through the
control window. What the pool has when it is opened is set by AXI4-Lite.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from models.info_status_lines import WORD, LineInfo
from models.modes import Mode
from models.regions import RegionConfig
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import Adder, Buffer, Schedule, Signal
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.env.env import NfEnv
from verif.fabric.switch import Switch
from verif.parameters import build_parameters
from verif.sequences.control_lines import ControlSequence

PLAIN = 2
SIGNALS_LOG2 = 7
ABORT = (1 << SIGNALS_LOG2) - 1
"""Line of the bells by which a rank tells all others to give up."""
LATER = 1 << 20
"""Distance of the epochs of a pool from those before it shrank."""
ORDERS = 200_000
"""Steps of the search for an order: all hosts poll the line of a bell."""


class Scope:
    """Ports of a controller inside `nf_pool`, with the clock and the reset of the top."""

    def __init__(self, top: Any, number: int) -> None:
        self.top, self.scope = top, top.g_dev[number].u_device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.top if name in ("clk", "rst_n") else self.scope, name)

    def __dir__(self) -> list[str]:
        return dir(self.scope)  # cocotb-bus looks for its signals there


class PoolTest(NfBaseTest):
    """Base of tests with a pool.

    Attributes:
        patience: Clocks after which a rank gives a wait up.
    """

    patience = 50_000

    def switch(self, hosts: int, rng: random.Random) -> Switch:
        """Return a switch with so many host ports; a negative twin overrides it."""
        return Switch(self.envs, hosts, rng)

    def environments(self) -> list[NfEnv]:
        made = []
        for number in range(build_parameters()["DEVICES"]):
            cfg = self.cfg
            if number:
                cfg = EnvConfig(profile=self.cfg.profile, seed=self.cfg.seed + (number << 32))
                self.configure(cfg)
            cfg.order_budget = ORDERS
            env = NfEnv(f"env_{number}", self)
            env.dut, env.cfg = Scope(self.dut, number), cfg
            made.append(env)
        return made


@dataclass(frozen=True)
class Pair:
    """Two regions of a device that take turns: bells, or those of a route.

    Attributes:
        device: Number of the device.
        regions: Numbers of the regions for even and odd uses.
        configs: Their descriptors.
        first: Epoch of use 0.
    """

    device: int
    regions: tuple[int, int]
    configs: tuple[RegionConfig, RegionConfig]
    first: int

    def epoch(self, use: int) -> int:
        """Return the epoch of a use."""
        return (self.first + use) & WORD

    def use(self, info: LineInfo) -> int:
        """Return the use whose epoch an INFO line shows."""
        return (info.epoch - self.first + (WORD >> 1)) % (WORD + 1) - (WORD >> 1)

    def again(self, change: Callable[[RegionConfig], RegionConfig]) -> Pair:
        """Return the pair with changed descriptors, and with epochs that were never used."""
        even, odd = map(change, self.configs)
        return replace(self, configs=(even, odd), first=(self.first + LATER) & WORD)


class Device:
    """A device of the pool and its regions.

    Attributes:
        leader: Rank that commits bells and routes.
        bells: Bells of even and odd collectives.
        routes: Regions of each route.
        plain: Descriptor of the plain memory.
    """

    bells: Pair
    plain: RegionConfig
    leader: int

    def __init__(self, env: NfEnv, number: int) -> None:
        self.env, self.number = env, number
        self.control = ControlSequence(env)
        self.routes: dict[Route, Pair] = {}

    async def open(self, routes: Mapping[Route, int], room: int, hosts: Sequence[int]) -> None:
        """Place and commit the regions; bells and routes belong to the leader from now on.

        Args:
            routes: Lines of a region of each route that the device adds.
            room: Lines of plain memory.
            hosts: Host of each rank.
        """
        log2 = max(0, (room - 1).bit_length() - 8)
        self.plain = self.env.layout.region(Mode.IDENTITY, log2, 1)
        self.bells = self._pair(0, Mode.G_BINARY, SIGNALS_LOG2, len(hosts))
        for index, (route, lines) in enumerate(routes.items()):
            place, log2 = PLAIN + 1 + 2 * index, (lines - 1).bit_length()
            self.routes[route] = self._pair(place, Mode[route.name], log2, len(hosts))
        await self.control.open(0, {})
        await self._commit(hosts, bind=True)

    async def shrink(self, hosts: Sequence[int]) -> None:
        """Commit all regions again for fewer hosts, whose ranks are no longer their LD-IDs."""
        await self._commit(hosts, bind=False)

    def _pair(self, region: int, mode: Mode, lines_log2: int, workers: int) -> Pair:
        keep = mode is Mode.FP32
        even, odd = (
            self.env.layout.region(mode, lines_log2, workers, strict=True, keep_sum=keep)
            for _ in range(2)
        )
        first = self.env.rng.getrandbits(32)
        return Pair(self.number, (region, region + 1), (even, odd), first)

    async def _commit(self, hosts: Sequence[int], bind: bool) -> None:
        """Commit all regions for these hosts, bells and routes for their uses 0 and 1."""
        mask = sum(1 << host for host in hosts)
        self.leader = self.number % len(hosts)
        self.plain = replace(self.plain, ld_mask=mask)
        await self._commit_one(PLAIN, self.plain, 0)
        options: dict[str, Any] = {"ld_mask": mask, "workers": len(hosts), "bind": bind}
        change = partial(replace, **options)
        self.bells = self.bells.again(change)
        self.routes = {route: pair.again(change) for route, pair in self.routes.items()}
        for pair in (self.bells, *self.routes.values()):
            for use, region in enumerate(pair.regions):
                owner = 1 << 8 | hosts[self.leader]
                await self.env.registers.write(f"REGION[{region}].OWNER_LD", owner)
                await self._commit_one(region, pair.configs[use], pair.epoch(use))

    async def _commit_one(self, region: int, config: RegionConfig, epoch: int) -> None:
        code = await self.env.registers.commit(region, config, epoch)
        assert code == 0, f"commit of region {region} of device {self.number}: {code.name}"


class Pool:
    """The devices, the switch, and what the collectives need of them.

    Args:
        test: Test whose environments are the devices.
        ranks: Number of ranks; rank r is host r until `shrink`.
        schedules: Collectives whose regions are made; ``schedules`` are those to run.
    """

    def __init__(self, test: PoolTest, ranks: int, schedules: Sequence[Schedule]) -> None:
        self.rng = random.Random(test.cfg.seed)
        self.schedules = schedules
        self.hosts = list(range(ranks))
        self.patience = test.patience
        self.devices = [Device(env, number) for number, env in enumerate(test.envs)]
        self.switch = test.switch(ranks, self.rng)
        self.room = max([1, *(one.room for one in schedules)])
        self.routes: dict[Route, int] = {}
        for one in schedules:
            ops = [op for rank in one.streams for stream in rank for op in stream.ops]
            signals = max([0, *(op.number for op in ops if isinstance(op, Signal))])
            assert signals < ABORT, f"{one.collective}: signal {signals}, bells have {ABORT}"
            if one.adder is Adder.DEVICE and one.route is not None:
                lines = one.size(0, Buffer.IN) + one.tile  # the last tile of a device may be whole
                self.routes[one.route] = max(self.routes.get(one.route, 1), lines)

    async def open(self) -> None:
        """Open all devices."""
        for device in self.devices:
            await device.open(self.routes, 2 * self.room, self.hosts)

    async def shrink(self, dead: int) -> None:
        """Go on without a host: its messages are refused from now on."""
        self.hosts.remove(dead)
        for device in self.devices:
            await device.shrink(self.hosts)
