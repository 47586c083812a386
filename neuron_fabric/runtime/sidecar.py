# SPDX-License-Identifier: Apache-2.0
"""What each worker says of its tensors beside their lines: scale, presence, and "not finite".

Two rows of float32, a column a tensor: the worker's scale and 1.0, or 0.0 and 0.0 where it
abstains. A plain worker-ordered sum then gives the two numbers that decoding asks for, so that
anything that adds FP32 lines can carry it: 16 tensors take a line of scales and a line of presence.
A tensor that is not finite has the scale NaN, which no sum loses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import Packed

F32 = NDArray[np.float32]


def column(packed: Packed, elements: int, scale: np.float32) -> tuple[float, float]:
    """A tensor of ``elements``, packed, with the ``scale`` that this worker gives it."""
    if not packed.finite:
        return np.nan, 1.0
    if packed.zeros == elements or not packed.open_gates:
        return 0.0, 0.0
    return float(scale), 1.0


def sidecar(columns: Sequence[tuple[float, float]]) -> F32:
    """float32[2, T]: scales, presence."""
    return np.array(columns, np.float32).reshape(-1, 2).T.copy()


def ordered_sum(rows: F32) -> F32:
    """float32[W, ...] added in the order of workers, float32[...]; what is no number has the bits
    that the device gives it, 7FC00000h."""
    total = rows[0].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for row in rows[1:]:
            total += row
    total[np.isnan(total)] = np.nan
    return total
