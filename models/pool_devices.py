# SPDX-License-Identifier: Apache-2.0
"""Devices of a pool for the executor in `models.pool`: tables, or the device model.

Both hold plain memory and regions that reduce; the bells are a region, too. `TableDevice` is made
for copies and comparisons, so that all states can be visited. `ModelDevice` sends messages to
`DeviceModel`, with LD-IDs, masks and refusals.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.commit_check import CommitCode
from models.device import DeviceModel
from models.info_status_lines import LineInfo
from models.line_packing import LINE_BYTES
from models.memory import MemoryLine
from models.modes import Mode
from models.parameters import DeviceParams
from models.pool_oracle import SUM8_VIEWS, reduced
from models.regions import (
    INFO_SELECTOR,
    PLANE_SELECTOR,
    SELECTORS,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    RegionConfig,
)
from neuron_fabric.codec import Route
from neuron_fabric.errors import LineError

GARBAGE = b"\xa5" * LINE_BYTES
"""Content of memory before its first write."""
BELLS = "bells"
_STATE_LINES = 1 << 24
"""Lines from one state area to the next, so that none moves when the number of ranks changes."""

Region = tuple[str, int]
"""`BELLS` or a route, and the parity of its use; or `PLAIN`."""
PLAIN: Region = ("plain", 0)


class Line(NamedTuple):
    """Answer to a read of a line."""

    data: bytes
    poison: bool


@dataclass(frozen=True)
class Needs:
    """Memory and regions that the collectives of a pool need on each device, in lines."""

    ranks: int
    room: int
    signals: int
    routes: dict[Route, int] = field(default_factory=dict)
    """Lines of the regions of each route."""

    def regions(self) -> dict[Region, int]:
        """Return the lines of each region, bells first."""
        sizes: dict[str, int] = {BELLS: self.signals} | self.routes
        return {(name, parity): lines for name, lines in sizes.items() for parity in (0, 1)}


class TableDevice:
    """Device as tables, without masks: the hosts of its pool are all there are."""

    def __init__(self, needs: Needs, hosts: Sequence[int], first: int = 0) -> None:
        """Create the device with each region committed for its first use of its parity."""
        self.workers = len(hosts)
        self.late = 0
        self.memory: dict[int, bytes] = {}
        self.epochs: dict[Region, int] = {}
        self.closed: dict[Region, bool] = {}
        self.lines: dict[tuple[Region, int], dict[int, bytes]] = {}
        for region in needs.regions():
            self.commit(hosts[0], region, first + region[1])

    def write(self, host: int, line: int, data: bytes, poison: bool = False) -> None:
        """Write a line of plain memory."""
        self.memory[line] = data

    def read(self, host: int, line: int) -> Line:
        """Return a line of plain memory."""
        return Line(self.memory.get(line, GARBAGE), False)

    def contribute(
        self, host: int, worker: int, region: Region, line: int, data: bytes, poison: bool = False
    ) -> None:
        """Contribute a worker's line to a region; a closed region counts it as late."""
        workers = self.lines.setdefault((region, line), {})
        if self.closed[region]:
            self.late += worker not in workers or region[0] == Route.FP32
        elif worker not in workers or region[0] == Route.FP32:
            workers[worker] = data

    def info(self, host: int, region: Region, line: int) -> tuple[int, int]:
        """Return the epoch of a region, and the bitmap of the workers of a line."""
        seen = self.lines.get((region, line), {})
        return self.epochs[region], sum(1 << worker for worker in seen)

    def result(
        self, host: int, region: Region, views: Sequence[str], number: int, line: int
    ) -> Line:
        """Return a line of view ``number`` of ``views``; poison if it is not complete."""
        seen = self.lines.get((region, line), {})
        if len(seen) < self.workers:
            return Line(GARBAGE, True)
        data = b"".join(seen[worker] for worker in sorted(seen))
        stack = np.frombuffer(data, np.uint8).reshape(-1, 1, LINE_BYTES)
        return Line(reduced(stack, Route(region[0]), views)[number].tobytes(), False)

    def close(self, host: int, region: Region) -> None:
        """Close a region."""
        self.closed[region] = True

    def commit(self, host: int, region: Region, epoch: int) -> None:
        """Commit a region again, with another epoch."""
        self.epochs[region], self.closed[region] = epoch, False
        self.lines = {at: seen for at, seen in self.lines.items() if at[0] != region}

    def losses(self) -> int:
        """Return how many contributions were late."""
        return self.late

    def copy(self) -> Self:
        """Return an independent copy."""
        new = copy(self)
        new.memory, new.epochs, new.closed = (
            self.memory.copy(),
            self.epochs.copy(),
            self.closed.copy(),
        )
        new.lines = {at: seen.copy() for at, seen in self.lines.items()}
        return new

    def key(self) -> Hashable:
        """Return the whole state as a value that can be compared."""
        lines = frozenset((at, frozenset(seen.items())) for at, seen in self.lines.items())
        regions = (tuple(self.epochs.values()), tuple(self.closed.values()))
        return (frozenset(self.memory.items()), regions, lines, self.late)


