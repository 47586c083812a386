# SPDX-License-Identifier: Apache-2.0
"""`nf replay`: drives captured gradients through the RTL and checks every result.

Exit code 0: every line is right; 1: a line, counter or simulator differs; 2: bad input.

examples:
  nf replay captures/digits-resnet-8x        every step, by the default routes
  nf replay CAPTURE --transport bulk -j 4    faster, on four cores
  nf replay CAPTURE --transport bulk --cluster tcp://farm:8786   on the workers of a Dask scheduler
  nf replay CAPTURE --steps 3 --route '*=G_TERNARY' --sim both --out out.safetensors
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from models.modes import Tie
from models.regions import MAX_WORKERS
from neuron_fabric.analysis import TensorFigures, analyse
from neuron_fabric.analysis.analyse_command import check_folder, report
from neuron_fabric.capture import Capture
from neuron_fabric.codec.routes import Route
from neuron_fabric.errors import CaptureError, say, telling
from neuron_fabric.printable import one_line
from neuron_fabric.profile import PhaseRoute
from scripts.build import registry
from scripts.common.arguments import (
    DUT_HELP,
    DUTS,
    SEVERAL,
    TIMEOUT_HELP,
    add_flags,
    given,
    positive,
    seconds,
    up_to,
)
from scripts.common.errors import BuildError, OptionError
from scripts.common.memory_options import add_memory, memory_of
from scripts.common.records import Dut
from scripts.farm import cluster
from scripts.farm.replay_run import run_replay, run_stimulus, write_history
from scripts.run.replay_simulators import Simulators
from verif.mem.memory_timing import MemoryTiming
from verif.replay import options as replay_options
from verif.replay.gradient_source import NETWORKS
from verif.replay.job import Replay, Shard, make_replay
from verif.replay.options import ReplayOptions, parse_parameters
from verif.replay.result import check_out, check_steps, hold
from verif.replay.runner import merge
from verif.replay.tensor_lines import TERNARY_RATIO

WORKERS = 8
CHOICES = {
    "--transport": (
        ("signal", "bulk"),
        "signal: Python drives every flit; bulk: a C++ host drives them, 100 times faster",
    ),
    "--nonfinite": (
        ("refuse", "fp32"),
        "on NaN or infinity: refuse the replay, or send the tensor as FP32",
    ),
    "--rounding": (
        ("nearest", "stochastic"),
        "rounding of G_INT4 and G_INT8 codes; stochastic: drawn from --seed",
    ),
    "--sums": (
        ("views", "planes"),
        "G_INT4, G_INT8: use regions of that mode, or the count planes of G_BINARY regions",
    ),
    "--tie": (("plus", "minus"), "result of a tied binary vote"),
}
"""Options with a fixed choice: the values, the default first, and the help text."""
_OF_STIMULUS = {"stimulus", "sim", "dut", "timeout", "waves", "quick"}
_JOURNAL = "the journal lies in the same folder"
_NOT_ANALYSED = {"synthetic", "shard", "merge", "tie", "threshold", "ternary_ratio"}
_BULK_ONLY = ("synthetic", "shard", "merge", "resume", "jobs", "cluster")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf replay`."""
    add = parser.add_argument
    add("capture", nargs="?", metavar="CAPTURE", help="folder with a capture.json")
    for flag, (choices, text) in CHOICES.items():
        add(flag, choices=choices, default=choices[0], help=text)
    add("--steps", **SEVERAL, metavar="STEP", help="steps or ranges: 3,60 or 0-100 (all)")
    what = "name-glob=G_BINARY, G_TERNARY, G_INT4, G_INT8 or FP32; the first match is used"
    add("--route", **SEVERAL, metavar="PATTERN=ROUTE", help=what)
    first = registry.names()[0]
    add("--sim", choices=registry.choices(), default=first, help=f"simulator ({first})")
    add("--dut", choices=DUTS, default=Dut.RTL, help=DUT_HELP)
    add("--out", metavar="FILE", help="write the returned tensors, one safetensors file a step")
    what = "after a replay without a difference, write what its routes make of it (`nf analyse`)"
    add("--analyse", metavar="DIR", help=what)
    what = f"G_TERNARY: send signs of values above R * mean ({TERNARY_RATIO})"
    add("--ternary-ratio", type=_ratio, default=TERNARY_RATIO, metavar="R", help=what)
    what = "least net count of a ternary vote (1)"
    add("--threshold", type=up_to(255), default=1, metavar="T", help=what)
    what = "seed of the order of workers and the initial memory (1)"
    add("--seed", type=up_to((1 << 31) - 1, "a number above 0"), default=1, help=what)
    add("--param", **SEVERAL, metavar="NAME=N", help="RTL parameters that differ from the default")
    add("--timeout", type=seconds, metavar="S", help=TIMEOUT_HELP)
    add_flags(parser, quick="compile with little optimisation: it starts sooner")
    add_flags(parser, waves="write waves (slower build and run)")
    add("--record", metavar="DIR", help="write a copy of the record of the run to DIR")
    what = "drive the stimulus of a failed bulk replay instead of CAPTURE"
    add("--stimulus", metavar="FILE", help=what)
    add_memory(parser, str(MemoryTiming().latency))
    group = parser.add_argument_group("bulk transport")
    add = group.add_argument
    what = "draw the gradients of a network from --seed instead of reading CAPTURE"
    add("--synthetic", choices=sorted(NETWORKS), help=what)
    what = f"workers of the synthetic step ({WORKERS})"
    add("--workers", type=up_to(MAX_WORKERS), metavar="W", help=what)
    what = "replay part I (1..N) of the lines; needs --out"
    add("--shard", type=parse_shard, metavar="I/N", help=what)
    what = "make --out from the journals of N shards"
    add("--merge", type=up_to(9999, "a number of shards"), metavar="N", help=what)
    add_flags(group, resume="continue an interrupted replay with this --out")
    add("--jobs", "-j", type=positive, metavar="N", help="cores to use (all)")
    add("--cluster", metavar="WHERE", help=cluster.HELP)


