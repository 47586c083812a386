# SPDX-License-Identifier: Apache-2.0
"""Conditions of a training: passed to `attach`, or observed in its forward passes; needs torch.

Optimizer and clipping must be arguments. Batch, accumulation and autocast are also observed in the
forward passes up to the first that ends in a reduction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch

from neuron_fabric.errors import AttachError
from neuron_fabric.hook.attach_checks import warn
from neuron_fabric.hook.hook_state import ForwardHook
from neuron_fabric.profile.portability import Conditions, outside
from neuron_fabric.profile.profile_types import ValidFor

AMP = ("off", "float16", "bfloat16")


def told(
    *, batch: Any, accumulation: Any, clipping: Any, amp: Any, optimizer: Any, scaler: Any
) -> Conditions:
    """Return the conditions that a script has passed to `attach`; None for those it has not.

    Raises:
        AttachError: A value is not allowed.
    """
    for name, value in (("batch", batch), ("accumulation", accumulation)):
        if value is not None and (type(value) is not int or value < 1):
            raise AttachError("attach", f"{name} is {value!r}", "give an integer above 0")
    if clipping not in (None, True, False):
        raise AttachError("attach", f"clipping is {clipping!r}", "give True or False")
    found = None if amp is None else str(amp).removeprefix("torch.")
    if found not in (None, *AMP):
        raise AttachError("attach", f"amp {found!r} is not one of {', '.join(AMP)}", "choose one")
    return Conditions(
        batch_per_worker=batch,
        accumulation=accumulation,
        optimizer=optimizer_name(optimizer),
        clipping=clipping,
        amp=found,
        grad_scaler=_scaled(scaler),
    )


def _scaled(scaler: Any) -> bool | None:
    """Return whether the loss is scaled, or None if unknown (no ``scaler`` was passed).

    Raises:
        AttachError: ``scaler`` is no GradScaler.
    """
    if scaler is None or scaler is False:
        return scaler
    if not (hasattr(scaler, "is_enabled") and hasattr(scaler, "get_scale")):
        what = f"scaler is a {type(scaler).__name__}"
        raise AttachError("attach", what, "give the training's GradScaler, or False")
    return bool(scaler.is_enabled())


def optimizer_name(optimizer: Any) -> str | None:
    """Return the text for an optimizer in a profile: its class and momentum, "SGD(momentum=0.9)".

    None without an optimizer; "Adam()" if it has no momentum.
    """
    if optimizer is None:
        return None
    groups: Sequence[Mapping[str, Any]] = getattr(optimizer, "param_groups", ())
    momentum = next((one["momentum"] for one in groups if one.get("momentum")), None)
    words = f"momentum={momentum}" if momentum else ""
    return f"{type(optimizer).__name__}({words})"


class ConditionProbe:
    """Forward hook of a DDP model that observes batch, accumulation and autocast.

    It removes itself with the first training pass that ends in a reduction; ``found`` holds the
    conditions then.
    """

    def __init__(self, model: Any, valid_for: ValidFor | None = None, name: str = "") -> None:
        """Register the probe on a model.

        With ``valid_for`` of a profile called ``name``, warn if the observed conditions are outside
        of it.
        """
        self.found = Conditions()
        self._passes, self._valid_for, self._name = 0, valid_for, name
        self._handle = model.register_forward_pre_hook(ForwardHook(self._see), with_kwargs=True)

    @torch.compiler.disable
    def _see(self, model: Any, args: Any, words: Any) -> None:
        """Count a training pass, and record the conditions at the first with a reduction."""
        if not (model.training and torch.is_grad_enabled()):
            return
        self._passes += 1
        if not model.require_backward_grad_sync:
            return
        self._handle.remove()
        kind = next(model.parameters()).device.type
        on = torch.is_autocast_enabled(kind)
        self.found = Conditions(
            batch_per_worker=_batch_of([*args, *words.values()]),
            accumulation=self._passes,
            amp=str(torch.get_autocast_dtype(kind)).removeprefix("torch.") if on else "off",
        )
        if self._valid_for is not None:
            for reason in outside(self._valid_for, self.found):
                warn(f"profile {self._name!r}: {reason}; tell `attach`, and every region is tried")


def watch_untold(model: Any, valid_for: ValidFor, here: Conditions, name: str) -> None:
    """Observe conditions that the profile lists and the script has not passed to `attach`.

    A warning is printed in the first step for each that is outside of ``valid_for``.

    Args:
        model: DistributedDataParallel model.
        valid_for: Conditions of the profile.
        here: Conditions that the script has passed.
        name: Name of the profile.
    """
    seen = ("batch_per_worker", "accumulation", "amp")
    untold = {
        one.name: None
        for one in fields(ValidFor)
        if one.name not in seen or getattr(here, one.name) is not None
    }
    asked = replace(valid_for, **untold)
    if asked != ValidFor():
        ConditionProbe(model, asked, name)


def valid_for(here: Conditions, seen: Conditions, workers: int) -> ValidFor:
    """Return the conditions of a calibration: as passed to `attach`, else as observed."""
    one = {
        name: value if (value := getattr(here, name)) is not None else getattr(seen, name)
        for name in ("batch_per_worker", "accumulation", "optimizer", "clipping", "amp")
    }
    batch = one.pop("batch_per_worker")
    return ValidFor((workers, workers), (batch, batch) if batch else None, **one)


def _batch_of(values: Sequence[Any]) -> int | None:
    """Return the first dimension of the first tensor among the inputs of a model; None if none.

    Lists, tuples and dicts of inputs are searched too.
    """
    for one in values:
        if isinstance(one, torch.Tensor):
            if one.dim():
                return int(one.shape[0])
        elif isinstance(one, Mapping | list | tuple):
            found = _batch_of(list(one.values()) if isinstance(one, Mapping) else one)
            if found is not None:
                return found
    return None
