# SPDX-License-Identifier: Apache-2.0
"""The reduction of DistributedDataParallel without a hook, as a hook; needs torch."""

# No postponed annotations here: register_comm_hook looks at those of a hook.

from collections.abc import Collection
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class DdpMean:
    """The mean over ranks, equal bit for bit to what ``model`` computes without a hook.

    The `allreduce_hook` of torch is not: it divides every gradient by W, while DDP multiplies by
    1/W as it copies a gradient into the bucket. DDP divides where it has nothing to scale while
    copying: a gradient that is a view of the bucket already (``gradient_as_bucket_view``), sparse
    gradients, and the whole bucket under ``batched_grad_copy``. Unless W is a power of two, the
    two differ in the last bit.

    One option cannot be followed: under ``model.join(divide_by_initial_world_size=False)`` DDP
    scales by the number of ranks that still have data, which a hook is not told.
    """

    def __init__(self, model: DistributedDataParallel) -> None:
        """Before the first backward of ``model``."""
        self._group, self._workers = model.process_group, dist.get_world_size(model.process_group)
        self._divide = bool(getattr(model, "batched_grad_copy", False))
        # Only where gradients may be views, and where it makes a difference.
        power_of_two = self._workers & (self._workers - 1) == 0
        self._watch = model.gradient_as_bucket_view and not self._divide and not power_of_two
        self._storage: dict[int, int] = {}
        self._views: set[int] = set()
        for parameter in model.module.parameters():
            if self._watch and parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(partial(_note, self._storage))

    def __call__(self, _: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Scale the bucket and sum it over the ranks."""
        buffer = bucket.buffer()
        if self._watch and not buffer.is_sparse:
            self.scale(bucket, range(len(bucket.parameters())))
        elif buffer.is_sparse or self._divide:
            buffer.div_(self._workers)
        else:
            buffer.mul_(1.0 / self._workers)
        work = dist.all_reduce(buffer, group=self._group, async_op=True)
        return work.get_future().then(_first)

    def scale(self, bucket: dist.GradBucket, chosen: Collection[int]) -> None:
        """Scale the gradients at these places of a dense bucket, each as DDP would scale it.

        The decision uses the address of each gradient when it was accumulated: by now all are
        views. Call it for every bucket, with whatever choice: the other gradients are noted all
        the same.
        """
        own = bucket.buffer().untyped_storage().data_ptr() if self._watch else 0
        parameters = bucket.parameters() if self._watch else [None] * len(bucket.gradients())
        for n, (parameter, gradient) in enumerate(zip(parameters, bucket.gradients(), strict=True)):
            divide = self._divide
            if self._watch:
                key = id(parameter)
                # Not accumulated in this step: it is where the step before has left it.
                divide = self._storage.pop(key, own if key in self._views else 0) == own
                self._views.add(key)
            if n not in chosen:
                continue
            if divide:
                gradient.div_(self._workers)
            else:
                gradient.mul_(1.0 / self._workers)


def _note(storage: dict[int, int], parameter: torch.Tensor) -> None:
    """Note where the gradient lies before DDP takes it.

    A function, not a method: parameters outlive the group.
    """
    gradient = parameter.grad
    if gradient is not None and not gradient.is_sparse:
        storage[id(parameter)] = gradient.untyped_storage().data_ptr()


def _first(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]
