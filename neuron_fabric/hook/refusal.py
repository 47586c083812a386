# SPDX-License-Identifier: Apache-2.0
"""Refusals of `attach`: one line for all ranks. Models are recognised by class names alone."""

from __future__ import annotations

from typing import Any, NoReturn

from neuron_fabric.capture.trained_model import HOOK, PROFILE_HOOK, hook_of
from neuron_fabric.errors import AttachError, LineError
from neuron_fabric.errors import warn as say_warning
from neuron_fabric.ranks import is_first

_DDP = "DistributedDataParallel"
_FSDP = {"FullyShardedDataParallel", "FSDPModule"}
_ENGINES = {"DeepSpeedEngine"}
_ASKED = "attach"


def warn(text: str) -> None:
    """Print a warning of the hook on stderr."""
    say_warning(f"nf runtime: {text}")


def end(error: LineError, group: Any) -> NoReturn:
    """End the script with exit code 2 and one line for all ranks."""
    if is_first(str(error), group):
        warn(str(error))
    raise SystemExit(2) from None


def check_model(model: Any) -> None:
    """Raise AttachError for a model whose gradients the hook would not see."""
    kinds = {kind.__name__ for kind in type(model).__mro__}
    name = type(model).__name__
    if kinds & (_FSDP | _ENGINES):
        what = f"{name} reduces shards, in which no parameter's gradient is whole"
        raise AttachError(_ASKED, what, f"train under {_DDP}")
    if _DDP not in kinds:
        raise AttachError(_ASKED, f"{name} is no {_DDP} model", f"wrap the model in {_DDP} before")
    if getattr(model, "device_mesh", None) or getattr(model, "_device_mesh", None):
        what = "device_mesh splits parameters between ranks"
        raise AttachError(_ASKED, what, "give the model a process_group")
    if hook := hook_of(model):
        raise second_hook(hook)
    if getattr(model, "mixed_precision", None) is not None:
        what = "mixed_precision of DDP reduces by a hook of its own"
        raise AttachError(_ASKED, what, "use torch.autocast")
    if getattr(model, "skip_all_reduce_unused_params", False):
        what = "skip_all_reduce_unused_params hides steps from hooks"
        raise AttachError(_ASKED, what, "leave it out")
    if getattr(model, "_use_python_reducer", False):
        what = "the python_reducer of torch.compile has no buckets"
        raise AttachError(_ASKED, what, "use another mode")
    parameters = [one for one in model.module.parameters() if one.requires_grad]
    if not parameters:
        raise AttachError(_ASKED, "no parameter of the model is trained", "set requires_grad")
    elsewhere = {one.device.type for one in parameters} - {"cpu"}
    if elsewhere:
        what = f"parameters are on {', '.join(sorted(elsewhere))}, and votes are counted on the CPU"
        raise AttachError(_ASKED, what, "train on the CPU with this version")


def second_hook(name: str) -> AttachError:
    """Return the error for a second communication hook, which torch does not support.

    Args:
        name: name of the hook that is registered already, or about to be.
    """
    if name in (HOOK, PROFILE_HOOK):
        state = "is captured already" if name == HOOK else "has a profile already"
        return AttachError(_ASKED, f"this model {state}", "call attach once a model")
    what = f"a model takes one communication hook, and {name} is one too"
    return AttachError(_ASKED, what, "leave that one out")
