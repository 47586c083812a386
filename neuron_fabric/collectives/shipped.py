# SPDX-License-Identifier: Apache-2.0
"""Shipped schedules: each collective, for any number of ranks, devices and lines.

Plain data is cut into pieces. The extent of a piece in the pool begins on the device with the
piece's number and continues round-robin, a granule on each device. Writers signal after each chunk,
so readers of a chunk work while the next one is written; the number of chunks balances the time to
fill that pipeline against the cost of signals. A rank starts with another writer and another device
than its neighbours, so few ranks meet on a device.

A device that adds gets rows of tiles, one tile on each device. A rank reads the results of a row
after it has contributed the next one, so it is at most two tiles on a device ahead of the slowest
rank, which the slots of the device hold.

The owner of a tile of an FP32 all_reduce reads it first, and its read makes the device add. The
other ranks read the kept sum one row later. Three rows are thus in the slots, and their tiles are
smaller: a sum that has lost its slot is fetched and added again for its next reader.

The bells of all rows are on device 0. With bells on the devices in turn, a device paces every
second row only: two rows follow each other at once, and then none until the memory has answered.
That takes 26.1 clocks a line instead of 23.5 (FP32, 8 ranks, 2 devices, memory latency 300).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import Any

from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import (
    DONE,
    STREAMS,
    Add,
    Adder,
    Buffer,
    Close,
    Collective,
    Commit,
    Contribute,
    Copy,
    Op,
    Place,
    Read,
    Ready,
    Result,
    Schedule,
    Signal,
    Stream,
    Wait,
    Write,
)

GRANULE = 64
"""Lines of a granule: 4 KiB."""
TILE = 16
"""Lines of a tile: a few tiles of each rank fit into the slots of a device (64 or more)."""
CHUNK = 64
"""Lines that a rank can write while one signal is on its way."""
MAX_DEVICE_RANKS = 64
"""Greatest number of workers of a region."""
_SUM8_RANKS = 16
SUMS = (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)
ROOTED = (Collective.BROADCAST, Collective.GATHER, Collective.REDUCE, Collective.SCATTER)


def views_of(route: Route, ranks: int) -> tuple[str, ...]:
    """Return all views of the results of a route, as in `Schedule.views`."""
    if route.votes:
        return ("vote", *(f"plane{p}" for p in range(ranks.bit_length())))
    if route.codes:
        wide = route == Route.G_INT4 and ranks > _SUM8_RANKS
        return tuple(f"sum{k}" for k in range(4 if wide else 2))
    return ("sum",)


@dataclass(frozen=True)
class _Piece:
    """Extent of plain data in the pool: one rank writes it, ``readers`` copy it.

    Attributes:
        writer: Rank that writes it.
        readers: Other ranks, which read it.
        source: First line in the writer's buffer.
        target: First line in a reader's buffer.
        lines: Number of lines.
        start: First granule, counted round-robin over the devices.
    """

    writer: int
    readers: tuple[int, ...]
    source: Place
    target: Place
    lines: int
    start: int


@dataclass(frozen=True)
class _Shard:
    """Part of the vectors that ``owners`` reduce: lines of "in", and the first line in "out"."""

    owners: tuple[int, ...]
    first: int
    lines: int
    target: int


class _Builder:
    """Streams of all ranks under construction, and the granules of the pool in use."""

    def __init__(self, ranks: int, devices: int, granule: int) -> None:
        self.ranks = range(ranks)
        self.devices = devices
        self.granule = granule
        self.granules = 0
        self.scratch = 0
        self.pieces: list[_Piece] = []
        self.publish: list[list[Op]] = [[] for _ in self.ranks]
        self.consume: list[list[Op]] = [[] for _ in self.ranks]
        self.control: list[list[Op]] = [[] for _ in self.ranks]

    def streams(self) -> tuple[tuple[Stream, ...], ...]:
        """Return the streams that have operations, without signals that nobody waits for."""
        named = [*zip(STREAMS, (self.publish, self.consume, self.control), strict=True)]
        awaited = {
            (rank, op.number)
            for ops in (*self.publish, *self.consume)
            for op in ops
            if isinstance(op, Wait)
            for rank in op.ranks
        }

        def needed(rank: int, op: Op) -> bool:
            return not isinstance(op, Signal) or (rank, op.number) in awaited

        streams = [
            [Stream(name, tuple(op for op in ops[rank] if needed(rank, op))) for name, ops in named]
            for rank in self.ranks
        ]
        return tuple(tuple(one for one in several if one.ops) for several in streams)

    def piece(
        self, writer: int, readers: Iterable[int], source: Place, target: Place, lines: int
    ) -> _Piece:
        """Return a new piece; piece i starts on device i modulo the number of devices."""
        start = self.granules + (len(self.pieces) - self.granules) % self.devices
        self.granules = start + -(-lines // self.granule)
        others = tuple(rank for rank in readers if rank != writer)
        self.pieces.append(_Piece(writer, others, source, target, lines, start))
        return self.pieces[-1]

    def chunks(self, lines: int) -> list[range]:
        """Return the chunks of pieces of up to ``lines`` lines: whole granules."""
        number = max(1, isqrt(lines // CHUNK))
        size = -(-lines // (number * self.granule)) * self.granule
        return [range(first, min(lines, first + size)) for first in range(0, lines, size)]

    def extents(self, piece: _Piece, chunk: range, turn: int) -> Iterator[tuple[int, ...]]:
        """Yield device, line, count and offset in the piece of each granule of a chunk.

        The granules are rotated, so that ranks with different ``turn`` start on other devices.
        """
        stop = min(chunk.stop, piece.lines)
        numbers = range(chunk.start // self.granule, -(-stop // self.granule))
        skip = (turn - piece.start - numbers.start) % self.devices % max(1, len(numbers))
        for number in (*numbers[skip:], *numbers[:skip]):
            offset = number * self.granule
            row, device = divmod(piece.start + number, self.devices)
            yield device, row * self.granule, min(self.granule, stop - offset), offset

    def write(self, stream: list[Op], pieces: Iterable[_Piece], chunk: range, turn: int) -> None:
        """Append the writes of a chunk of ``pieces``."""
        for piece in pieces:
            for device, line, count, offset in self.extents(piece, chunk, turn):
                source = Place(piece.source.buffer, piece.source.line + offset)
                stream.append(Write(device, line, count, source))

    def read(self, stream: list[Op], piece: _Piece, chunk: range, turn: int, to: Place) -> None:
        """Append the reads of a chunk of a piece, whose first line goes to ``to``."""
        for device, line, count, offset in self.extents(piece, chunk, turn):
            target = Place(to.buffer, to.line + offset - chunk.start)
            stream.append(Read(device, line, count, target))

    def publish_pieces(self, chunks: Sequence[range]) -> None:
        """Each writer writes its pieces chunk by chunk; it signals chunk k with k + 1."""
        for rank, stream in enumerate(self.publish):
            own = [piece for piece in self.pieces if piece.writer == rank and piece.readers]
            for step, chunk in enumerate(chunks, 1):
                self.write(stream, own, chunk, rank + step)
                stream.extend([Signal(step)] if own else [])

    def read_for(self, rank: int) -> list[_Piece]:
        """Return the pieces that ``rank`` reads, those of the ranks after it first."""
        pieces = [piece for piece in self.pieces if rank in piece.readers]
        return sorted(pieces, key=lambda piece: (piece.writer - rank) % len(self.ranks))

    def read_chunk(
        self, rank: int, pieces: Iterable[_Piece], chunk: range, step: int, signal: int
    ) -> None:
        """Append waits for a chunk of ``pieces`` and its reads into their targets."""
        stream, waited = self.consume[rank], -1
        for piece in pieces:
            if chunk.start >= piece.lines:
                continue
            if piece.writer != waited:  # views of one rank have one signal
                waited = piece.writer
                stream.append(Wait((waited,), signal))
            to = Place(piece.target.buffer, piece.target.line + chunk.start)
            self.read(stream, piece, chunk, rank + step, to)


def _move(build: _Builder, collective: Collective, lines: int, root: int) -> None:
    """Build all_gather, broadcast, gather or scatter: writers publish, readers copy."""
    ranks = build.ranks
    for rank in ranks:
        part = rank * lines
        writer, readers, source, target = {
            Collective.ALL_GATHER: (rank, ranks, 0, part),
            Collective.BROADCAST: (root, ranks, 0, 0),
            Collective.GATHER: (rank, (root,), 0, part),
            Collective.SCATTER: (root, (rank,), part, 0),
        }[collective]
        if collective is Collective.BROADCAST and rank != root:
            continue
        places = Place(Buffer.IN, source), Place(Buffer.OUT, target)
        build.piece(writer, readers, *places, lines)
        if writer in readers:
            build.consume[writer].append(Copy(lines, *places))
    chunks = build.chunks(lines)
    build.publish_pieces(chunks)
    for rank in ranks:
        pieces = build.read_for(rank)
        for step, chunk in enumerate(chunks, 1):
            build.read_chunk(rank, pieces, chunk, step, step)


def _shards(build: _Builder, collective: Collective, lines: int, root: int) -> list[_Shard]:
    """Return who reduces what; all_reduce of few lines or of two ranks takes one round."""
    ranks = tuple(build.ranks)
    if collective is Collective.REDUCE_SCATTER:
        return [_Shard((rank,), rank * lines, lines, 0) for rank in ranks]
    if collective is Collective.REDUCE:
        return [_Shard((root,), 0, lines, 0)]
    if len(ranks) <= 2 or lines <= build.granule:
        return [_Shard(ranks, 0, lines, 0)]
    size = -(-lines // len(ranks))
    firsts = [min(lines, rank * size) for rank in (*ranks, len(ranks))]
    return [
        _Shard((rank,), first, end - first, first)
        for rank, (first, end) in enumerate(pairwise(firsts))
    ]


def _reduce(
    build: _Builder, collective: Collective, lines: int, root: int, views: Sequence[str]
) -> None:
    """Build a passive sum: ranks write shards, owners add them and publish for all_reduce."""
    shards = _shards(build, collective, lines, root)
    for shard in shards:
        for rank in build.ranks:
            source = Place(Buffer.IN, shard.first)
            build.piece(rank, shard.owners, source, Place(Buffer.SCRATCH, 0), shard.lines)
    chunks = build.chunks(max(shard.lines for shard in shards))
    build.publish_pieces(chunks)
    parts = [build.read_for(rank) for rank in build.ranks]
    build.pieces = []
    if len(shards) > 1 and collective is Collective.ALL_REDUCE:
        for shard in shards:
            for view in range(len(views)):
                place = Place(Buffer.OUT, view * lines + shard.first)
                build.piece(shard.owners[0], build.ranks, place, place, shard.lines)
    build.scratch = len(build.ranks) * len(chunks[0])
    for rank in build.ranks:
        sums = build.read_for(rank)
        mine = [piece for piece in build.pieces if piece.writer == rank]
        own = next((shard for shard in shards if rank in shard.owners), None)
        stream = build.consume[rank]
        for step, chunk in enumerate(chunks, 1):
            if own and chunk.start < own.lines:
                _add_chunk(build, rank, own, parts[rank], chunk, step)
            build.write(stream, mine, chunk, rank + step)
            stream.extend([Signal(len(chunks) + step)] if mine else [])
            if step > 1:
                signal = len(chunks) + step - 1
                build.read_chunk(rank, sums, chunks[step - 2], step, signal)
        build.read_chunk(rank, sums, chunks[-1], len(chunks), 2 * len(chunks))


def _add_chunk(
    build: _Builder, rank: int, shard: _Shard, parts: Iterable[_Piece], chunk: range, step: int
) -> None:
    """Append the reads of a chunk of all other ranks and its sum in rank order."""
    size = build.scratch // len(build.ranks)
    for piece in parts:
        to = Place(Buffer.SCRATCH, piece.writer * size)
        build.consume[rank].append(Wait((piece.writer,), step))
        build.read(build.consume[rank], piece, chunk, rank + step, to)
    sources = [Place(Buffer.SCRATCH, other * size) for other in build.ranks]
    sources[rank] = Place(Buffer.IN, shard.first + chunk.start)
    count = min(chunk.stop, shard.lines) - chunk.start
    target = Place(Buffer.OUT, shard.target + chunk.start)
    build.consume[rank].append(Add(count, target, tuple(sources)))


class _Tiles:
    """Rows of tiles of the vectors that devices add: a row has one tile on each device."""

    def __init__(self, build: _Builder, schedule: Schedule) -> None:
        self.build = build
        self.schedule = schedule
        self.lines = schedule.size(0, Buffer.IN)
        self.rows = -(-self.lines // (schedule.tile * schedule.devices))

    def row(self, number: int, turn: int) -> Iterator[tuple[int, int, range]]:
        """Yield device, first line there and lines of "in" of each tile of a row, rotated."""
        if not 0 <= number < self.rows:
            return
        tile, devices = self.schedule.tile, self.schedule.devices
        for step in range(devices):
            device = (turn + step) % devices
            first = (number * devices + device) * tile
            lines = range(first, min(first + tile, self.lines))
            if lines:
                yield device, number * tile, lines

    def signal(self, number: int) -> int:
        """Return the signal of a row, whose bell is on device 0."""
        return (number + 1) * self.schedule.devices

    def contributions(self, rank: int, number: int) -> Iterator[Op]:
        """Yield the contributions of a row, then their signal."""
        for device, line, lines in self.row(number, rank + number):
            if number == 0:
                yield Ready(device)
            yield Contribute(device, line, len(lines), Place(Buffer.IN, lines.start))
        if number < self.rows:
            yield Signal(self.signal(number))

    def results(self, rank: int, number: int, lag: int) -> Iterator[Op]:
        """Yield the reads of the results of a row that ``rank`` reads ``lag`` rows late."""
        for device, line, lines in self.row(number, rank + number):
            mine = self.wanted(rank, lines)
            if not mine or self.lag(rank, lines) != lag:
                continue
            for layer, view in enumerate(self.schedule.views):
                target = layer * self.schedule.lines + mine.start
                if self.schedule.collective is Collective.REDUCE_SCATTER:
                    target -= rank * self.schedule.lines
                first = line + mine.start - lines.start
                yield Result(device, view, first, len(mine), Place(Buffer.OUT, target))

    def wanted(self, rank: int, lines: range) -> range:
        """Return those of ``lines`` whose result ``rank`` reads."""
        if self.schedule.collective is Collective.REDUCE_SCATTER:
            part = rank * self.schedule.lines
            return range(max(lines.start, part), min(lines.stop, part + self.schedule.lines))
        return lines if self.schedule.root in (None, rank) else range(0)

    def lag(self, rank: int, lines: range) -> int:
        """Return 2 for readers of FP32 sums after the owner, whose read makes the device add."""
        owner = lines.start // self.schedule.tile % self.schedule.ranks
        plan = self.schedule
        kept = _keeps_sums(plan.collective, plan.adder, plan.route)
        return 2 if kept and rank != owner else 1


def _keeps_sums(collective: Collective, adder: Adder | None, route: Route | None) -> bool:
    """Return whether several ranks read a sum that the device keeps in its slot."""
    return (collective, adder, route) == (Collective.ALL_REDUCE, Adder.DEVICE, Route.FP32)


def _aggregate(build: _Builder, schedule: Schedule) -> None:
    """Build a sum by the devices, and the commits that their leaders make ahead of need."""
    tiles = _Tiles(build, schedule)
    every = tuple(build.ranks)
    for rank in every:
        others = tuple(other for other in every if other != rank)
        stream = build.publish[rank]
        wait: list[Op] = []  # for the last row, until an operation follows
        for number in range(tiles.rows + 2):
            if ops := [*tiles.contributions(rank, number)]:
                stream += wait + ops
            if others and 1 <= number <= tiles.rows:
                wait = [Wait(others, tiles.signal(number - 1))]
            for lag in (1, 2):
                if ops := [*tiles.results(rank, number - lag, lag)]:
                    stream += wait + ops
                    wait = []
    for device in range(build.devices):
        stream = build.control[device % len(every)]
        stream.extend([Wait(every, DONE, back=1)] if not stream else [])
        stream.extend([Close(device), Commit(device)])


def shipped_any(
    collective: Collective,
    ranks: int,
    devices: int,
    lines: int,
    adder: Adder | None = None,
    route: Route | None = None,
    **how: Any,
) -> Schedule:
    """Return `shipped` of a collective without the arguments that it does not take.

    Adder and route are for sums; a barrier has no lines.
    """
    if collective in SUMS:
        how |= {"adder": adder, "route": route}
    lines = 0 if collective is Collective.BARRIER else lines
    return shipped(collective, ranks, devices, lines, **how)


def shipped(
    collective: Collective,
    ranks: int,
    devices: int,
    lines: int,
    *,
    granule: int = GRANULE,
    tile: int = TILE,
    adder: Adder | None = None,
    route: Route | None = None,
    root: int | None = None,
    views: Sequence[str] | None = None,
) -> Schedule:
    """Return the schedule of a collective.

    Args:
        collective: The collective.
        ranks: Number of ranks, at least 1; at most 64 if the device adds.
        devices: Number of devices, at least 1.
        lines: Lines of a rank's vector or part, at least 1; 0 for a barrier.
        granule: Lines of plain memory on one device before the next device's.
        tile: Lines that a device adds before the next device's; at most a quarter of its slots. An
            FP32 all_reduce of more than two ranks gets three quarters of it if the device adds.
        adder: Who adds, for reduce, reduce_scatter and all_reduce.
        route: Format of what is added.
        root: Rank of the root, for broadcast, gather, reduce and scatter; 0 by default.
        views: Results to return; by default the vote, the sum, or all lines of integer sums.

    Returns:
        The schedule.

    Raises:
        ValueError: An argument is out of range or does not fit the collective.
    """
    sums = collective in SUMS
    if sums and (adder is None or route is None):
        raise ValueError(f"{collective} adds; give adder and route")
    if not sums and (adder or route or views):
        raise ValueError(f"{collective} does not add; leave out adder, route and views")
    rooted = collective in ROOTED
    if root is not None and not (rooted and 0 <= root < ranks):
        raise ValueError(f"{collective} of {ranks} ranks has no root {root}")
    low = [("ranks", ranks), ("devices", devices), ("granule", granule), ("tile", tile)]
    for name, value in [*low, ("lines", lines + (collective is Collective.BARRIER))]:
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if adder is Adder.DEVICE and ranks > MAX_DEVICE_RANKS:
        raise ValueError(f"a device adds for up to {MAX_DEVICE_RANKS} ranks, got {ranks}")
    build = _Builder(ranks, devices, granule)
    if views is None:
        views = () if route is None else views_of(route, ranks)[: 1 if route.votes else None]
    plan = Schedule(
        collective=collective,
        ranks=ranks,
        devices=devices,
        lines=lines,
        granule=granule,
        tile=max(1, tile * 3 // 4) if ranks > 2 and _keeps_sums(collective, adder, route) else tile,
        adder=adder,
        route=route,
        views=tuple(views),
        root=(root or 0) if rooted else None,
        room=0,
        scratch=0,
        streams=(),
    )
    if collective is Collective.BARRIER:
        for rank in build.ranks:
            others = tuple(other for other in build.ranks if other != rank)
            build.publish[rank] = [Signal(1), *([Wait(others, 1)] if others else [])]
    elif adder is Adder.DEVICE:
        _aggregate(build, plan)
    elif sums:
        _reduce(build, collective, lines, root or 0, views)
    else:
        _move(build, collective, lines, root or 0)
    room = -(-build.granules // devices) * granule
    return replace(plan, room=room, scratch=build.scratch, streams=build.streams())
