# SPDX-License-Identifier: Apache-2.0
"""Checks of the checker with mutants: all are refused, and a second way to find races agrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from neuron_fabric.codec import Route
from neuron_fabric.collectives import shipped
from neuron_fabric.collectives.schedule import (
    Adder,
    Buffer,
    Close,
    Collective,
    Commit,
    Contribute,
    Op,
    Read,
    Ready,
    Result,
    Schedule,
    Signal,
    Wait,
    Write,
)
from scripts.collectives.schedule_mutants import drawn_mutants, every_mutant

_RACES = {"races with", "may not be committed"}


def test_all_drawn_mutants_are_refused() -> None:
    """Check that the checker refuses 200 mutants of drawn shapes."""
    assert [one.name for one in drawn_mutants(200, 3) if not one.refusal] == []


@pytest.mark.parametrize("adder", [None, *Adder])
def test_two_ways_to_find_races_agree(adder: Adder | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check all mutants of small schedules against three collectives in a row, path by path."""
    monkeypatch.setattr(shipped, "CHUNK", 1)
    collective = Collective.ALL_REDUCE if adder else Collective.ALL_GATHER
    route = Route.FP32 if adder else None
    original = shipped.shipped(collective, 3, 2, 9, granule=2, tile=2, adder=adder, route=route)
    assert not unrolled_race(original)
    races = 0
    for mutant in every_mutant(original):
        refusal = mutant.refusal
        found = any(text in refusal for text in _RACES)
        if found or not refusal:
            assert unrolled_race(mutant.schedule) == found, mutant.name
        races += found
    assert races > 20


def unrolled_race(schedule: Schedule) -> bool:
    """Return whether three collectives in a row have a race, by all paths between operations.

    The nodes are operations of collectives 0 to 2; node (e, rank) ends collective e of a rank. An
    int is a set of nodes: those that are before a node in every run.
    """
    places: dict[Any, list[tuple[int, str]]] = {}
    sources: dict[int, list[Any]] = {}
    nodes: dict[Any, int] = {}
    for e in range(3):
        for rank, streams in enumerate(schedule.streams):
            ends = []
            for stream in streams:
                last: Any = ("start", e, rank)
                for at, op in enumerate(stream.ops):
                    node = nodes.setdefault((e, rank, stream.name, at), len(nodes))
                    sources[node] = [last, *_sources(op, e)]
                    last = (e, rank, stream.name, at)
                    for key in _names(op, e, rank):
                        nodes[key] = node
                    for place, kind in _touched(op, e, rank):
                        places.setdefault(place, []).append((node, kind))
                ends.append(last)
            nodes["start", e, rank] = len(nodes)
            sources[nodes["start", e, rank]] = [
                ("end", e - 2, other) for other in range(schedule.ranks)
            ]
            nodes["end", e, rank] = len(nodes)
            sources[nodes["end", e, rank]] = ends
    before = dict.fromkeys(sources, 0)
    changed = True
    while changed:
        changed = False
        for node, keys in sources.items():
            known = before[node]
            for key in keys:
                if key in nodes:
                    known |= before[nodes[key]] | 1 << nodes[key]
            changed |= known != before[node]
            before[node] = known
    return any(
        not (before[one] >> other & 1 or before[other] >> one & 1)
        for accesses in places.values()
        for at, (one, kind) in enumerate(accesses)
        for other, second in accesses[at + 1 :]
        if {kind, second} not in ({"read"}, {"add"})
    )


def _sources(op: Op, e: int) -> Iterator[Any]:
    """Yield the keys of the operations that ``op`` of collective ``e`` waits for."""
    if isinstance(op, Wait):
        for rank in op.ranks:
            yield ("signal", e, rank, op.number) if op.number else ("end", e - op.back, rank)
    elif isinstance(op, Ready):
        yield "commit", e - 1, op.device


def _names(op: Op, e: int, rank: int) -> Iterator[Any]:
    """Yield the keys by which other operations wait for ``op``."""
    if isinstance(op, Signal):
        yield "signal", e, rank, op.number
    elif isinstance(op, Commit):
        yield "commit", e, op.device


def _touched(op: Op, e: int, rank: int) -> Iterator[tuple[Any, str]]:
    """Yield the places that ``op`` touches: read, write or add."""
    half = e % 2
    match op:
        case Close() | Commit():
            yield ("region", 1 - half, op.device), "write"
        case Contribute() | Result():
            yield ("region", half, op.device), "read"
            kind = "add" if isinstance(op, Contribute) else "read"
            for line in range(op.line, op.line + op.count):
                yield ("region", half, op.device, line), kind
        case Write() | Read():
            kind = "write" if isinstance(op, Write) else "read"
            for line in range(op.line, op.line + op.count):
                yield ("plain", half, op.device, line), kind
    local = [(place, "read") for place in getattr(op, "sources", ())]
    local += [(place, "read") for place in [getattr(op, "source", None)] if place]
    local += [(place, "write") for place in [getattr(op, "target", None)] if place]
    for place, kind in local:
        buffer = (place.buffer, half if place.buffer is Buffer.SCRATCH else e)
        for line in range(place.line, place.line + getattr(op, "count", 0)):
            yield (rank, *buffer, line), kind
