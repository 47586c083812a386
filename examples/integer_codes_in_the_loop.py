# SPDX-License-Identifier: Apache-2.0
"""Trains a small ResNet on the integer codes of the device, beside the same training in FP32.

    python -m examples.integer_codes_in_the_loop                    # everything through the RTL
    python -m examples.integer_codes_in_the_loop --device model     # the reference models: fast

Gloo workers send their packed gradients to the first, which has the device; its results come back
through the hook of `integer_hook`. Every line that the RTL returns is compared with the models
before it is used. Every variant starts from the same weights, sees the same batches and sends all
tensors by its route.

This is not over the runtime, as `votes_in_the_loop` is: the routes of `attach` are votes, ternary
votes and FP32 so far.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import warnings
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # here and not in every worker: DDP imports it
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from examples.digits import Digits, DigitsResNet
from examples.integer_hook import IntegerState, integer_hook
from models.line_packing import Mode
from models.regions import MAX_WORKERS
from neuron_fabric.text import LineError, say
from scripts.build import registry
from scripts.cli.replay import Simulators
from scripts.cli.serve import MODEL, RTL
from scripts.common.arguments import up_to
from verif.host.bulk_device import BulkModel
from verif.replay.live import ModelReducer, Reducer, ReducerError, RtlReducer, Totals

NAME = "integer_codes_in_the_loop"
VARIANTS = (Mode.FP32, Mode.G_INT4, Mode.G_INT8)


def main() -> int:
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--device", choices=(RTL, MODEL), default=RTL, help="what reduces")
    add("--sim", choices=registry.names(), default=registry.names()[0], help="simulator of the RTL")
    add("--workers", type=up_to(MAX_WORKERS), default=4, metavar="N", help="gloo processes")
    add("--steps", type=up_to(100_000), default=96, metavar="N", help="of each training")
    args = parser.parse_args()
    try:
        design = None
        if args.device == RTL:
            design = Simulators(command=NAME).bulk(args.sim, {})
        with tempfile.TemporaryDirectory(prefix="nf-codes-") as folder:
            torch.multiprocessing.start_processes(
                worker, (args, design, folder), args.workers, start_method="fork"
            )
    except (LineError, torch.multiprocessing.ProcessExitedException) as error:
        say(f"{NAME}: {error}", file=sys.stderr)
        return 1
    return 0


def worker(rank: int, args: argparse.Namespace, design: BulkModel | None, folder: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    where = {"rank": rank, "world_size": args.workers}
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", **where)
    data, totals = Digits(), []
    if rank == 0:
        say(f"{'':26}{'loss: start':>12}{'end':>8}{'accuracy':>10}{'bytes a step':>14}", flush=True)
    for variant in VARIANTS:
        try:
            with device(rank, args, design, Path(folder, variant.name)) as reducer:
                before, after, accuracy, sent = train(variant, args, data, reducer)
        except ReducerError as error:
            say(f"{NAME}: {variant.name}: {error}", file=sys.stderr, flush=True)
            sys.exit(1)  # at once: the other workers wait for this one
        if reducer is not None:
            totals.append(astuple(reducer.totals))
            row = f"{before:12.3f}{after:8.3f}{accuracy:10.1%}{sent:14,}"
            say(f"{variant.name:26}{row}", flush=True)
    if rank == 0:
        say(_of_all(Totals(*map(sum, zip(*totals, strict=True)))))
    dist.barrier()
    dist.destroy_process_group()


def device(
    rank: int, args: argparse.Namespace, design: BulkModel | None, folder: Path
) -> contextlib.AbstractContextManager[Reducer | None]:
    """The first rank has it."""
    if rank != 0:
        return contextlib.nullcontext()
    if design is None:
        return contextlib.nullcontext(ModelReducer())
    folder.mkdir()
    return RtlReducer(design, folder, args.sim)


def train(
    variant: Mode, args: argparse.Namespace, data: Digits, reducer: Reducer | None
) -> tuple[Any, ...]:
    """Losses are means over the training images, accuracy over the test images; bytes are a
    worker's."""
    torch.manual_seed(1)
    net = DigitsResNet()
    model = DistributedDataParallel(net)
    state = IntegerState(model, dict.fromkeys(dict(net.named_parameters()), variant), reducer)
    model.register_comm_hook(state, integer_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before, _ = data.judge(net)
    for step in range(args.steps):
        images, labels = data.batch(1, step, dist.get_rank(), args.workers, 16)
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return (before, *data.judge(net), state.bytes_sent())


def _of_all(totals: Totals) -> str:
    text = f"{totals.steps} steps, {totals.lines:,} lines reduced"
    if totals.cycles:
        text += f", {totals.mismatches} mismatches, {totals.cycles:,} cycles of the device"
    return text


if __name__ == "__main__":
    sys.exit(main())
