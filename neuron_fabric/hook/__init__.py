# SPDX-License-Identifier: Apache-2.0
"""Operating profiles in a PyTorch training: low-bit gradients where the profile says so.

    from neuron_fabric.hook import attach

    model = DistributedDataParallel(net)
    rt = attach(model, "profile.toml")  # or NF_PROFILE; neither: nothing is registered, None

What these two names are is loaded when they are asked for: they need torch, the rest does not.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["Runtime", "attach"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("neuron_fabric.hook.attachment"), name)
