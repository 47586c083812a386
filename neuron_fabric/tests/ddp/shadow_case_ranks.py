# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric.tests.ddp.shadow_case_ranks FOLDER`: trainings of forked
ranks, plain and under calibration, for the tests.

FOLDER/WORLD-rank-N.npz: how many bits of gradients and weights differ, in the law and its twin, and
this worker's own gradients of every step. FOLDER/WORLD-a and -b: two calibrations of one seed.
"""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # here and not in every rank: DDP imports it
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach
from neuron_fabric.calibration import shadow_router
from neuron_fabric.calibration.calibration_job import CALIBRATE, Job, write_job

WORLDS = (3, 2)
STEPS, EVERY = 7, 2
CLASSES = 20


class CaseNet(nn.Module):
    """An embedding with rows that no worker sees, two linear layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, 24)
        self.up, self.down = nn.Linear(24, 64), nn.Linear(64, 60)
        self.norm = nn.LayerNorm(60)
        self.head = nn.Linear(60, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(torch.tanh(self.down(torch.tanh(self.up(self.words(x).mean(1))))))
        out: torch.Tensor = self.head(y)
        return out


def main(folder: str) -> None:
    """Fork the ranks and wait for them."""
    gc.freeze()  # a collection in a rank need not look at all of torch
    torch.multiprocessing.start_processes(_rank, (folder,), nprocs=max(WORLDS), start_method="fork")


def _rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=max(WORLDS)
    )
    for world in WORLDS:
        group = dist.new_group(range(world))
        if rank < world:
            _world(rank, world, group, Path(folder))
    dist.barrier()
    dist.destroy_process_group()


def _world(rank: int, world: int, group: Any, folder: Path) -> None:
    plain, own = _train(rank, group, None)
    places = [folder / f"{world}-{which}" for which in "ab"]
    for place in places:
        place.mkdir(exist_ok=True)
        if rank == 0:
            write_job(place, Job(every=EVERY))
    dist.barrier(group=group)
    law = sum(_differ(plain, _train(rank, group, place)[0]) for place in places)
    spoiled = folder / f"{world}-twin"
    spoiled.mkdir(exist_ok=True)
    write_job(spoiled, Job(every=EVERY))

    def look(router: Any, *_: Any) -> None:
        for gradient in (vote.view for vote in _[0]):
            gradient[:1] += 1e-3

    with (
        mock.patch.object(shadow_router.ShadowRouter, "_look", look),
        mock.patch.object(shadow_router, "LEAST", 1200),
    ):
        twin = _differ(plain, _train(rank, group, spoiled)[0])
    np.savez(
        folder / f"{world}-rank-{rank}.npz",
        law=law,
        twin=twin,
        **{f"{step}/{name}": one for step, each in enumerate(own) for name, one in each.items()},
    )


def _train(rank: int, group: Any, place: Path | None) -> tuple[torch.Tensor, list[dict[str, Any]]]:
    """Return all gradients and weights of a training, and the gradients of this worker."""
    torch.manual_seed(1)
    net = CaseNet()
    model = DistributedDataParallel(net, process_group=group, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    env = {} if place is None else {CALIBRATE: str(place)}
    rt = attach(model, steps=STEPS, optimizer=optimizer, env=env)
    seen, own = [], []
    for step in range(STEPS):
        draw = torch.Generator().manual_seed(10 * step + rank)
        x = torch.randint(60, (6, 3), generator=draw)
        y = torch.randint(CLASSES, (6,), generator=draw)
        if place is None:  # the same without DDP
            grads = torch.autograd.grad(functional.cross_entropy(net(x), y), [*net.parameters()])
            names = [name for name, _ in net.named_parameters()]
            own.append({n: g.numpy().copy() for n, g in zip(names, grads, strict=True)})
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        if rt is not None:
            rt.observe(loss)
        seen += [p.grad.detach().flatten().clone() for p in net.parameters()]
        optimizer.step()
    seen += [p.detach().flatten().clone() for p in net.parameters()]
    if rt is not None:
        rt.report(loss=loss)
        rt.close()
    return torch.cat(seen), own


def _differ(one: torch.Tensor, other: torch.Tensor) -> int:
    return int((one.view(torch.int32) != other.view(torch.int32)).sum())


if __name__ == "__main__":
    main(sys.argv[1])
