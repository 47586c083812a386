# SPDX-License-Identifier: Apache-2.0
"""Trains a small ResNet on the votes of the device, beside the same training in FP32.

    python -m examples.votes_in_the_loop                    # everything through the RTL
    python -m examples.votes_in_the_loop --device model     # the reference models instead: fast

First an ordinary training is captured and the capture replayed. Then four gloo workers train with
the device in the loop: packed gradients to it, its results back through the hook (vote_hook.py).
Every variant starts from the same weights and sees the same batches, for each seed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from examples.digits import Digits, DigitsResNet, gloo
from examples.vote_hook import VoteState, vote_hook
from models.line_packing import Mode
from neuron_fabric.capture import TensorSpec
from scripts.build.registry import choose
from scripts.cli import main as cli
from scripts.cli.replay import Simulators
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import BUILD, shown
from scripts.run.torchrun import run_workers
from verif.replay.live import ModelReducer, Reducer, ReducerError, RtlReducer, Totals
from verif.replay.options import ReplayOptions
from verif.replay.routing import assign_routes, parse_routes

CAPTURE = BUILD / "examples" / "digits"
# The routes of each training.
VARIANTS: dict[str, tuple[str, ...]] = {
    "FP32": ("*=FP32",),
    "G_BINARY everywhere": ("*=G_BINARY",),
    "G_TERNARY everywhere": ("*=G_TERNARY",),
    "G_INT4 everywhere": ("*=G_INT4",),
    "G_INT8 everywhere": ("*=G_INT8",),
    "G_BINARY, head in FP32": ("head.*=FP32", "*=G_BINARY"),
    "G_TERNARY, head in FP32": ("head.*=FP32", "*=G_TERNARY"),
    "G_INT4, head in FP32": ("head.*=FP32", "*=G_INT4"),
}
MOMENTUM = 0.9


@dataclass(frozen=True)
class Result:
    """One training. Losses are means over the training images, accuracy over the test images;
    bytes are a worker's to the device in a step.
    """

    variant: str
    seed: int
    before: float
    after: float
    accuracy: float
    bytes: int
    totals: Totals


def main() -> int:
    args = _arguments()
    if "RANK" in os.environ:
        return _worker(args)
    start = time.monotonic()
    try:
        choose(args.sim)
    except NfError as error:
        print(f"votes_in_the_loop: {error}", file=sys.stderr)
        return 2
    code = _capture_and_replay(args)
    if code == 0:
        command = [sys.executable, "-m", "examples.votes_in_the_loop", *sys.argv[1:]]
        try:
            failed = run_workers(command, args.workers)
        except NfError as error:
            failed = str(error)
        if failed is not None:
            print(f"votes_in_the_loop: {failed}", file=sys.stderr)
            code = 1
    print(f"votes_in_the_loop: {'FAILED, ' * bool(code)}{time.monotonic() - start:.1f} s")
    return code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="votes_in_the_loop", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--device", choices=("rtl", "model"), default="rtl")
    add("--sim", choices=("verilator", "icarus"), default="verilator")
    add("--workers", type=int, default=4)
    add("--steps", type=int, default=96)
    add("--seeds", type=int, nargs="+", default=[1, 2])
    add("--out", type=Path, metavar="DIR", help="the capture (build/examples/digits, made anew)")
    add("--batch", type=int, default=16, help="images a worker and step")
    add("--lr", type=float, default=0.1)
    add("--scale", type=float, default=0.02, help="a vote counts as a gradient of this size")
    return parser.parse_args()


def _capture_and_replay(args: argparse.Namespace) -> int:
    """An ordinary training, captured in two of its steps and replayed."""
    folder = args.out
    if folder is None:
        folder = CAPTURE
        shutil.rmtree(folder, ignore_errors=True)
    steps = sorted({min(3, args.steps - 1), args.steps - 1})
    words = ["capture", "--out", shown(folder), "--workers", str(args.workers)]
    words += ["--steps", ",".join(map(str, steps)), "train_digits"]
    words += ["--steps", str(args.steps), "--lr", str(args.lr), "--batch", str(args.batch)]
    code = cli.main(words)
    if code == 0 and args.device == "rtl":
        code = cli.main(["replay", shown(folder), "--sim", args.sim])
    sys.stdout.flush()
    return code


def _worker(args: argparse.Namespace) -> int:
    with gloo():
        rank, results = dist.get_rank(), _train_all(args)
    if rank != 0:
        return 0
    _table(results)
    flat = [one for one in results if not one.after < one.before]
    for one in flat:
        print(f"{one.variant}, seed {one.seed}: the loss did not fall", file=sys.stderr)
    return int(bool(flat))


def _train_all(args: argparse.Namespace) -> list[Result]:
    """Every variant with every seed; ends the process when the device is wrong."""
    data, results = Digits(), []
    for variant in VARIANTS:
        for seed in args.seeds:
            try:
                with _device(args, dist.get_rank()) as reducer:
                    results.append(_train(args, data, variant, seed, reducer))
            except ReducerError as error:
                print(f"votes_in_the_loop: {variant}, seed {seed}: {error}", file=sys.stderr)
                sys.exit(1)  # at once: the other workers wait for this one
            if dist.get_rank() == 0:
                one = results[-1]
                print(
                    f"{variant}, seed {seed}: loss {one.before:.3f} to {one.after:.3f}, "
                    f"accuracy {one.accuracy:.1%}",
                    flush=True,
                )
    return results


@contextlib.contextmanager
def _device(args: argparse.Namespace, rank: int) -> Iterator[Reducer | None]:
    """The first rank has it."""
    if rank != 0:
        yield None
    elif args.device == "model":
        yield ModelReducer()
    else:
        simulators = Simulators()
        folder = simulators.workspace(f"votes-{args.sim}")
        try:
            model = simulators.bulk(args.sim, {})
        except BuildError as error:
            raise ReducerError(f"{args.sim}: {error}") from None
        with RtlReducer(model, folder, args.sim) as reducer:
            yield reducer


def _train(
    args: argparse.Namespace, data: Digits, variant: str, seed: int, reducer: Reducer | None
) -> Result:
    torch.manual_seed(seed)
    net = DigitsResNet()
    model = DistributedDataParallel(net)
    routes = _routes(net, variant)
    state = VoteState(model, routes, reducer, args.scale)
    model.register_comm_hook(state, vote_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=MOMENTUM)
    before, _ = data.judge(net)
    for step in range(args.steps):
        images, labels = data.batch(seed, step, dist.get_rank(), dist.get_world_size(), args.batch)
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    after, accuracy = data.judge(net)
    totals = reducer.totals if reducer is not None else Totals()
    return Result(variant, seed, before, after, accuracy, state.bytes_sent(), totals)


def _routes(net: torch.nn.Module, variant: str) -> dict[str, Mode]:
    tensors = [TensorSpec(n, tuple(p.shape)) for n, p in net.named_parameters()]
    return assign_routes(tensors, parse_routes(VARIANTS[variant]))


def _table(results: list[Result]) -> None:
    """Means over the seeds, and what came of the device."""
    print(f"\n{'':26}{'loss: start':>12}{'end':>8}{'accuracy':>10}{'bytes a step':>14}")
    for variant in VARIANTS:
        own = [one for one in results if one.variant == variant]
        before, after, right = (
            sum(getattr(one, name) for one in own) / len(own)
            for name in ("before", "after", "accuracy")
        )
        print(f"{variant:26}{before:12.3f}{after:8.3f}{right:10.1%}{own[0].bytes:14,}")
    totals = [one.totals for one in results]
    print(
        f"{sum(t.steps for t in totals)} steps, {sum(t.lines for t in totals):,} lines reduced, "
        f"{sum(t.mismatches for t in totals)} mismatches, "
        f"{sum(t.cycles for t in totals):,} cycles of the device at {ReplayOptions().memory}"
    )


if __name__ == "__main__":
    sys.exit(main())
