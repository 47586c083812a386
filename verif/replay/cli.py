# SPDX-License-Identifier: Apache-2.0
"""Command line of the replay: checks the capture, starts the bench, judges what came back.

`run` takes the runner as an argument (see backend.py), so that this folder stands on the bench and
the references alone. Exit code 0: every line is right; 1: something differs; 2: it cannot be done.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from models.formats import Tie
from neuron_fabric.errors import CaptureError, one_line
from neuron_fabric.text import say, telling
from verif.replay import stimulus_cli, summary
from verif.replay.backend import Backend, BulkError, Outcome, SimulationJob
from verif.replay.bench_job import JOB, BenchJob
from verif.replay.bulk import cli as bulk
from verif.replay.check import compare
from verif.replay.options import ReplayOptions, parse_parameters
from verif.replay.prepare import Replay, prepare
from verif.replay.result import (
    Figures,
    check_out,
    check_steps,
    hold,
    metadata_of,
    out_path,
    read_raw,
    tensors_of,
    write_out,
)
from verif.replay.tensors import TERNARY_RATIO

BENCH = "verif.replay.bench"
TEST = "replay"
# Wall-clock limit of a simulator process: a start, and Icarus on a slow machine for every line.
BASE_SECONDS, LINE_SECONDS = 300.0, 0.05
_OF_STIMULUS = {"stimulus", "sim", "timeout", "waves"}

Tensors = dict[str, NDArray[Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `nf replay`."""
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
        help="name-glob=G_BINARY, G_TERNARY or FP32; the first that matches wins",
    )
    add("--sim", choices=("verilator", "icarus", "both"), default="verilator")
    add("--out", metavar="FILE", help="safetensors with what the device returned, one file a step")
    add("--nonfinite", choices=("refuse", "fp32"), default="refuse", help="NaN, infinity: by FP32?")
    add("--ternary-ratio", type=_ratio, default=TERNARY_RATIO, metavar="R", help="gate at R * mean")
    add("--tie", choices=("plus", "minus"), default="plus", help="what a tied binary vote gives")
    add("--threshold", type=_threshold, default=1, metavar="T", help="net count of a ternary vote")
    add("--seed", type=_natural, default=1, help="order of the workers, content of the memory")
    add("--param", nargs="+", action="extend", default=[], metavar="NAME=N", help="RTL parameter")
    add("--timeout", type=_seconds, metavar="S", help="wall-clock seconds for one simulator run")
    add("--waves", action="store_true", help="write waves (slower build and run)")
    add("--stimulus", metavar="FILE", help="in place of CAPTURE: what a bulk replay found wrong")
    bulk.add_arguments(parser)


