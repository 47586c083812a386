# SPDX-License-Identifier: Apache-2.0
"""What is measured of a tensor whose packed reduction ran beside FP32, as sums over its elements.

With g_w the gradient of worker w, m their mean in FP32, d the decoded gradient (shrink 1), all sums
in float64 and in one order, so that the same gradients give the same bits:

| sum | is |
|---|---|
| dot, mean2, decoded2 | <m, d>, <m, m>, <d, d> |
| zeros, gate | exact zeros, and elements with a vote: means over the workers |
| margin | abs(plus - minus) / W, scaled to 0 for random signs and 1 for one voice; codes: 0 |
| agree, weighted | elements where d has the sign of m; the same, each weighing abs(m) |
| mean1, mean4 | abs(m), and m to the 4th power |
| noise2 | squared norm of g_w - m, mean over the workers |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import Route
from neuron_fabric.profile.samples import MORE, SUMS
from neuron_fabric.runtime.monitor.consensus import random_margin

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
NAMES = (*SUMS, *MORE)
_PIECE = 1 << 16  # elements that stay in a cache


@dataclass(frozen=True)
class OfWorkers:
    """Sums over all workers: squared norms of their gradients, exact zeros, open gates by route."""

    own2: float
    zeros: float
    gates: Mapping[Route, float]


def decoded_vote(net: F32, route: Route, s: np.float32) -> F32:
    """The vote that counts decide, times ``s``: a tie is + in G_BINARY and 0 in G_TERNARY.
    ``net``: plus - minus of each element."""
    vote = np.sign(net)
    if route == Route.G_BINARY:
        vote[net == 0] = 1
    decoded: F32 = s * vote
    return decoded


def decoded_net(net: F32, s: np.float32, present: np.float32) -> F32:
    """As `codec.unpack_net`: s * net / workers present, in float32."""
    decoded: F32 = s * net / present
    return decoded


def shadow_sums(
    m: F32, d: F32, net: F32 | None, workers: int, route: Route, own: OfWorkers
) -> dict[str, float]:
    """All of a tensor and one decode of one route; ``net``: plus - minus of its votes, None: it has
    integer codes. A mean or decoded gradient that is not finite leaves zeros: a cosine of 0."""
    if not (np.isfinite(m).all() and np.isfinite(d).all() and np.isfinite(own.own2)):
        return dict.fromkeys(NAMES, 0.0)
    total = dict.fromkeys(NAMES, 0.0)
    for at in range(0, m.size, _PIECE):
        for name, value in _piece(m[at : at + _PIECE], d[at : at + _PIECE]).items():
            total[name] += value
    margin, least = 0.0, random_margin(workers)
    if net is not None and workers > 1:
        voices = sum(_sum(np.abs(net[at : at + _PIECE])) for at in range(0, net.size, _PIECE))
        margin = (voices / workers - least * m.size) / (1 - least)
    return {
        **total,
        "zeros": own.zeros / workers,
        "gate": own.gates[route] / workers,
        "margin": margin,
        "noise2": max(0.0, own.own2 / workers - total["mean2"]),
    }


def squared(x: F32) -> float:
    """The squared norm."""
    pieces = (x[at : at + _PIECE].astype(np.float64) for at in range(0, x.size, _PIECE))
    with np.errstate(over="ignore", invalid="ignore"):
        return sum((_sum(one * one) for one in pieces), 0.0)


def _piece(m: F32, d: F32) -> dict[str, float]:
    a, b = m.astype(np.float64), d.astype(np.float64)
    same, size, square = np.sign(a) == np.sign(b), np.abs(a), a * a
    return {
        "dot": _sum(a * b),
        "mean2": _sum(square),
        "decoded2": _sum(b * b),
        "agree": float(np.count_nonzero(same)),
        "weighted": _sum(size * same),
        "mean1": _sum(size),
        "mean4": _sum(square * square),
    }


def _sum(x: NDArray[np.floating]) -> float:
    """Not a dot product: that goes by the memory's alignment."""
    return float(np.sum(x, dtype=np.float64))
