# SPDX-License-Identifier: Apache-2.0
"""Which parameters DDP puts into one bucket, by torch's own assignment; needs torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch.distributed as dist


def assignment(parameters: Sequence[Any], cap_bytes: int) -> list[list[int]]:
    """Places of ``parameters`` (in the order of `named_parameters`, on whatever device) in the
    buckets that DDP makes once it has seen a backward: from the last parameter on, the first bucket
    small. Order and cuts may differ a little from a model's own order of gradients."""
    order = [n for n in reversed(range(len(parameters))) if parameters[n].requires_grad]
    if not order:
        return []
    first = min(int(dist._DEFAULT_FIRST_BUCKET_BYTES), cap_bytes)
    indices, _ = dist._compute_bucket_assignment_by_size(
        [parameters[n] for n in order], [first, cap_bytes], [False] * len(order)
    )
    return [[order[n] for n in bucket] for bucket in indices]


def buckets_by_region(
    named: Iterable[tuple[str, Any]], cap_bytes: int, regions: Mapping[str, str]
) -> Counter[str]:
    """How many buckets hold a parameter of each region; ``regions`` by the parameter's name."""
    names, parameters = zip(*named, strict=True)
    return Counter(
        region
        for bucket in assignment(parameters, cap_bytes)
        for region in {regions[names[n]] for n in bucket if names[n] in regions}
    )
