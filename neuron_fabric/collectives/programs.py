# SPDX-License-Identifier: Apache-2.0
"""Choice of the schedule for a call of a pool: granule, length of a chunk, program of a rank."""

from __future__ import annotations

from functools import cache

from neuron_fabric.codec import LINE, Route, sum_kind
from neuron_fabric.collectives.executor import Program, program_of
from neuron_fabric.collectives.schedule import (
    Adder,
    Buffer,
    Collective,
    Copy,
    Op,
    Place,
    Read,
    Schedule,
    Signal,
    Stream,
    Wait,
    Write,
)
from neuron_fabric.collectives.shipped import SUMS, shipped, views_of

EXCHANGE = "exchange"
"""Collective of pools alone: part p of every rank's "in" goes to rank p."""
GRANULE = 4096
"""Lines of a piece that is signalled: up to 256 KiB, since a signal may have to wake a process."""
ONE_ROUND = 512
"""Lines up to which each rank adds all of an all_reduce: 32 KiB. More are added by shards, which
needs a second round of signals."""
_KEPT = 512


def views(route: Route, world: int) -> tuple[str, ...]:
    """Return the views that a sum of a route has: all counts of votes, all bytes of codes."""
    if route.codes:
        return tuple(f"sum{k}" for k in range(sum_kind(route, world)[0]))
    return views_of(route, world)


class Programs:
    """Programs of one rank of a pool, kept by their shape."""

    def __init__(self, rank: int, world: int, room: int) -> None:
        """Create none yet; ``room`` is in bytes."""
        self._rank, self._world, self._room = rank, world, room
        self._kept: dict[tuple[object, ...], Program] = {}
        self.most_bytes = cache(self._most_bytes)

    def _most_bytes(self, collective: str, route: Route) -> int:
        """Return the most bytes of a vector or part for which the room suffices: a power of two."""
        vectors = {
            Collective.BROADCAST: 1,
            Collective.REDUCE_SCATTER: self._world**2,
            Collective.ALL_REDUCE: (self._world + len(views(route, self._world))) * 5 // 4,
            EXCHANGE: self._world**2,
        }.get(collective, self._world)
        return LINE << ((self._room // LINE // vectors).bit_length() - 1)

    def get(self, collective: str, lines: int, root: int | None, route: Route) -> Program:
        """Return the program of this rank for vectors or parts of ``lines`` lines."""
        key = collective, lines, root, route
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = program_of(self._schedule(collective, lines, root, route), self._rank)
        return self._kept[key]

    def _schedule(self, collective: str, lines: int, root: int | None, route: Route) -> Schedule:
        if collective == EXCHANGE:
            return _exchange(self._world, lines)
        piece = lines
        if collective == Collective.ALL_REDUCE and lines > ONE_ROUND:
            piece = lines // self._world // 8  # little is lost if a piece ends within a granule
        granule = min(GRANULE, 1 << max(2, (piece - 1).bit_length()))
        sums = collective in SUMS
        found = shipped(
            Collective(collective),
            self._world,
            1,
            lines,
            granule=granule,
            root=root,
            adder=Adder.PASSIVE if sums else None,
            route=route if sums else None,
            views=views(route, self._world) if sums else None,
        )
        assert found.room * LINE <= self._room, (collective, lines, found.room)
        return found


def _exchange(world: int, lines: int) -> Schedule:
    """Return the schedule of `EXCHANGE`."""

    def streams(rank: int) -> tuple[Stream, ...]:
        publish: list[Op] = [
            Write(0, (rank * world + to) * lines, lines, Place(Buffer.IN, to * lines))
            for to in range(world)
            if to != rank
        ]
        own = rank * lines
        consume: list[Op] = [Copy(lines, Place(Buffer.IN, own), Place(Buffer.OUT, own))]
        for turn in range(1, world):
            other = (rank + turn) % world
            place = Place(Buffer.OUT, other * lines)
            consume += [Wait((other,), 1), Read(0, (other * world + rank) * lines, lines, place)]
        return Stream("publish", (*publish, Signal(1))), Stream("consume", tuple(consume))

    return Schedule(
        collective=Collective.ALL_GATHER,  # for the sizes of buffers, which executors do not need
        ranks=world,
        devices=1,
        lines=lines,
        granule=lines,
        tile=lines,
        adder=None,
        route=None,
        views=(),
        root=None,
        room=world**2 * lines,
        scratch=0,
        streams=tuple(streams(rank) for rank in range(world)),
    )
