# SPDX-License-Identifier: Apache-2.0
"""Packing of a worker's gradient to lines, with its scale, zeros and finiteness for the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_fabric.codec.array_checks import check, check_apart, check_float
from neuron_fabric.codec.engine import engine
from neuron_fabric.codec.numpy_engine import F32, U8
from neuron_fabric.codec.routes import LINE, Route, lines_of

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
    check("values", values, np.float32, "n", dense=True)
    shape = (lines_of(values.size, route), LINE)
    if out is not None:
        check("out", out, np.uint8, *shape, out=True)
        check_apart("out", out, values)
    lines = np.empty(shape, np.uint8) if out is None else out
    values = np.require(values, requirements="A")
    if route == Route.G_BINARY:
        return _binary(values, lines, scale)
    if route == Route.G_TERNARY:
        if not check_float("ratio", ratio) >= 0:
            raise ValueError(f"ratio {ratio} is not 0 or more")
        return _ternary(values, lines, ratio)
    if route == Route.FP32:
        return _fp32(values, lines)
    raise ValueError(f"no packer for {route} here: `pack_codes` takes the scale of all workers")


def _binary(values: F32, lines: U8, scale: bool) -> Packed:
    seen = engine().pack_binary(values, lines, scale)
    if not seen.finite:
        return _without_votes(lines, seen.number)
    mean = np.float32(seen.total / max(1, values.size))
    return Packed(lines, mean, seen.number, True, values.size)


def _ternary(values: F32, lines: U8, ratio: float) -> Packed:
    seen = engine().look(values, True)
    if not seen.finite:
        return _without_votes(lines, seen.number)
    with np.errstate(over="ignore"):  # an infinite threshold opens no gate
        threshold = np.float32(ratio) * np.float32(seen.total / max(1, values.size))
    opened = engine().pack_ternary(values, threshold, lines)
    mean = np.float32(opened.total / max(1, opened.number))
    return Packed(lines, mean, seen.number, True, opened.number)


def _fp32(values: F32, lines: U8) -> Packed:
    words = lines.reshape(-1).view("<u4")  # as bit patterns: a float move may quieten a NaN
    words[: values.size] = values.view(np.uint32)
    words[values.size :] = 0
    seen = engine().look(values, False)
    return Packed(lines, np.float32(1.0), seen.number, seen.finite, values.size)


def _without_votes(lines: U8, zeros: int) -> Packed:
    lines[:] = 0
    return Packed(lines, np.float32(np.nan), zeros, False, 0)
