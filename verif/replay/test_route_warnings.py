# SPDX-License-Identifier: Apache-2.0
"""Tests of the warnings on routes: guessed routes, tensors of zeros, fused projections."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.modes import Mode
from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec, write_capture
from verif.replay.conftest import SHIPPED
from verif.replay.gradient_source import CaptureSource
from verif.replay.routing import assign_routes, parse_routes, route_warnings

GPT = [
    TensorSpec("transformer.wte.weight", (40, 16)),
    TensorSpec("transformer.h.0.mlp.weight", (16, 16)),
    TensorSpec("transformer.ln_f.weight", (16,)),
]
HEAD_FIRST = [TensorSpec("lm_head.weight", (9, 4)), TensorSpec("body.weight", (4, 4))]
LINEAR = tuple(ModuleSpec(spec.name, "Linear", (spec.name,)) for spec in GPT)
GUESSES: dict[str, tuple[list[TensorSpec], list[str], tuple[ModuleSpec, ...], list[str]]] = {
    "tied head": (
        GPT,
        [],
        (),
        [
            "its last layer 'transformer.ln_f' has no weight matrix",
            "'transformer.wte.weight' is named like an embedding and takes G_BINARY",
        ],
    ),
    "head that is not last": (HEAD_FIRST, [], (), ["'lm_head.weight' is named like a head"]),
    "route given by name": (GPT, ["*wte*=FP32"], (), []),
    "route given for all": (GPT, ["*=G_BINARY"], (), []),
    "known modules": (GPT, [], LINEAR, []),
    "last layer with a matrix": (list(Capture.open(SHIPPED).tensors), [], (), []),
}


@pytest.mark.parametrize(
    ("tensors", "routes", "modules", "texts"), GUESSES.values(), ids=GUESSES.keys()
)
def test_guessed_routes(
    tensors: list[TensorSpec],
    routes: list[str],
    modules: tuple[ModuleSpec, ...],
    texts: list[str],
) -> None:
    capture = Capture(Path("c"), "m", 1, (0,), tuple(tensors), modules=modules)
    patterns = parse_routes(routes)
    found = route_warnings(capture, assign_routes(tensors, patterns, modules), patterns)
    assert len(found) == len(texts)
    assert all(text in line for text, line in zip(texts, found, strict=True))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_tensors_of_zeros(tmp_path: Path, zero: float) -> None:
    """Check the warning for tensors that are zero everywhere: only G_BINARY ones with an element
    get it.
    """
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


def warnings_of(capture: Capture, steps: Sequence[int], routes: dict[str, Mode]) -> list[str]:
    """Return the warnings of a capture source after all steps have been read."""
    source = CaptureSource(capture, tuple(steps), routes, "refuse", 0.7)
    for step in steps:
        source.routes(step)
    return source.warnings()


QKV = np.repeat(np.array([1e-5, -1e-5, 6e-4], np.float32), 64) * np.ones((64, 1), np.float32)
"""Columns of query, key and value as in `c_attn` of GPT-2: one scale fits none of them."""
WHOLE = (
    "tensor 'w': 3 parts of its columns differ in scale by 60 times, as fused projections do; "
    "a vote has one scale for all: --route 'w=FP32', or G_INT8"
)


@pytest.mark.parametrize(
    ("values", "route", "said"),
    [
        (QKV, Mode.G_BINARY, WHOLE),
        (np.ascontiguousarray(QKV.T), Mode.G_TERNARY, "3 parts of its rows differ in scale by 60"),
        (QKV.reshape(64, 3, 64), Mode.G_BINARY, "3 parts of its columns differ in scale by 60"),
        (np.ascontiguousarray(QKV[:, 64:]), Mode.G_BINARY, "2 parts of its columns differ"),
        (np.where(QKV < 0, 0, QKV), Mode.G_BINARY, "3 parts of its columns differ in scale, as"),
        (QKV, Mode.G_INT8, ""),  # a scale for each 1,024 elements
        (QKV, Mode.FP32, ""),
        (np.ascontiguousarray(QKV[:, :128]), Mode.G_BINARY, ""),
        (np.ascontiguousarray(QKV[:2]), Mode.G_BINARY, ""),  # too few elements
    ],
)
def test_fused_projections(
    tmp_path: Path, values: NDArray[np.float32], route: Mode, said: str
) -> None:
    write_capture(tmp_path / "c", "m", {0: {"w": np.stack([values] * 2)}})
    lines = warnings_of(Capture.open(tmp_path / "c"), (0,), {"w": route})
    assert len(lines) == bool(said)
    assert said in "".join(lines)


def test_the_shipped_capture_has_no_fused_tensor() -> None:
    capture = Capture.open(SHIPPED)
    routes = assign_routes(capture.tensors, parse_routes(["*=G_BINARY"]))
    assert warnings_of(capture, capture.steps, routes) == []
