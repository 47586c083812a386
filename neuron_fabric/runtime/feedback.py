# SPDX-License-Identifier: Apache-2.0
"""What a worker keeps of a parameter between steps: the error of its votes, and its momentum.

Error feedback: a worker votes on gradient + residual, and keeps as the new residual what its vote
did not say: ``signal - s * vote``, with the scale s that all ranks decode with. Sent + residual is
thus what came in (within the rounding of two float32 operations). A parameter that goes back to
FP32 gets its residual with its next gradient.

Momentum as the signal (Signum, 1-bit Adam): m = beta * m + (1 - beta) * gradient, and the worker
votes with m. It takes the place of the optimizer's own momentum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


class Memory:
    """Residuals and momenta, float32[elements] by the name of the parameter, in the parameter's
    memory order. They are in units of the scaled loss."""

    def __init__(self) -> None:
        self.residuals: dict[str, F32] = {}
        self.momenta: dict[str, F32] = {}

    def corrected(self, name: str, gradient: F32) -> F32:
        """gradient + residual, in an array of its own."""
        held = self.residuals.get(name)
        return gradient.copy() if held is None else gradient + held

    def keep(self, name: str, signal: F32, sent: F32) -> None:
        """The residual after ``signal`` was voted on and ``sent`` came of it."""
        self.residuals[name] = signal - sent

    def flushed(self, name: str) -> F32 | None:
        """The residual, for a gradient that goes in FP32; it is kept no longer."""
        return self.residuals.pop(name, None)

    def momentum(self, name: str, gradient: F32, beta: float) -> F32:
        """The momentum with ``gradient`` in it, in an array of its own."""
        b = np.float32(beta)
        held = self.momenta.get(name)
        own = (np.float32(1) - b) * gradient
        moved: F32 = own if held is None else b * held + own
        if np.isfinite(moved).all():  # else the step is lost, not the memory
            self.momenta[name] = moved
        return moved.copy()

    def rescale(self, factor: float) -> None:
        """The loss scale has been multiplied by ``factor``, and so all gradients."""
        for held in (self.residuals, self.momenta):
            for name in held:
                held[name] = held[name] * np.float32(factor)
