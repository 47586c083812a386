# SPDX-License-Identifier: Apache-2.0
"""Checks of models without torch: classes with the names of torch's classes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from neuron_fabric.capture.layout import ModuleSpec
from neuron_fabric.capture.trained_model import check_model, modules_of, sparse_tensors
from neuron_fabric.errors import CaptureError

Parameter = SimpleNamespace  # with a shape


class Module:
    """Module of a script; its parameters and children are attributes."""

    def __init__(self, **parts: Any) -> None:
        self.parts = parts

    def parameters(self, recurse: bool) -> Iterator[Any]:
        assert not recurse
        return (one for one in self.parts.values() if isinstance(one, Parameter))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        yield prefix, self
        for name, part in self.parts.items():
            if isinstance(part, Module):
                yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Any]:
        return (module for _, module in self.named_modules())

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        seen: list[Any] = []
        for prefix, module in self.named_modules():
            for name, part in module.parts.items():
                if isinstance(part, Parameter) and not any(part is one for one in seen):
                    seen.append(part)
                    yield f"{prefix}.{name}" if prefix else name, part


def of_torch(kind: str) -> type[Module]:
    return type(kind, (Module,), {"__module__": f"torch.nn.modules.{kind.lower()}"})


Linear, Embedding, LayerNorm = map(of_torch, ("Linear", "Embedding", "LayerNorm"))
MyLinear = type("MyLinear", (Linear,), {})
Conv1D = type("Conv1D", (Module,), {})


def weights(*shape: int) -> Any:
    return Parameter(shape=shape)


def gpt() -> Module:
    """Return a model whose head is its embedding, with norms of two dimensions."""
    table = weights(40, 16)
    block = Module(norm=LayerNorm(weight=weights(8, 16)), mlp=Conv1D(weight=weights(16, 16)))
    return Module(
        wte=Embedding(weight=table),
        h=block,
        lm_head=MyLinear(weight=table),
        ln_f=LayerNorm(weight=weights(16)),
    )


def test_kinds_ties_and_the_head() -> None:
    names = [name for name, _ in gpt().named_parameters()]
    assert modules_of(gpt(), names) == [
        ModuleSpec("wte", "Embedding", ("wte.weight",)),
        ModuleSpec("h.norm", "LayerNorm", ("h.norm.weight",)),
        ModuleSpec("h.mlp", "Conv1D", ("h.mlp.weight",)),
        ModuleSpec("lm_head", "Linear", ("wte.weight",), head=True),
        ModuleSpec("ln_f", "LayerNorm", ("ln_f.weight",)),
    ]


def test_a_head_that_is_not_captured() -> None:
    assert modules_of(gpt(), ["h.mlp.weight"]) == [ModuleSpec("h.mlp", "Conv1D", ("h.mlp.weight",))]


def test_the_model_itself_holds_a_parameter() -> None:
    (one,) = modules_of(Linear(weight=weights(3, 4)), ["weight"])
    assert one == ModuleSpec("", "Linear", ("weight",), head=True)


def test_sparse_gradients() -> None:
    net = gpt()
    assert sparse_tensors(net) == set()
    net.parts["wte"].sparse = True
    assert sparse_tensors(net) == {"wte.weight"}


DistributedDataParallel = type("DistributedDataParallel", (), {})
FullyShardedDataParallel = type("FullyShardedDataParallel", (), {})
FSDPLinear = type("FSDPLinear", (type("FSDPModule", (), {}),), {})


def ddp(**attributes: Any) -> Any:
    return type("Mine", (DistributedDataParallel,), attributes)()


def hooked(name: str, **attributes: Any) -> Any:
    return ddp(_get_ddp_logging_data=lambda _: {"comm_hook": name}, **attributes)


BAD = {
    "fsdp": (FullyShardedDataParallel(), "FullyShardedDataParallel reduces shards"),
    "fsdp2": (FSDPLinear(), "FSDPLinear reduces shards"),
    "bare": (Linear(), "Linear is no DistributedDataParallel model"),
    "twice": (hooked("capture_hook"), "this model is captured already"),
    "second hook": (hooked("powerSGD_hook"), "and powerSGD_hook is one too"),
    "a profile": (hooked("bucket_hook"), "set NF_CAPTURE_DIR before the profile is attached"),
    "mixed": (hooked("x", mixed_precision=1), "mixed_precision of DDP"),
    "skip": (ddp(skip_all_reduce_unused_params=True), "hides steps from hooks"),
    "python reducer": (ddp(_use_python_reducer=True), "has no buckets"),
}


@pytest.mark.parametrize(("model", "text"), BAD.values(), ids=BAD.keys())
def test_models_that_cannot_be_captured(model: Any, text: str) -> None:
    with pytest.raises(CaptureError) as caught:
        check_model(model)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_can() -> None:
    check_model(ddp(_get_ddp_logging_data=lambda _: {"comm_hook": ""}))