class ModelDevice:
    """Device model with the regions of a pool: bells, plain memory and the routes in use."""

    def __init__(self, needs: Needs, hosts: Sequence[int], first: int = 0) -> None:
        """Create the device after reset and commit the regions.

        Raises:
            LineError: More routes than the regions of the device allow.
        """
        self.model = DeviceModel(
            DeviceParams(mem_lines_log2=30), lambda line: MemoryLine(data=GARBAGE)
        )
        self._refused = 0
        self._lines: dict[Region, int] = {}
        self.admit(needs, hosts, first)

    def admit(self, needs: Needs, hosts: Sequence[int], first: int) -> None:
        """Commit all regions for these hosts alone; every other LD-ID is refused from here on.

        With consecutive LD-IDs from 0 on, a rank is bound to its host. After a shrink it is not:
        ranks are then numbered anew, and the mask alone keeps the others out.
        """
        sizes = {PLAIN: -(-needs.room // SELECTORS)} | needs.regions()
        if len(sizes) > self.model.params.regions:
            routes = (self.model.params.regions - 3) // 2
            raise LineError(
                f"{len(needs.routes)} routes need {len(sizes)} regions of a device with "
                f"{self.model.params.regions}; use at most {routes} routes in a pool"
            )
        self.hosts = list(hosts)
        mask = mask_of(hosts)
        bound = list(hosts) == list(range(needs.ranks))
        self.configs: dict[Region, RegionConfig] = {}
        self._numbers: dict[Region, int] = {}
        for number, (region, size) in enumerate(sizes.items()):
            # Windows never shrink, so that an address of an older pool stays in its window.
            lines = self._lines[region] = max(size, self._lines.get(region, 1))
            mode = Mode.IDENTITY if region == PLAIN else Mode[_mode_name(region)]
            config = RegionConfig(
                base=(number + 1) << 44,
                state_base=number * _STATE_LINES * LINE_BYTES,
                lines_log2=(lines - 1).bit_length(),
                workers=needs.ranks,
                mode=mode,
                strict=True,
                bind=bound and mode != Mode.IDENTITY,
                keep_sum=mode == Mode.FP32,
                ld_mask=mask,
            )
            self.configs[region], self._numbers[region] = config, number
            self.commit(hosts[0], region, first + region[1])

    def write(self, host: int, line: int, data: bytes, poison: bool = False) -> None:
        """Write a line of plain memory."""
        self._write(host, self._at(line), data, poison)

    def read(self, host: int, line: int) -> Line:
        """Return a line of plain memory."""
        return self._read(host, self._at(line))

    def contribute(
        self, host: int, worker: int, region: Region, line: int, data: bytes, poison: bool = False
    ) -> None:
        """Contribute a worker's line to a region."""
        self._write(host, self.configs[region].address(worker, line), data, poison)

    def info(self, host: int, region: Region, line: int) -> tuple[int, int]:
        """Return the epoch of a region, and the bitmap of the workers of a line.

        A host that is kept out reads epoch -1.
        """
        answer = self._read(host, self.configs[region].address(INFO_SELECTOR, line))
        if answer.data == b"\xff" * LINE_BYTES:
            return -1, 0
        info = LineInfo.unpack(answer.data)
        return info.epoch, info.bitmap

    def result(
        self, host: int, region: Region, views: Sequence[str], number: int, line: int
    ) -> Line:
        """Return a line of view ``number`` of ``views``; poison if it is not complete."""
        narrow = region[0] == Route.G_INT4 and len(views) == SUM8_VIEWS
        sums = SUM8_SELECTOR if narrow else SUM16_SELECTOR
        view = views[number]
        selector = 0
        if view not in ("vote", "sum"):
            first = PLANE_SELECTOR if view.startswith("plane") else sums
            selector = first + int(view.removeprefix("plane").removeprefix("sum"))
        return self._read(host, self.configs[region].address(selector, line))

    def close(self, host: int, region: Region) -> None:
        """Close a region; the control window refuses a host that is not in the pool."""
        if self._owner(host):
            self.model.close(self._numbers[region])

    def commit(self, host: int, region: Region, epoch: int) -> None:
        """Commit a region again; the control window refuses a host that is not in the pool."""
        if self._owner(host):
            code = self.model.commit(self._numbers[region], self.configs[region], epoch)
            assert code == CommitCode.OK, (region, code)

    def _owner(self, host: int) -> bool:
        self._refused += host not in self.hosts
        return host in self.hosts

    def fence(self, region: Region, host: int) -> None:
        """Commit a region again without ``host`` in its mask, as a leader in error would."""
        config = self.configs[region]
        epoch = self.model.region_status(self._numbers[region]).epoch
        self.configs[region] = replace(config, ld_mask=config.ld_mask & ~(1 << host))
        self.commit(self.hosts[0], region, epoch)

    def losses(self) -> int:
        """Return how many contributions were late and how many accesses were refused."""
        return self.model.counters["LATE"] + self.model.counters["REFUSED"] + self._refused

    def copy(self) -> Self:
        """Return an independent copy."""
        return deepcopy(self)

    def key(self) -> Hashable:
        """Return an object that equals no other: states of the model are not compared."""
        return object()

    def _at(self, line: int) -> int:
        plain = self.configs[PLAIN]
        return plain.address(*divmod(line, plain.lines))

    def _write(self, host: int, addr: int, data: bytes, poison: bool) -> None:
        self.model.step(M2SRwD(RwdOp.MEM_WR, 0, addr, host, data=data, poison=poison))

    def _read(self, host: int, addr: int) -> Line:
        answer = self.model.step(M2SReq(ReqOp.MEM_RD, 0, addr, host))
        assert isinstance(answer, S2MDRS)
        return Line(answer.data, answer.poison)


PoolDevice = TableDevice | ModelDevice
"""Device of a pool as its hosts see it. A host is an LD-ID, a worker a rank."""


def mask_of(hosts: Sequence[int]) -> int:
    """Return the LD_MASK that admits these LD-IDs."""
    return sum(1 << host for host in hosts)


def _mode_name(region: Region) -> str:
    return "G_BINARY" if region[0] == BELLS else region[0]
