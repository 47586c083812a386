# SPDX-License-Identifier: Apache-2.0
"""Warnings: routes that are a guess, and tensors of zeros."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from models.line_packing import Mode
from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec, write_capture
from verif.replay.doubts import route_doubts
from verif.replay.routing import assign_routes, parse_routes
from verif.replay.source import CaptureSource

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
def test_tensors_of_zeros(tmp_path: Path, zero: float) -> None:
    """By G_BINARY alone, where there is an element."""
    values = np.ones((3, 2, 2), dtype=np.float32)
    values[1] = zero
    routes = {"a": Mode.G_BINARY, "b": Mode.G_TERNARY, "c": Mode.FP32, "empty": Mode.G_BINARY}
    step = dict.fromkeys("abc", values) | {"empty": np.zeros((3, 0), dtype=np.float32)}
    write_capture(tmp_path / "zeros", "m", {7: step, 8: step})
    source = CaptureSource(Capture.open(tmp_path / "zeros"), (7, 8), routes, "refuse", 0.7)
    source.routes(7)
    (line,) = source.warnings()
    assert line.startswith("tensor 'a' is zero everywhere in step 7 of worker 1: unused there?")
    source.routes(8)
    (line,) = source.warnings()
    assert "in step 7 of worker 1 (and 1 times more)" in line
