# SPDX-License-Identifier: Apache-2.0
"""Ordered binary32 sum of the FP32 path, vectorised.

It uses the float32 addition of this machine, which rounds to nearest even and keeps subnormals
(IEEE 754); ``models/test_fp32.py`` compares it with exact fractions. Spec: controller §4.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.line_packing import LINE_BYTES, U8, contributions

CANONICAL_NAN = 0x7FC00000
U32 = NDArray[np.uint32]


def _is_nan(bits: U32) -> NDArray[np.bool_]:
    return (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)


def canonical(bits: U32) -> U32:
    """Return uint32[...] with every NaN replaced by 7FC00000h."""
    return np.where(_is_nan(bits), np.uint32(CANONICAL_NAN), bits).astype(np.uint32)


def add_bits(a: U32, b: U32) -> U32:
    """Add bit patterns element-wise as binary32: round to nearest even, NaN becomes 7FC00000h."""
    with np.errstate(all="ignore"):
        total = np.add(a.view(np.float32), b.view(np.float32), dtype=np.float32)
    return canonical(total.view(np.uint32))


def ordered_sum(lines: ArrayLike, present: ArrayLike | None = None) -> U8:
    """Return the sum of FP32 lines uint8[W, n, 64] in worker order, as lines uint8[n, 64].

    ``present`` bool[W, n] marks the contributors (None: all). A missing contribution is skipped,
    which differs from adding +0.0 (a single -0.0 stays -0.0). A line without contributions is +0.0.
    """
    array, mask = contributions(lines, present)
    n = array.shape[1]
    words = np.ascontiguousarray(array).view("<u4").astype(np.uint32)
    acc = np.zeros((n, LINE_BYTES // 4), dtype=np.uint32)
    started = np.zeros(n, dtype=np.bool_)
    for x, here in zip(words, mask, strict=True):
        total = add_bits(acc, x)
        acc = np.where(here[:, None], np.where(started[:, None], total, canonical(x)), acc).astype(
            np.uint32
        )
        started |= here
    return acc.astype("<u4").view(np.uint8).reshape(n, LINE_BYTES)
