# SPDX-License-Identifier: Apache-2.0
"""Tests of routes: patterns, the layer-aware default, and tensors that have no sign vote."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.modes import Mode
from neuron_fabric.capture import Capture, CaptureError, ModuleSpec, TensorSpec, write_capture
from verif.replay.gradient_source import CaptureSource
from verif.replay.routing import assign_routes, default_routes, parse_route, parse_routes

REAL = Path(__file__).parents[2] / "captures" / "digits-resnet-8x"
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


def test_default_of_the_real_capture() -> None:
    specs = Capture.open(REAL).tensors
    routes = default_routes(specs)
    low = [name for name, mode in routes.items() if mode == Mode.G_BINARY]
    assert low == [s.name for s in specs if len(s.shape) == 4]
    assert routes["8.weight"] == routes["8.bias"] == Mode.FP32


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
