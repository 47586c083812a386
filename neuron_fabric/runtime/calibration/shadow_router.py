# SPDX-License-Identifier: Apache-2.0
"""The hook of a calibration: FP32 as by DDP without a hook, bit for bit, and every so many steps
the packed reduction beside it, which changes nothing; needs torch."""

# No postponed annotations here: register_comm_hook looks at those of the hook.

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.codec import Route
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.profile.binding import LEAST
from neuron_fabric.runtime.backends.interface import F32, Outcome
from neuron_fabric.runtime.backends.torch_reducer import TorchReducer
from neuron_fabric.runtime.bucket_hook import DTYPES, BucketRouter
from neuron_fabric.runtime.calibration.shadow_sums import (
    OfWorkers,
    decoded_net,
    decoded_vote,
    shadow_sums,
    squared,
)
from neuron_fabric.runtime.decode import common_scale, decode
from neuron_fabric.runtime.outgoing import (
    Vote,
    parts_of,
    places,
    signal_of,
    values_of,
)
from neuron_fabric.runtime.sidecar import sidecar

Found = dict[tuple[str, str, str], Mapping[str, float]]
"""Sums by parameter, route and decode."""


class ShadowRouter(BucketRouter):
    """No parameter has a region, so every bucket goes as by DDP. ``found``: what the step has shown
    so far, on rank 0; the others take part in the reduction only."""

    def __init__(
        self,
        model: DistributedDataParallel,
        reducer: TorchReducer,
        every: int,
        routes: Sequence[Route],
    ) -> None:
        super().__init__(model, {}, reducer)
        self._every = every
        # Of votes the counts come back: the votes follow from them.
        self._hows = [PhaseRoute(route, "net" if route.votes else "vote") for route in routes]
        self._looks = self.rank == 0
        self.found: Found = {}

    @property
    def due(self) -> bool:
        """Whether this step is a sample."""
        return self._every > 0 and self.step % self._every == 0

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        votes: list[Vote] = []
        if self.due and not buffer.is_sparse and buffer.dtype in DTYPES:
            votes = self._votes(bucket)
        if not votes:
            return super()._reduce(bucket)
        own = _own(votes, self._hows)
        side = sidecar([vote.column for vote in votes])
        handle = self.reducer.submit(self.step, bucket.index(), parts_of(votes), side)
        mean = super()._reduce(bucket)  # from here on the buffer holds something else
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def finish() -> None:
            outcome = self.reducer.wait(handle)
            every = self.reducer.second_group.gather(torch.from_numpy(own)).numpy()
            mean.wait()
            if self._looks:
                self._look(votes, outcome, every)
            future.set_result(buffer)

        self.thread.put(finish, future.set_exception)
        return future

    def _votes(self, bucket: dist.GradBucket) -> list[Vote]:
        """Of every parameter that is large enough, one by each route."""
        return self._packed(
            [
                signal_of(name, "", gradient.view(-1), how, None, shadow=True)
                for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True)
                if parameter.numel() >= LEAST
                for name in [self.names[id(parameter)]]
                for how in self._hows
            ]
        )

    def _look(self, votes: Sequence[Vote], outcome: Outcome, own: Any) -> None:
        """``own``: float64[W, votes * 3], see `_own`."""
        total = np.zeros(own.shape[1])
        for row in own:  # in the order of the workers
            total = total + row
        sums = total.reshape(len(votes), 3)
        for n, (vote, part, first) in enumerate(places(votes)):
            route, present = vote.how.route, outcome.present[n]
            s, net = common_scale(outcome.scales[n], present, vote.how), None
            out = np.empty(vote.view.numel(), np.float32)
            if vote.units is None:
                net = out
                decode(outcome.parts[part], route, True, first, out, np.float32(present), present)
                decoded = {
                    "vote": decoded_vote(net, route, s),
                    "net": decoded_net(net, s, present) if present else net,
                }
            else:
                more = (vote.units, self.workers)
                decode(outcome.parts[part], route, False, first, out, s, present, *more)
                decoded = {"vote": out}
            m = values_of(vote.view)
            of_workers = OfWorkers(sums[n, 0], sums[n, 1], {route: sums[n, 2]})
            for name, d in decoded.items():
                key = (vote.name, route.value, name)
                self.found[key] = shadow_sums(m, d, net, self.workers, route, of_workers)


def _own(votes: Sequence[Vote], hows: Sequence[PhaseRoute]) -> Any:
    """Of this worker, float64[votes * 3]: squared norm, exact zeros, open gates. The norm is looked
    at once a parameter: its votes stand together."""
    rows, norm = [], 0.0
    for n, vote in enumerate(votes):
        if n % len(hows) == 0:
            values: F32 = values_of(vote.view)
            norm = squared(values)
        rows += [norm, float(vote.packed.zeros), float(vote.packed.open_gates)]
    return np.array(rows, np.float64)
