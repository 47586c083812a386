# SPDX-License-Identifier: Apache-2.0
"""Packing of a worker's gradient to lines, and decoding of votes and counts to gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuron_fabric.codec.array_checks import check, check_apart, check_float, check_number
from neuron_fabric.codec.engine import engine
from neuron_fabric.codec.numpy_engine import F32, U8, ScanResult, Tensors, parts
from neuron_fabric.codec.routes import LINE, Route, check_votes, elements_of_line, lines_of

MAX_WORKERS = 255
"""A count is a byte."""
MAX_PLANES = MAX_WORKERS.bit_length()
TERNARY_RATIO = 0.7
"""Gate threshold over the mean of |x|."""


@dataclass(frozen=True)
class Packed:
    """A packed tensor of one worker.

    Attributes:
        lines: uint8[n, 64]. All 0 if the tensor is not finite (it has no votes), except in FP32.
        scale: float32(mean of |x|), summed in float64; in G_TERNARY over the open gates, 0.0 if
            there is none. NaN if the tensor is not finite, 0.0 if it was not requested, 1.0 in FP32
            and for integer codes.
        zeros: number of elements that are 0; if all are, the worker abstains.
        finite: no NaN and no infinity.
        open_gates: number of elements with a vote: all in G_BINARY, 0 if the tensor is not finite.
    """

    lines: U8
    scale: np.float32
    zeros: int
    finite: bool
    open_gates: int


def pack(
    values: F32,
    route: Route,
    *,
    ratio: float = TERNARY_RATIO,
    scale: bool = True,
    out: U8 | None = None,
) -> Packed:
    """Pack contiguous float32[n] to lines of FP32, G_BINARY or G_TERNARY.

    Args:
        values: Gradient of one tensor.
        route: FP32, G_BINARY or G_TERNARY.
        ratio: Factor of the gate in G_TERNARY: |x| > float32(ratio) * float32(mean of |x|).
        scale: False skips the sum in G_BINARY; the scale is then 0.0.
        out: uint8[n, 64] to write the lines to, not sharing memory with ``values``.

    Raises:
        ValueError: Other arrays, ratio or route.
    """
    return pack_all([values], route, ratio=ratio, scale=scale, out=out)[0]


def pack_all(
    tensors: Tensors,
    route: Route,
    *,
    ratio: float = TERNARY_RATIO,
    scale: bool = True,
    out: U8 | None = None,
) -> list[Packed]:
    """Pack tensors, each from a new line on, by one call of the engine; see `pack`."""
    for one in tensors:
        check("values", one, np.float32, "n", dense=True)
    shape = (sum(lines_of(one.size, route) for one in tensors), LINE)
    if out is not None:
        check("out", out, np.uint8, *shape, out=True)
        check_apart("out", out, *tensors)
    lines = np.empty(shape, np.uint8) if out is None else out
    tensors = [np.require(one, requirements="A") for one in tensors]
    if route == Route.G_BINARY:
        seen = opened = engine().pack_binary(tensors, lines, scale)
    elif route == Route.G_TERNARY:
        if not check_float("ratio", ratio) >= 0:
            raise ValueError(f"ratio {ratio} is not 0 or more")
        seen = engine().look(tensors, True)
        with np.errstate(over="ignore"):  # an infinite threshold opens no gate
            means = [s.total / max(1, one.size) for s, one in zip(seen, tensors, strict=True)]
            limits = np.float32(ratio) * np.array(means).astype(np.float32)
        opened = engine().pack_ternary(tensors, limits, lines)
    elif route == Route.FP32:
        seen = opened = engine().look(tensors, False)
    else:
        raise ValueError(f"no packer for {route} here: `pack_codes` takes the scale of all workers")
    own = parts(tensors, lines, elements_of_line(route))
    return [_packed(route, *one) for one in zip(tensors, own, seen, opened, strict=True)]


def _packed(route: Route, values: F32, lines: U8, seen: ScanResult, opened: ScanResult) -> Packed:
    if route == Route.FP32:
        words = lines.reshape(-1).view("<u4")  # as bit patterns: a float move may quieten a NaN
        words[: values.size] = values.view(np.uint32)
        words[values.size :] = 0
        return Packed(lines, np.float32(1.0), seen.number, seen.finite, values.size)
    if not seen.finite:
        lines[:] = 0
        return Packed(lines, np.float32(np.nan), seen.number, False, 0)
    if route == Route.G_BINARY:
        mean = np.float32(seen.total / max(1, values.size))
        return Packed(lines, mean, seen.number, True, values.size)
    mean = np.float32(opened.total / max(1, opened.number))
    return Packed(lines, mean, seen.number, True, opened.number)


def unpack(
    lines: U8, route: Route, elements: int, *, scale: float = 1.0, out: F32 | None = None
) -> F32:
    """Decode vote lines uint8[n, 64] to float32[elements]: +scale, -scale, or 0.0 (G_TERNARY).

    Args:
        lines: Vote lines.
        route: G_BINARY or G_TERNARY.
        elements: Number of elements.
        scale: Magnitude of the result.
        out: float32[elements], contiguous, to write to; None for a new array.

    Raises:
        ValueError: There are too few lines, or other arrays or routes.
    """
    check("lines", lines, np.uint8, "n", LINE)
    gradient = _gradient(lines, len(lines), route, elements, out)
    unpack_all(lines, route, [check_float("scale", scale)], [gradient])
    return gradient


def unpack_all(lines: U8, route: Route, scales: Sequence[np.float32], outs: Tensors) -> None:
    """Decode vote lines to tensors, each from a new line and with its scale; see `unpack`."""
    codes = [[s, -s] if route == Route.G_BINARY else [s * 0, s * 0, s, -s] for s in scales]
    engine().unpack(np.ascontiguousarray(lines), route, np.array(codes, np.float32), outs)


def unpack_net(
    planes: U8,
    route: Route,
    elements: int,
    workers: int,
    *,
    scale: float = 1.0,
    out: F32 | None = None,
) -> F32:
    """Decode count planes to float32[elements]: scale * float32(plus - minus) / workers.

    It is computed in float32 and in this order.

    Args:
        planes: Count planes uint8[P, n, 64].
        route: G_BINARY or G_TERNARY.
        elements: Number of elements.
        workers: Number of contributors; with 0 every element is 0.0.
        scale: Factor of the result.
        out: float32[elements], contiguous, to write to; None for a new array.

    Raises:
        ValueError: There are too few lines, or other arrays, numbers or routes.
    """
    check("planes", planes, np.uint8, "P", "n", LINE)
    check_number("count planes", len(planes), 1, MAX_PLANES)
    workers = check_number("workers", workers, 0, MAX_WORKERS)
    gradient = _gradient(planes, planes.shape[1], route, elements, out)
    plus = np.arange(-256, 257) if route == Route.G_TERNARY else 2 * np.arange(256) - workers
    net = plus.astype(np.float32)
    values = (
        check_float("scale", scale) * net / np.float32(workers) if workers else np.zeros_like(net)
    )
    engine().unpack_net(np.ascontiguousarray(planes), route, values, gradient)
    return gradient


def check_lines(given: int, route: Route, *sizes: int) -> None:
    """Check that ``given`` lines can hold tensors of these sizes. Raise ValueError if not."""
    if given < (need := sum(lines_of(size, route) for size in sizes)):
        raise ValueError(f"{given} lines do not hold {sum(sizes)} elements, {need} would")


def _gradient(source: U8, lines: int, route: Route, elements: int, out: F32 | None) -> F32:
    """Return the checked ``out``, or a new float32[elements], for a decoder of ``source``.

    Raises:
        ValueError: ``lines`` lines do not hold so many elements, or ``out`` does not fit.
    """
    check_votes(route)
    elements = check_number("elements", elements, 0)
    check_lines(lines, route, elements)
    if out is None:
        return np.empty(elements, np.float32)
    check("out", out, np.float32, elements, out=True)
    check_apart("out", out, source)
    return out
