# SPDX-License-Identifier: Apache-2.0
"""Helpers of the cases of `test_runtime_laws`: ranks, recorded differences, trainings.

A case is a function of this rank and a number of workers. It records each difference with rank,
parameter, step and the first differing values, and runs to its end, so that all ranks call the same
collectives; then `Ranks.settle` raises on the rank.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.hook.bucket_hook import BucketRouter, bucket_hook
from neuron_fabric.hook.device_hook import DeviceRouter
from neuron_fabric.hook.training_session import Controls, TrainingSession
from neuron_fabric.monitor import StepReport
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.interface import Reducer
from neuron_fabric.reducers.torch_reducer import HostReducer, TensorReducer, TorchReducer

WORLD = 4
REGIONS = {"a.weight": "a", "b.weight": "b", "c.weight": "c"}
MOST_SHOWN = 8
"""Differences of a rank that are printed."""
TWIN = "twin: "
patched = mock.patch.object
"""Context that replaces an attribute: for twins."""
Routes = Callable[[int], Mapping[str, PhaseRoute]]
Values = Mapping[tuple[int, str], torch.Tensor]
"""Tensors by step and parameter."""


class LawError(AssertionError):
    """Failed case: the message has the first differences that this rank recorded."""


class Net(nn.Module):
    """Three linear layers large enough for votes, and a small head.

    Tanh follows each layer but the head; ``linear``: no activation.
    """

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
class FixedDecisions(Controls):
    """Controller of a session whose routes and sampled regions are given functions of the step.

    Attributes:
        of: Routes by region in a step.
        sampled: Regions that are sampled in a step.
        step: Current step.
        reports: Reports of all steps so far.
    """

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


class Ranks:
    """Process groups of this rank, and the differences that the running case recorded."""

    def __init__(self, rank: int, folder: str) -> None:
        self.rank, self.folder = rank, folder
        self._groups = {n: dist.new_group(range(n)) for n in range(1, WORLD + 1)}
        self.engine = "c"
        """Engine of jobs: c, torch, or host: torch with lines that are counted on the host."""
        self._reducers: dict[tuple[int, str], Reducer] = {}
        self._differences: list[str] = []
        self.jobs: list[Job] = []
        """Trainings of the running case, which `settle` closes."""

    def of(self, workers: int) -> Any:
        """Return the process group of ranks 0 to ``workers`` - 1."""
        return self._groups[workers]

    def reducer(self, workers: int, engine: str = "c") -> Any:
        """Return the reducer of the first ``workers`` ranks; it is opened once for all cases."""
        key = workers, engine
        if key not in self._reducers:
            one: Reducer = TensorReducer() if engine == "torch" else TorchReducer()
            one = HostReducer(one, torch.device("cpu")) if engine == "host" else one
            one.open(self.of(workers))
            self._reducers[key] = one
        return self._reducers[key]

    def gather(self, workers: int, value: Any) -> list[Any]:
        """Return the values of the first ``workers`` ranks in rank order."""
        every: list[Any] = [None] * workers
        dist.all_gather_object(every, value, group=self.of(workers))
        return every

    def check(self, holds: object, what: str) -> None:
        """Record a difference with the text ``what`` if ``holds`` is false."""
        if not holds:
            self._differences.append(f"rank {self.rank}: {what}")

    def ends(self, do: Callable[[], object], code: int = 2) -> None:
        """Call ``do`` and record a difference unless it exits with ``code``; 0: it returns."""
        got: Any = 0
        try:
            do()
        except SystemExit as ended:
            got = ended.code
        self.check(got == code, f"the script ends with code {got}, not {code}")

    def equal(self, got: Values, wanted: Values) -> None:
        """Compare tensors bit by bit with ``wanted``; record the first parameter that differs."""
        self._compare(_bits(got), _bits(wanted), "")

    def same(self, workers: int, values: Values) -> None:
        """Compare this rank's tensors bit by bit with rank 0's; record the first that differs.

        Each of the first ``workers`` ranks must call it.
        """
        mine = _bits(values)
        self._compare(mine, self.gather(workers, mine)[0], " of rank 0")

    def _compare(self, got: Mapping[Any, Any], wanted: Mapping[Any, Any], whose: str) -> None:
        self.check(got.keys() == wanted.keys(), f"parameters {[*got]} != {[*wanted]}{whose}")
        for step, name in (key for key in wanted if key in got):
            a, b = got[step, name], wanted[step, name]
            places = np.flatnonzero(a != b)
            if places.size:
                x, y = (float(one[places[0]].view(np.float32)) for one in (a, b))
                what = f"parameter {name}, step {step}: {places.size} of {a.size} elements differ"
                self.check(False, f"{what}, first [{places[0]}]: {x:.9g} != {y:.9g}{whose}")
                return

    def settle(self) -> None:
        """End a case: close its jobs, and raise LawError if it has recorded differences."""
        if self.jobs:
            while self.jobs:
                self.jobs.pop().close()
            gc.collect()
        found, self._differences = self._differences, []
        if found:
            more = f"\n({len(found)} differences)" if len(found) > MOST_SHOWN else ""
            raise LawError("\n".join(found[:MOST_SHOWN]) + more)


def _bits(values: Values) -> dict[tuple[int, str], Any]:
    """Return the bit patterns of the tensors, converted to float32, as flat uint32 arrays."""
    flat = {key: one.detach().float().contiguous().reshape(-1) for key, one in values.items()}
    return {key: one.numpy().view(np.uint32) for key, one in flat.items()}


Case = Callable[[Ranks, int], None]
CASES: dict[str, tuple[int, Case]] = {}
"""Number of workers and case by the name of the law."""


def law(
    name: str, workers: int, twin: bool = True, on_torch: bool = False, **words: Any
) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that registers a case in `CASES` for a number of workers.

    A case with a parameter ``wrong`` is registered a second time, with ``wrong`` True, as the twin
    that must fail.

    Args:
        name: Name of the case; that of the twin begins with `TWIN`.
        workers: Number of workers, at most `WORLD`.
        twin: Whether a twin is registered.
        on_torch: Whether the case is registered with the engine `torch` too.
        **words: Further arguments of the case.
    """

    def register(case: Callable[..., None]) -> Callable[..., None]:
        CASES[name] = workers, partial(case, **words)
        if twin and "wrong" in inspect.signature(case).parameters:
            CASES[TWIN + name] = workers, partial(case, **words, wrong=True)
        if on_torch:
            CASES[f"torch: {name}"] = workers, partial(_on_torch, partial(case, **words))
        return case

    return register


