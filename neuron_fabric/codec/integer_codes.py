# SPDX-License-Identifier: Apache-2.0
"""Conversion of gradients to integer codes and of sums of codes to gradients (G_INT4, G_INT8).

A bucket is 1,024 elements of a flat tensor, the last one may be shorter. All workers share its unit
u: the largest |x| of all of them over 2^(k-1) - 1, rounded up to a float32. So they exchange their
maxima before they pack. A code is floor(x / u + r) in two's complement, r = 1/2 (nearest) or
uniform in [0, 1) (stochastic: its mean is x). A sum of codes is exact, and the gradient is u * sum
/ m for m workers, rounded once.

Code 0 is the value 0: padding and absent workers add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.array_checks import check, check_apart, check_number
from neuron_fabric.codec.draws import Draws
from neuron_fabric.codec.engine import engine
from neuron_fabric.codec.numpy_engine import F32, U8, Tensors, codes_in, parts, pieces
from neuron_fabric.codec.packing import MAX_WORKERS, Packed, check_lines
from neuron_fabric.codec.routes import (
    BUCKET,
    LINE,
    Route,
    check_route,
    elements_of_line,
    lines_of,
)

NARROW_WORKERS = 16
"""Workers whose sums of 4-bit codes fit a byte. Any number that can be counted fits 16 bits."""


def maxima(values: F32) -> F32:
    """Return the largest abs(x) of each bucket of float32[n], float32[buckets].

    All are infinity if the tensor is not finite, so that a maximum over workers tells every worker.

    Raises:
        ValueError: Another type or shape.
    """
    return maxima_all([values])


def maxima_all(tensors: Tensors) -> F32:
    """Return the largest abs(x) of each bucket of tensors, one after the other; see `maxima`."""
    xs = _proper(tensors)
    every = np.empty(sum(-(-x.size // BUCKET) for x in xs), np.float32)
    engine().maxima(xs, every)
    if not np.isfinite(every).all():
        for largest in parts(xs, every, BUCKET):
            if not np.isfinite(largest).all():
                largest[:] = np.inf
    return every


def units(largest: F32, route: Route) -> F32:
    """Return the unit u of each bucket, the least float32 with which no code is clipped.

    Args:
        largest: Largest abs(x) of each bucket over all workers, float32[buckets].
        route: G_INT4 or G_INT8.

    Raises:
        ValueError: Another array or route.
    """
    _check(route)
    check("largest", largest, np.float32, "buckets")
    top = (1 << (route.bits - 1)) - 1
    wide = largest.astype(np.float64)
    u = (wide / top).astype(np.float32)
    short = u.astype(np.float64) * top < wide
    return np.where(short, np.nextafter(u, np.float32(np.inf)), u).astype(np.float32)


def pack_codes(values: F32, route: Route, u: F32, draws: Draws = None) -> Packed:
    """Pack float32[n] to lines of integer codes, with the units that all workers share.

    Args:
        values: Gradient of one tensor.
        route: G_INT4 or G_INT8.
        u: Units of its buckets.
        draws: Random numbers for stochastic rounding, or None.

    Returns:
        The lines, with scale 1.0, as the units are known to all. If a unit is not finite (some
        worker's tensor is not), all codes are 0 and the result is marked as not finite.

    Raises:
        ValueError: Another array or route, or a value beyond the codes with its unit.
    """
    return pack_all_codes([values], route, u, [draws])[0]


def pack_all_codes(tensors: Tensors, route: Route, u: F32, draws: Sequence[Draws]) -> list[Packed]:
    """Pack tensors, each from a new line on, by one call of the engine; see `pack_codes`."""
    _check(route)
    xs = _proper(tensors)
    _check_units(u, xs)
    lines = np.empty((sum(lines_of(x.size, route) for x in xs), LINE), np.uint8)
    u = np.require(u, requirements=["C", "A"])
    seen = engine().pack_codes(xs, route, u, draws, lines)
    known = [True] * len(xs)
    if not np.isfinite(u).all():
        known = [bool(np.isfinite(own).all()) for own in parts(xs, u, BUCKET)]
    packed = []
    for x, own, one, finite in zip(
        xs, parts(xs, lines, elements_of_line(route)), seen, known, strict=True
    ):
        if finite and not one.finite:
            raise ValueError(f"a value is beyond the codes of {route} with its unit")
        if not finite:
            own[:] = 0
        scale = np.float32(1.0 if finite else np.nan)
        packed.append(Packed(own, scale, one.number, finite, x.size if finite else 0))
    return packed


def _proper(tensors: Tensors) -> list[F32]:
    for one in tensors:
        check("values", one, np.float32, "n")
    return [np.require(one, requirements=["C", "A"]) for one in tensors]


def sum_kind(route: Route, workers: int) -> tuple[int, str]:
    """Return lines of sums per line of codes, and the numpy type of a sum: "<i1" or "<i2".

    The type with the fewest lines is chosen.

    Raises:
        ValueError: Another route, or more workers than sums have room for.
    """
    _check(route)
    if not 1 <= (workers := check_number("workers", workers, 0)) <= MAX_WORKERS:
        raise ValueError(f"{workers} workers: a sum of codes has room for 1 to {MAX_WORKERS}")
    kind = "<i1" if route == Route.G_INT4 and workers <= NARROW_WORKERS else "<i2"
    return elements_of_line(route) * int(kind[-1]) // LINE, kind


def add_codes(lines: U8, route: Route, present: NDArray[np.bool_] | None = None) -> U8:
    """Return the exact sums uint8[v, n, 64] of the workers' codes, lines uint8[W, n, 64].

    Args:
        lines: Codes of all workers.
        route: G_INT4 or G_INT8.
        present: bool[W, n], contributors; None for all.

    Returns:
        For each line of codes, the sums of its elements in v lines (see `sum_kind`); ``[0]`` has
        the first elements.

    Raises:
        ValueError: Other arrays, or another route.
    """
    check("lines", lines, np.uint8, "W", "n", LINE)
    workers, size, _ = lines.shape
    layers, kind = sum_kind(route, workers)
    if present is not None:
        check("present", present, np.bool_, workers, size)
        present = np.ascontiguousarray(present)
    sums = np.empty((layers, size, LINE), np.uint8)
    engine().add_codes(np.ascontiguousarray(lines), present, route, int(kind[-1]), sums)
    return sums


def unpack_sums(sums: U8, route: Route, u: F32, workers: int, present: int, out: F32) -> None:
    """Convert sums of codes to the mean gradient: u * sum / present in float64, rounded once.

    Args:
        sums: Sums uint8[v, n, 64], as of `add_codes`.
        route: G_INT4 or G_INT8.
        u: Units of the buckets.
        workers: Number of workers, which decides the type of a sum.
        present: Number of workers that have contributed; with 0 the result is 0.0.
        out: Result, float32[elements].

    Raises:
        ValueError: Other arrays or numbers.
    """
    unpack_all_sums(sums, route, u, workers, [present], [out])


def unpack_all_sums(
    sums: U8, route: Route, u: F32, workers: int, present: Sequence[int], outs: Tensors
) -> None:
    """Convert sums of codes to tensors, each from a new line on; see `unpack_sums`."""
    layers, kind = sum_kind(route, workers)
    check("sums", sums, np.uint8, layers, "n", LINE)
    for out in outs:
        check("out", out, np.float32, "n", out=True)
        check_apart("out", out, sums, u)
    check_lines(sums.shape[1], route, *(out.size for out in outs))
    _check_units(u, outs)
    many = [max(1, check_number("present", one, 0, workers)) for one in present]
    units = np.require(u, requirements=["C", "A"])
    engine().unpack_sums(
        np.ascontiguousarray(sums), int(kind[-1]), units, np.array(many, np.uint8), outs
    )


def unpack_codes(lines: U8, route: Route, u: F32, elements: int) -> F32:
    """Return the values of one worker's codes, float32[elements]: u * code, rounded once.

    Raises:
        ValueError: Other arrays or numbers.
    """
    _check(route)
    check("lines", lines, np.uint8, "n", LINE)
    elements = check_number("elements", elements, 0)
    check_lines(len(lines), route, elements)
    out = np.empty(elements, np.float32)
    _check_units(u, [out])
    flat = codes_in(lines, route).reshape(-1)
    for at, value, unit in pieces(out, u):
        value[:] = unit * flat[at : at + value.size]
    return out


def _check(route: Route) -> None:
    check_route(route)
    if not route.codes:
        raise ValueError(f"{route} has no integer codes")


def _check_units(u: F32, tensors: Tensors) -> None:
    elements = sum(one.size for one in tensors)
    units = sum(-(-one.size // BUCKET) for one in tensors)
    check(f"{elements} elements have {units} units: u", u, np.float32, units)
