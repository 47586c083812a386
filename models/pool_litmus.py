# SPDX-License-Identifier: Apache-2.0
"""Litmus tests of the ranks of a pool: small programs, the outcomes that they must never have.

Each program is a schedule of one stream a rank, so every executor can run it; `verif.fabric.litmus`
runs it on the RTL. `visit` counts the final states with a forbidden outcome over all orders. With a
rule of `Rules` turned off the count must not be zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from models.line_packing import LINE_BYTES, U8
from models.pool import Pool, Rules, outcomes
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

Origin = tuple[int, int]
"""Line that a rank writes: (rank, line of its "in")."""
Seen = dict[tuple[int, int], Origin | None]
"""Origins of the lines that ranks have read, by (rank, line of "out"); None for older data."""


@dataclass(frozen=True)
class Litmus:
    """Litmus test.

    Attributes:
        ranks: Operations of each rank. Devices and lines are 0 or 1, to be placed by the executor.
        forbidden: Returns whether the lines that were read are a forbidden outcome.
        twins: Fields of `Rules` without which the outcome must occur.
        uncached: Those of ``twins`` without which it occurs with hosts that have no caches.
        again: Whether the program runs again, with other data, two collectives later.
    """

    ranks: tuple[tuple[Op, ...], ...]
    forbidden: Callable[[Seen], bool]
    twins: tuple[str, ...]
    uncached: tuple[str, ...] = ()
    again: bool = False


def _write(place: int, line: int = 0) -> Write:
    return Write(place, place, 1, Place(Buffer.IN, line))


def _read(place: int, line: int = 0) -> Read:
    return Read(place, place, 1, Place(Buffer.OUT, line))


def _stale(seen: Seen) -> bool:
    return None in seen.values()


_X, _Y = 0, 1
"""Two lines; on two devices if the pool has two. Signals 1 and 3 are on the device of _Y."""
SIGNALS = 3
"""Greatest number of a signal."""
_RELEASE_ACQUIRE = ("flush", "completion", "acquire")
_SEND, _RECEIVE = (_write(_X), Signal(1)), (Wait((0,), 1), _read(_X))

LITMUS: dict[str, Litmus] = {
    "message passing": Litmus(
        (_SEND, _RECEIVE), _stale, _RELEASE_ACQUIRE, ("completion", "acquire")
    ),
    "store buffering": Litmus(
        (
            (*_SEND, Wait((0,), 1), _read(_Y)),
            (_write(_Y), Signal(2), Wait((1,), 2), _read(_X)),
        ),
        lambda seen: seen[0, 0] is seen[1, 0] is None,
        _RELEASE_ACQUIRE,
        ("completion",),
    ),
    "write to read causality": Litmus(
        (_SEND, (*_RECEIVE, Signal(2)), (Wait((1,), 2), _read(_X))),
        _stale,
        _RELEASE_ACQUIRE,
        ("completion", "acquire"),
    ),
    "ISA2": Litmus(
        (_SEND, (Wait((0,), 1), _write(_Y), Signal(2)), (Wait((1,), 2), _read(_X))),
        _stale,
        _RELEASE_ACQUIRE,
        ("completion", "acquire"),
    ),
    "write after read": Litmus(
        ((*_SEND, Wait((1,), 2), _write(_X, 1), Signal(3)), (*_RECEIVE, Signal(2))),
        lambda seen: seen[1, 0] == (0, 1),
        ("loads",),
        ("loads",),
    ),
    "prefetch before the bell": Litmus(
        (_SEND, (_read(_X), Wait((0,), 1), _read(_X, 1))),
        lambda seen: seen[1, 1] is None,
        ("acquire",),
        ("acquire",),
    ),
    "read after done": Litmus(
        (_SEND, _RECEIVE), lambda seen: seen[1, 0] != (0, 0), ("done",), again=True
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


def inputs(test: Litmus, call: int) -> list[U8]:
    """Return "in" uint8[2, 64] of each rank for a call; all lines of all calls differ."""
    ranks = len(test.ranks)
    words = 1 + np.arange(2 * ranks, dtype="<u8") + 2 * ranks * call
    lines: U8 = np.repeat(words, LINE_BYTES // 8).view(np.uint8)
    return list(lines.reshape(ranks, 2, LINE_BYTES))


def origins(test: Litmus, call: int) -> dict[bytes, Origin]:
    """Return the origin of each line of a call."""
    data = enumerate(inputs(test, call))
    return {line.tobytes(): (rank, i) for rank, lines in data for i, line in enumerate(lines)}


def pool_of(name: str, devices: int, rules: Rules | None = None) -> Pool:
    """Return the pool at rest that runs a litmus test."""
    test = LITMUS[name]
    once = program(test, devices)
    idle = replace(once, streams=((Stream("publish", ()),),) * once.ranks)
    calls = [once, idle, once] if test.again else [once]
    return Pool(calls, [inputs(test, e) for e in range(len(calls))], rules=rules)


def visit(name: str, devices: int, rules: Rules | None = None) -> tuple[int, int, int]:
    """Run a litmus test in every order.

    Returns:
        Final states with the forbidden outcome, all final states, and all states.
    """
    test = LITMUS[name]
    known = origins(test, 0)

    def forbidden(pool: Pool) -> bool:
        return test.forbidden(
            {
                (rank, line): known.get(data)
                for (call, rank, buffer, line), data in pool.buffers.items()
                if buffer is Buffer.OUT and call == 0
            }
        )

    found, states = outcomes(pool_of(name, devices, rules), forbidden)
    return found.get(True, 0), sum(found.values()), states
