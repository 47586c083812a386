# SPDX-License-Identifier: Apache-2.0
"""Ranks of the tests of the backend "pool": `python -m ... CASE[,CASE] STORE WORLD`.

One process imports torch and forks the ranks; it prints their exit codes.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.codec import Route
from neuron_fabric.collectives import PoolError
from neuron_fabric.collectives.torch import NAME
from neuron_fabric.errors import say
from neuron_fabric.hook.attachment import attach
from neuron_fabric.profile import PhaseRoute, sketch
from neuron_fabric.profile.draft_profile import draft, with_routes
from neuron_fabric.profile.profile_types import LEAST_WARMUP, Phases, Warmup
from neuron_fabric.rank_agreement import silent_rank

CASES, STORE, WORLD = sys.argv[1], sys.argv[2], int(sys.argv[3])
RANK = 0
"""Number of this rank, set after the fork."""
SUM = WORLD * (WORLD + 1) // 2
Case = Callable[[], object]


def same(found: Any, wanted: Any) -> None:
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(wanted)), (found, wanted)


def reductions() -> None:
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.float16):
        x = torch.full((5, 3), RANK + 1, dtype=dtype).t()  # not contiguous
        dist.all_reduce(x)
        same(x, torch.full((3, 5), SUM, dtype=dtype))
    for op, wanted in (("AVG", (WORLD - 1) / 2), ("MIN", 0), ("MAX", WORLD - 1)):
        y = torch.tensor(float(RANK))
        dist.all_reduce(y, getattr(dist.ReduceOp, op))
        same(y, float(wanted))
    z = torch.tensor(1.0 + 2**-8 * RANK, dtype=torch.bfloat16)  # rounded once, after the sum
    every = [torch.tensor(1.0 + 2**-8 * rank, dtype=z.dtype).float() for rank in range(WORLD)]
    dist.all_reduce(z)
    same(z, torch.stack(every).sum().to(z.dtype))
    part, whole = torch.empty(2), torch.arange(2.0 * WORLD)
    dist.reduce_scatter_tensor(part, whole)
    same(part, WORLD * whole.view(WORLD, 2)[RANK])
    dist.reduce_scatter(part, list(whole.view(WORLD, 2) + 1))
    same(part, WORLD * (whole.view(WORLD, 2)[RANK] + 1))
    y = torch.tensor([float(RANK + 1)])
    dist.reduce(y, 1)
    same(y, [float(SUM if RANK == 1 else RANK + 1)])
    imaginary = torch.tensor([1 + 2j]).conj().imag  # torch has not negated it yet
    dist.all_reduce(imaginary)
    same(imaginary, [-2.0 * WORLD])
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(5)]
    assert all(work.wait() and work.is_success() for work in works)


def moves() -> None:
    own = torch.full((2, 2), RANK, dtype=torch.bfloat16)
    outs = [torch.empty_like(own) for _ in range(WORLD)]
    dist.all_gather(outs, own)
    same(torch.stack(outs)[:, 0, 0].float(), torch.arange(float(WORLD)))
    whole = torch.empty(2 * WORLD, 2, dtype=torch.bfloat16)
    dist.all_gather_into_tensor(whole, own)
    same(whole, torch.cat(outs))
    got = [torch.empty_like(own) for _ in range(WORLD)] if RANK == 1 else None
    dist.gather(own, got, 1)
    same(torch.stack(got or outs), torch.stack(outs))
    dist.scatter(own, [one + 1 for one in outs] if RANK == 0 else None, 0)
    same(own, torch.full_like(own, RANK + 1))
    dist.broadcast(own, 1)
    same(own, torch.full_like(own, 2))
    found: list[Any] = [None] * WORLD
    dist.all_gather_object(found, "x" * RANK)
    assert found == ["x" * rank for rank in range(WORLD)]
    group = dist.new_group([0, 1])
    if RANK < 2:
        one = torch.ones(1)
        dist.all_reduce(one, group=group)
        same(one, [2.0])
    dist.barrier()


def refusals() -> None:
    ones, ints = torch.ones(WORLD), torch.ones(WORLD, dtype=torch.int32)
    scatter, gather = dist.reduce_scatter_tensor, dist.all_gather_into_tensor
    half = ones[:1].bfloat16()
    for what, call in {
        "PRODUCT of torch.float32": lambda: dist.all_reduce(ones, dist.ReduceOp.PRODUCT),
        "BAND of torch.int32": lambda: dist.all_reduce(ints, dist.ReduceOp.BAND),
        "AVG of torch.int32": lambda: dist.all_reduce(ints, dist.ReduceOp.AVG),
        "SUM of torch.uint8": lambda: dist.all_reduce(ints.to(torch.uint8)),
        "a tensor is strided on meta": lambda: dist.all_reduce(ones.to("meta")),
        "a tensor is sparse_coo on cpu": lambda: dist.broadcast(ones.to_sparse(), 0),
        "give one tensor of that size": lambda: dist.all_gather([ones] * (WORLD + 1), ones),
        "reduce_scatter: tensors of torch.int32 and torch.float32": lambda: scatter(ints[:1], ones),
        "all_gather: tensors of torch.bfloat16 and": lambda: gather(ints.short(), half),
        'send: the backend "pool"': lambda: dist.send(ones, (RANK + 1) % WORLD),
        'all_to_all_single: the backend "pool"': lambda: dist.all_to_all_single(ones, ones),
    }.items():
        with pytest.raises(PoolError, match=what):
            call()
    dist.all_reduce(ones)  # the group is as it was
    same(ones, torch.full((WORLD,), float(WORLD)))


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 300), nn.Linear(300, 5))


def trained(model: Any, session: Any, steps: int) -> torch.Tensor:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(RANK)
    for _ in range(steps):
        loss = model(torch.randn(8, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if session is not None:
            session.observe(loss)
        optimizer.step()
    weights = torch.cat([one.detach().reshape(-1) for one in model.parameters()])
    every = weights.new_empty(WORLD, weights.numel())
    dist.all_gather_into_tensor(every, weights)
    same(every, weights.expand(WORLD, -1))
    return weights


def trainings() -> None:
    """Train by DDP with several buckets and with one; the weights are equal."""
    caps = (0.05, 25)
    models = [DistributedDataParallel(net(), bucket_cap_mb=cap) for cap in caps]
    first, second = (trained(model, None, 10) for model in models)
    same(first, second)


def attached() -> None:
    """Train with votes, and with factors of rank 2, by the pool and by torch: equal weights."""
    for how in (PhaseRoute(Route.G_BINARY), PhaseRoute(Route.FP32, low_rank=2)):
        same(*(attached_weights(how, one) for one in ("torch", f"pool:{STORE}-lines")))


def attached_weights(how: PhaseRoute, reducer: str) -> torch.Tensor:
    """Return the weights of a training whose regions use a route after the warm-up."""
    plan = with_routes(draft("net", sketch(net())), lambda one: how)
    plan = replace(plan, phases=Phases(Warmup(LEAST_WARMUP)), verified=True)
    model = DistributedDataParallel(net())
    session = attach(model, plan, steps=30, reducer=reducer, fp32="ordered", scaler=False, env={})
    assert session is not None
    weights = trained(model, session, 30)
    whole = 30 * 4 * len(weights) * (WORLD - 1)  # sent by ordered sums of all steps
    assert 0 < session.sent[how.route] < whole, session.sent
    session.close()
    return weights


def again() -> None:
    """Make the group again by one store, as torchrun's is, and find a rank that does not ask.

    The answers of the first group are still in the store when rank 0 asks in the second one.
    """
    store = dist.FileStore(f"{STORE}-again", WORLD)
    for turn in range(2):
        dist.destroy_process_group()
        dist.init_process_group(NAME, store=store, rank=RANK, world_size=WORLD)
        asked = turn == 0 or RANK == 0
        time.sleep(0.5 * (turn and RANK > 0))
        found = silent_rank("profile", asked, dist.group.WORLD)
        wanted = "rank 1 has no profile" if turn and RANK == 0 else ""
        assert found == wanted, (turn, found)
        dist.barrier()


def lost() -> None:
    model = DistributedDataParallel(net())
    trained(model, None, 2)
    dist.barrier()
    if RANK == 1:
        os._exit(7)
    with pytest.raises(Exception, match="has ended or closed the pool"):
        model(torch.randn(8, 20)).square().mean().backward()
    os._exit(7)


def run_cases() -> None:
    """Run the cases as one rank."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group(
        NAME,
        init_method=f"file://{STORE}",
        rank=RANK,
        world_size=WORLD,
        timeout=timedelta(seconds=60),
    )
    for case in CASES.split(","):
        globals()[case]()
    dist.destroy_process_group()


def fork(rank: int) -> int:
    """Fork a rank that runs the cases and exits with 0, or with 1 after an exception.

    Returns:
        The number of its process.
    """
    global RANK
    if child := os.fork():
        return child
    RANK = rank
    try:
        run_cases()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # a thread of gloo may outlive what it works for


if __name__ == "__main__":
    import torch._dynamo  # here and not in every rank: DDP imports it

    gc.freeze()  # a collection in a rank need not look at all of torch
    ranks = [fork(rank) for rank in range(WORLD)]
    say(str([os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in ranks]))
