# SPDX-License-Identifier: Apache-2.0
"""Errors of routes on the gradients of the shipped capture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuron_fabric.bits import Key, Layer, Option, lgreco, route_errors, uniform
from neuron_fabric.bits.assignment import cost_of
from neuron_fabric.capture import Capture

CAPTURE = Path(__file__).parents[1] / "captures" / "digits-resnet-8x"
FIGURES = {"Q2": 1.06, "Q3": 0.46, "Q4": 0.21, "Q8": 0.013, "G_BINARY": 0.70, "G_TERNARY": 0.54}
"""Norm of the error divided by that of the gradient, one worker, buckets of 512."""
BITS = {"G_BINARY": 1, "G_TERNARY": 2, "FP32": 32} | {f"Q{bits}": bits for bits in range(2, 9)}


def test_two_bits_lose_more_than_the_devices_one() -> None:
    capture = Capture.open(CAPTURE)
    ratios: dict[str, list[float]] = {name: [] for name in FIGURES}
    for step in capture.steps:
        layers, norm = [], 0.0
        for name, workers in capture.load(step).items():
            x = np.ascontiguousarray(workers[0]).reshape(-1)
            if x.size < 1024:
                continue
            norm += float(x.astype(np.float64) @ x)
            errors = route_errors(x, Key(1, step, 0, name))
            options = {route: Option(one, x.size * BITS[route]) for route, one in errors.items()}
            layers.append(Layer(name, x.size, options))
        for route, values in ratios.items():
            error = sum(layer.options[route].error for layer in layers)
            values.append((error / norm) ** 0.5)
        chosen = lgreco(layers, uniform(layers, "Q4"))
        assert cost_of(layers, chosen) <= 4 * sum(layer.elements for layer in layers)
    for route, figure in FIGURES.items():
        assert np.mean(ratios[route]) == pytest.approx(figure, rel=0.1)
    assert min(ratios["Q2"]) > max(ratios["G_BINARY"])
