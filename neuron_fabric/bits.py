# SPDX-License-Identifier: Apache-2.0
"""Bit allocation: the route of each layer, chosen from measured errors and modelled costs.

The method is L-GreCo's (arXiv 2210.17357); formats and figures are this project's. The rule of a
profile calls it with the errors of a calibration, the monitor with those of a training (spec:
runtime section 6). Every function is deterministic, so ranks with the same reduced errors choose
the same routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import F32, Route, maxima, pack, pack_codes, units, unpack, unpack_codes
from neuron_fabric.codec.draws import Key

ERROR_BUCKETS = 10_000
"""Resolution of the error of the whole model in the dynamic program, as in L-GreCo."""
HYSTERESIS = 0.02
"""Least saving, as a share of the cost, for which an assignment is replaced."""


@dataclass(frozen=True)
class Option:
    """One route for a layer: the error of its decoded gradient, and its cost in bits."""

    error: float
    cost: float


@dataclass(frozen=True)
class Layer:
    """A layer with its options by name of route."""

    name: str
    options: Mapping[str, Option]


Assignment = dict[str, str]
"""Route by layer."""


def error_of(layers: Sequence[Layer], chosen: Mapping[str, str]) -> float:
    """Return the sum of the errors of an assignment, which gives the route by layer."""
    return sum(layer.options[chosen[layer.name]].error for layer in layers)


def cost_of(layers: Sequence[Layer], chosen: Mapping[str, str]) -> float:
    """Return the sum of the costs of an assignment, which gives the route by layer."""
    return sum(layer.options[chosen[layer.name]].cost for layer in layers)


def lgreco(layers: Sequence[Layer], allowed: float) -> Assignment:
    """Return the cheapest assignment whose error is at most ``allowed``.

    The dynamic program of L-GreCo (arXiv 2210.17357, algorithm 1): ``least[e]`` is the least cost
    of the layers so far with a total error of exactly ``e`` steps, of which `ERROR_BUCKETS` make
    the allowed error. Errors are rounded up to a step, so a total within `ERROR_BUCKETS` steps is
    within the bound. The routes are read back from the argmin of each layer, from the last one on.

    Args:
        layers: layers with their options, one of which has an error of 0 (FP32).
        allowed: bound of the sum of the errors.

    Returns:
        Route by the name of the layer.
    """
    least = np.full(ERROR_BUCKETS + 1, np.inf)
    least[0] = 0.0
    taken: list[tuple[list[str], NDArray[np.int16]]] = []
    steps = [_steps(layer, allowed) for layer in layers]
    for layer, rounded in zip(layers, steps, strict=True):
        names = sorted(layer.options)
        table = np.full((len(names), least.size), np.inf)
        for row, name in zip(table, names, strict=True):
            step = rounded[name]
            if step <= ERROR_BUCKETS:
                row[step:] = least[: least.size - step] + layer.options[name].cost
        best = table.argmin(axis=0)
        taken.append((names, best.astype(np.int16)))
        least = np.take_along_axis(table, best[None], axis=0)[0]
    place = int(least.argmin())
    chosen: Assignment = {}
    for layer, rounded, (names, best) in zip(
        reversed(layers), reversed(steps), reversed(taken), strict=True
    ):
        route = names[best[place]]
        chosen[layer.name] = route
        place -= rounded[route]
    return {layer.name: chosen[layer.name] for layer in layers}


def _steps(layer: Layer, allowed: float) -> dict[str, int]:
    """Return the error of each option by route, in steps of ``allowed / ERROR_BUCKETS``.

    Errors are rounded up; those above ``allowed`` are ERROR_BUCKETS + 1.
    """
    found = {}
    for name, option in layer.options.items():
        if option.error <= 0:
            found[name] = 0
        elif option.error > allowed:
            found[name] = ERROR_BUCKETS + 1
        else:
            found[name] = int(np.ceil(option.error / allowed * ERROR_BUCKETS))
    return found


def settle(
    layers: Sequence[Layer],
    now: Mapping[str, str],
    wanted: Mapping[str, str],
    allowed: float,
) -> Assignment:
    """Choose between the current and a new assignment, with hysteresis.

    Args:
        layers: layers with the options of today.
        now: current assignment.
        wanted: new assignment.
        allowed: bound of the sum of the errors.

    Returns:
        A copy of ``wanted`` if its cost is at least the share `HYSTERESIS` lower, if ``now``
        exceeds the bound, or if ``now`` has a route that is no longer an option; else of ``now``.
    """
    known = all(now.get(layer.name) in layer.options for layer in layers)
    if not known or error_of(layers, now) > allowed:
        return dict(wanted)
    saves = cost_of(layers, wanted) <= (1 - HYSTERESIS) * cost_of(layers, now)
    return dict(wanted if saves else now)


# Error of each route on one gradient tensor.
#
# The error is measured because the number of bits does not predict it: it depends on the
# distribution of the gradient (of a normal distribution, the sign with its scale loses 1 - 2/pi
# of the square).


def route_errors(x: F32, key: Key, routes: Iterable[Route]) -> dict[str, float]:
    """Return the squared error of routes on the tensor of one worker.

    Args:
        x: the gradient, float32[n], finite.
        key: key of the draws for stochastic rounding of integer codes.
        routes: the routes.

    Returns:
        Squared norm of (decoded - x) by the name of the route; 0 for FP32.
    """
    errors = {}
    for route in routes:
        difference = _decoded(x, key, route) - x.astype(np.float64)
        errors[route.value] = float(difference @ difference)
    return errors


def _decoded(x: F32, key: Key, route: Route) -> F32:
    """Pack ``x`` for one route and return the decoded lines, float32[n].

    The scale is that of this worker alone.
    """
    if route.codes:
        u = units(maxima(x), route)
        packed = pack_codes(x, route, u, key)
        return unpack_codes(packed.lines, route, u, x.size)
    if route == Route.FP32:
        return x
    packed = pack(x, route)
    return unpack(packed.lines, route, x.size, scale=float(packed.scale))
