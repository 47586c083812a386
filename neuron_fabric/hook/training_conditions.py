# SPDX-License-Identifier: Apache-2.0
"""Conditions of a training: arguments of `attach`, or observed in its forward passes; needs torch.

Optimizer and clipping must be arguments. Batch, accumulation and autocast are also observed in the
forward passes up to the first that ends in a reduction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch

from neuron_fabric.comm_hooks import ForwardHook
from neuron_fabric.errors import AttachError
from neuron_fabric.hook.attach_checks import warn
from neuron_fabric.profile.portability import Conditions, outside
from neuron_fabric.profile.profile_types import ValidFor

AMP = ("off", "float16", "bfloat16")


def told(
    *, batch: Any, accumulation: Any, clipping: Any, amp: Any, optimizer: Any, scaler: Any
) -> Conditions:
    """Return what a script has told `attach`. AttachError for what is no such value."""
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
    """Return whether the loss is scaled, or None if unknown.

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
    """Return an optimizer as a profile names it: its class, and its momentum where it has one."""
    if optimizer is None:
        return None
    groups: Sequence[Mapping[str, Any]] = getattr(optimizer, "param_groups", ())
    momentum = next((one["momentum"] for one in groups if one.get("momentum")), None)
    words = f"momentum={momentum}" if momentum else ""
    return f"{type(optimizer).__name__}({words})"


class ConditionProbe:
    """Forward hook of a DistributedDataParallel model that sees batch, accumulation and autocast.

    It removes itself with the first pass that ends in a reduction.
    """

    def __init__(self, model: Any, valid_for: ValidFor | None = None, name: str = "") -> None:
        """Register on a model; warn if the training is outside of ``valid_for`` of profile
        ``name``.
        """
        self.found = Conditions()
        self._passes, self._valid_for, self._name = 0, valid_for, name
        self._handle = model.register_forward_pre_hook(ForwardHook(self._see), with_kwargs=True)

    @torch.compiler.disable
    def _see(self, model: Any, args: Any, words: Any) -> None:
        """Look at one forward pass; evaluation does not count."""
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
    """Warn in the first step of conditions that a profile has, the script has not told, and are
    others."""
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
    """Return what a calibration is valid for: what was told, else what was seen."""
    one = {
        name: value if (value := getattr(here, name)) is not None else getattr(seen, name)
        for name in ("batch_per_worker", "accumulation", "optimizer", "clipping", "amp")
    }
    batch = one.pop("batch_per_worker")
    return ValidFor((workers, workers), (batch, batch) if batch else None, **one)


def _batch_of(values: Sequence[Any]) -> int | None:
    """Return the first size of the first tensor among the inputs of a model."""
    for one in values:
        if isinstance(one, torch.Tensor):
            if one.dim():
                return int(one.shape[0])
        elif isinstance(one, Mapping | list | tuple):
            found = _batch_of(list(one.values()) if isinstance(one, Mapping) else one)
            if found is not None:
                return found
    return None
