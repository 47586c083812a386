# SPDX-License-Identifier: Apache-2.0
"""An ordinary data-parallel training, with the two lines that make its gradients low-bit.

torchrun --nproc-per-node 4 -m examples.train_by_profile
NF_MONITOR=runs/digits torchrun ... ; nf train monitor runs/digits
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from examples.digits import Digits, DigitsResNet, gloo
from neuron_fabric.hook import attach

PROFILE = Path(__file__).with_name("digits.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--profile", type=Path, default=PROFILE)
    parser.add_argument("--steps", type=int, default=96)
    parser.add_argument("--batch", type=int, default=16, help="images a worker and step")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with gloo():
        train(args)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    rank, workers = dist.get_rank(), dist.get_world_size()
    data, net = Digits(), DigitsResNet()
    model = DistributedDataParallel(net)
    rt = attach(model, args.profile, steps=args.steps, scaler=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for step in range(args.steps):
        images, labels = data.batch(args.seed, step, rank, workers, args.batch)
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        rt.observe(loss)
        optimizer.step()
    sent = ", ".join(f"{route} {count:,}" for route, count in sorted(rt.sent.items()))
    rt.close()
    if rank == 0:
        final, accuracy = data.judge(net)
        print(f"{args.steps} steps: loss {final:.3f}, {accuracy:.1%} of the test images right")
        print(f"bytes sent by a worker: {sent}")


if __name__ == "__main__":
    main()
