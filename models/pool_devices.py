# SPDX-License-Identifier: Apache-2.0
"""Device of a pool for the executor in `models.pool`: plain memory and regions that reduce.

It consists of tables, made for copies and comparisons, so that all states can be visited. It has
the rules of the device that a pool needs: LD masks, refusals, late contributions, and poison. The
RTL and its model are compared with the same oracle by `verif.fabric`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from models.line_packing import LINE_BYTES
from models.parameters import DeviceParams
from models.pool_oracle import reduced
from neuron_fabric.codec import Route
from neuron_fabric.errors import LineError

GARBAGE = b"\xa5" * LINE_BYTES
"""Content of memory before its first write."""
BELLS = "bells"

Region = tuple[str, int]
"""`BELLS` or a route, and the parity of its use; or `PLAIN`."""
PLAIN: Region = ("plain", 0)


class Line(NamedTuple):
    """Answer to a read of a line."""

    data: bytes
    poison: bool


_POISON = Line(GARBAGE, True)


@dataclass(frozen=True)
class Needs:
    """Lines of memory, and routes, that the collectives of a pool need on each device."""

    room: int
    routes: tuple[Route, ...] = ()

    def regions(self) -> list[Region]:
        """Return the regions, bells first."""
        return [(name, parity) for name in (BELLS, *self.routes) for parity in (0, 1)]


class PoolDevice:
    """Device of a pool. A host is an LD-ID, a worker a rank."""

    def __init__(self, needs: Needs, hosts: Sequence[int], first: int = 0) -> None:
        """Create the device with each region committed for its first use of its parity.

        Raises:
            LineError: More routes than the regions of a device allow.
        """
        self.late = self.refused = 0
        self.memory: dict[int, Line] = {}
        self.masks: dict[Region, frozenset[int]] = {}
        self.epochs: dict[Region, int] = {}
        self.closed: dict[Region, bool] = {}
        self.lines: dict[tuple[Region, int], dict[int, Line]] = {}
        self.admit(needs, hosts, first)

    def admit(self, needs: Needs, hosts: Sequence[int], first: int) -> None:
        """Commit all regions for these hosts alone; every other LD-ID is refused from here on."""
        regions, most = [PLAIN, *needs.regions()], DeviceParams().regions
        if len(regions) > most:
            raise LineError(
                f"{len(needs.routes)} routes need {len(regions)} regions of a device with "
                f"{most}; use at most {(most - 3) // 2} routes in a pool"
            )
        self.workers = len(hosts)
        for region in regions:
            self.masks[region] = frozenset(hosts)
            self.commit(hosts[0], region, first + region[1])

    def _admits(self, host: int, region: Region) -> bool:
        """Return whether a host may access a region; count a refusal."""
        admitted = host in self.masks[region]
        self.refused += not admitted
        return admitted

    def write(self, host: int, line: int, data: bytes, poison: bool = False) -> None:
        """Write a line of plain memory."""
        if self._admits(host, PLAIN):
            self.memory[line] = Line(data, poison)

    def read(self, host: int, line: int) -> Line:
        """Return a line of plain memory; a host that is kept out reads poison."""
        if not self._admits(host, PLAIN):
            return _POISON
        return self.memory.get(line, Line(GARBAGE, False))

    def contribute(
        self, host: int, worker: int, region: Region, line: int, data: bytes, poison: bool = False
    ) -> None:
        """Contribute a worker's line to a region; a closed region counts it as late."""
        if not self._admits(host, region):
            return
        workers = self.lines.setdefault((region, line), {})
        if worker in workers and region[0] != Route.FP32:
            return
        if self.closed[region]:
            self.late += 1
        else:
            workers[worker] = Line(data, poison)

    def info(self, host: int, region: Region, line: int) -> tuple[int, int]:
        """Return the epoch of a region, and the bitmap of the workers of a line.

        A host that is kept out reads epoch -1.
        """
        if not self._admits(host, region):
            return -1, 0
        seen = self.lines.get((region, line), {})
        return self.epochs[region], sum(1 << worker for worker in seen)

    def result(
        self, host: int, region: Region, views: Sequence[str], number: int, line: int
    ) -> Line:
        """Return a line of view ``number`` of ``views``; poison if it is not complete."""
        seen = self.lines.get((region, line), {})
        whole = self._admits(host, region) and len(seen) >= self.workers
        if not whole or any(one.poison for one in seen.values()):
            return _POISON
        data = b"".join(seen[worker].data for worker in sorted(seen))
        stack = np.frombuffer(data, np.uint8).reshape(-1, 1, LINE_BYTES)
        return Line(reduced(stack, Route(region[0]), views)[number].tobytes(), False)

    def close(self, host: int, region: Region) -> None:
        """Close a region; the control window refuses a host that is not in the pool."""
        if self._admits(host, region):
            self.closed[region] = True

    def commit(self, host: int, region: Region, epoch: int) -> None:
        """Commit a region again; the control window refuses a host that is not in the pool."""
        if self._admits(host, region):
            self.epochs[region], self.closed[region] = epoch, False
            self.lines = {at: seen for at, seen in self.lines.items() if at[0] != region}

    def fence(self, region: Region, host: int) -> None:
        """Commit a region again without ``host`` in its mask, as a leader in error would."""
        self.commit(host, region, self.epochs[region])
        self.masks[region] -= {host}

    def losses(self) -> int:
        """Return how many contributions were late and how many accesses were refused."""
        return self.late + self.refused

    def copy(self) -> Self:
        """Return an independent copy; masks change only with the hosts of a pool."""
        new = copy(self)
        new.memory, new.epochs = self.memory.copy(), self.epochs.copy()
        new.closed = self.closed.copy()
        new.lines = {at: seen.copy() for at, seen in self.lines.items()}
        return new

    def key(self) -> Hashable:
        """Return the whole state as a value that can be compared."""
        lines = frozenset((at, frozenset(seen.items())) for at, seen in self.lines.items())
        regions = (tuple(self.epochs.values()), tuple(self.closed.values()))
        return (frozenset(self.memory.items()), regions, lines, self.late)
