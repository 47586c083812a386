# SPDX-License-Identifier: Apache-2.0
"""Counts of several groups of workers, added on the host: a region counts 64 workers, a job may
have more. The sum is exactly what one count of all would be; a vote of votes would not be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.array_checks import check, check_number
from neuron_fabric.codec.numpy_engine import U8, decide
from neuron_fabric.codec.routes import LINE, Route, check_route
from neuron_fabric.codec.voting import MAX_PLANES, MAX_WORKERS

Words = NDArray[np.uint64]


def add_planes(groups: Sequence[U8], workers: int) -> U8:
    """Count planes uint8[P, n, 64] of each group, as `count` gives them, to those of all
    ``workers`` together, P = workers.bit_length(). ValueError for other arrays, more workers than a
    count holds, or counts that P planes do not hold."""
    workers = check_number("workers", workers, 1, MAX_WORKERS)
    for one in groups:
        check("planes", one, np.uint8, "P", "n", str(LINE))
    shapes = {one.shape[1:] for one in groups}
    if len(shapes) != 1:
        found = ", ".join(f"uint8{list(one.shape)}" for one in groups) or "none"
        raise ValueError(f"planes must be uint8[P, n, {LINE}] of the same lines, not {found}")
    [(lines, size)] = shapes
    if size != LINE:
        raise ValueError(f"planes must be uint8[P, n, {LINE}], not of {size} bytes a line")
    total = np.zeros((workers.bit_length(), lines, LINE // 8), np.uint64)
    for one in groups:
        if _add(total, np.ascontiguousarray(one).view("<u8")):
            most = (1 << len(total)) - 1
            raise ValueError(f"{workers} workers, and more than {most} votes on an element")
    return total.astype("<u8", copy=False).view(np.uint8)


def _add(total: Words, more: Words) -> bool:
    """Add in place, all elements at once, bit by bit; whether some count does not fit."""
    carry = np.zeros_like(total[0])
    for p in range(max(len(total), len(more))):
        b = more[p] if p < len(more) else np.zeros_like(carry)
        if p >= len(total):
            if b.any() or carry.any():
                return True
            continue
        a = total[p].copy()
        total[p] = a ^ b ^ carry
        carry = (a & b) | (carry & (a | b))
    return bool(carry.any())


def vote_of(planes: U8, route: Route, present: NDArray[np.integer] | int) -> U8:
    """The vote lines uint8[n, 64] that counts decide; ``present``: workers with a vote, of all
    lines or of each [n]. ValueError for a route without votes."""
    check_route(route)
    if not route.votes:
        raise ValueError(f"{route} has no votes")
    check("planes", planes, np.uint8, "P", "n", LINE)
    check_number("count planes", len(planes), 1, MAX_PLANES)
    lines = planes.shape[1]
    if isinstance(present, np.ndarray):
        if present.shape != (lines,) or present.dtype.kind not in "iu":
            found = f"{present.dtype}{list(present.shape)}"
            raise ValueError(f"present must be an integer or integers [{lines}], not {found}")
        for one in (present.min(initial=0), present.max(initial=0)):
            check_number("present", one, 0, MAX_WORKERS)
    else:
        present = check_number("present", present, 0, MAX_WORKERS)
    here = np.broadcast_to(np.asarray(present, np.uint64), (lines,))[:, None]
    vote = np.empty((lines, LINE), np.uint8)
    vote.view("<u8")[:] = decide(list(np.ascontiguousarray(planes).view("<u8")), route, here)
    return vote
