# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric calibrate`: a profile for a training of the user's own.

The script takes its seed from NF_SEED, calls `attach(model)` and, at its end,
`rt.report(accuracy=...)`; nothing else of it is known.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from neuron_fabric.calibration.calibrating import (
    MOST_SEEDS,
    SEEDS,
    Asked,
    Bar,
    Trainings,
    calibrate,
)
from neuron_fabric.calibration.calibration_job import CALIBRATE, SEED, CalibrationError
from neuron_fabric.calibration.workers import run_workers
from neuron_fabric.codec.routes import Route
from neuron_fabric.errors import say
from neuron_fabric.hook.capacity import read_substrate
from neuron_fabric.output import check_output
from neuron_fabric.profile.profile_command import PROTECT, kinds_of, routes_of
from neuron_fabric.profile.profile_types import Rule
from neuron_fabric.profile.samples import samples_path

HELP = "a profile for a training: FP32 with the packed reduction beside it, the rule, verification"
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
    """What is measured, how it is judged, and the script."""
    parser.usage = f"{parser.prog} --out FILE [--workers N] [...] -- SCRIPT [ARGS]"
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE", help="profile to write")
    add("--workers", type=_count, default=4, metavar="N", help="gloo workers to start (4)")
    add("--every", type=_count, default=5, metavar="N", help="steps from sample to sample (5)")
    add("--seed", type=int, default=1, metavar="N", help="first one, in NF_SEED (1)")
    add("--warmup", type=_warmup, default=0.10, metavar="X", help="share of steps, or steps (0.1)")
    add("--windows", type=_count, default=3, metavar="N", help="of the steady phase (3)")
    add("--shrink", choices=["fit", "one"], default="fit", help="scale of votes, as in the rule")
    add(
        "--routes",
        type=routes_of,
        metavar="R,R",
        help="what the rule chooses from (G_BINARY,G_TERNARY); all are measured",
    )
    add("--protect", type=kinds_of, default=Rule().protect, metavar="K,K", help=PROTECT)
    add(
        "--substrate",
        type=Path,
        metavar="FILE",
        help="of the device that will reduce: routes that it lacks are left out",
    )
    add("--impact", action="store_true", help="also what each region alone does to the loss")
    add(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="train with the profile and in FP32 by the same seeds, and compare (yes)",
    )
    add("--seeds", type=_seeds, default=SEEDS, metavar="N", help="of verification: 3 to 10 (3)")
    add("--metric", metavar="NAME", help="of those reported, the one to compare (the first)")
    add(
        "--better",
        choices=["higher", "lower", "either"],
        default="either",
        help="values on that side of FP32's are never too far (either: both sides count)",
    )
    add(
        "--within",
        type=_within,
        metavar="X",
        help="farthest end of the difference's 95 %% interval (1 %% of FP32's mean)",
    )
    add("script", nargs="+", metavar="SCRIPT", help="and its arguments, after --")


def of_device(
    path: Path | None, asked: tuple[Route, ...] | None
) -> tuple[tuple[Route, ...], tuple[Route, ...]]:
    """Routes to choose from, and to measure: those that the device of the substrate file has.
    SubstrateError; CalibrationError where one is asked for that it has not got, or none is left."""
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


def _count(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and 1 <= int(word[:9]) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"{word!r} is no number from 1 on")
    return int(word)


def _number(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{word!r} is no number from 0 on")
    return value


_warmup = _within = _number


def _seeds(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and SEEDS <= int(word[:3]) <= MOST_SEEDS):
        raise argparse.ArgumentTypeError(f"{word!r} is no number from {SEEDS} to {MOST_SEEDS}")
    return int(word)


def run(args: argparse.Namespace, start: Run = run_workers) -> int:
    """The exit code; ``start`` runs a command in every worker. CalibrationError, ProfileError."""
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
    asked = Asked(
        args.out,
        args.workers,
        args.every,
        args.seed,
        args.warmup,
        args.windows,
        args.metric,
        Bar(args.within, args.better),
        args.verify,
        args.impact,
        args.shrink,
        routes,
        args.protect,
        measured,
        args.seeds,
    )
    command = [sys.executable, str(script.absolute()), *args.script[1:]]

    def train(folder: Path, seed: int) -> str | None:
        env = {**os.environ, CALIBRATE: str(folder), SEED: str(seed)}
        return start(command, args.workers, env)

    with tempfile.TemporaryDirectory(prefix="nf-calibrate-") as base:
        try:
            return calibrate(asked, Trainings(Path(base), train))
        except KeyboardInterrupt:
            say("nf train calibrate: interrupted; what is written is whole", file=sys.stderr)
            return INTERRUPTED
