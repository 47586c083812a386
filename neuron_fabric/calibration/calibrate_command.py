# SPDX-License-Identifier: Apache-2.0
"""Command `python -m neuron_fabric calibrate`: make a profile for a training script.

The script takes its seed from NF_SEED, calls `attach(model)`, and calls `rt.report(accuracy=...)`
at its end; the command knows nothing else about it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from neuron_fabric.arguments import real, whole
from neuron_fabric.calibration.calibrating import Asked, Trainings, calibrate
from neuron_fabric.calibration.calibration_job import CALIBRATE, SEED, CalibrationError
from neuron_fabric.calibration.verification import MOST_SEEDS, SEEDS, Bar
from neuron_fabric.capacity.substrate import read_substrate
from neuron_fabric.codec.routes import Route
from neuron_fabric.errors import say
from neuron_fabric.launcher import run_workers
from neuron_fabric.output import check_output
from neuron_fabric.profile.profile_command import (
    ASSIGN,
    PROTECT,
    assign_of,
    kinds_of,
    routes_of,
    with_rule,
)
from neuron_fabric.profile.profile_types import Rule
from neuron_fabric.profile.samples import samples_path

HELP = "measure a training and write an operating profile for it"
EXAMPLES = """examples:
  nf train calibrate --out p.toml --workers 4 -- train.py --lr 0.1  measure, choose, verify
  nf train calibrate --out p.toml --no-verify -- train.py       measure and choose alone
  nf train calibrate --out p.toml --routes G_BINARY,G_INT4 -- train.py  codes where votes fail
  nf train profile rule p.toml --floor G_BINARY=0.5 --out q.toml  other floors, without training
"""
MOST_WORKERS = 255
INTERRUPTED = 130
Run = Callable[[Sequence[str], int, Mapping[str, str]], str | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `calibrate`, and the training script with its arguments."""
    parser.usage = f"{parser.prog} --out FILE [--workers N] [...] -- SCRIPT [ARGS]"
    add, count = parser.add_argument, whole(1, 1_000_000)
    add("--out", type=Path, required=True, metavar="FILE", help="profile to write")
    add("--workers", type=count, default=4, metavar="N", help="gloo workers to start (4)")
    add("--every", type=count, default=5, metavar="N", help="steps between samples (5)")
    add("--seed", type=int, default=1, metavar="N", help="first seed, passed as NF_SEED (1)")
    add("--warmup", type=real, default=0.10, metavar="X", help="share of steps, or steps (0.1)")
    add("--windows", type=count, default=3, metavar="N", help="windows of the steady phase (3)")
    add("--shrink", choices=["fit", "one"], default="fit", help="scale of votes, as in the rule")
    routes = "routes for the rule to choose from (G_BINARY,G_TERNARY); all are measured"
    add("--routes", type=routes_of, metavar="R,R", help=routes)
    add("--protect", type=kinds_of, default=Rule().protect, metavar="K,K", help=PROTECT)
    add("--assign", type=assign_of, metavar="ROUTE=X", help=ASSIGN)
    substrate = "substrate file of the device: leave out routes that it does not support"
    add("--substrate", type=Path, metavar="FILE", help=substrate)
    add("--impact", action="store_true", help="also measure the loss impact of each region")
    verify = "train with the profile and in FP32 with the same seeds, and compare (yes)"
    add("--verify", action=argparse.BooleanOptionalAction, default=True, help=verify)
    seeds = f"seeds of the verification: {SEEDS} to {MOST_SEEDS} ({SEEDS})"
    add("--seeds", type=whole(SEEDS, MOST_SEEDS), default=SEEDS, metavar="N", help=seeds)
    add("--metric", metavar="NAME", help="reported metric to compare (the first)")
    better = "side of FP32 on which every value is accepted (either: both sides are limited)"
    add("--better", choices=["higher", "lower", "either"], default="either", help=better)
    within = "limit for the far end of the difference's 95 %% interval (1 %% of FP32's mean)"
    add("--within", type=real, metavar="X", help=within)
    add("script", nargs="+", metavar="SCRIPT", help="training script and its arguments, after --")


def of_device(
    path: Path | None, asked: tuple[Route, ...] | None
) -> tuple[tuple[Route, ...], tuple[Route, ...]]:
    """Return the routes to choose from and the routes to measure.

    With a substrate file these are only routes that its device supports; a line names those left
    out.

    Args:
        path: Substrate file, or None.
        asked: Routes of `--routes`, or None for those of the default rule.

    Raises:
        SubstrateError: The file is wrong.
        CalibrationError: A requested route is not supported, or none is left.
    """
    every = tuple(one for one in Route if one != Route.FP32)
    if path is None:
        return asked or Rule().routes, every
    device = read_substrate(path).device.routes
    lacking = [one for one in every if one not in device]
    if lacking:
        say(f"left out, as the device of {path} has not got it: {', '.join(lacking)}")
    chosen = tuple(one for one in asked or Rule().routes if one in device)
    if not chosen or any(one in lacking for one in asked or ()):
        what = f"{', '.join(asked or Rule().routes)}: the device of {path} has {', '.join(device)}"
        raise CalibrationError("--routes", what, "name routes that it has")
    return chosen, tuple(one for one in every if one in device)


def run(args: argparse.Namespace, start: Run = run_workers) -> int:
    """Run the calibration and return the exit code: that of `calibrate`, or 130 after Ctrl-C.

    Args:
        args: Command line.
        start: Function that runs a command in every worker; see `run_workers`.

    Raises:
        CalibrationError: Wrong arguments, or the script does not cooperate.
        ProfileError: The profile cannot be written.
    """
    script = Path(args.script[0])
    if args.workers > MOST_WORKERS:
        what = f"{args.workers}, and a count of votes holds {MOST_WORKERS}"
        raise CalibrationError("--workers", what, "take fewer")
    if not script.is_file():
        raise CalibrationError(script, "there is no such script", "give a file of Python")
    if importlib.util.find_spec("torch") is None:
        raise CalibrationError("calibrate", "torch is not installed", "install it")
    if os.environ.get("NF_CAPTURE_DIR"):
        what = "the trainings of a calibration would all write into its folder"
        raise CalibrationError("NF_CAPTURE_DIR", what, "unset it; nf capture runs one training")
    check_output(args.out, "--out")
    check_output(samples_path(args.out), "--out")
    routes, measured = of_device(args.substrate, args.routes)
    with_rule(Rule(), routes=routes, assign=args.assign)
    same = {one.name: getattr(args, one.name) for one in fields(Asked) if one.name in args}
    bar = Bar(args.within, args.better)
    asked = Asked(**same | {"bar": bar, "routes": routes, "measured": measured})
    command = [sys.executable, str(script.absolute()), *args.script[1:]]

    def train(folder: Path, seed: int) -> str | None:
        env = {**os.environ, CALIBRATE: str(folder), SEED: str(seed)}
        return start(command, args.workers, env)

    with tempfile.TemporaryDirectory(prefix="nf-calibrate-") as base:
        try:
            return calibrate(asked, Trainings(Path(base), train))
        except KeyboardInterrupt:
            told = "nf train calibrate: interrupted; the files that were written are complete"
            say(told, file=sys.stderr)
            return INTERRUPTED
