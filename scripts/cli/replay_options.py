# SPDX-License-Identifier: Apache-2.0
"""Options of `nf replay`, and which of them go together."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import Any

from models.line_packing import Tie
from models.regions import MAX_WORKERS
from scripts.build import registry
from scripts.common.arguments import DUT_HELP, DUTS, TIMEOUT_HELP, given, positive, seconds, up_to
from scripts.common.errors import OptionError
from scripts.common.records import Dut
from scripts.farm import cluster
from verif.mem.memory_timing import MAX_BEAT, MAX_LATENCY, MAX_STALL, MemoryTiming
from verif.replay import options as replay_options
from verif.replay.job import Shard
from verif.replay.options import ReplayOptions, parse_parameters
from verif.replay.source import NETWORKS
from verif.replay.tensors import TERNARY_RATIO

WORKERS = 8
_OF_STIMULUS = {"stimulus", "sim", "dut", "timeout", "waves"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("capture", nargs="?", metavar="CAPTURE", help="folder that holds capture.json")
    add("--transport", choices=("signal", "bulk"), default="signal", help="beat by beat, or fast")
    add("--steps", nargs="+", action="extend", default=[], metavar="STEP", help="3,60 or 0-100")
    add(
        *("--route",),
        nargs="+",
        action="extend",
        default=[],
        metavar="PATTERN=ROUTE",
        help="name-glob=G_BINARY, G_TERNARY, G_INT4, G_INT8 or FP32; the first that matches wins",
    )
    add(
        "--sim",
        choices=registry.choices(),
        default=registry.names()[0],
        help=f"simulator ({registry.names()[0]})",
    )
    add("--dut", choices=DUTS, default=Dut.RTL, help=DUT_HELP)
    add("--out", metavar="FILE", help="safetensors with what the device returned, one file a step")
    add("--nonfinite", choices=("refuse", "fp32"), default="refuse", help="NaN, infinity: by FP32?")
    add("--ternary-ratio", type=_ratio, default=TERNARY_RATIO, metavar="R", help="gate at R * mean")
    add(
        *("--rounding",),
        choices=("nearest", "stochastic"),
        default="nearest",
        help="of the codes of G_INT4 and G_INT8; stochastic: drawn from --seed",
    )
    add(
        *("--sums",),
        choices=("views", "planes"),
        default="views",
        help="G_INT4, G_INT8: regions of that mode, or the count planes of G_BINARY regions",
    )
    add("--tie", choices=("plus", "minus"), default="plus", help="what a tied binary vote gives")
    add("--threshold", type=_threshold, default=1, metavar="T", help="net count of a ternary vote")
    add("--seed", type=_natural, default=1, help="order of the workers, content of the memory")
    add("--param", nargs="+", action="extend", default=[], metavar="NAME=N", help="RTL parameter")
    add("--timeout", type=seconds, metavar="S", help=TIMEOUT_HELP)
    add("--waves", action="store_true", help="write waves (slower build and run)")
    add("--record", metavar="DIR", help="leave the record of the run there too")
    add("--stimulus", metavar="FILE", help="in place of CAPTURE: what a bulk replay found wrong")
    add_memory(parser, str(MemoryTiming().latency))
    group = parser.add_argument_group("bulk transport")
    add = group.add_argument
    add("--synthetic", choices=sorted(NETWORKS), help="in place of CAPTURE: drawn from --seed")
    add("--workers", type=_workers, metavar="W", help=f"of the synthetic step ({WORKERS})")
    add("--shard", type=parse_shard, metavar="I/N", help="part I (1..N) of the lines; needs --out")
    add("--merge", type=_parts, metavar="N", help="make --out from the N shards that lie beside it")
    add("--resume", action="store_true", help="go on where a replay with this --out was ended")
    add("--jobs", "-j", type=positive, metavar="N", help="cores to use (all)")
    add("--cluster", metavar="WHERE", help=cluster.HELP)


def add_memory(parser: argparse.ArgumentParser, usual: str, nargs: str | None = None) -> None:
    """The options of `memory_of`; ``usual`` and ``nargs`` are those of the latency."""
    add = parser.add_argument_group("device memory").add_argument
    latency: Any = [int(one) for one in usual.split()] if nargs else int(usual)
    add(
        "--memory-latency",
        type=up_to(MAX_LATENCY),
        nargs=nargs,
        default=latency,
        metavar="N",
        help=f"clocks from a request to its answer ({usual})",
    )
    add(
        "--memory-beat",
        type=up_to(MAX_BEAT),
        default=1,
        metavar="N",
        help="clocks a beat of data (1)",
    )
    add("--memory-stall", type=_percent, default=0, metavar="P", help="%% of clocks without READY")


def memory_of(args: argparse.Namespace, latency: int) -> MemoryTiming:
    """The memory that is asked for."""
    return MemoryTiming(latency, args.memory_beat, args.memory_stall)


def check_words(args: argparse.Namespace) -> None:
    """OptionError for options that do not go together."""
    wanted = [word for word in (args.capture, args.synthetic, args.stimulus) if word]
    if len(wanted) != 1:
        what = f"{len(wanted)} given" if wanted else "nothing to replay"
        raise OptionError("CAPTURE", what, "name one of CAPTURE, --synthetic and --stimulus")
    names = ("synthetic", "shard", "merge", "resume", "jobs", "cluster")
    only_bulk = [name for name in names if getattr(args, name)]
    if only_bulk and args.transport != "bulk":
        raise OptionError(f"--{only_bulk[0]}", "bulk replay alone has it", "add --transport bulk")
    if args.cluster == "":  # a variable that is not set
        raise OptionError("--cluster", "names nothing", "write tcp://HOST:PORT, or leave it out")
    if args.waves and args.transport == "bulk":
        todo = "replay at signal level, or a --stimulus that bulk replay has left"
        raise OptionError("--waves", "bulk replay writes none", todo)
    if args.timeout and args.transport == "bulk":
        raise OptionError(
            "--timeout", "bulk replay has none", "end it with Ctrl-C, go on with --resume"
        )
    if args.capture and args.workers:
        raise OptionError("--workers", "the capture says how many there are", "leave it out")
    unused = given(args, add_arguments) - _OF_STIMULUS
    if args.stimulus and unused:
        what, todo = (
            "the stimulus says all of that",
            "leave it out; --sim, --dut, --timeout, --waves go with it",
        )
        raise OptionError(f"--{min(unused).replace('_', '-')}", what, todo)


def check_kept(args: argparse.Namespace) -> None:
    """The same for what stands on a journal."""
    needs_out = [name for name in ("shard", "merge", "resume") if getattr(args, name)]
    if needs_out and args.out is None:
        todo = "add --out FILE: what has come back is kept beside it"
        raise OptionError(f"--{needs_out[0]}", "nothing is kept without --out", todo)
    if args.merge and (args.shard or args.resume or args.cluster):
        raise OptionError("--merge", "it drives nothing", "leave --shard, --resume, --cluster out")


def options_of(args: argparse.Namespace) -> ReplayOptions:
    """What will be driven, steps still unchecked; CaptureError for words not understood."""
    log2 = None
    if args.transport == "bulk":
        fast = args.sim != registry.ALL and registry.get(args.sim).compiles_slowly
        log2 = replay_options.EPOCH_LINES_LOG2 if fast else replay_options.SLOW_LINES_LOG2
    return ReplayOptions(
        capture=args.capture or "",
        steps=tuple(args.steps),
        routes=tuple(args.route),
        nonfinite=args.nonfinite,
        ratio=args.ternary_ratio,
        rounding=args.rounding,
        sums=args.sums,
        tie=Tie[args.tie.upper()],
        threshold=args.threshold,
        seed=args.seed,
        parameters=parse_parameters(args.param),
        synthetic=args.synthetic or "",
        workers=args.workers or WORKERS,
        epoch_lines_log2=log2,
        memory=memory_of(args, args.memory_latency),
    )


def command(args: argparse.Namespace, sim: str) -> str:
    """The line to paste to see the same again, at signal level."""
    words = [".venv/bin/nf", "replay", args.capture, "--sim", sim, "--seed", str(args.seed)]
    for flag, values in (("--steps", args.steps), ("--route", args.route), ("--param", args.param)):
        words += [flag, *values] if values else []
    words += ["--dut", args.dut] if args.dut != Dut.RTL else []
    words += ["--nonfinite", args.nonfinite] if args.nonfinite != "refuse" else []
    words += ["--tie", args.tie] if args.tie != "plus" else []
    words += ["--threshold", str(args.threshold)] if args.threshold != 1 else []
    usual = MemoryTiming()
    for name in ("latency", "beat", "stall"):
        value = getattr(args, f"memory_{name}")
        words += [f"--memory-{name}", str(value)] if value != getattr(usual, name) else []
    words += ["--sums", args.sums] if args.sums != "views" else []
    words += ["--rounding", args.rounding] if args.rounding != "nearest" else []
    if args.ternary_ratio != TERNARY_RATIO:
        words += ["--ternary-ratio", repr(args.ternary_ratio)]
    return shlex.join(words)


def parse_shard(text: str) -> Shard:
    """`I/N` with I from 1 to N."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return Shard(int(match[1]), int(match[2]))


_natural = up_to((1 << 31) - 1, "a number above 0")
_threshold = up_to(255)
_parts = up_to(9999, "a number of shards")
_workers = up_to(MAX_WORKERS)


def _percent(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", text) or int(text) > MAX_STALL:
        raise argparse.ArgumentTypeError(f"{text!r} is not 0 to {MAX_STALL}")
    return int(text)


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ratio (0 or more)")
    return value
