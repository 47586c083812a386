# SPDX-License-Identifier: Apache-2.0
"""Oracle of the collectives: outputs of all ranks from their inputs, and a digest of them.

It is written from the definition of each collective and shares nothing with the schedules, their
executors or the codec of the package. Every executor is judged by it, bit for bit. A buffer is
lines uint8[n, 64].
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from models.fp32 import ordered_sum
from models.int_sums import reduce_int, sum8_lines
from models.line_packing import LINE_BYTES, U8
from models.modes import Mode
from models.regions import PLANE_SELECTOR, SUM8_SELECTOR, SUM16_SELECTOR
from models.votes import reduce_binary, reduce_ternary
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import Buffer, Collective, Schedule

SUM8_VIEWS = 2
"""Views of G_INT4 whose sums have 8 bits; 16-bit sums have 4 views."""


def reduced(lines: U8, route: Route | None, views: Sequence[str]) -> list[U8]:
    """Return each view uint8[n, 64] of the reduction of lines uint8[W, n, 64] in rank order.

    Raises:
        ValueError: The route has no such view.
    """
    if route is Route.FP32 and tuple(views) == ("sum",):
        return [ordered_sum(lines)]
    if route in (Route.G_BINARY, Route.G_TERNARY):
        votes = (reduce_binary if route is Route.G_BINARY else reduce_ternary)(lines)
        return [votes.vote if v == "vote" else votes.planes[_number(v, "plane")] for v in views]
    if route in (Route.G_INT4, Route.G_INT8):
        sums = reduce_int(lines, Mode[route])
        narrow = route is Route.G_INT4 and len(views) == SUM8_VIEWS
        layers = sums.sum8 if narrow else sums.sum16
        return [layers[_number(v, "sum")] for v in views]
    raise ValueError(f"route {route} has no views {', '.join(views)}")


def _number(view: str, kind: str) -> int:
    if not view.startswith(kind) or not view[len(kind) :].isdecimal():
        raise ValueError(f"view {view!r} is no {kind}N")
    return int(view[len(kind) :])


def selector(schedule: Schedule, view: str) -> int:
    """Return the selector at which a device has a view of the route of a schedule."""
    if view in ("vote", "sum"):
        return 0
    if schedule.route in (Route.G_BINARY, Route.G_TERNARY):
        return PLANE_SELECTOR + _number(view, "plane")
    narrow = sum8_lines(Mode[str(schedule.route)], schedule.ranks)
    return (SUM8_SELECTOR if narrow else SUM16_SELECTOR) + _number(view, "sum")


def expected(schedule: Schedule, inputs: Sequence[U8]) -> list[U8]:
    """Return the "out" buffer of each rank after the collective, uint8[n, 64] each.

    Views are stacked in the order of ``schedule.views``. A rank without an output gets no lines.

    Args:
        schedule: Only its header is read, never its operations.
        inputs: "in" buffer of each rank, uint8[n, 64].

    Raises:
        ValueError: The number or shape of the inputs is not that of the schedule.
    """
    world, root, n = schedule.ranks, schedule.root, schedule.lines
    shapes = [np.shape(one) for one in inputs]
    if shapes != [(schedule.size(r, Buffer.IN), LINE_BYTES) for r in range(world)]:
        raise ValueError(f"inputs of {schedule.collective} have the shapes {shapes}")
    nothing = np.zeros((0, LINE_BYTES), np.uint8)
    whole: list[U8]
    match schedule.collective:
        case Collective.BARRIER:
            whole = [nothing] * world
        case Collective.ALL_GATHER | Collective.GATHER:
            whole = [np.concatenate(inputs)] * world
        case Collective.BROADCAST:
            whole = [inputs[root or 0]] * world
        case Collective.SCATTER:
            whole = list(np.split(inputs[root or 0], world))
        case Collective.REDUCE_SCATTER:
            parts = np.stack(inputs).reshape(world, world, n, LINE_BYTES)
            whole = [_stacked(schedule, parts[:, r]) for r in range(world)]
        case _:
            whole = [_stacked(schedule, np.stack(inputs))] * world
    only_root = schedule.collective in (Collective.GATHER, Collective.REDUCE)
    return [nothing if only_root and r != root else one for r, one in enumerate(whole)]


def _stacked(schedule: Schedule, lines: U8) -> U8:
    return np.concatenate(reduced(lines, schedule.route, schedule.views))


def drawn_inputs(schedule: Schedule, seed: int) -> list[U8]:
    """Return the "in" buffer of each rank, drawn from ``seed``; the same for every executor.

    FP32 lines hold sums that depend on the order of addition, infinities, NaNs and subnormals.
    """
    rng = np.random.default_rng([seed, len(schedule.collective), schedule.ranks, schedule.lines])
    sizes = [schedule.size(rank, Buffer.IN) for rank in range(schedule.ranks)]
    if schedule.route is not Route.FP32:
        return [rng.integers(0, 256, (n, LINE_BYTES), np.uint8) for n in sizes]
    out = []
    for n in sizes:
        values = (rng.standard_normal((n, 16)) * 10.0 ** rng.integers(-6, 7, (n, 16))).astype("<f4")
        words = values.view("<u4")
        odd = rng.random((n, 16)) < 0.02
        words[odd] = rng.integers(0, 1 << 32, int(odd.sum()), np.uint32)
        out.append(words.view(np.uint8))
    return out


def digest(outputs: Sequence[U8]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the "out" buffers of all ranks, in order."""
    state = hashlib.sha256()
    for one in outputs:
        state.update(len(one).to_bytes(8, "little") + np.ascontiguousarray(one).tobytes())
    return state.hexdigest()[:16]
