# SPDX-License-Identifier: Apache-2.0
"""Buckets without an outcome: every rank reduces them in FP32, as counts of differences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from neuron_fabric.hook.bucket_hook import BucketRouter
from neuron_fabric.reducers.interface import BucketLost, Outcome
from neuron_fabric.reducers.torch_reducer import TorchReducer
from neuron_fabric.tests.ddp.law_cases import EB, Case, mixed
from neuron_fabric.tests.ddp.law_ranks import Job, Ranks, differ, patched


class Lossy:
    """A reducer that loses the buckets of some steps."""

    def __init__(self, own: TorchReducer, steps: Sequence[int]) -> None:
        self.own, self.steps = own, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def submit(self, step: int, *what: Any) -> Any:
        return step, self.own.submit(step, *what)

    def wait(self, handle: Any) -> Outcome:
        step, own = handle
        outcome = self.own.wait(own)
        if step in self.steps:
            self.counters.events["lost"] += 1
            raise BucketLost("for the test")
        return outcome


def lost_is_ddp(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """With two workers, whose sums have one order, a lost bucket has the gradients of DDP."""
    found = 0
    instead = (lambda *args: None) if wrong else BucketRouter._lost
    for fp32 in ("ring", "ordered", "whole"):
        with patched(BucketRouter, "_lost", instead):
            job = Job(ranks, workers, mixed, fp32=fp32)
            job.router.reducer = Lossy(job.router.reducer, range(9))
            plain = Job(ranks, workers, None)
            for step in range(3):
                for one in (job, plain):
                    one.backward(step)
                found += sum(
                    differ(gradient, plain.gradients()[name])
                    for name, gradient in job.gradients().items()
                )
            found += ranks.same(workers, torch.cat([g.flatten() for g in job.gradients().values()]))
            job.router.thread.drain()
            found += int(all(not one.reducer.lost for one in job.controls.reports))
        job.close()
        plain.close()
    return found


def residuals_stay(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """Error feedback: a lost bucket sends the gradient in FP32, and nothing is forgotten."""

    def forgets(router: BucketRouter, votes: Any, others: Any) -> None:
        router.memory.residuals.clear()

    job = Job(ranks, workers, lambda step: dict.fromkeys("abc", EB))
    job.router.reducer = Lossy(job.router.reducer, (1,))
    job.backward(0)
    job.router.thread.drain()
    before = {name: held.copy() for name, held in job.router.memory.residuals.items()}
    with patched(BucketRouter, "_lost", forgets if wrong else BucketRouter._lost):
        job.backward(1)
        job.router.thread.drain()
    after = job.router.memory.residuals
    found = sum(
        int(name not in after or (after[name] != held).any()) for name, held in before.items()
    )
    job.close()
    return found + int(not before)


def _with_twin(law: str, workers: int, case: Any) -> list[tuple[str, int, Case]]:
    return [(law, workers, case), (f"twin: {law}", workers, partial(case, wrong=True))]


CASES: list[tuple[str, int, Case]] = [
    *_with_twin("a lost bucket is that of DDP", 2, lost_is_ddp),
    *_with_twin("a lost bucket leaves residuals", 3, residuals_stay),
]
"""Name, workers, and what counts the differences."""