def _on_torch(case: Case, ranks: Ranks, workers: int) -> None:
    ranks.engine = "torch"
    try:
        case(ranks, workers)
    finally:
        ranks.engine = "c"


class Job:
    """Training of `Net` on this rank: DDP with the hook, or without it if ``routes`` is None."""

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
        engine: str = "",
        **router: Any,
    ) -> None:
        torch.manual_seed(1)
        self.rank, self.dtype, self.step = ranks.rank, dtype, 0
        self.to_none: bool | None = True  # what becomes of gradients before a backward
        self.model = DistributedDataParallel(
            Net(linear).to(dtype),
            process_group=ranks.of(workers),
            bucket_cap_mb=cap_mb,
            **(options or {}),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.router: Any = None
        ranks.jobs.append(self)
        if routes is not None:
            self.controls = FixedDecisions(routes, sampled)
            engine = engine or ranks.engine
            kind = BucketRouter if engine == "c" else DeviceRouter
            self.router = kind(self.model, REGIONS, ranks.reducer(workers, engine), **router)
            self.router.small = 0  # the thread packs all buckets but the last
            self.session = TrainingSession(self.router, self.controls)
            self.model.register_comm_hook(self.router, bucket_hook)

    def backward(self, step: int, factor: float = 1.0, some: bool = True) -> None:
        """Run forward and backward of a step over this rank's batch, drawn from step and rank.

        Args:
            step: Step.
            factor: Factor of the loss.
            some: Whether layer ``c`` is used.
        """
        self.step = step
        draw = torch.Generator().manual_seed(100 * step + self.rank)
        x = torch.randn(8, 128, generator=draw).to(self.dtype)
        if self.to_none is not None:
            self.optimizer.zero_grad(set_to_none=self.to_none)
        (self.model(x, some).float().square().mean() * factor).backward()

    def train(self, steps: Sequence[int]) -> Values:
        """Train these steps with SGD; return the weights after each of them by step and name."""
        seen: dict[tuple[int, str], torch.Tensor] = {}
        for step in steps:
            self.backward(step)
            if self.router is not None:
                self.session.observe(0.5)
            self.optimizer.step()
            seen |= {(step, name): one.clone() for (_, name), one in self.weights().items()}
        return seen

    def weights(self) -> Values:
        return {(self.step, n): p.detach() for n, p in self.model.module.named_parameters()}

    def gradients(self, *names: str) -> Values:
        """Return copies of the reduced gradients of the last step: of ``names``, or all.

        A parameter without a gradient is left out.
        """
        return {
            (self.step, name): p.grad.detach().clone()
            for name, p in self.model.module.named_parameters()
            if p.grad is not None and (not names or name in names)
        }

    def gradient(self, name: str) -> torch.Tensor:
        return self.gradients(name)[self.step, name]

    def close(self) -> None:
        """End the threads of the hook and free the model; the reducer stays open for other jobs."""
        if self.router is not None:
            self.router.thread.drain()
            self.router.thread.close()
            self.router.packer.close()
            self.router = None
            del self.session
        self.model = self.optimizer = None
