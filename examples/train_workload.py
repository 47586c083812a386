# SPDX-License-Identifier: Apache-2.0
"""An ordinary data-parallel training of one of the checks' workloads.

nf train calibrate --out build/pairs100.toml --workers 8 -- examples/train_workload.py pairs100
NF_PROFILE=build/pairs100.toml torchrun --nproc-per-node 8 -m examples.train_workload pairs100
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from examples.digits import gloo
from examples.workload import MODULES, workload
from neuron_fabric.hook import attach


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=list(MODULES))
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    with gloo():
        train(args)


def train(args: argparse.Namespace) -> None:
    work = workload(args.name)
    steps, seed = args.steps or work.steps, int(os.environ.get("NF_SEED", "1"))
    torch.manual_seed(seed)
    data, model = work.data(), DistributedDataParallel(work.net())
    optimizer = work.optimizer(model.parameters())
    rates = [group["lr"] for group in optimizer.param_groups]
    # By NF_PROFILE; None without
    rt = attach(model, steps=steps, optimizer=optimizer, scaler=False)
    for step in range(steps):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * work.rate(step, steps)
        x, y = data.batch(seed, step, dist.get_rank(), dist.get_world_size(), work.batch)
        loss = data.loss(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        if rt is not None:
            rt.observe(loss)
        optimizer.step()
    reached = data.judge(model.module)
    if rt is not None:
        rt.report(**{work.metric: reached})
        rt.close()
    if dist.get_rank() == 0:
        print(f"seed {seed}, {steps} steps: {work.metric} {reached:.3f}")


if __name__ == "__main__":
    main()
