# SPDX-License-Identifier: Apache-2.0
"""FP32 sum of the workers' gradients, added in the order of workers."""

from __future__ import annotations

import numpy as np

from neuron_fabric.codec.numpy_engine import F32


def ordered_sum(rows: F32) -> F32:
    """Return the sum of float32[W, ...] over the first axis, added in the order of workers.

    A NaN gets the bits that the device gives it, 7FC00000h.
    """
    total: F32 = rows[0].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for row in rows[1:]:
            total += row
    total[np.isnan(total)] = np.nan
    return total