def run(args: argparse.Namespace, simulators: Simulators | None = None) -> int:
    """Replay as the options say, and return the exit code.

    Args:
        args: Parsed options.
        simulators: Simulators of a test or benchmark, whose replays are not recorded in the
            history; None: those of the project.
    """
    recorded = simulators is None
    start = time.monotonic()
    simulators = simulators or Simulators(dut=Dut(args.dut), quick=args.quick)
    try:
        check_options(args)
        if args.stimulus:
            return run_stimulus(args, simulators)
        return _replay(args, simulators, start, recorded)
    except (CaptureError, OptionError) as error:
        say(f"nf replay: {error}", file=sys.stderr)
    except BuildError as error:
        say(f"nf replay: the RTL does not compile: {error}", file=sys.stderr)
    except BrokenPipeError:  # `nf replay .. | head`: handled for all commands in main
        raise
    except OSError as error:
        where = f"{one_line(error.filename)}: " if error.filename else ""
        say(f"nf replay: {where}{error.strerror or error}", file=sys.stderr)
    except MemoryError:
        say(f"nf replay: {args.capture}: not enough memory; replay fewer steps", file=sys.stderr)
    return 2


def _replay(args: argparse.Namespace, simulators: Simulators, start: float, recorded: bool) -> int:
    """Read and check all input, then replay, or merge the journals of shards; return the exit code.

    The lock of --out is held meanwhile.
    """
    options, out = options_of(args), None if args.out is None else Path(args.out)
    with ExitStack() as stack:
        if args.analyse:
            check_folder(Path(args.analyse))
        if out is not None:
            check_out(out, Path(args.capture) if args.capture else None)
            if args.shard is None or args.shard.of == 1:  # a shard writes only its journal
                stack.enter_context(hold(out))
        with telling(f"nf replay: reading {args.capture or args.synthetic}"):
            design = simulators.design() if options.bulk else ""
            replay = make_replay(options, args.shard or Shard(), design)
        if out is not None and args.merge:
            merge(replay, out, simulators.choose(args.sim)[0], args.merge)
            return 0
        if out is not None:
            check_steps(out, [one.step for one in replay.steps])
        rerun = partial(rerun_command, args)
        code, runs = run_replay(args, replay, simulators, start, rerun)
        if recorded:
            write_history(runs)
        if code == 0 and args.analyse:
            _analyse(replay, Path(args.analyse))
        return code


def _analyse(replay: Replay, out: Path) -> None:
    """Write the analysis of the replayed steps, each tensor by its route (see `nf analyse`)."""
    capture, figures = Capture.open(replay.options.capture), list[TensorFigures]()
    for one in replay.steps:
        low = {name: mode.name for name, mode in one.routes.items() if mode.low_bit}
        ways = {name: (PhaseRoute(Route(route)),) for name, route in low.items()}
        figures += analyse(capture, [one.step], ways)
    report(capture, figures, out)


