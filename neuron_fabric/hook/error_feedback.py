# SPDX-License-Identifier: Apache-2.0
"""Error feedback and momentum: the values of a parameter that a worker packs; needs torch."""

# No postponed annotations here, as in the hook's own module.

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from neuron_fabric.codec.scale_groups import ScaleGroups
from neuron_fabric.hook.monitor_samples import Index
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.interface import F32


class Memory:
    """Residuals and momenta of a worker by parameter: float32[elements] in its memory order.

    They are on the device of the parameter, and no update makes the host wait for it.

    Error feedback: a worker votes on gradient + residual, and keeps ``signal - s * vote`` as the
    new residual, with the scale s that all ranks decode with. Sent + residual is thus the input,
    within the rounding of two float32 operations. A parameter that returns to FP32 adds its
    residual to its next gradient.

    Momentum as the signal (Signum, 1-bit Adam): m = beta * m + (1 - beta) * gradient, and the
    worker votes with m, in place of the momentum of the optimizer. Both are in units of the scaled
    loss.
    """

    def __init__(self) -> None:
        self.residuals: dict[str, torch.Tensor] = {}
        self.momenta: dict[str, torch.Tensor] = {}

    def corrected(self, name: str, gradient: torch.Tensor) -> torch.Tensor:
        """Return a copy of a parameter's gradient plus residual, or of the gradient alone."""
        held = self.residuals.get(name)
        return gradient.clone() if held is None else gradient + held

    def keep(self, name: str, signal: torch.Tensor, sent: torch.Tensor) -> None:
        """Store the new residual of a parameter: ``signal`` minus what was ``sent`` of it."""
        self.residuals[name] = signal - sent

    def unsent(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """Return the residual of a parameter whose values no other worker has received.

        It is ``values``, or the present residual if they are not finite.
        """
        before = self.residuals.get(name, torch.zeros_like(values))
        return torch.where(values.isfinite().all(), values, before)

    def flushed(self, name: str) -> torch.Tensor | None:
        """Remove and return the residual of a parameter now sent in FP32; None without one."""
        return self.residuals.pop(name, None)

    def momentum(self, name: str, gradient: torch.Tensor, beta: float) -> torch.Tensor:
        """Update the momentum of a parameter with a gradient, and return a copy of it.

        An update that is not finite is returned but not stored.
        """
        b = np.float32(beta)
        own = float(np.float32(1) - b) * gradient
        held = self.momenta.get(name, torch.zeros_like(own))
        moved = float(b) * held + own
        # If it is not finite, the step is lost, not the memory.
        self.momenta[name] = torch.where(moved.isfinite().all(), moved, held)
        return moved

    def rescale(self, factor: float) -> None:
        """Multiply all residuals and momenta by ``factor``, the change of the loss scale."""
        for held in (self.residuals, self.momenta):
            for name in held:
                held[name] = held[name] * float(np.float32(factor))


@dataclass(eq=False)
class LocalSignal:
    """Values of one parameter that this worker packs: gradient, or momentum, plus residual.

    Attributes:
        name: Parameter.
        region: Its profile region.
        view: Its elements in the bucket's buffer, flat.
        how: Its route.
        values: Values to pack, float32[n] on the device of ``view``.
        kept: Whether a residual is stored after decoding (error feedback).
        shadow: Whether the gradient itself is sent in FP32, and the votes are only compared with
            it.
        sample: FP32 gradient at the sampled elements, later overwritten by its mean over the ranks.
        index: Which elements are sampled; None for all.
        groups: Groups of elements that share a scale; None for one scale.
    """

    name: str
    region: str
    view: torch.Tensor
    how: PhaseRoute
    values: torch.Tensor
    kept: bool = False
    shadow: bool = False
    sample: torch.Tensor | None = None
    index: Index | None = None
    groups: ScaleGroups | None = None

    @property
    def net(self) -> bool:
        """Return whether the reducer must return counts, from which the gradient is decoded."""
        return self.how.decode == "net"


def values_of(view: torch.Tensor) -> F32:
    """Return the elements of a tensor as float32[n] on the host; no copy of float32 on the CPU."""
    values: F32 = view.detach().cpu().float().numpy()
    return values


def floats_of(view: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor as float32[n] on its device; no copy of float32."""
    return view.detach().float()


def signal_of(
    name: str, region: str, view: torch.Tensor, how: PhaseRoute, memory: Memory | None, **more: Any
) -> LocalSignal:
    """Return the values of a parameter that this worker packs, with momentum and residual applied.

    Args:
        name: parameter.
        region: its profile region.
        view: its elements in the buffer of the bucket.
        how: its route.
        memory: residuals and momenta; None for a shadow, which changes neither.
        more: further fields of `LocalSignal`.
    """
    values = floats_of(view)
    if memory is not None and how.signal == "momentum":
        values = memory.momentum(name, values, how.beta)
    if memory is not None and how.feedback:
        values = memory.corrected(name, values)
    kept = memory is not None and how.feedback
    return LocalSignal(name, region, view, how, values, kept, **more)
