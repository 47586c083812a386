# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric.hook.exact_ranks FOLDER STEPS W ...`: processes of `nf train exact`.

Each rank writes FOLDER/rank-N.json: by number of workers and hook, the number of compared gradient
elements and of those that differ.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # here and not in every rank: DDP imports it
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach
from neuron_fabric.profile import sketch
from neuron_fabric.profile.draft_profile import draft

CAPS_MB = (0.02, 25.0)
"""Several buckets, and one."""
HOOKS = ("profile", "capture")


def main(folder: str, steps: int, workers: Sequence[int]) -> None:
    """Fork one rank per worker of the largest group, and wait for them.

    Args:
        folder: Folder of the results.
        steps: Steps of each training.
        workers: Numbers of workers to compare with.
    """
    gc.freeze()  # a collection in a rank need not look at all of torch
    torch.multiprocessing.start_processes(
        _rank, (folder, steps, workers), nprocs=max(workers), start_method="fork"
    )


def _rank(rank: int, folder: str, steps: int, workers: Sequence[int]) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=max(workers)
    )
    groups = {n: dist.new_group(range(n)) for n in workers}
    found: dict[str, list[int]] = {
        f"{n} workers, {hook}": [0, 0] for n in workers for hook in HOOKS
    }
    for n in (n for n in workers if rank < n):
        for cap_mb in CAPS_MB:
            plain = _gradients(groups[n], rank, steps, cap_mb, "", folder)
            for hook in HOOKS:
                mine = _gradients(groups[n], rank, steps, cap_mb, hook, folder)
                row = found[f"{n} workers, {hook}"]
                row[0] += plain.numel()
                row[1] += int((plain.view(torch.int32) != mine.view(torch.int32)).sum())
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def _gradients(
    group: Any, rank: int, steps: int, cap_mb: float, hook: str, folder: str
) -> torch.Tensor:
    """Train a small net and return the gradients of all steps as this rank gets them, float32[n].

    Args:
        group: Process group.
        rank: Rank of this process.
        steps: Number of steps.
        cap_mb: Size of a DDP bucket in MiB.
        hook: "profile", "capture" or "" for none.
        folder: Folder for captures.
    """
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.LayerNorm(96), nn.Linear(96, 10))
    model = DistributedDataParallel(net, process_group=group, bucket_cap_mb=cap_mb)
    runtime = None
    if hook == "profile":
        profile = dataclasses.replace(draft("all in FP32", sketch(net)), verified=True)
        runtime = attach(model, profile, steps=steps, env={})
    elif hook == "capture":
        # A step that does not come: the hook alone.
        env = {"NF_CAPTURE_DIR": f"{folder}/{group.size()} {cap_mb}", "NF_CAPTURE_STEPS": "9999"}
        attach(model, env=env)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    draw, seen = torch.Generator().manual_seed(rank), []
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 64, generator=draw)).square().mean().backward()
        seen += [p.grad.detach().flatten().clone() for p in net.parameters()]
        optimizer.step()
    if runtime is not None:
        runtime.close()
    return torch.cat(seen)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3:]])