def check_options(args: argparse.Namespace) -> None:
    """Raise OptionError for options of `nf replay` that exclude each other, or lack another one."""
    wanted = [word for word in (args.capture, args.synthetic, args.stimulus) if word]
    if len(wanted) != 1:
        what = f"{len(wanted)} given" if wanted else "nothing to replay"
        raise OptionError("CAPTURE", what, "name one of CAPTURE, --synthetic and --stimulus")
    only_bulk = [name for name in _BULK_ONLY if getattr(args, name)]
    unused = sorted(given(args, add_arguments) - _OF_STIMULUS) if args.stimulus else []
    bulk = args.transport == "bulk"
    needs_out = [name for name in ("shard", "merge", "resume") if getattr(args, name)]
    drives = args.shard or args.resume or args.cluster
    resume = "end it with Ctrl-C, continue it with --resume"
    signal = "replay at signal level, or replay the --stimulus of a failed bulk replay"
    others = "leave it out; --stimulus takes --sim, --dut, --timeout and --waves"
    # (options that are wrong, what is wrong, what to do)
    rules: tuple[tuple[list[str], str, str], ...] = (
        ([] if bulk else only_bulk, "requires the bulk transport", "add --transport bulk"),
        # An unset variable of the shell gives an empty address.
        (["cluster"] * (args.cluster == ""), "the address is empty", "write tcp://HOST:PORT"),
        (["waves"] * (bulk and args.waves), "bulk replay writes no waves", signal),
        (["timeout"] * (bulk and bool(args.timeout)), "bulk replay has no time-out", resume),
        (
            ["workers"] * bool(args.capture and args.workers),
            "a capture has a fixed number of workers",
            "leave it out",
        ),
        (unused, "a stimulus contains this setting", others),
        (
            sorted(given(args, add_arguments) & _NOT_ANALYSED) if args.analyse else [],
            "is not how the hook votes, which --analyse follows",
            "leave it out, or --analyse",
        ),
        (needs_out if args.out is None else [], "requires --out", "add --out FILE: " + _JOURNAL),
        (
            ["merge"] * bool(args.merge and drives),
            "only joins journals and drives nothing",
            "leave --shard, --resume and --cluster out",
        ),
    )
    for names, what, todo in rules:
        if names:
            raise OptionError(f"--{names[0].replace('_', '-')}", what, todo)


def options_of(args: argparse.Namespace) -> ReplayOptions:
    """Return the options that determine the operations of a replay; the steps are not checked yet.

    Raises:
        CaptureError: A --param is malformed.
    """
    log2 = None
    if args.transport == "bulk":
        fast = args.sim != registry.ALL and registry.get(args.sim).compiles_slowly
        log2 = replay_options.EPOCH_LINES_LOG2 if fast else replay_options.SLOW_LINES_LOG2
    same = ("nonfinite", "rounding", "sums", "threshold", "seed")
    return ReplayOptions(
        capture=args.capture or "",
        steps=tuple(args.steps),
        routes=tuple(args.route),
        **{name: getattr(args, name) for name in same},
        ratio=args.ternary_ratio,
        tie=Tie[args.tie.upper()],
        parameters=parse_parameters(args.param),
        synthetic=args.synthetic or "",
        workers=args.workers or WORKERS,
        epoch_lines_log2=log2,
        memory=memory_of(args, args.memory_latency),
    )


_REPEATED = (
    *("steps", "route", "param", "dut", "nonfinite", "tie", "threshold", "memory_latency"),
    *("memory_beat", "memory_stall", "sums", "rounding", "ternary_ratio"),
)
"""Options that change what a signal-level replay drives."""


def rerun_command(args: argparse.Namespace, sim: str) -> str:
    """Return the command that repeats a signal-level replay on a simulator.

    Options that have their default value are left out.
    """
    words = [".venv/bin/nf", "replay", args.capture, "--sim", sim, "--seed", str(args.seed)]
    changed = given(args, add_arguments)
    for name in (one for one in _REPEATED if one in changed):
        value = getattr(args, name)
        values = map(str, value if isinstance(value, list) else [value])
        words += [f"--{name.replace('_', '-')}", *values]
    return shlex.join(words)


def parse_shard(text: str) -> Shard:
    """Parse ``I/N``, part I of N parts of the lines (argparse type); 1 <= I <= N <= 9999."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return Shard(int(match[1]), int(match[2]))


def _ratio(text: str) -> float:
    """Parse a ratio, finite and not negative (argparse type)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ratio (0 or more)")
    return value
