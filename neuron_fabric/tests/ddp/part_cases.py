# SPDX-License-Identifier: Apache-2.0
"""Cases of the laws: several tensors in one part, parameters too small for votes, norms of
samples, a worker of the wrong sign; as counts of differences (0: it holds)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from neuron_fabric.hook import bucket_hook
from neuron_fabric.hook.payload import decode, packed_vote
from neuron_fabric.profile.binding import LEAST
from neuron_fabric.tests.ddp import law_ranks
from neuron_fabric.tests.ddp.law_cases import B, Case, mixed
from neuron_fabric.tests.ddp.law_ranks import Job, Ranks, differ, patched


def same_part(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """One worker, all tensors by one route in one bucket: each gets its own votes. The twin decodes
    all from the first line of the part."""

    def from_the_start(reduced: Any, route: Any, net: bool, first: int, *more: Any) -> None:
        decode(reduced, route, net, 0, *more)

    routes = dict.fromkeys("abc", B)
    with patched(bucket_hook, "decode", from_the_start if wrong else decode):
        job, plain = (Job(ranks, workers, how, lr=0, cap_mb=25) for how in (lambda _: routes, None))
        for each in (job, plain):
            for step in range(2):  # behind the first DDP makes its buckets anew
                each.backward(step)
    got, own = job.gradients(), plain.gradients()
    job.close()
    plain.close()
    found = 0
    for name in ("a.weight", "b.weight", "c.weight"):
        scale = torch.tensor(np.float32(own[name].double().abs().mean().item()))
        found += differ(got[name], torch.where(own[name] < 0, -scale, scale))
    return found


def small(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """A parameter of 216 elements in a low-bit region; the twin: 216 are enough."""
    regions = {**law_ranks.REGIONS, "head.weight": "c"}
    least = 1 if wrong else LEAST
    seen = []
    with patched(law_ranks, "REGIONS", regions), patched(bucket_hook, "LEAST", least):
        for routes in (None, mixed):
            job = Job(ranks, workers, routes, lr=0)
            job.backward(0)
            seen.append(job.gradients()["head.weight"])
            job.close()
    return differ(*seen)


def norms(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """The FP32 norm of a sample is that of the mean over all places, the sampled ones standing for
    all; the twin: of the sum over the workers."""
    job = Job(ranks, workers, mixed, lr=0, sampled=lambda step: frozenset("abc"))
    plain = Job(ranks, workers, None, lr=0)
    for each in (job, plain):
        each.backward(0)
    job.router.thread.drain()
    [report] = job.controls.reports
    found = 0
    for region in "abc":
        m = plain.gradients()[f"{region}.weight"].flatten().double() * (workers if wrong else 1)
        got, want = report.norms[region][1], float(m @ m)
        found += int(got is None or not 0.5 < got / want < 2)
    job.close()
    plain.close()
    return found


def wrong_sign(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """The votes of worker 1 have the wrong sign: in each region it agrees least, and is against the
    others, who are not; in the twin they are right."""

    def flipped(*args: Any, **more: Any) -> Any:
        vote = packed_vote(*args, **more)
        return replace(vote, packed=replace(vote.packed, lines=~vote.packed.lines))

    there = ranks.rank == 1 and not wrong
    routes = dict.fromkeys("abc", B)
    with patched(bucket_hook, "packed_vote", flipped if there else packed_vote):
        job = Job(ranks, workers, lambda _: routes, lr=0)
        for step in range(12):
            job.backward(step)
        job.router.thread.drain()
    every: list[Any] = [None] * workers
    told = dict(job.controls.reports[-1].agreements)
    dist.all_gather_object(every, told, group=ranks.of(workers))
    job.close()
    low = [rank for rank, one in enumerate(every) for region in "abc" if one[region] < -0.02]
    return int(low != [1, 1, 1])


def _with_twin(law: str, workers: int, case: Any) -> list[tuple[str, int, Case]]:
    return [(law, workers, case), (f"twin: {law}", workers, partial(case, wrong=True))]


CASES: list[tuple[str, int, Case]] = [
    *_with_twin("tensors of one part get their own votes", 1, same_part),
    *_with_twin("small parameters stay in FP32", 2, small),
    *_with_twin("norms of samples are of the mean", 2, norms),
    *_with_twin("a worker of the wrong sign is seen", 4, wrong_sign),
]
"""Name, workers, and what counts the differences."""
