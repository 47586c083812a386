# SPDX-License-Identifier: Apache-2.0
"""Checks of `attach`: models and optimizers that the hook refuses, in one line for all ranks.

Models are recognised by class names alone.
"""

from __future__ import annotations

from typing import Any, NoReturn

from neuron_fabric.codec import Route
from neuron_fabric.errors import AttachError, CaptureError, LineError
from neuron_fabric.errors import warn as say_warning
from neuron_fabric.profile import Profile
from neuron_fabric.profile.profile_types import steady_route
from neuron_fabric.rank_agreement import is_first

_DDP = "DistributedDataParallel"
_SHARDED = {"FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine"}
_OURS = {"capture_hook": "is captured already", "bucket_hook": "has a profile already"}
# Attributes of DistributedDataParallel that no hook of ours works with; the mesh with no votes.
_UNSUPPORTED = {
    "mixed_precision": (
        "mixed_precision of DDP installs another hook",
        "use torch.autocast",
    ),
    "skip_all_reduce_unused_params": (
        "skip_all_reduce_unused_params hides steps from hooks",
        "leave it out",
    ),
    "_use_python_reducer": (
        "the python_reducer of torch.compile has no buckets",
        "use another mode",
    ),
}


def warn(text: str) -> None:
    """Print a warning line "nf runtime: ..." on stderr."""
    say_warning(f"nf runtime: {text}")


def end(error: LineError, group: Any) -> NoReturn:
    """Print ``error`` once for all ranks of ``group`` and exit with code 2."""
    if is_first(str(error), group):
        command = "capture" if isinstance(error, CaptureError) else "runtime"
        say_warning(f"nf {command}: {error}")
    raise SystemExit(2) from None


C, TORCH = "c", "torch"
ENGINES = (C, TORCH)
"""Engines of the hook: the host packs, or torch operations on the device of the gradients."""


def check_model(model: Any, profile: bool = True, engine: str = C) -> None:
    """Check that the hook works with a model.

    Args:
        model: Model that was passed to `attach`.
        profile: Whether gradients are to be reduced by a profile, not only captured.
        engine: Engine that packs them.

    Raises:
        AttachError: The hook would not see the gradients, or could not reduce them.
    """
    kinds = {kind.__name__ for kind in type(model).__mro__}
    name = type(model).__name__
    if kinds & _SHARDED:
        what = f"{name} reduces shards, in which no parameter's gradient is whole"
        raise _refused(what, f"train under {_DDP}")
    if _DDP not in kinds:
        raise _refused(f"{name} is no {_DDP} model", f"wrap the model in {_DDP} before")
    if hook := hook_of(model):
        raise second_hook(hook)
    for attribute, (what, todo) in _UNSUPPORTED.items():
        if getattr(model, attribute, None):
            raise _refused(what, todo)
    if not profile:
        return
    if getattr(model, "device_mesh", None) or getattr(model, "_device_mesh", None):
        what = "device_mesh splits parameters between ranks"
        raise _refused(what, "give the model a process_group")
    parameters = [one for one in model.module.parameters() if one.requires_grad]
    if not parameters:
        raise _refused("no parameter of the model is trained", "set requires_grad")
    devices = {one.device for one in parameters}
    types, named = {one.type for one in devices}, ", ".join(sorted(map(str, devices)))
    if engine == C and types != {"cpu"}:
        what = f"parameters are on {named}; the engine c, of calibrations too, packs on the CPU"
        raise _refused(what, 'train with engine="torch", or on the CPU')
    if len(devices) > 1 or not types <= {"cpu", "cuda"}:
        raise _refused(f"parameters are on {named}", "move all of them to the CPU or to one GPU")


def usual_engine(model: Any) -> str:
    """Return the engine of a model for which none is named: torch unless all is on the CPU."""
    here = all(one.device.type == "cpu" for one in model.parameters() if one.requires_grad)
    return C if here else TORCH


def check_momentum(profile: Profile, optimizer: Any) -> None:
    """Raise AttachError if a region votes with its momentum and the optimizer has momentum too."""
    for region in profile.regions:
        if not any(how.signal == "momentum" for how in region.phases.values()):
            continue
        groups = getattr(optimizer, "param_groups", ())
        if any(group.get("momentum") for group in groups):
            what = f"region {region.name!r} votes with its momentum, and the optimizer adds its own"
            raise AttachError("attach", what, "give the optimizer momentum=0")


def check_closing(profile: Profile, options: Any, world: int) -> None:
    """Check that rounds can be closed without late ranks, if the options ask for it.

    Args:
        profile: Profile of the training.
        options: `Options` of `attach`.
        world: Number of ranks.

    Raises:
        AttachError: The reducer cannot close rounds, some gradients would not wait for the late
            ranks alone, or a late gradient would be lost.
    """
    least, unless = options.min_workers, "leave out close_after"
    if options.close_after is None:
        if least is not None:
            raise _refused("min_workers without close_after", "give both")
        return
    if options.reducer == TORCH:
        what = 'close_after with reducer "torch", in which each rank counts a share'
        raise _refused(what, f'use reducer="pool:PATH" or "unix:PATH", or {unless}')
    if options.close_after >= options.timeout_s:
        what = f"close_after {options.close_after:g} is not below timeout_s {options.timeout_s:g}"
        raise _refused(what, "give fewer seconds")
    if options.fp32 != "ordered":
        what = f'close_after with fp32="{options.fp32}", in which FP32 gradients wait for all ranks'
        raise _refused(what, f'use fp32="ordered", or {unless}')
    if least is not None and not (isinstance(least, int) and 1 <= least <= world):
        raise _refused(f"min_workers {least!r} of {world} workers", f"give 1 to {world}")
    for region in profile.regions:
        hows = region.phases.values()
        if any(how.low_rank for how in hows):
            what = f"close_after: low_rank of region {region.name!r} waits for all ranks"
            raise _refused(what, f"use another route, or {unless}")
        low = [how for how in hows if how.route != Route.FP32]
        if low and not all(how.feedback for how in [*low, steady_route(region)]):
            what = f"close_after: region {region.name!r} has no feedback to keep a late gradient"
            raise _refused(what, f"set feedback = true in the profile, or {unless}")


def second_hook(name: str) -> AttachError:
    """Return the error for a second communication hook, which torch does not support.

    Args:
        name: name of the hook that is registered already, or about to be.
    """
    if name in _OURS:
        return _refused(f"this model {_OURS[name]}", "call attach once a model")
    return _refused(
        f"a model takes one communication hook, and {name} is one too",
        "leave it out; without a profile, give it to attach(model, reduce=..., reduce_state=...)",
    )


def hook_of(model: Any) -> str:
    """Return the name of the communication hook that torch logs for a model; "" if it has none.

    Torch's list of hooks is no use: built-in hooks are missing, and a copied model has the list
    without the hook.
    """
    logged: dict[str, Any] = getattr(model, "_get_ddp_logging_data", dict)()
    return str(logged.get("comm_hook") or "")


def _refused(what: str, todo: str) -> AttachError:
    return AttachError("attach", what, todo)
