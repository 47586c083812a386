# SPDX-License-Identifier: Apache-2.0
"""Votes and counts to gradients, in float32 and in a fixed order: the same bits on every rank.

With a_w the scale of worker w, m the workers present, v the vote and c = plus - minus:

    A = (a_0 + a_1 + ... in the order of workers) / m;  s = float32(A * shrink)
    vote: s * v        net: s * float32(c) / m

Integer codes have no s: their units u are common already, and with c the sum of codes the gradient
is float32(u * c / m).

The scale of a tensor follows its gradients, so loss scaling and accumulation come out right without
being told. A fixed scale (``fixed:0.01``) takes the place of A.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import (
    Packed,
    Route,
    lines_of,
    unpack,
    unpack_codes,
    unpack_net,
    unpack_sums,
)
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.runtime.backends.interface import Reduced

F32 = NDArray[np.float32]
MEAN_ABS = "mean_abs"


def own_scale(values: F32, packed: Packed, how: PhaseRoute) -> np.float32:
    """a_w: what this worker says of its tensor ``values``, packed; NaN where it is not finite."""
    if how.fixed is not None:
        return np.float32(1)
    if how.scale == MEAN_ABS or not packed.finite:
        return packed.scale
    wide = values.astype(np.float64)
    return np.float32(np.sqrt(np.dot(wide, wide) / max(1, values.size)))


def common_scale(total: np.float32, present: np.float32, how: PhaseRoute) -> np.float32:
    """s, from the sidecar's sums: 0 where nobody has a vote, NaN where a worker is not finite."""
    if present == 0:
        return np.float32(0)
    if not np.isfinite(total):
        return np.float32(np.nan)
    size = total / present if how.fixed is None else np.float32(how.fixed)
    return np.float32(size * np.float32(how.shrink))


def decode(
    reduced: Reduced,
    route: Route,
    net: bool,
    first: int,
    out: F32,
    s: np.float32,
    present: np.float32,
    u: F32 | None = None,
    workers: int = 0,
) -> None:
    """The tensor that begins at line ``first``, scaled by ``s``, into ``out`` float32[elements].
    ``u``: the units of integer codes, which ``workers`` have agreed on."""
    if not np.isfinite(s) or present == 0:
        out[:] = np.nan if present else 0  # 0 where all abstain
        return
    lines = slice(first, first + lines_of(out.size, route))
    if u is not None:
        unpack_sums(reduced.planes[:, lines], route, u, workers, int(present), out)
    elif net:
        planes = reduced.planes[:, lines]
        unpack_net(planes, route, out.size, int(present), scale=float(s), out=out)
    else:
        unpack(reduced.lines[lines], route, out.size, scale=float(s), out=out)


def own_votes(packed: Packed, route: Route, elements: int, u: F32 | None = None) -> F32:
    """What this worker has voted: +1.0, -1.0, and 0.0 in G_TERNARY; with the units ``u`` of its
    codes, what these stand for."""
    if u is not None:
        return unpack_codes(packed.lines, route, u, elements)
    return unpack(packed.lines, route, elements)
