# SPDX-License-Identifier: Apache-2.0
"""Buckets that DDP makes of a model's parameters, computed by torch's own function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch.distributed as dist


def bucket_assignment(parameters: Sequence[Any], cap_bytes: int) -> list[list[int]]:
    """Return the assignment of parameters to the buckets of DDP, computed by torch's own function.

    DDP makes these buckets once it has seen a backward: from the last parameter on, with a small
    first bucket. The order of the gradients of a model may differ a little from that.

    Args:
        parameters: parameters in the order of `named_parameters`, on any device.
        cap_bytes: size of a bucket.

    Returns:
        Positions in ``parameters`` of the members of each bucket.
    """
    order = [n for n in reversed(range(len(parameters))) if parameters[n].requires_grad]
    if not order:
        return []
    first = min(int(dist._DEFAULT_FIRST_BUCKET_BYTES), cap_bytes)
    indices, _ = dist._compute_bucket_assignment_by_size(
        [parameters[n] for n in order], [first, cap_bytes], [False] * len(order)
    )
    return [[order[n] for n in bucket] for bucket in indices]


def buckets_by_region(
    named: Iterable[tuple[str, Any]], cap_bytes: int, regions: Mapping[str, Collection[str]]
) -> Counter[str]:
    """Return how many buckets of DDP have a parameter of each region.

    Args:
        named: (name, parameter) in the order of `named_parameters`.
        cap_bytes: Size of a bucket.
        regions: Profile regions by name of parameter; its slices may have several.
    """
    names, parameters = zip(*named, strict=True)
    return Counter(
        region
        for bucket in bucket_assignment(parameters, cap_bytes)
        for region in {one for n in bucket for one in regions.get(names[n], ())}
    )
