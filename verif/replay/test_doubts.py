# SPDX-License-Identifier: Apache-2.0
"""Warnings: routes that are a guess, and tensors of zeros."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from models.formats import Mode
from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec
from verif.replay.doubts import ZeroTensors, route_doubts
from verif.replay.routing import assign_routes, parse_routes

REAL = Path(__file__).parents[2] / "captures" / "digits-resnet-8x"
GPT = [
    TensorSpec("transformer.wte.weight", (40, 16)),
    TensorSpec("transformer.h.0.mlp.weight", (16, 16)),
    TensorSpec("transformer.ln_f.weight", (16,)),
]


def doubts(
    tensors: Sequence[TensorSpec], routes: Sequence[str] = (), modules: tuple[ModuleSpec, ...] = ()
) -> list[str]:
    capture = Capture(Path("c"), "m", 1, (0,), tuple(tensors), modules=modules)
    patterns = parse_routes(routes)
    return route_doubts(capture, assign_routes(tensors, patterns, modules), patterns)


def test_a_tied_head_in_a_capture_that_tells_no_modules() -> None:
    head, embedding = doubts(GPT)
    assert "its last layer 'transformer.ln_f' has no weight matrix" in head
    assert "'transformer.wte.weight' is named like an embedding and goes by G_BINARY" in embedding
    assert doubts(GPT, ["*wte*=FP32"]) == []
    assert doubts(GPT, ["*=G_BINARY"]) == []  # as it was asked for


def test_a_head_that_does_not_come_last() -> None:
    tensors = [TensorSpec("lm_head.weight", (9, 4)), TensorSpec("body.weight", (4, 4))]
    (line,) = doubts(tensors)
    assert "'lm_head.weight' is named like a head" in line


def test_no_doubt() -> None:
    """The shipped capture, whose last layer has a matrix; one that tells its modules."""
    shipped = Capture.open(REAL)
    assert route_doubts(shipped, assign_routes(shipped.tensors)) == []
    modules = tuple(ModuleSpec(spec.name, "Linear", (spec.name,)) for spec in GPT)
    assert doubts(GPT, modules=modules) == []


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_tensors_of_zeros(zero: float) -> None:
    values = np.ones((3, 2, 2), dtype=np.float32)
    values[1] = zero
    routes = {"a": Mode.G_BINARY, "b": Mode.G_TERNARY, "c": Mode.FP32, "empty": Mode.G_BINARY}
    step = dict.fromkeys("abc", values) | {"empty": np.zeros((3, 0), dtype=np.float32)}
    zeros = ZeroTensors()
    zeros.look(7, step, routes)
    (line,) = zeros.lines()
    assert line.startswith("tensor 'a' is zero everywhere in step 7 of worker 1: unused there?")
    zeros.look(8, step, routes)
    (line,) = zeros.lines()
    assert "in step 7 of worker 1 (and 1 times more)" in line
