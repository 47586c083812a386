# SPDX-License-Identifier: Apache-2.0
"""What the cases of the laws are made of: ranks, trainings, decisions given beforehand."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.hook.attached import Runtime
from neuron_fabric.hook.bucket_hook import BucketRouter, bucket_hook
from neuron_fabric.monitor import StepReport
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.torch_reducer import TorchReducer

WORLD = 4
REGIONS = {"a.weight": "a", "b.weight": "b", "c.weight": "c"}
Routes = Callable[[int], Mapping[str, PhaseRoute]]


class Net(nn.Module):
    """Three layers that are large enough for votes, and a head; ``linear``: no activation."""

    def __init__(self, linear: bool = False) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(128, 48), nn.Linear(48, 36)
        self.c, self.head = nn.Linear(36, 36), nn.Linear(36, 6)
        self.linear = linear

    def forward(self, x: torch.Tensor, some: bool = True) -> torch.Tensor:
        act = (lambda h: h) if self.linear else torch.tanh
        h = act(self.b(act(self.a(x))))
        out: torch.Tensor = self.head(act(self.c(h)) if some else h)
        return out


@dataclass
class Fixed:
    """Decisions that are given beforehand, by step."""

    of: Routes
    sampled: Callable[[int], frozenset[str]] = lambda step: frozenset()
    step: int = 0
    reports: list[StepReport] = field(default_factory=list)

    def routes(self) -> Mapping[str, PhaseRoute]:
        return self.of(self.step)

    def samples(self) -> frozenset[str]:
        return self.sampled(self.step)

    def step_end(self, report: StepReport) -> None:
        self.step += 1
        self.reports.append(report)

    def state_dict(self) -> Mapping[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        self.step = values["step"]

    def close(self) -> None:
        pass


class Ranks:
    """The groups of this rank: ``of(n)`` is that of the first n, with its reducer."""

    def __init__(self, rank: int, folder: str) -> None:
        self.rank, self.folder = rank, folder
        self._groups = {n: dist.new_group(range(n)) for n in range(1, WORLD + 1)}
        self._reducers: dict[int, TorchReducer] = {}

    def of(self, workers: int) -> Any:
        return self._groups[workers]

    def reducer(self, workers: int) -> TorchReducer:
        if workers not in self._reducers:
            self._reducers[workers] = TorchReducer()
            self._reducers[workers].open(self.of(workers))
        return self._reducers[workers]

    def same(self, workers: int, values: torch.Tensor) -> int:
        """Ranks that have other bits than this one."""
        every: list[Any] = [None] * workers
        own = values.detach().float().numpy().tobytes()
        dist.all_gather_object(every, own, group=self.of(workers))
        return sum(one != own for one in every)


class Job:
    """One training: DDP with the runtime, or without where ``routes`` is None."""

    def __init__(
        self,
        ranks: Ranks,
        workers: int,
        routes: Routes | None,
        *,
        lr: float = 0.05,
        cap_mb: float = 0.008,
        dtype: torch.dtype = torch.float32,
        linear: bool = False,
        sampled: Callable[[int], frozenset[str]] = lambda step: frozenset(),
        options: Mapping[str, Any] | None = None,
        **router: Any,
    ) -> None:
        torch.manual_seed(1)
        self.rank, self.dtype = ranks.rank, dtype
        self.model = DistributedDataParallel(
            Net(linear).to(dtype),
            process_group=ranks.of(workers),
            bucket_cap_mb=cap_mb,
            **(options or {}),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.router: Any = None
        if routes is not None:
            self.controls = Fixed(routes, sampled)
            self.router = BucketRouter(self.model, REGIONS, ranks.reducer(workers), **router)
            self.router.small = 0  # all buckets but the last are packed by the thread
            self.runtime = Runtime(self.router, self.controls)
            self.model.register_comm_hook(self.router, bucket_hook)

    def data(self, step: int) -> torch.Tensor:
        """The batch of this rank in a step."""
        draw = torch.Generator().manual_seed(100 * step + self.rank)
        return torch.randn(8, 128, generator=draw).to(self.dtype)

    def backward(self, step: int, factor: float = 1.0, some: bool = True) -> None:
        self.optimizer.zero_grad()
        (self.model(self.data(step), some).float().square().mean() * factor).backward()

    def train(self, steps: Sequence[int]) -> torch.Tensor:
        """The weights after these steps."""
        for step in steps:
            self.backward(step)
            if self.router is not None:
                self.runtime.observe(0.5)
            self.optimizer.step()
        return self.weights()

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])

    def gradients(self) -> dict[str, torch.Tensor]:
        named = self.model.module.named_parameters()
        return {name: p.grad.detach().clone() for name, p in named if p.grad is not None}

    def close(self) -> None:
        """The reducer stays open for other jobs."""
        if self.router is not None:
            self.router.thread.drain()
            self.router.thread.close()
            self.router.packer.close()
            self.router = None
            del self.runtime
        self.model = self.optimizer = None
        gc.collect()


@contextmanager
def patched(where: Any, name: str, value: Any) -> Iterator[None]:
    """Something else in its place: for twins."""
    before = getattr(where, name)
    setattr(where, name, value)
    try:
        yield
    finally:
        setattr(where, name, before)


def differ(one: torch.Tensor, other: torch.Tensor) -> int:
    """Elements with other bits."""
    a, b = (x.detach().contiguous().float().numpy().view(np.uint32) for x in (one, other))
    return int((a != b).sum())
