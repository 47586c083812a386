# SPDX-License-Identifier: Apache-2.0
"""Rank of `nf measure bench collectives`, a process with a gloo group and a pool.

Call: `python -m scripts.ranks.collective_ranks FOLDER RUNS SIZE...`. Each collective runs by both
backends in turn. Every rank checks every output; the failures of all ranks are added. Rank 0 writes
FOLDER/result.json: for each collective and size the seconds of a call by backend (the slowest
rank's of each run), the processor time of all ranks, the number of wrong outputs, and whether all
bits of the sum were those of the sum in the order of ranks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import neuron_fabric.collectives.torch as pool
from neuron_fabric.codec.reduction import ordered_sum
from scripts.ranks.rank_process import Rank

GLOO = "gloo"
COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter")
_AT_ONCE = 1 << 18
"""Bytes of the calls that are timed together."""
_MOST_CALLS = 16
Call = Callable[[torch.Tensor, torch.Tensor, Any], Any]


def _drawn(rank: int, elements: int) -> torch.Tensor:
    rng = np.random.default_rng([rank, elements])
    return torch.from_numpy(rng.random(elements, np.float32) - np.float32(0.5))


def _calls(world: int) -> dict[str, tuple[Call, Callable[[list[torch.Tensor]], torch.Tensor]]]:
    """Return the call of each collective, and its result of all ranks' inputs."""

    def reduced(every: list[torch.Tensor]) -> torch.Tensor:
        return torch.from_numpy(ordered_sum(np.stack([one.numpy() for one in every])))

    def share(every: list[torch.Tensor]) -> torch.Tensor:
        return reduced(every).chunk(world)[dist.get_rank()]

    return {
        "all_reduce": (lambda out, _, group: dist.all_reduce(out, group=group), reduced),
        "all_gather": (
            lambda out, x, group: dist.all_gather_into_tensor(out, x, group=group),
            lambda every: torch.cat([one.chunk(world)[r] for r, one in enumerate(every)]),
        ),
        "broadcast": (lambda out, _, group: dist.broadcast(out, 0, group=group), lambda e: e[0]),
        "reduce_scatter": (
            lambda out, x, group: dist.reduce_scatter_tensor(out, x, group=group),
            share,
        ),
    }


def _measured(name: str, size: int, runs: int, groups: dict[str, Any]) -> dict[str, Any]:
    """Measure a collective on vectors of ``size`` bytes, all ranks' parts together."""
    rank, world = dist.get_rank(), dist.get_world_size()
    call, result = _calls(world)[name]
    every = [_drawn(other, size // 4) for other in range(world)]
    wanted, own = result(every), every[rank]
    given = own.chunk(world)[rank].clone() if name == "all_gather" else own
    calls = max(1, min(_MOST_CALLS, _AT_ONCE // size))
    outs = [torch.empty_like(wanted) for _ in range(calls)]
    found: dict[str, list[float]] = {backend: [] for backend in groups}
    work: dict[str, list[float]] = {backend: [] for backend in groups}
    wrong, exact = 0, True
    for run in range(runs + 1):
        for backend, group in groups.items():
            for out in outs:
                out.copy_(own) if name in ("all_reduce", "broadcast") else out.zero_()
            dist.barrier(group=group)
            start, cpu = time.perf_counter(), time.process_time()
            for out in outs:
                call(out, given, group)
            took = [time.perf_counter() - start, time.process_time() - cpu]
            seconds, spent = torch.tensor(took, dtype=torch.float64) / calls
            for out in outs:
                same = torch.equal(out.view(torch.int32), wanted.view(torch.int32))
                exact = exact and (same or backend == GLOO)
                wrong += not (same or torch.allclose(out, wanted, atol=1e-5))
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
            dist.all_reduce(spent)
            if run:  # the first one meets cold memory
                found[backend].append(seconds.item())
                work[backend].append(spent.item())
    total = torch.tensor([wrong, not exact], dtype=torch.int64)
    dist.all_reduce(total)
    return {"seconds": found, "cpu": work, "wrong": total[0].item(), "exact": not total[1].item()}


if __name__ == "__main__":
    this, (runs, *sizes) = Rank.of_command()
    with this.joined():
        groups = {GLOO: None, pool.NAME: dist.new_group(backend=pool.NAME, timeout=timedelta(300))}
        this.leave(
            {
                f"{name} {size}": _measured(name, int(size), int(runs), groups)
                for name in COLLECTIVES
                for size in sizes
            }
        )
    os._exit(0)  # a thread of gloo may outlive what it works for
