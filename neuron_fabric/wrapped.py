# SPDX-License-Identifier: Apache-2.0
"""Access to models inside the wrappers of torch: the user's module, and names without prefixes.

All parts that name parameters (attach, captures, profiles, fingerprints, calibration) use this
module, so that a model has the same names however it is wrapped. Wrappers are recognized by name;
nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_INSIDE = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")
"""Attributes in which torch.compile, activation checkpointing and FSDP keep a module."""
_AROUND = {"DistributedDataParallel", "DataParallel"}
"""Classes that keep it as ``module``, a name that a model may use itself."""


def ddp_model(model: Any) -> Any:
    """Return the module inside the wrapper of torch.compile, else ``model``.

    `attach` expects it to be a DistributedDataParallel.
    """
    while "_orig_mod" in getattr(model, "_modules", {}):
        model = model._orig_mod
    return model


def bare_model(model: Any) -> Any:
    """Return the user's module without any wrapper.

    Wrappers are torch.compile, activation checkpointing, FSDP, DistributedDataParallel and
    DataParallel.
    """
    while True:
        children = getattr(model, "_modules", {})
        inside = [name for name in _INSIDE if name in children]
        if "module" in children and _AROUND & {one.__name__ for one in type(model).__mro__}:
            inside.append("module")
        if not inside:
            return model
        model = children[inside[0]]


def clean_name(name: str) -> str:
    """Return the name of a parameter or module without the components that wrappers insert.

    Components `_orig_mod`, `_checkpoint_wrapped_module` and `_fsdp_wrapped_module` are removed
    wherever they occur. `module`, the prefix of DistributedDataParallel, is kept, since a model may
    use this name itself; `bare_model` removes that wrapper.
    """
    return ".".join(part for part in name.split(".") if part not in _INSIDE)


def named_parameters(model: Any, **words: Any) -> Iterator[tuple[str, Any]]:
    """Yield (clean name, parameter) of the module inside all wrappers; ``words`` as in torch."""
    for name, parameter in bare_model(model).named_parameters(**words):
        yield clean_name(name), parameter


def named_modules(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield (clean name, module) of the module inside all wrappers."""
    for name, module in bare_model(model).named_modules():
        yield clean_name(name), module
