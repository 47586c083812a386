# SPDX-License-Identifier: Apache-2.0
"""Communication hook whose buckets are packed and decoded in torch operations; needs torch.

It reduces a bucket as `bucket_hook` does, on the device of the gradients. CUDA work goes to one
side stream, which waits for backward's stream at each bucket; the future of a bucket makes the
streams of its users wait for that stream. With NCCL the thread of backward starts everything and
waits for nothing. With gloo, or a reducer on the host, the threads of `BucketRouter` wait.

Numbers for the monitor are computed on the device and read once a step, by the thread of the
report. The host waits for the device in one place: the first bucket of a step waits for the report
of the step before, as the routes of the step depend on it. By then the device has the forward pass
and a part of backward in its queue.
"""

# No postponed annotations here, as in the module of the hook.

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.codec import torch_engine
from neuron_fabric.codec.torch_engine import on
from neuron_fabric.hook import tensor_payload
from neuron_fabric.hook.bucket_hook import WHOLE, BucketRouter
from neuron_fabric.hook.error_feedback import floats_of
from neuron_fabric.hook.monitor_samples import compared
from neuron_fabric.hook.payload import Vote, places
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.reducers.interface import Outcome
from neuron_fabric.reducers.torch_reducer import TensorReducer

Seen = Callable[[Sequence[float]], None]


class DeviceRouter(BucketRouter):
    """State of the hook that reduces buckets on their device.

    It does not support ``fallback`` for tensors that are not finite: the host would have to wait
    for each tensor to see whether it is.
    """

    payload = tensor_payload

    def __init__(self, *words: Any, **options: Any) -> None:
        """Create the state, see `BucketRouter`."""
        super().__init__(*words, **options)
        self._late: list[tuple[Seen, Tensor]] = []
        self._stream: Any = None
        if self.device.type == "cuda":
            self._stream = torch.cuda.Stream(self.device)
            self.inline = isinstance(self.reducer, TensorReducer)
            self.thread.context = self.packer.context = self._on_stream

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    @contextmanager
    def _after_backward(self) -> Iterator[None]:
        """Let the side stream wait for what backward has queued, and use it."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with self._on_stream():
            yield

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        with self._after_backward():
            return super()._reduce(bucket)

    def _timed(self, flat: torch.Tensor, future: Any) -> Any:
        # A future of CUDA tensors is complete when the work is queued: there is no time to see.
        return future if flat.is_cuda else super()._timed(flat, future)

    def _decode(self, votes: Sequence[Any], outcome: Outcome) -> None:
        scales = tensor_payload.common_scales(votes, outcome)
        decoded = {}
        for n, (vote, part, first) in enumerate(places(votes)):
            present, s, reduced = outcome.present[n], scales[n], outcome.parts[part]
            d, c = tensor_payload.decode(vote, reduced, first, s, present, self.workers)
            mean = self._mean(vote)
            if not vote.shadow:
                vote.view.copy_(d)
                decoded[vote.name] = d, self._share[vote.name]
            if vote.kept:
                old = self.memory.residuals.get(vote.name, torch.zeros_like(d))
                self.memory.keep(vote.name, vote.values, tensor_payload.own_values(vote, s))
                kept = self.memory.residuals[vote.name]
                self.memory.residuals[vote.name] = torch.where(s.isfinite().all(), kept, old)
            self._look(vote, mean, d, c, s)
        if Reason.SATURATION not in self.off:
            self.signs.see(decoded)

    def _mean(self, vote: Vote) -> Tensor | None:
        """Return the FP32 mean at the sampled elements of a parameter, as `_mean_at`."""
        if vote.shadow:
            return floats_of(vote.view)
        if vote.sample is None or self.fp32 != WHOLE:
            return vote.sample
        return vote.view.clone() if vote.index is None else vote.view[on(vote.index, self.device)]

    def _look(self, vote: Vote, mean: Tensor | None, d: Tensor, c: Tensor, s: Tensor) -> None:
        """Compute the numbers of a decoded tensor, which `settle` gives to the monitor."""
        zero = torch.zeros((), dtype=torch.float64, device=d.device)
        numbers = [s.isfinite().all(), _dot(d, d), c.abs().sum() if vote.net else zero, zero, zero]
        if vote.how.route.votes:
            share = self._share[vote.name]
            route, lines = vote.how.route, len(vote.lines)
            at, index = _compared(d.device, d.numel(), lines, route, share)
            own = torch_engine.votes_of(vote.lines[at], route).view(-1)
            product = own[: index.numel()] * d[index].sign() * (vote.column[1] > 0)
            numbers[3:] = [(product > 0).sum(), (product != 0).sum()]
        if mean is not None:
            m = floats_of(mean)
            own = d if vote.index is None else d[on(vote.index, d.device)]
            numbers += [_dot(m, own), _dot(m, m), _dot(own, own)]
        found = torch.stack([one.double() for one in numbers])
        factor = 1.0 if mean is None else d.numel() / max(1, mean.numel())
        region, net, shadow, elements = vote.region, vote.net, vote.shadow, d.numel()

        def seen(values: Sequence[float]) -> None:
            finite, square, margin, same, compared, *sample = values
            if not finite:
                self.measured.nonfinite += 1
                return
            if not shadow:
                self.measured.add_norm(region, square)
                if net:
                    self.measured.add_margin(region, margin, elements)
            if compared:
                self.agreements.add(region, int(same), int(compared))
            if sample:
                md, mm, dd = sample
                self.measured.add_sample(region, (md, mm, dd), factor, shadow)

        self._late.append((seen, found))

    def settle(self) -> None:
        """Read the numbers of the step from the device, by one copy, for the monitor."""
        late, self._late = self._late, []
        if late:
            sizes = [numbers.numel() for _, numbers in late]
            values = torch.cat([numbers for _, numbers in late]).cpu().split(sizes)
            for (seen, _), own in zip(late, values, strict=True):
                seen(own.tolist())


def counts_on_device(model: DistributedDataParallel) -> bool:
    """Return whether the process group of a model exchanges tensors of its device.

    Gloo exchanges those of the CPU. Of CUDA tensors it does so for sums alone, so their lines are
    counted on the host (`HostReducer`).
    """
    device = next(model.parameters()).device
    backend = model.process_group._get_backend(device)  # a group may have one for each device
    return device.type == "cpu" or str(backend.name()).lower() == dist.Backend.NCCL


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a.double() * b.double()).sum()


@lru_cache(maxsize=4096)
def _compared(device: torch.device, *tensor: Any) -> tuple[Tensor, ...]:
    """Return `compared` of a tensor on a device."""
    return tuple(on(one, device) for one in compared(*tensor))
