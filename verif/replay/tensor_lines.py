# SPDX-License-Identifier: Apache-2.0
"""Conversion of tensors to lines, and of returned lines to tensors.

spec: capture spec; controller, second edition §7. A tensor is flattened in C order and starts on a
new line; the unused codes of its last line are 0.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models import line_packing
from models.int_sums import I32, sums_of_planes, sums_of_views
from models.integer_codes import BUCKET, buckets
from models.line_packing import F32, U8
from models.modes import Mode, elements_per_line
from models.votes import planes_to_counts
from neuron_fabric import codec
from verif.replay.plan import Lines

TERNARY_RATIO = 0.7
OUTPUTS: dict[Mode, dict[str, type[np.generic]]] = {
    Mode.G_BINARY: {"vote": np.int8, "plus": np.uint8},
    Mode.G_TERNARY: {"vote": np.int8, "plus": np.uint8, "minus": np.uint8},
    Mode.G_INT4: {"sum": np.int16, "mean": np.float32, "scale": np.float32},
    Mode.G_INT8: {"sum": np.int16, "mean": np.float32, "scale": np.float32},
    Mode.FP32: {"sum": np.float32},
}
"""Outputs of a replay by route: suffix of the name, and type."""
SUM_PIECE = 1 << 20
"""Elements per partial sum of a mean, so that reading piece by piece gives the same result."""


def ternary_threshold(x: ArrayLike, ratio: float = TERNARY_RATIO) -> np.float32:
    """Return the gate of one worker's G_TERNARY tensor: float32(ratio) * float32(mean |x|).

    The mean is summed in float64. The gate of an empty tensor is 0.0.
    """
    values = np.ascontiguousarray(np.asarray(x, dtype=np.float32)).reshape(-1)
    pieces = range(0, values.size, SUM_PIECE)
    total = sum(absolute_sum(values[at : at + SUM_PIECE]) for at in pieces)
    return threshold_of(total, values.size, ratio)


def absolute_sum(piece: F32) -> float:
    """Return the sum of |x| in float64 over one piece of at most SUM_PIECE elements."""
    return float(np.abs(piece).astype(np.float64).sum())


def threshold_of(total: float, count: int, ratio: float = TERNARY_RATIO) -> np.float32:
    """Return the gate of a G_TERNARY tensor from the sum of |x| over all its pieces; 0.0 if it is
    empty.

    Args:
        total: Sum of `absolute_sum` of all pieces, in order.
        count: Number of elements.
        ratio: Gate relative to the mean magnitude.
    """
    if not count:
        return np.float32(0.0)
    return np.float32(np.float32(ratio) * np.float32(total / count))


def pack_tensor(x: ArrayLike, mode: Mode, ratio: float = TERNARY_RATIO) -> U8:
    """Pack one worker's tensor float32[*shape] as lines uint8[n, 64].

    Args:
        x: Tensor.
        mode: Route: G_BINARY, G_TERNARY or FP32.
        ratio: Gate of G_TERNARY relative to the mean magnitude.
    """
    return pack_stretch(x, mode, ternary_threshold(x, ratio) if mode == Mode.G_TERNARY else 0.0)


def pack_stretch(x: ArrayLike, mode: Mode, threshold: float | np.float32) -> U8:
    """Pack a stretch of one worker's tensor, which begins on a line, as lines uint8[n, 64].

    Args:
        x: Elements.
        mode: Route: G_BINARY, G_TERNARY or FP32; integer codes have a scale that all workers share
            (`pack_shared`).
        threshold: Gate of the whole tensor, for G_TERNARY.
    """
    if mode == Mode.G_TERNARY:
        return line_packing.pack_ternary(x, threshold)
    return {Mode.G_BINARY: line_packing.pack_binary, Mode.FP32: line_packing.pack_fp32}[mode](x)


def shared_scales(x: F32, mode: Mode) -> F32:
    """Return the scale u of each bucket for integer codes of float32[W, elements],
    float32[buckets].

    Raises:
        ValueError: An element is NaN or infinite.
    """
    largest = np.max([codec.maxima(own) for own in x], axis=0)
    if not np.isfinite(largest).all():
        raise ValueError("a value that is not finite has no code")
    return codec.units(largest, codec.Route(mode.name))


def scale_of_each(u: F32, elements: int, first: int = 0) -> F32:
    """Return the scale of each of some consecutive elements, float32[elements].

    Args:
        u: Scales of the buckets, from that of the first element on.
        elements: Number of elements.
        first: Number of the first element in its tensor.
    """
    inside = first % BUCKET
    return np.repeat(u, BUCKET)[inside : inside + elements]


def mean_of_sums(sums: I32, u: F32, contributions: int) -> F32:
    """Return u * sum / contributions as float32, rounded once; 0 without contributions.

    Args:
        sums: Sums of codes, 0 without contributions.
        u: Scale of each sum.
        contributions: Number of workers that contributed.
    """
    return (u.astype(np.float64) * sums / max(1, contributions)).astype(np.float32)


def pack_shared(
    x: F32,
    mode: Mode,
    u: F32 | None = None,
    draws: NDArray[np.float64] | None = None,
    first: int = 0,
) -> U8:
    """Pack tensors of all workers as lines of G_INT4 or G_INT8, uint8[W, n, 64].

    Args:
        x: float32[W, *shape], or a stretch of such tensors that begins with a line.
        mode: G_INT4 or G_INT8.
        u: Scales of the buckets from that of the first element on; None: of these tensors.
        draws: float64[W, elements], uniform in [0, 1), for stochastic rounding; None: to nearest.
        first: Number of the first element in its tensor.
    """
    flat = np.asarray(x, dtype=np.float32).reshape(len(x), int(np.prod(x.shape[1:])))
    inside = first % BUCKET  # the codec begins with a bucket
    flat = np.pad(flat, ((0, 0), (inside, 0)))
    u = shared_scales(flat, mode) if u is None else u
    skipped = inside // elements_per_line(mode)
    lines = []
    for worker, own in enumerate(flat):
        drawn = None if draws is None else _slices(np.pad(draws[worker], (inside, 0)))
        lines.append(codec.pack_codes(own, codec.Route(mode.name), u, drawn).lines[skipped:])
    return np.stack(lines)


def _slices(draws: NDArray[np.float64]) -> Callable[[int, int], NDArray[np.float64]]:
    return lambda first, count: draws[first : first + count]


def output_shape(suffix: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an output of a tensor of ``shape``.

    It is one element per bucket for the suffix "scale", else the shape of the tensor.
    """
    return (buckets(int(np.prod(shape, dtype=np.int64))),) if suffix == "scale" else shape


