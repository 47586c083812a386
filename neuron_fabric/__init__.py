# SPDX-License-Identifier: Apache-2.0
"""Gradient capture and low-bit gradients for PyTorch DistributedDataParallel.

The public entry of a training script is one function, before the first backward::

    from neuron_fabric import attach

    model = DistributedDataParallel(net)
    session = attach(model, "profile.toml")  # without a profile: plain FP32, captured if asked

`attach` needs torch, which is imported on the first access. `neuron_fabric.capture` reads and
writes captures with numpy and safetensors alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuron_fabric.version import VERSION

if TYPE_CHECKING:
    from neuron_fabric.hook.attachment import attach

__all__ = ["attach"]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    """Import `attach` on the first access (PEP 562)."""
    if name != "attach":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from neuron_fabric.hook.attachment import attach

    return attach
