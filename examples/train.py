# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training of a workload, with the one line that captures it or makes it low-bit.

    nf capture --steps 3,60 train                  # or: NF_CAPTURE_DIR=DIR torchrun ... this file
    torchrun --nproc-per-node 4 -m examples.train --profile examples/digits.toml
    nf train calibrate --out p.toml --workers 8 -- examples/train.py pairs100

NF_MONITOR=DIR writes the log of the monitor, NF_REDUCER=unix sends the gradients to `nf serve`.
The last line of the output is the same for trainings whose weights are equal bit for bit, as of

    export NF_PROFILE=examples/digits.toml
    NF_REDUCER=pool:/dev/shm/job7 torchrun --nproc-per-node 4 -m examples.train --backend pool
    torchrun --nproc-per-node 4 -m examples.train --fp32 ordered
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from examples.workloads import WORKLOADS, gloo
from neuron_fabric import attach
from neuron_fabric.collectives.torch import NAME as POOL  # the import registers the backend


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("name", nargs="?", choices=list(WORKLOADS), default="digits", help="workload (digits)")
    add("--profile", type=Path, help="operating profile (NF_PROFILE; without: FP32)")
    add("--steps", type=int, help="number of steps (that of the workload)")
    add("--batch", type=int, help="examples of a worker in a step (those of the workload)")
    seed = int(os.environ.get("NF_SEED", "1"))
    add("--seed", type=int, default=seed, help="seed of weights and batches (NF_SEED, 1)")
    add("--backend", choices=["gloo", POOL], default="gloo", help="of torch.distributed (gloo)")
    add("--fp32", choices=["ring", "ordered"], default="ring", help="FP32 sums, see attach (ring)")
    args = parser.parse_args()
    with gloo(args.backend):
        train(args)


def train(args: argparse.Namespace) -> None:
    work = WORKLOADS[args.name]
    steps, batch = args.steps or work.steps, args.batch or work.batch
    rank, workers = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    data, model = work.data(), DistributedDataParallel(work.net())
    optimizer = work.optimizer(model.parameters())
    rates = [group["lr"] for group in optimizer.param_groups]
    session = attach(
        *(model, args.profile), steps=steps, optimizer=optimizer, fp32=args.fp32, scaler=False
    )
    for step in range(steps):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * work.rate(step, steps)
        x, y = data.batch(args.seed, step, rank, workers, batch)
        loss = data.loss(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        if session is not None:
            session.observe(loss)
        optimizer.step()
    reached = data.judge(model.module)
    lines = [f"seed {args.seed}, {steps} steps: {work.metric} {reached:.3f}"]
    if session is not None:
        session.report(**{work.metric: reached})
        sent = ", ".join(f"{route} {count:,}" for route, count in sorted(session.sent.items()))
        lines.append(f"bytes sent by a worker: {sent}")
        session.close()
    weights = torch.cat([one.detach().reshape(-1) for one in model.parameters()])
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16]
    found = [""] * workers
    dist.all_gather_object(found, digest)
    lines.append(f"digest of the weights: {', '.join(dict.fromkeys(found))}")
    if rank == 0:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
