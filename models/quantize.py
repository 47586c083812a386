# SPDX-License-Identifier: Apache-2.0
"""Gradients to integer codes and sums of codes to means: one scale a bucket, for all workers.

spec: controller, second edition §7. A bucket is 1,024 elements of a tensor in C order, the last one
may be shorter. Its scale u is the largest |x| of all workers over 2^(k-1) - 1, rounded up to a
float32, so that no element has to be clipped; a code is floor(x / u + r), with r = 1/2 (nearest)
or uniform in [0, 1) (stochastic: its mean is x). A bucket of zeros has u = 0 and codes 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.line_packing import F32, I16, Mode, code_range

BUCKET = 1024
"""Elements that share a scale."""


def buckets(elements: int) -> int:
    """Buckets of a tensor."""
    return -(-elements // BUCKET)


def bucket_maxima(x: ArrayLike) -> F32:
    """float32[..., n] of elements that begin with a bucket to the largest |x| of each bucket.

    float32[buckets]; the maximum is over all leading dimensions. ValueError for a NaN or infinity.
    """
    values = np.abs(np.asarray(x, dtype=np.float32))
    if not np.isfinite(values).all():
        raise ValueError("a value that is not finite has no code")
    flat = values.max(axis=tuple(range(values.ndim - 1)), initial=0.0)
    out: F32 = np.maximum.reduceat(flat, np.arange(0, flat.size, BUCKET)) if flat.size else flat
    return out


def scales(maxima: ArrayLike, mode: Mode) -> F32:
    """The scale u of each bucket from its largest |x|: the smallest float32 that needs no clip."""
    largest = np.asarray(maxima, dtype=np.float32)
    top = code_range(mode)[1]
    u = (largest.astype(np.float64) / top).astype(np.float32)
    short = u.astype(np.float64) * top < largest
    out: F32 = np.where(short, np.nextafter(u, np.float32(np.inf)), u).astype(np.float32)
    return out


def scale_of_each(u: ArrayLike, elements: int, first: int = 0) -> F32:
    """u of ``elements`` elements from number ``first`` on; ``u`` begins with that one's bucket."""
    per_bucket = np.asarray(u, dtype=np.float32)
    inside = first % BUCKET
    return np.repeat(per_bucket, BUCKET)[inside : inside + elements]


def quantize(x: ArrayLike, u: ArrayLike, mode: Mode, draws: ArrayLike | None = None) -> I16:
    """Codes int16[...] of float32[...] with the scale ``u`` of each element (broadcast).

    ``draws``: uniform in [0, 1), one an element (stochastic rounding); None: to nearest, half up.
    """
    values = np.asarray(x, dtype=np.float32).astype(np.float64)
    unit = np.asarray(u, dtype=np.float32).astype(np.float64)
    ratio = np.divide(values, unit, out=np.zeros_like(values), where=unit > 0)
    r: NDArray[np.float64] | float = 0.5 if draws is None else np.asarray(draws, np.float64)
    codes = np.clip(np.floor(ratio + r), *code_range(mode))
    return codes.astype(np.int16)


def mean_of_sums(sums: ArrayLike, u: ArrayLike, contributions: int) -> F32:
    """The mean gradient float32[...]: u * sum / m, rounded once; 0 where nobody has contributed."""
    exact = np.asarray(u, np.float32).astype(np.float64) * np.asarray(sums, np.float64)
    return (exact / max(1, contributions)).astype(np.float32)