def sums_of_lines(route: Mode, mode: Mode, lines: Lines, workers: int) -> I32:
    """Return the sums of integer codes, int32[n, elements per line], from returned lines.

    They are taken from the view with the fewest lines: SUM8, SUM16, else the count planes.

    Args:
        route: G_INT4 or G_INT8.
        mode: Mode of the region.
        lines: Returned lines.
        workers: Number of workers, all of which contributed.
    """
    if len(lines.sum8):
        return sums_of_views(lines.sum8, "<i1")
    if len(lines.sum16):
        return sums_of_views(lines.sum16, "<i2")
    zeros_of = workers if mode == Mode.G_BINARY else None
    return sums_of_planes(lines.planes, route, zeros_of=zeros_of)


def sum_outputs(sums: I32, shape: tuple[int, ...], u: F32, workers: int) -> dict[str, NDArray[Any]]:
    """Return the outputs of a stretch of integer codes: {"sum": int16, "mean": float32}.

    Args:
        sums: Sums int32[n, elements per line].
        shape: Shape of both outputs.
        u: Scale of each element.
        workers: Number of workers.
    """
    flat = sums.reshape(-1)[: u.size]
    return {
        "sum": flat.astype(np.int16).reshape(shape),
        "mean": mean_of_sums(flat, u, workers).reshape(shape),
    }


def outputs_from_lines(
    mode: Mode, shape: tuple[int, ...], result: U8, planes: U8 | None = None
) -> dict[str, NDArray[Any]]:
    """Return the outputs of a tensor of votes or FP32 sums from its returned lines.

    Args:
        mode: Route.
        shape: Shape of the tensor.
        result: uint8[n, 64], selector 0.
        planes: uint8[p, n, 64], selectors 8 .. 8 + p - 1; missing planes are 0. None for FP32.

    Returns:
        {"vote": int8, "plus": uint8} and for G_TERNARY "minus": uint8, or {"sum": float32}.
    """
    count = math.prod(shape)
    if planes is None:
        return {"sum": line_packing.unpack_fp32(result, count).reshape(shape)}
    counts, out = planes_to_counts(planes), dict[str, NDArray[Any]]()
    if mode == Mode.G_BINARY:
        out |= {"vote": line_packing.unpack_binary(result, count), "plus": counts}
    else:
        out |= {
            "vote": line_packing.unpack_ternary(result, count),
            "plus": counts[:, 0::2],
            "minus": counts[:, 1::2],
        }
    types = OUTPUTS[mode]
    return {
        name: values.reshape(-1)[:count].astype(types[name]).reshape(shape)
        for name, values in out.items()
    }
