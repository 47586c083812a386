# SPDX-License-Identifier: Apache-2.0
"""Error of each route on one gradient tensor.

The error is measured because the number of bits does not predict it: it depends on the distribution
of the gradient (of a normal distribution, the sign with its scale loses 1 - 2/pi of the square).
"""

from __future__ import annotations

import numpy as np

from neuron_fabric.codec import F32, Route, maxima, pack, pack_codes, units, unpack, unpack_codes
from neuron_fabric.codec.draws import Key, draws


def route_errors(x: F32, key: Key) -> dict[str, float]:
    """Return the squared error of each route on the tensor of one worker.

    Args:
        x: the gradient, float32[n].
        key: key of the draws for stochastic rounding of integer codes.

    Returns:
        Squared norm of (decoded - x) by the name of the route; 0 for FP32.
    """
    errors = {}
    for route in Route:
        difference = _decoded(x, key, route) - x.astype(np.float64)
        errors[route.value] = float(difference @ difference)
    return errors


def _decoded(x: F32, key: Key, route: Route) -> F32:
    """Pack ``x`` for one route and decode the lines, with the scale of this worker alone."""
    if route.codes:
        u = units(maxima(x), route)
        packed = pack_codes(x, route, u, lambda first, count: draws(key, count, first))
        return unpack_codes(packed.lines, route, u, x.size)
    if route == Route.FP32:
        return x
    packed = pack(x, route)
    return unpack(packed.lines, route, x.size, scale=float(packed.scale))
