# SPDX-License-Identifier: Apache-2.0
"""How the FP32 parameters of a bucket are reduced; needs torch.

- ring: DDP's own all-reduce of 1/W times each gradient. Buckets whose parameters are all FP32 come
  out as by DDP without a hook, bit for bit. Of a mixed bucket only the FP32 parameters are reduced:
  a ring of three or more then adds in another order, as its chunks are cut elsewhere.
- ordered: added in the order of workers, divided by W: the bits depend on nothing but the
  gradients. They travel as FP32 lines, beside the votes.
- whole: for tests. Every bucket is reduced as by DDP, then votes take the place of what they
  decide: no saving, and the FP32 parameters of mixed buckets are those of DDP.
"""

# No postponed annotations here: they would be strings where torch looks at them.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric.mean import DdpMean

RING, ORDERED, WHOLE = "ring", "ordered", "whole"
PATHS = (RING, ORDERED, WHOLE)


@dataclass(frozen=True)
class Reduction:
    """FP32 gradients under way: ``flat`` holds what ``views`` are to become."""

    work: Any
    flat: torch.Tensor
    views: Sequence[torch.Tensor]

    def finish(self) -> None:
        """Wait, and put each in its place."""
        self.work.wait()
        parts = self.flat.split([view.numel() for view in self.views])
        for view, part in zip(self.views, parts, strict=True):
            view.copy_(part)


def ring(
    bucket: dist.GradBucket,
    mean: DdpMean,
    group: Any,
    chosen: Sequence[int],
    sampled: Sequence[torch.Tensor] = (),
) -> Reduction | None:
    """Start the mean of the gradients at these places of a mixed bucket, in one buffer, with the
    ``sampled`` elements of others behind them, which are scaled already. None: there are none."""
    mean.scale(bucket, frozenset(chosen))
    gradients = bucket.gradients()
    views = [*(gradients[n].view(-1) for n in chosen), *sampled]
    if not views:
        return None
    flat = torch.cat(views)
    return Reduction(dist.all_reduce(flat, group=group, async_op=True), flat, views)
