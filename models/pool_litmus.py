# SPDX-License-Identifier: Apache-2.0
"""Litmus tests of the ranks of a pool: small programs, the outcomes that they must never have.

Each program is a schedule of one stream a rank, so every executor can run it. `visit` counts the
final states with a forbidden outcome over all orders; with a rule of `Rules` turned off the count
must not be zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from models.line_packing import LINE_BYTES, U8
from models.pool import Pool, Rules, outcomes
from models.pool_devices import GARBAGE
from neuron_fabric.collectives.schedule import (
    Buffer,
    Collective,
    Op,
    Place,
    Read,
    Schedule,
    Signal,
    Stream,
    Wait,
    Write,
)

Seen = dict[tuple[int, int], bytes]
"""Lines that ranks have read: (rank, line of "out")."""
_OLD = GARBAGE


@dataclass(frozen=True)
class Litmus:
    """Litmus test.

    Attributes:
        ranks: Operations of each rank.
        forbidden: Returns whether the lines that were read are a forbidden outcome.
        twins: Fields of `Rules` without which the outcome must occur.
        again: Whether the program runs again, with other data, two collectives later.
    """

    ranks: tuple[tuple[Op, ...], ...]
    forbidden: Callable[[Seen], bool]
    twins: tuple[str, ...]
    again: bool = False


def value(rank: int, line: int, call: int = 0) -> bytes:
    """Return the line that ``rank`` writes from line ``line`` of its "in"."""
    return bytes([1 + 16 * call + 4 * rank + line]) * LINE_BYTES


def _write(place: int, line: int = 0) -> Write:
    return Write(place, place, 1, Place(Buffer.IN, line))


def _read(place: int, line: int = 0) -> Read:
    return Read(place, place, 1, Place(Buffer.OUT, line))


_X, _Y = 0, 1
"""Two lines; on two devices if the pool has two. Signals 1 and 3 are on the device of _Y."""
_RELEASE_ACQUIRE = ("flush", "completion", "acquire")

LITMUS: dict[str, Litmus] = {
    "message passing": Litmus(
        ((_write(_X), Signal(1)), (Wait((0,), 1), _read(_X))),
        lambda seen: seen[1, 0] == _OLD,
        _RELEASE_ACQUIRE,
    ),
    "store buffering": Litmus(
        (
            (_write(_X), Signal(1), Wait((0,), 1), _read(_Y)),
            (_write(_Y), Signal(2), Wait((1,), 2), _read(_X)),
        ),
        lambda seen: seen[0, 0] == seen[1, 0] == _OLD,
        _RELEASE_ACQUIRE,
    ),
    "write to read causality": Litmus(
        (
            (_write(_X), Signal(1)),
            (Wait((0,), 1), _read(_X), Signal(2)),
            (Wait((1,), 2), _read(_X)),
        ),
        lambda seen: seen[2, 0] == _OLD,
        _RELEASE_ACQUIRE,
    ),
    "ISA2": Litmus(
        (
            (_write(_X), Signal(1)),
            (Wait((0,), 1), _write(_Y), Signal(2)),
            (Wait((1,), 2), _read(_X)),
        ),
        lambda seen: seen[2, 0] == _OLD,
        _RELEASE_ACQUIRE,
    ),
    "write after read": Litmus(
        (
            (_write(_X), Signal(1), Wait((1,), 2), _write(_X, 1), Signal(3)),
            (Wait((0,), 1), _read(_X), Signal(2)),
        ),
        lambda seen: seen[1, 0] == value(0, 1),
        ("loads",),
    ),
    "prefetch before the bell": Litmus(
        ((_write(_X), Signal(1)), (_read(_X), Wait((0,), 1), _read(_X, 1))),
        lambda seen: seen[1, 1] == _OLD,
        ("acquire",),
    ),
    "read after done": Litmus(
        ((_write(_X), Signal(1)), (Wait((0,), 1), _read(_X))),
        lambda seen: seen[1, 0] != value(0, 0),
        ("done",),
        again=True,
    ),
}


def program(test: Litmus, devices: int) -> Schedule:
    """Return a litmus test as a schedule; its places are dealt to the devices."""
    streams = tuple(
        (Stream("publish", tuple(_dealt(op, devices) for op in ops)),) for ops in test.ranks
    )
    return Schedule(
        collective=Collective.ALL_REDUCE,
        ranks=len(test.ranks),
        devices=devices,
        lines=2,
        granule=1,
        tile=1,
        adder=None,
        route=None,
        views=(),
        root=None,
        room=2,
        scratch=0,
        streams=streams,
    )


def _dealt(op: Op, devices: int) -> Op:
    return replace(op, device=op.device % devices) if isinstance(op, Write | Read) else op


def inputs(test: Litmus) -> list[list[U8]]:
    """Return "in" uint8[2, 64] of each rank, for each call."""
    return [
        [
            np.frombuffer(value(rank, 0, e) + value(rank, 1, e), np.uint8).reshape(2, -1)
            for rank in range(len(test.ranks))
        ]
        for e in range(3 if test.again else 1)
    ]


def pool_of(name: str, devices: int, rules: Rules | None = None) -> Pool:
    """Return the pool at rest that runs a litmus test."""
    test = LITMUS[name]
    once = program(test, devices)
    idle = replace(once, streams=((Stream("publish", ()),),) * once.ranks)
    calls = [once, idle, once] if test.again else [once]
    return Pool(calls, inputs(test), rules=rules)


def seen_in(pool: Pool) -> Seen:
    """Return the lines that the ranks have read in the first call."""
    return {
        (rank, line): data
        for (call, rank, buffer, line), data in pool.buffers.items()
        if buffer is Buffer.OUT and call == 0
    }


def visit(name: str, devices: int, rules: Rules | None = None) -> tuple[int, int, int]:
    """Run a litmus test in every order.

    Returns:
        Final states with the forbidden outcome, all final states, and all states.
    """
    forbidden = LITMUS[name].forbidden
    found, states = outcomes(pool_of(name, devices, rules), lambda pool: forbidden(seen_in(pool)))
    return found.get(True, 0), sum(found.values()), states
