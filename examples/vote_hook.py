# SPDX-License-Identifier: Apache-2.0
"""A DDP communication hook whose reduction is done by the controller.

Every worker packs its gradients into lines (capture spec, "From tensors to lines") and sends them
to the first, which has the device. What the device returns goes back to all and becomes the
gradient:

- G_BINARY, G_TERNARY: ``scale * vote``, vote +1, -1 (or 0). With plain SGD that is signSGD with
  majority vote (docs/references.md): each weight moves by lr * scale, whatever the size of its
  gradient.
- FP32: the ordered sum over the number of workers: the mean, but for the last bits (DDP scales
  before it adds).
"""

# No postponed annotations here: register_comm_hook looks at those of the hook.

from collections.abc import Mapping

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from models.line_packing import (
    F32,
    LINE_BYTES,
    U8,
    Mode,
    lines_needed,
    unpack_binary,
    unpack_fp32,
    unpack_ternary,
)
from neuron_fabric.capture import TensorSpec
from neuron_fabric.ddp import gradients_of
from verif.replay.live import Contribution, Reducer
from verif.replay.tensors import pack_tensor


class VoteState:
    """Routes by parameter name, and the device: a `Reducer` on the first rank, None on others."""

    def __init__(
        self,
        model: DistributedDataParallel,
        routes: Mapping[str, Mode],
        reducer: Reducer | None,
        scale: float,
    ) -> None:
        self.group, self.reducer, self.scale = model.process_group, reducer, scale
        self.names = {id(p): n for n, p in model.module.named_parameters()}
        # The model's order, not the buckets': those change after the first step.
        self.tensors = [
            (TensorSpec(n, tuple(p.shape)), routes[n]) for n, p in model.module.named_parameters()
        ]
        self.lines = [lines_needed(spec.elements, mode) for spec, mode in self.tensors]

    def reduce(self, gradients: Mapping[str, F32]) -> dict[str, F32]:
        """One step: this worker's gradients float32[*shape] in, the common ones out."""
        packed = [pack_tensor(gradients[spec.name], mode) for spec, mode in self.tensors]
        own = torch.from_numpy(np.concatenate(packed))
        first = self.reducer is not None
        sent = [torch.empty_like(own) for _ in range(self.group.size())] if first else None
        dist.gather(own, sent, group=self.group)
        back = torch.empty_like(own)
        if self.reducer is not None and sent is not None:
            back = torch.from_numpy(
                self._on_device(self.reducer, np.stack([s.numpy() for s in sent]))
            )
        dist.broadcast(back, 0, group=self.group)
        return {
            spec.name: self._gradient(spec, mode, lines)
            for (spec, mode), lines in zip(self.tensors, self._split(back.numpy()), strict=True)
        }

    def _on_device(self, reducer: Reducer, sent: U8) -> U8:
        """uint8[W, n, 64] to the result lines uint8[n, 64]."""
        parts = [self._split(one) for one in sent]
        work = [
            Contribution(spec, mode, np.stack([part[i] for part in parts]))
            for i, (spec, mode) in enumerate(self.tensors)
        ]
        returned = reducer.reduce(work)
        return np.concatenate([returned[spec.name].result for spec, _ in self.tensors])

    def _split(self, lines: U8) -> list[U8]:
        return np.split(lines, np.cumsum(self.lines)[:-1])

    def _gradient(self, spec: TensorSpec, mode: Mode, lines: U8) -> F32:
        if mode == Mode.FP32:
            return (unpack_fp32(lines, spec.elements) / self.group.size()).reshape(spec.shape)
        unpack = unpack_binary if mode == Mode.G_BINARY else unpack_ternary
        votes = unpack(lines, spec.elements).astype(np.float32)
        return (votes * np.float32(self.scale)).reshape(spec.shape)

    def bytes_sent(self) -> int:
        """What a worker sends to the device in a step."""
        return sum(self.lines) * LINE_BYTES


def vote_hook(state: VoteState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For `register_comm_hook`. RuntimeError when the model does not fit in one bucket: the device
    takes a step at a time, so give DistributedDataParallel a larger ``bucket_cap_mb``.
    """
    if not (bucket.index() == 0 and bucket.is_last()):
        raise RuntimeError("the model has several buckets: raise bucket_cap_mb")
    views = {state.names[id(p)]: gradient for p, gradient in gradients_of(bucket)}
    common = state.reduce({name: view.detach().numpy() for name, view in views.items()})
    for name, view in views.items():
        view.copy_(torch.from_numpy(common[name]))
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
