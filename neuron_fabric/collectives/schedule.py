# SPDX-License-Identifier: Apache-2.0
"""Schedule of a collective: what each rank does with the memory of a pool, as data.

All executors run the same schedule: the numpy model, the RTL at signal level, the RTL in bulk, and
real processes. Sizes and places are in lines of 64 bytes.

A rank has up to three streams (publish, consume, control), each a list of operations that run in
their order; the streams of a rank run at the same time. Between streams, also of one rank, the
only order is that of `Signal` and `Wait`.

Collectives of a pool are numbered e = 0, 1, 2 ... in one order for all ranks. The pool has each
place of plain memory twice; collective e works on the places of parity e % 2, so that a rank can
begin e + 1 while another one still reads data of e. Each parity has a scratch buffer too. Two rules
hold without operations:

- A rank signals `DONE` of e when all its streams have ended.
- A rank starts the streams of e when it has seen `DONE` of e - 2 of all ranks.

A device that reduces has two regions for a route; use u of the route works on region u % 2. Both
are committed when the pool is opened. During use u the leader of the device waits for `DONE` of the
collective before, closes the region of use u - 1 and commits it for use u + 1. Use 0 follows no
use, so executors skip `Close` and `Commit` there. A contribution carries no epoch, so a rank sees
with `Ready` that the region is committed for its use before it contributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from neuron_fabric.codec import Route

DONE = 0
"""Number of the signal that a rank gives at the end of every collective."""

STREAMS = ("publish", "consume", "control")
"""Names of the streams of a rank."""


class Collective(StrEnum):
    """Collectives, with torch's names.

    N is `Schedule.lines`, W the number of ranks; "in" and "out" are the buffers of a rank:

      all_gather       in N, out W * N in the order of the ranks
      all_reduce       in N, out N for each view
      barrier          nothing
      broadcast        in N at the root, out N
      gather           in N, out W * N at the root
      reduce           in N, out N at the root
      reduce_scatter   in W * N, out N: rank r has the sum of part r
      scatter          in W * N at the root, out N
    """

    ALL_GATHER = "all_gather"
    ALL_REDUCE = "all_reduce"
    BARRIER = "barrier"
    BROADCAST = "broadcast"
    GATHER = "gather"
    REDUCE = "reduce"
    REDUCE_SCATTER = "reduce_scatter"
    SCATTER = "scatter"


class Buffer(StrEnum):
    """Local buffers of a rank."""

    IN = "in"
    OUT = "out"
    SCRATCH = "scratch"


class Adder(StrEnum):
    """Reducer of a collective: the ranks with `Add`, in rank order, or the device."""

    PASSIVE = "passive"
    DEVICE = "device"


@dataclass(frozen=True)
class Place:
    """First line of an extent in a local buffer."""

    buffer: Buffer
    line: int


@dataclass(frozen=True)
class Write:
    """Copy ``count`` lines of a local buffer to plain memory of a device."""

    device: int
    line: int
    count: int
    source: Place


@dataclass(frozen=True)
class Read:
    """Copy ``count`` lines of plain memory of a device to a local buffer."""

    device: int
    line: int
    count: int
    target: Place


@dataclass(frozen=True)
class Copy:
    """Copy ``count`` lines from one local buffer to another."""

    count: int
    source: Place
    target: Place


@dataclass(frozen=True)
class Contribute:
    """Contribute ``count`` lines of a local buffer to the region of the route on a device."""

    device: int
    line: int
    count: int
    source: Place


@dataclass(frozen=True)
class Result:
    """Read ``count`` lines of a result of the region on a device: a view of `Schedule.views`."""

    device: int
    view: str
    line: int
    count: int
    target: Place


@dataclass(frozen=True)
class Signal:
    """Release: all earlier writes and contributions of this stream are complete before it.

    A rank gives a number once. The numbers of a stream ascend, so a stream needs one counter.
    """

    number: int


@dataclass(frozen=True)
class Wait:
    """Acquire: wait until each of ``ranks`` has given signal ``number``.

    Attributes:
        ranks: The ranks.
        number: The signal.
        back: Collective before this one whose signal is meant, 0 or 1; with 1 only `DONE`.
    """

    ranks: tuple[int, ...]
    number: int
    back: int = 0


@dataclass(frozen=True)
class Ready:
    """Wait until the region of the route on a device is committed for this use."""

    device: int


@dataclass(frozen=True)
class Close:
    """Leader: close the region that the previous use of the route had on a device."""

    device: int


@dataclass(frozen=True)
class Commit:
    """Leader: commit the region of the previous use of the route for its next use."""

    device: int


@dataclass(frozen=True)
class Add:
    """Reduce ``count`` lines of each of ``sources``, which are in rank order, by the route.

    FP32 is summed in that order in binary32, as the device does. Votes are counted, and integer
    codes summed; view v of the result is ``Schedule.lines * v`` lines after ``target``.
    """

    count: int
    target: Place
    sources: tuple[Place, ...]


Op = Write | Read | Copy | Contribute | Result | Signal | Wait | Ready | Close | Commit | Add


@dataclass(frozen=True)
class Stream:
    """Operations that run in their order; ``name`` is one of `STREAMS`."""

    name: str
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Schedule:
    """A collective for a number of ranks and devices.

    Attributes:
        collective: The collective.
        ranks: Number of ranks W.
        devices: Number of devices D.
        lines: N, lines of a rank's vector or part; see `Collective`.
        granule: Lines of plain memory on one device before the next device's.
        tile: Lines that the device aggregates before the next device's.
        adder: Who adds; None if nothing is added.
        route: Format of what is added; None if nothing is added.
        views: Results, in the order in which they are in "out": ("sum",) of FP32;
            ("vote", "plane0", ...) of votes; ("sum0", "sum1", ...), the result lines in their
            order, of integer codes.
        root: Rank of the root; None if the collective has none.
        room: Lines of plain memory that it uses on each device, for one parity.
        scratch: Lines of the scratch buffer of each rank.
        streams: Streams of each rank.
    """

    collective: Collective
    ranks: int
    devices: int
    lines: int
    granule: int
    tile: int
    adder: Adder | None
    route: Route | None
    views: tuple[str, ...]
    root: int | None
    room: int
    scratch: int
    streams: tuple[tuple[Stream, ...], ...]

    def with_ops(self, rank: int, name: str, ops: Iterable[Op]) -> Schedule:
        """Return the schedule with other operations of stream ``name`` of a rank."""
        new = tuple(ops)
        streams = list(self.streams)
        streams[rank] = tuple(Stream(name, new) if s.name == name else s for s in streams[rank])
        return replace(self, streams=tuple(streams))

    def size(self, rank: int, buffer: Buffer) -> int:
        """Return the number of lines of a local buffer of ``rank``."""
        if buffer is Buffer.SCRATCH:
            return self.scratch
        at_root = self.root is None or rank == self.root
        parts = {
            (Collective.ALL_GATHER, Buffer.OUT): self.ranks,
            (Collective.GATHER, Buffer.OUT): self.ranks * at_root,
            (Collective.SCATTER, Buffer.IN): self.ranks * at_root,
            (Collective.REDUCE_SCATTER, Buffer.IN): self.ranks,
            (Collective.BROADCAST, Buffer.IN): int(at_root),
            (Collective.REDUCE, Buffer.OUT): int(at_root),
        }
        layers = max(1, len(self.views)) if buffer is Buffer.OUT else 1
        return self.lines * layers * parts.get((self.collective, buffer), 1)
