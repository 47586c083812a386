# SPDX-License-Identifier: Apache-2.0
"""Checks of a model before a capture, and its modules and parameters.

Models are inspected by the names of their classes, so that nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from neuron_fabric.capture.layout import ModuleSpec
from neuron_fabric.capture.selection import FOLDER
from neuron_fabric.errors import CaptureError
from neuron_fabric.wrapped import named_modules, named_parameters

_DDP = "DistributedDataParallel"
_FSDP = {"FullyShardedDataParallel", "FSDPModule"}
HOOK, PROFILE_HOOK = "capture_hook", "bucket_hook"


def check_model(model: Any) -> None:
    """Raise CaptureError for a model whose gradients a hook cannot see."""
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if kinds & _FSDP:
        raise _refused(
            f"{type(model).__name__} reduces shards, in which no parameter's gradient is whole",
            f"capture the same training under {_DDP}",
        )
    if _DDP not in kinds:
        raise _refused(
            f"{type(model).__name__} is no {_DDP} model", f"wrap the model in {_DDP} before"
        )
    hook = hook_of(model)
    if hook == HOOK:
        raise _refused("this model is captured already", "call attach once a model")
    if getattr(model, "mixed_precision", None) is not None:
        raise _refused("mixed_precision of DDP has another hook", "use torch.autocast")
    if hook:
        raise second_hook(hook)
    if getattr(model, "skip_all_reduce_unused_params", False):
        raise _refused("skip_all_reduce_unused_params hides steps from hooks", "leave it out")
    if getattr(model, "_use_python_reducer", False):
        raise _refused("the python_reducer of torch.compile has no buckets", "use another mode")


def second_hook(name: str) -> CaptureError:
    """Return the error for a model that already has the communication hook ``name``; DDP
    accepts one."""
    if name == PROFILE_HOOK:
        what = "this model has a profile, which was attached without a capture"
        return _refused(what, f"set {FOLDER} before the profile is attached")
    return _refused(
        f"a model takes one communication hook, and {name} is one too",
        "do not register it, give it to attach(model, reduce=..., reduce_state=...)",
    )


def _refused(what: str, todo: str) -> CaptureError:
    return CaptureError("attach", what, todo)


def hook_of(model: Any) -> str:
    """Return the name of a model's hook as torch logs it, or "". Torch's list of hooks is no
    use: built-in hooks are missing, and a copied model has the list without the hook."""
    logged: dict[str, Any] = getattr(model, "_get_ddp_logging_data", dict)()
    return str(logged.get("comm_hook") or "")


def sparse_tensors(net: Any) -> set[str]:
    """Return the names of parameters with sparse gradients, which are in no bucket."""
    names = {id(parameter): name for name, parameter in named_parameters(net)}
    return {
        names[id(parameter)]
        for module in net.modules()
        if getattr(module, "sparse", False) is True
        for parameter in module.parameters(recurse=False)
    }


def modules_of(net: Any, captured: Collection[str]) -> list[ModuleSpec]:
    """Return the modules of ``net`` that hold captured tensors, in its order.

    A module that the model uses several times appears once. The head is the last module with a
    weight matrix that is neither a norm nor an embedding; it need not be captured.
    """
    names = {id(parameter): name for name, parameter in named_parameters(net)}
    found: list[ModuleSpec] = []
    head = ""
    for name, module in named_modules(net):
        own = list(module.parameters(recurse=False))
        spec = ModuleSpec(name, _kind(module), tuple(names[id(one)] for one in own))
        found += [spec] if own else []
        if any(len(one.shape) > 1 for one in own) and not (spec.is_norm or spec.is_embedding):
            head = name
    return [
        ModuleSpec(spec.name, spec.kind, kept, head=spec.name == head)
        for spec in found
        if (kept := tuple(name for name in spec.tensors if name in captured))
    ]


def _kind(module: Any) -> str:
    """Return the class of torch.nn that the module is derived from, else its own class."""
    for kind in type(module).__mro__:
        if kind.__module__.startswith("torch.nn.") and kind.__name__ != "Module":
            return kind.__name__
    return type(module).__name__
