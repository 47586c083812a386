# SPDX-License-Identifier: Apache-2.0
"""Lines of many workers to votes and counts, and these to gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.engine import engine
from neuron_fabric.codec.numpy_engine import F32, U8
from neuron_fabric.codec.routes import LINE, Route, lines_of

MAX_WORKERS = 255
"""A count is a byte."""


class Counted(NamedTuple):
    """``lines``: what the votes decide, uint8[n, 64]. ``plus``, ``minus``: uint8[elements of n
    lines], the workers that vote so."""

    lines: U8
    plus: U8
    minus: U8


def count(
    lines: U8,
    route: Route,
    *,
    present: NDArray[np.bool_] | None = None,
    planes: bool = True,
    vote: bool = True,
) -> tuple[U8, U8]:
    """Votes uint8[W, n, 64] as (vote lines uint8[n, 64], count planes uint8[P, n, 64]).

    Bit ``p`` of a count is in plane ``p``, P = W.bit_length(): in G_BINARY at the place of the
    element the number of + votes, in G_TERNARY at its even bit that of +, at its odd bit that of -.
    A tie is + in G_BINARY and 0 in G_TERNARY. ``present`` bool[W, n]: the others abstain, as if
    they were not there. What is not asked for is empty. ValueError for other arrays or routes.
    """
    if not route.votes:
        raise ValueError(f"{route} has no votes")
    if lines.dtype != np.uint8 or lines.ndim != 3 or lines.shape[2] != LINE:
        raise ValueError(f"lines must be uint8[W, n, {LINE}], not {lines.dtype}{list(lines.shape)}")
    workers, size, _ = lines.shape
    if not 1 <= workers <= MAX_WORKERS:
        raise ValueError(f"{workers} workers, 1 to {MAX_WORKERS} can be counted")
    if present is not None:
        if present.dtype != np.bool_ or present.shape != (workers, size):
            raise ValueError(f"present must be bool[{workers}, {size}], not {list(present.shape)}")
        present = np.ascontiguousarray(present)
    counts = np.empty((workers.bit_length() if planes else 0, size, LINE), np.uint8)
    decided = np.empty((size if vote else 0, LINE), np.uint8)
    engine().count(
        np.ascontiguousarray(lines),
        present,
        route,
        counts if planes else None,
        decided if vote else None,
    )
    return decided, counts


def votes(lines: U8, route: Route, present: NDArray[np.bool_] | None = None) -> Counted:
    """Votes uint8[W, n, 64] with the counts as bytes: 8 times the size of planes; see `count`."""
    decided, planes = count(lines, route, present=present)
    elements = decided.size * 8 // route.bits
    plus, *rest = engine().counts(planes, route, elements)
    if rest:
        return Counted(decided, plus, rest[0])
    here = len(lines) if present is None else present.sum(axis=0, dtype=np.uint8)
    each = np.broadcast_to(np.asarray(here, np.uint8), len(decided))
    return Counted(decided, plus, np.repeat(each, LINE * 8) - plus)


def unpack(
    lines: U8, route: Route, elements: int, *, scale: float = 1.0, out: F32 | None = None
) -> F32:
    """Votes uint8[n, 64] as float32[elements]: +scale, -scale, and 0.0 in G_TERNARY.

    ValueError when there are fewer lines, or for a route without votes.
    """
    _check(lines, route, elements)
    s = np.float32(scale)
    codes = [s, -s] if route == Route.G_BINARY else [s * 0, s * 0, s, -s]
    gradient = np.empty(elements, np.float32) if out is None else out
    engine().unpack(np.ascontiguousarray(lines), route, np.array(codes, np.float32), gradient)
    return gradient


def unpack_net(
    planes: U8,
    route: Route,
    elements: int,
    workers: int,
    *,
    scale: float = 1.0,
    out: F32 | None = None,
) -> F32:
    """Count planes uint8[P, n, 64] as float32[elements]: scale * float32(plus - minus) / workers,
    in float32 and in this order; ``workers``: those present, 0: every element is 0.0.

    ValueError when there are fewer lines, or for a route without votes.
    """
    _check(planes[0], route, elements)
    plus = np.arange(-256, 257) if route == Route.G_TERNARY else 2 * np.arange(256) - workers
    net = plus.astype(np.float32)
    values = np.float32(scale) * net / np.float32(workers) if workers else np.zeros_like(net)
    gradient = np.empty(elements, np.float32) if out is None else out
    engine().unpack_net(np.ascontiguousarray(planes), route, values, gradient)
    return gradient


def _check(lines: U8, route: Route, elements: int) -> None:
    if not route.votes:
        raise ValueError(f"{route} has no votes")
    if lines.dtype != np.uint8 or lines.ndim != 2 or lines.shape[1] != LINE:
        raise ValueError(f"lines must be uint8[n, {LINE}], not {lines.dtype}{list(lines.shape)}")
    if len(lines) < lines_of(elements, route):
        need = lines_of(elements, route)
        raise ValueError(f"{len(lines)} lines do not hold {elements} elements, {need} would")
