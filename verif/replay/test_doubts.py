# SPDX-License-Identifier: Apache-2.0
"""Warnings: routes that are a guess, and tensors of zeros."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.line_packing import Mode
from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec, write_capture
from verif.replay.plan import assign_routes, parse_routes
from verif.replay.source import CaptureSource, route_doubts

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


def fused(tmp_path: Path, values: NDArray[np.float32], route: Mode = Mode.G_BINARY) -> list[str]:
    """What is said of one tensor, of the same values in two workers."""
    write_capture(tmp_path / "c", "m", {0: {"w": np.stack([values] * 2)}})
    capture = Capture.open(tmp_path / "c")
    source = CaptureSource(capture, (0,), {"w": route}, "refuse", 0.7)
    source.routes(0)
    return source.warnings()


QKV = np.repeat(np.array([1e-5, -1e-5, 6e-4], np.float32), 64) * np.ones((64, 1), np.float32)


def test_fused_projections_of_other_scales(tmp_path: Path) -> None:
    """As `c_attn` of GPT-2, whose columns are query, key and value: one scale serves none."""
    (line,) = fused(tmp_path, QKV)
    assert line == (
        "tensor 'w': 3 parts of its columns differ in scale by 60 times, as fused projections do; "
        "a vote has one scale for all: --route 'w=FP32', or G_INT8"
    )


@pytest.mark.parametrize(
    ("values", "route", "said"),
    [
        (np.ascontiguousarray(QKV.T), Mode.G_TERNARY, "3 parts of its rows differ in scale by 60"),
        (QKV.reshape(64, 3, 64), Mode.G_BINARY, "3 parts of its columns differ in scale by 60"),
        (np.ascontiguousarray(QKV[:, 64:]), Mode.G_BINARY, "2 parts of its columns differ"),
        (np.where(QKV < 0, 0, QKV), Mode.G_BINARY, "3 parts of its columns differ in scale, as"),
        (QKV, Mode.G_INT8, ""),  # a scale for each 1,024 elements
        (QKV, Mode.FP32, ""),
        (np.ascontiguousarray(QKV[:, :128]), Mode.G_BINARY, ""),
        (np.ascontiguousarray(QKV[:2]), Mode.G_BINARY, ""),  # too few to tell
    ],
)
def test_what_is_fused(tmp_path: Path, values: NDArray[np.float32], route: Mode, said: str) -> None:
    lines = fused(tmp_path, values, route)
    assert len(lines) == bool(said)
    assert said in "".join(lines)


def test_the_shipped_capture_is_not_fused() -> None:
    capture = Capture.open(REAL)
    routes = assign_routes(capture.tensors, parse_routes(["*=G_BINARY"]))
    source = CaptureSource(capture, capture.steps, routes, "refuse", 0.7)
    for step in capture.steps:
        source.routes(step)
    assert source.warnings() == []
