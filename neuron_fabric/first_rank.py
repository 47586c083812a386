# SPDX-License-Identifier: Apache-2.0
"""One line for all ranks of a job; needs torch."""

from __future__ import annotations

import hashlib
from typing import Any

import torch.distributed as dist


def is_first(text: str, group: Any = None) -> bool:
    """Whether this rank is the first of ``group`` (the world) to say ``text``: a launcher that sees
    one rank fail ends the others, which may not have come so far, so it need not be rank 0."""
    if not dist.is_initialized():
        return True
    try:
        store = dist.distributed_c10d._get_default_store()
        count: int = store.add(f"neuron_fabric/{hashlib.sha256(text.encode()).hexdigest()}", 1)
    except (AttributeError, RuntimeError):  # of torch's inner parts, or its keeper has ended
        return bool(dist.get_rank() == 0)
    return (count - 1) % int(dist.get_world_size(group)) == 0
