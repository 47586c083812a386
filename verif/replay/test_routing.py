# SPDX-License-Identifier: Apache-2.0
"""Tests of routes: patterns, the layer-aware default, tensors that have no sign vote, warnings.

Warnings concern guessed routes, tensors of zeros, and fused projections.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.modes import Mode
from neuron_fabric.capture import Capture, CaptureError, ModuleSpec, TensorSpec, write_capture
from verif.replay.conftest import SHIPPED
from verif.replay.gradient_source import CaptureSource
from verif.replay.routing import (
    assign_routes,
    default_routes,
    parse_route,
    parse_routes,
    route_warnings,
)

SPECS = [
    TensorSpec("stem.weight", (8, 3)),
    TensorSpec("stem.bias", (8,)),
    TensorSpec("temperature", ()),
    TensorSpec("head.weight", (10, 8)),
    TensorSpec("head.bias", (10,)),
]


def test_default_is_layer_aware() -> None:
    routes = default_routes(SPECS)
    assert [m.name for m in routes.values()] == ["G_BINARY", "FP32", "FP32", "FP32", "FP32"]
    assert list(routes) == [spec.name for spec in SPECS]


def test_default_without_layers() -> None:
    routes = default_routes([TensorSpec("w1", (2, 2)), TensorSpec("w2", (2, 2))])
    assert list(routes.values()) == [Mode.G_BINARY, Mode.FP32]
    assert default_routes([]) == {}


def test_default_by_kind() -> None:
    """Check the default routes of a model with named modules, whose head shares an embedding's
    tensor.

    Head, embeddings, shared tensors, norms, biases and vectors are FP32, all others G_BINARY.
    """
    modules = [
        ModuleSpec("wte", "Embedding", ("wte.weight",)),
        ModuleSpec("wpe", "Embedding", ("wpe.weight",)),
        ModuleSpec("ln", "LayerNorm", ("ln.weight",)),
        ModuleSpec("first", "Linear", ("first.weight", "first.bias")),
        ModuleSpec("a", "Linear", ("a.weight",)),
        ModuleSpec("b", "Linear", ("a.weight",)),
        ModuleSpec("lm_head", "Linear", ("wte.weight",), head=True),
        ModuleSpec("body", "Conv1D", ("body.weight", "body.scale")),
    ]
    shapes = {"body.scale": (1,), "first.bias": (1, 4)}
    names = dict.fromkeys(name for module in modules for name in module.tensors)
    tensors = [TensorSpec(name, shapes.get(name, (4, 4))) for name in names]
    routes = default_routes(tensors, modules)
    low = [name for name, mode in routes.items() if mode == Mode.G_BINARY]
    assert low == ["first.weight", "body.weight"]
    assert assign_routes(tensors, parse_routes(["wpe.*=G_TERNARY"]), modules) == {
        **routes,
        "wpe.weight": Mode.G_TERNARY,
    }
    head = ModuleSpec("body", "Conv1D", ("body.weight", "body.scale"), head=True)
    assert default_routes(tensors, [*modules[:-2], head])["body.weight"] == Mode.FP32


def test_first_match_wins() -> None:
    patterns = parse_routes(["head.*=g_ternary", "*.weight = G_BINARY", "*=FP32"])
    routes = assign_routes(SPECS, patterns)
    assert {name: mode.name for name, mode in routes.items()} == {
        "stem.weight": "G_BINARY",
        "stem.bias": "FP32",
        "temperature": "FP32",
        "head.weight": "G_TERNARY",
        "head.bias": "G_TERNARY",
    }


def test_a_name_may_hold_an_equals_sign() -> None:
    assert parse_route("a=b=FP32") == ("a=b", Mode.FP32)


@pytest.mark.parametrize("text", ["", "x", "=FP32", "x=", "x=IDENTITY", "x=fp16"])
def test_bad_routes(text: str) -> None:
    with pytest.raises(CaptureError, match="not understood; write NAME-GLOB=ROUTE"):
        parse_route(text)


def test_a_pattern_must_match_something() -> None:
    with pytest.raises(CaptureError, match="Stem"):
        assign_routes(SPECS, parse_routes(["Stem.*=FP32"]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite_values_are_named(tmp_path: Path, bad: float) -> None:
    values = {"a": np.zeros((3, 2, 4), dtype=np.float32), "b": np.full(3, bad, dtype=np.float32)}
    values["a"][2, 1, 3] = bad
    capture = write_capture(tmp_path / "capture", "m", {60: values})
    routes = {"a": Mode.G_BINARY, "b": Mode.FP32}

    def source(**routes: Mode) -> CaptureSource:
        return CaptureSource(capture, (60,), routes, "refuse", 0.7)

    with pytest.raises(CaptureError) as caught:
        source(**routes).routes(60)
    assert str(caught.value).startswith("worker 2, step 60, tensor 'a', index [1, 3]: ")
    by_fp32 = replace(source(**routes), nonfinite="fp32")
    assert by_fp32.routes(60) == {"a": Mode.FP32, "b": Mode.FP32}
    assert routes["a"] == Mode.G_BINARY
    assert source(a=Mode.FP32, b=Mode.FP32).routes(60) == {"a": Mode.FP32, "b": Mode.FP32}
    with pytest.raises(CaptureError, match=r"worker 0, .* index \[\]"):
        source(a=Mode.FP32, b=Mode.G_TERNARY).routes(60)
    with pytest.raises(CaptureError, match="has no integer code; send the tensor"):
        source(a=Mode.G_INT4, b=Mode.FP32).routes(60)


GPT = [
    TensorSpec("transformer.wte.weight", (40, 16)),
    TensorSpec("transformer.h.0.mlp.weight", (16, 16)),
    TensorSpec("transformer.ln_f.weight", (16,)),
]
HEAD_FIRST = [TensorSpec("lm_head.weight", (9, 4)), TensorSpec("body.weight", (4, 4))]
LINEAR = tuple(ModuleSpec(spec.name, "Linear", (spec.name,)) for spec in GPT)
WTE = "'transformer.wte.weight' is named like an embedding and takes G_BINARY"
GUESSES: dict[str, tuple[list[TensorSpec], list[str], tuple[ModuleSpec, ...], list[str]]] = {
    "tied head": (GPT, [], (), ["its last layer 'transformer.ln_f' has no weight matrix", WTE]),
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
