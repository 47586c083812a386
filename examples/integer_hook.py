# SPDX-License-Identifier: Apache-2.0
"""A DDP communication hook whose integer codes are summed by the controller.

Every worker packs its gradients into lines (capture spec, "From tensors to lines") and sends them
to the first, which has the device. What the device returns goes back to all and becomes the
gradient:

- G_INT4, G_INT8: scale * sum of codes / workers, the mean of what the codes stand for; rounded
  stochastically, so that it is right on average. All workers share the scale of a bucket, of which
  they exchange the largest |x| first.
- FP32: the ordered sum over the number of workers: the mean, but for the last bits (DDP scales
  before it adds).

It is not over the runtime (`neuron_fabric.runtime.attach`): the routes of a profile are votes,
ternary votes and FP32 so far.
"""

# No postponed annotations here: register_comm_hook looks at those of the hook.

from collections.abc import Mapping

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from models.line_packing import F32, LINE_BYTES, U8, Mode, lines_needed, unpack_fp32
from models.quantize import bucket_maxima, buckets, mean_of_sums, scale_of_each, scales
from neuron_fabric.capture import TensorSpec
from neuron_fabric.ddp import gradients_of
from verif.replay.live import Contribution, Reducer
from verif.replay.tensors import pack_shared, pack_tensor, sums_of_lines
from verif.replay.views import Lines, carrier


class IntegerState:
    """Routes by parameter name, and the device: a `Reducer` on the first rank, None on others."""

    def __init__(
        self,
        model: DistributedDataParallel,
        routes: Mapping[str, Mode],
        reducer: Reducer | None,
    ) -> None:
        self.group, self.reducer = model.process_group, reducer
        votes = sorted(name for name, mode in routes.items() if mode != Mode.FP32 and not mode.bits)
        if votes:
            raise ValueError(f"{votes[0]}: votes go by neuron_fabric.runtime.attach")
        self.names = {id(p): n for n, p in model.module.named_parameters()}
        # The model's order, not the buckets': those change after the first step.
        self.tensors = [
            (TensorSpec(n, tuple(p.shape)), routes[n]) for n, p in model.module.named_parameters()
        ]
        self.lines = [lines_needed(spec.elements, mode) for spec, mode in self.tensors]
        self.sizes = [spec.elements for spec, _ in self.tensors]
        self.draws = np.random.default_rng(dist.get_rank(self.group))

    def reduce(self, gradients: Mapping[str, F32]) -> dict[str, F32]:
        """One step: this worker's gradients float32[*shape] in, the common ones out."""
        units = self._units(gradients)
        packed = [
            self._pack(gradients[spec.name], mode, units.get(spec.name))
            for spec, mode in self.tensors
        ]
        own = torch.from_numpy(np.concatenate(packed))
        first = self.reducer is not None
        sent = [torch.empty_like(own) for _ in range(self.group.size())] if first else None
        dist.gather(own, sent, group=self.group)
        back = torch.empty(sum(self.sizes))
        if self.reducer is not None and sent is not None:
            lines = self._on_device(self.reducer, np.stack([s.numpy() for s in sent]))
            back = torch.from_numpy(
                np.concatenate(
                    [
                        self._gradient(spec, mode, lines[spec.name], units)
                        for spec, mode in self.tensors
                    ]
                )
            )
        dist.broadcast(back, 0, group=self.group)
        parts = np.split(back.numpy(), np.cumsum(self.sizes)[:-1])
        return {
            spec.name: part.reshape(spec.shape)
            for (spec, _), part in zip(self.tensors, parts, strict=True)
        }

    def _units(self, gradients: Mapping[str, F32]) -> dict[str, F32]:
        """The scale of each element, of tensors that go by integer codes; equal in all workers."""
        out = {}
        for spec, mode in self.tensors:
            if mode.bits:
                maxima = torch.from_numpy(bucket_maxima(gradients[spec.name].reshape(-1)))
                dist.all_reduce(maxima, dist.ReduceOp.MAX, group=self.group)
                out[spec.name] = scale_of_each(scales(maxima.numpy(), mode), spec.elements)
        return out

    def _pack(self, gradient: F32, mode: Mode, u: F32 | None) -> U8:
        """This worker's tensor as lines uint8[n, 64]; ``u``: the scales of its codes."""
        if u is None:
            return pack_tensor(gradient, mode)
        return pack_shared(gradient[None], mode, u, self.draws.random((1, gradient.size)))[0]

    def _on_device(self, reducer: Reducer, sent: U8) -> dict[str, Lines]:
        """uint8[W, n, 64] to what is read of each tensor."""
        parts = [np.split(one, np.cumsum(self.lines)[:-1]) for one in sent]
        work = [
            Contribution(spec, mode, np.stack([part[i] for part in parts]))
            for i, (spec, mode) in enumerate(self.tensors)
        ]
        return reducer.reduce(work)

    def _gradient(
        self, spec: TensorSpec, mode: Mode, lines: Lines, units: Mapping[str, F32]
    ) -> F32:
        """The common gradient float32[elements], from what was read of the tensor."""
        workers = self.group.size()
        if mode == Mode.FP32:
            return unpack_fp32(lines.result, spec.elements) / np.float32(workers)
        sums = sums_of_lines(mode, carrier(mode), lines, workers).reshape(-1)[: spec.elements]
        return mean_of_sums(sums, units[spec.name], workers)

    def bytes_sent(self) -> int:
        """What a worker sends in a step: its lines, and a maximum of 4 bytes a bucket of codes."""
        maxima = sum(buckets(spec.elements) for spec, mode in self.tensors if mode.bits)
        return sum(self.lines) * LINE_BYTES + 4 * maxima


def integer_hook(
    state: IntegerState, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
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