def run(args: argparse.Namespace, backend: Backend) -> int:
    """Replay; the exit code."""
    start = time.monotonic()
    try:
        check_words(args)
        if args.stimulus:
            return stimulus_cli.run(args, backend)
        options = options_of(args)
        with ExitStack() as stack:
            if args.out is not None:
                check_out(Path(args.out), Path(args.capture) if args.capture else None)
                if args.shard is None or args.shard.of == 1:  # a shard writes its journal alone
                    stack.enter_context(hold(Path(args.out)))
            if args.transport == "bulk":
                return bulk.run(args, options, backend, start)
            with telling(f"nf replay: reading {args.capture}"):
                replay = prepare(options)
            if args.out is not None:
                check_steps(Path(args.out), [work.step for work in replay.steps])
            return _Runner(args, backend, replay, start).run()
    except CaptureError as error:
        say(f"nf replay: {error}", file=sys.stderr)
    except BulkError as error:
        say(f"nf replay: the RTL does not compile: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{one_line(error.filename)}: " if error.filename else ""
        say(f"nf replay: {where}{error.strerror or error}", file=sys.stderr)
    except MemoryError:
        say(f"nf replay: {args.capture}: not enough memory; take fewer steps", file=sys.stderr)
    return 2


def check_words(args: argparse.Namespace) -> None:
    """CaptureError for options that do not go together."""
    given = [word for word in (args.capture, args.synthetic, args.stimulus) if word]
    if len(given) != 1:
        what = f"{len(given)} given" if given else "nothing to replay"
        raise CaptureError("CAPTURE", what, "name one of CAPTURE, --synthetic and --stimulus")
    only_bulk = [name for name in ("synthetic", "shard", "merge", "resume") if getattr(args, name)]
    if only_bulk and args.transport != "bulk":
        raise CaptureError(f"--{only_bulk[0]}", "bulk replay alone has it", "add --transport bulk")
    if args.waves and args.transport == "bulk":
        todo = "replay at signal level, or a --stimulus that bulk replay has left"
        raise CaptureError("--waves", "bulk replay writes none", todo)
    if args.timeout and args.transport == "bulk":
        raise CaptureError(
            "--timeout", "bulk replay has none", "end it with Ctrl-C, go on with --resume"
        )
    if args.capture and "workers" in _given(args):
        raise CaptureError("--workers", "the capture says how many there are", "leave it out")
    unused = _given(args) - _OF_STIMULUS
    if args.stimulus and unused:
        what, todo = (
            "the stimulus says all of that",
            "leave it out; --sim, --timeout, --waves go with it",
        )
        raise CaptureError(f"--{min(unused).replace('_', '-')}", what, todo)


def _given(args: argparse.Namespace) -> set[str]:
    """Names of the options that are not as they are by default."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return {
        name for name, value in vars(parser.parse_args([])).items() if getattr(args, name) != value
    }


def options_of(args: argparse.Namespace) -> ReplayOptions:
    """What will be driven, steps still unchecked; CaptureError for words not understood."""
    return ReplayOptions(
        capture=args.capture or "",
        steps=tuple(args.steps),
        routes=tuple(args.route),
        nonfinite=args.nonfinite,
        ratio=args.ternary_ratio,
        tie=Tie[args.tie.upper()],
        threshold=args.threshold,
        seed=args.seed,
        parameters=parse_parameters(args.param),
    )


@dataclass
class _Simulated:
    """What came of one simulator, by step; ``returned`` holds the steps without a wrong line."""

    simulator: str
    figures: dict[int, Figures] = field(default_factory=dict)
    returned: dict[int, Tensors] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lines: int = 0
    wrong: int = 0
    build_seconds: float = 0.0


@dataclass
class _Runner:
    """One call of `nf replay` after everything has been checked."""

    args: argparse.Namespace
    backend: Backend
    replay: Replay
    start: float

    def run(self) -> int:
        replay = self.replay
        sims, note = self.backend.simulators(self.args.sim)
        if note:
            say(note)
        for line in summary.opening(replay):
            say(line, flush=True)
        for line in replay.warnings:
            say(f"nf replay: warning: {line}", file=sys.stderr)
        done = [_Simulated(sim) for sim in sims]
        for one in done:
            self._simulate(one)
        faults = [fault for one in done for fault in one.faults] + self._between(done)
        lines = sum(one.lines for one in done)
        if lines == 0 and not faults:
            faults.append("no line was checked")
        if lines == len(done) * sum(work.lines for work in replay.steps):
            for line in summary.traffic(replay.steps):
                say(line)
        if not faults and self.args.out is not None:
            self._write(done)
        for fault in faults:
            say(f"nf replay: {fault}", file=sys.stderr)
        if faults:
            say(f"rerun: {self._command(self.args.sim)} --waves")
        cycles = sum(figures.cycles for one in done for figures in one.figures.values())
        built = sum(one.build_seconds for one in done)
        building = f" ({built:.1f} s of it to build)" if built >= 1 else ""
        say(
            f"nf replay: {'FAILED, ' if faults else ''}{lines:,} lines, "
            f"{sum(one.wrong for one in done)} mismatches, {cycles:,} cycles, "
            f"{time.monotonic() - self.start:.1f} s on {' and '.join(sims)}{building}",
            flush=True,
        )
        return 1 if faults else 0

    def _simulate(self, done: _Simulated) -> None:
        """Every session on one simulator."""
        sim = done.simulator
        name = Path(self.args.capture).resolve().name
        digest = hashlib.sha256(f"{sim} {self.replay.options}".encode()).hexdigest()[:8]
        folder = self.backend.workspace(f"{name}-{sim}-{digest}")
        for number, session in enumerate(self.replay.sessions):
            outcome = self._bench(sim, folder, number)
            done.build_seconds += outcome.build_seconds
            faults, missing = [], []
            for work in session:
                result = read_raw(folder, work.step)
                if result is None:
                    missing.append(f"step {work.step} came to no end")
                    continue
                verdict = compare(work, result.got)
                done.lines += verdict.lines
                done.wrong += verdict.wrong
                done.figures[work.step] = result.figures
                say(summary.of_step(sim, work, verdict.wrong, result.figures), flush=True)
                faults += [verdict.first] if verdict.wrong else []
                faults += result.figures.problems
                if not verdict.wrong:
                    done.returned[work.step] = tensors_of(work, result.got)
            if outcome.waves:
                say(f"{sim}: waves in {outcome.waves}")
            if not outcome.passed:
                faults.append(f"{outcome.cause} (log: {outcome.log})")
            faults += missing
            done.faults += [f"{sim}: {' '.join(text.split())[:600]}" for text in faults]

    def _bench(self, sim: str, folder: Path, session: int) -> Outcome:
        options = self.replay.options
        works = self.replay.sessions[session]
        there = str(Path(options.capture).resolve())
        job = folder / f"session-{session}.json"
        BenchJob(replace(options, capture=there), session, folder, self.replay.content).write(job)
        lines = sum(work.writes + work.reads for work in works)
        return self.backend.simulate(
            SimulationJob(
                simulator=sim,
                module=BENCH,
                test=TEST,
                folder=folder / f"session-{session}",
                env={JOB: str(job)},
                parameters=options.parameters,
                seed=options.seed,
                timeout_s=self.args.timeout or BASE_SECONDS + LINE_SECONDS * lines,
                waves=self.args.waves,
                rerun=self._command(sim),
            )
        )

    def _command(self, sim: str) -> str:
        """The line to paste to see the same again."""
        args, options = self.args, self.replay.options
        words = [".venv/bin/nf", "replay", args.capture, "--sim", sim, "--seed", str(args.seed)]
        for flag, values in (
            ("--steps", args.steps),
            ("--route", args.route),
            ("--param", args.param),
        ):
            words += [flag, *values] if values else []
        words += ["--nonfinite", args.nonfinite] if args.nonfinite != "refuse" else []
        words += ["--tie", args.tie] if args.tie != "plus" else []
        words += ["--threshold", str(args.threshold)] if args.threshold != 1 else []
        if options.ratio != TERNARY_RATIO:
            words += ["--ternary-ratio", repr(options.ratio)]
        return shlex.join(words)

    def _between(self, done: Sequence[_Simulated]) -> list[str]:
        """The simulators must have returned the same tensors, bit for bit."""
        first, *others = done
        out = []
        for other in others:
            for step, tensors in first.returned.items():
                peer = other.returned.get(step, {})
                out += [
                    f"step {step}: {name} differs between {first.simulator} and {other.simulator}"
                    for name, array in tensors.items()
                    if name not in peer or array.tobytes() != peer[name].tobytes()
                ][:1]
        return out

    def _write(self, done: Sequence[_Simulated]) -> None:
        steps = self.replay.steps
        for work in steps:
            path = out_path(Path(self.args.out), work.step, len(steps))
            figures = {one.simulator: one.figures[work.step] for one in done}
            metadata = metadata_of(self.replay, work, figures)
            write_out(path, done[0].returned[work.step], metadata)
            say(f"wrote {path}")


def _natural(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _threshold(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 255:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 255")
    return int(text)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _ratio(text: str) -> float:
    value = _float(text)
    if not 0 <= value < 1e30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ratio (0 or more)")
    return value


def _seconds(text: str) -> float:
    value = _float(text)
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
