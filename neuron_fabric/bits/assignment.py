# SPDX-License-Identifier: Apache-2.0
"""Which route each layer takes: of all routes, by measured errors and modelled costs.

All of it is a function of its arguments, without a random number: ranks that are given the same
reduced errors decide the same. A route that a reducer lacks is no option of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ERROR_BUCKETS = 10_000
"""Steps that the error of the whole model is counted in, as in L-GreCo."""
HYSTERESIS = 0.02
"""Share of the cost that another assignment has to save."""
_ROUNDS = 100


@dataclass(frozen=True)
class Option:
    """What a route does to a layer: squared error, and cost in bytes or seconds."""

    error: float
    cost: float


@dataclass(frozen=True)
class Layer:
    """``norm``: of the 100 largest accumulated |g|, what `kmeans` goes by."""

    name: str
    elements: int
    options: Mapping[str, Option]
    norm: float = 0.0


Assignment = dict[str, str]
"""Route by layer."""


def uniform(layers: Sequence[Layer], route: str) -> Assignment:
    """The same route everywhere. ValueError for a layer that lacks it."""
    for layer in layers:
        if route not in layer.options:
            raise ValueError(f"layer {layer.name} has no route {route}")
    return {layer.name: route for layer in layers}


def error_of(layers: Sequence[Layer], chosen: Mapping[str, str]) -> float:
    """Sum of the errors."""
    return sum(layer.options[chosen[layer.name]].error for layer in layers)


def cost_of(layers: Sequence[Layer], chosen: Mapping[str, str]) -> float:
    """Sum of the costs."""
    return sum(layer.options[chosen[layer.name]].cost for layer in layers)


def lgreco(layers: Sequence[Layer], reference: Mapping[str, str], alpha: float = 1.0) -> Assignment:
    """The cheapest assignment whose error is at most ``alpha`` times that of ``reference``.

    By dynamic programming over layers and `ERROR_BUCKETS` steps of the allowed error; errors are
    rounded up to a step, so the bound is kept. ``reference`` itself where nothing cheaper is found.
    """
    allowed = alpha * error_of(layers, reference)
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
    if not least[place] < cost_of(layers, reference):
        return dict(reference)
    chosen: Assignment = {}
    for layer, rounded, (names, best) in zip(
        reversed(layers), reversed(steps), reversed(taken), strict=True
    ):
        route = names[best[place]]
        chosen[layer.name] = route
        place -= rounded[route]
    return {layer.name: chosen[layer.name] for layer in layers}


def _steps(layer: Layer, allowed: float) -> dict[str, int]:
    """Errors in steps, rounded up; those beyond what is allowed at one step more."""
    found = {}
    for name, option in layer.options.items():
        if option.error <= 0:
            found[name] = 0
        elif option.error > allowed:
            found[name] = ERROR_BUCKETS + 1
        else:
            found[name] = int(np.ceil(option.error / allowed * ERROR_BUCKETS))
    return found


def kmeans(layers: Sequence[Layer], routes: Sequence[str] = ("Q2", "Q3", "Q4")) -> Assignment:
    """Clusters of (elements, norm), as many as ``routes``, which go from few bits to many: large
    layers with small norms get few. As CGX does it, after the warm-up.

    Both axes are scaled to [0, 1]; clusters start from layers at equal ranks of norm - elements.
    """
    if not layers:
        return {}
    points = np.array([[layer.elements, layer.norm] for layer in layers], np.float64)
    spans = np.ptp(points, axis=0)
    points = (points - points.min(axis=0)) / np.where(spans > 0, spans, 1)
    order = np.argsort(points[:, 1] - points[:, 0], kind="stable")
    ranks = np.linspace(0, len(layers) - 1, len(routes)).round().astype(int)
    centres = points[order[ranks]]
    nearest = np.zeros(len(layers), np.intp)
    for _ in range(_ROUNDS):
        nearest = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        moved = np.array(
            [
                points[nearest == n].mean(axis=0) if (nearest == n).any() else centre
                for n, centre in enumerate(centres)
            ]
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    rank = np.argsort(np.argsort(centres[:, 1] - centres[:, 0], kind="stable"), kind="stable")
    return {layer.name: routes[rank[n]] for layer, n in zip(layers, nearest, strict=True)}


def settle(
    layers: Sequence[Layer],
    now: Mapping[str, str],
    wanted: Mapping[str, str],
    allowed: float,
) -> Assignment:
    """``wanted`` where it saves `HYSTERESIS` of the cost, or ``now`` exceeds the allowed error or
    has a route that is no option any more; else ``now``."""
    known = all(now.get(layer.name) in layer.options for layer in layers)
    if not known or error_of(layers, now) > allowed:
        return dict(wanted)
    saves = cost_of(layers, wanted) <= (1 - HYSTERESIS) * cost_of(layers, now)
    return dict(wanted if saves else now)
