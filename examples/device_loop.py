# SPDX-License-Identifier: Apache-2.0
"""Trainings of a small ResNet by some routes, beside the same training in FP32, with a device as
their reducer: what `votes_in_the_loop` and `integer_codes_in_the_loop` run.

A server of its own stands in the device's place; `attach` sends it all gradients. Every variant
starts from the same weights and sees the same batches.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch._dynamo  # here and not in every worker: DDP imports it
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from examples.check_variants import profile_of
from examples.digits import Digits, DigitsResNet
from neuron_fabric import attach
from neuron_fabric.errors import LineError, say
from neuron_fabric.profile import sketch
from neuron_fabric.profile.draft import draft
from scripts.build import registry
from scripts.cli.serve import MODEL, RTL, served


def run(name: str, about: str | None, variants: Sequence[str]) -> int:
    """The example ``name``, by the words of the command line: a row for each variant."""
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--device", choices=(RTL, MODEL), default=RTL, help="what reduces")
    add("--sim", choices=registry.names(), default=registry.names()[0], help="simulator of the RTL")
    add("--workers", type=int, default=4, help="gloo processes")
    add("--steps", type=int, default=96, help="of each training")
    args = parser.parse_args()
    try:
        with (
            served(args.device, args.sim, args.workers) as server,
            tempfile.TemporaryDirectory(prefix="nf-loop-") as folder,
        ):
            torch.multiprocessing.start_processes(
                worker,
                (args, variants, f"unix:{server.path}", folder),
                args.workers,
                start_method="fork",
            )
            say(*server.status()[-1:])
    except (LineError, torch.multiprocessing.ProcessExitedException) as error:
        say(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


def worker(
    rank: int, args: argparse.Namespace, variants: Sequence[str], reducer: str, folder: str
) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    where = {"rank": rank, "world_size": args.workers}
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", **where)
    data = Digits()
    if rank == 0:
        say(f"{'':26}{'loss: start':>12}{'end':>8}{'accuracy':>10}{'bytes a step':>14}")
    for variant in variants:
        before, after, accuracy, sent = train(variant, args, data, reducer)
        if rank == 0:
            say(f"{variant:26}{before:12.3f}{after:8.3f}{accuracy:10.1%}{sent:14,}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def train(variant: str, args: argparse.Namespace, data: Digits, reducer: str) -> tuple[Any, ...]:
    """Losses are means over the training images, accuracy over the test images; bytes are a
    worker's to the device."""
    torch.manual_seed(1)
    net = DigitsResNet()
    parameters = sketch(net, ("head.weight",))
    profile = profile_of(variant, parameters, draft(variant, parameters))
    model = DistributedDataParallel(net)
    rt = attach(
        *(model, profile),
        steps=args.steps,
        reducer=reducer,
        fp32="ordered",
        scaler=False,
        env={},
    )
    assert rt is not None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before, _ = data.judge(net)
    for step in range(args.steps):
        images, labels = data.batch(1, step, dist.get_rank(), args.workers, 16)
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    rt.close()
    return (before, *data.judge(net), sum(rt.sent.values()) // args.steps)
