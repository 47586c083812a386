# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench replay`: cost of the bulk transport compared with the bare model and pyuvm.

(a) the verilated model without checks and without Python code per line, its traffic in memory
(b) bulk replay of the same lines, which are packed in memory: ordered, driven, judged
(c) the signal-level replay of a capture

Medians of several runs that take turns; a line is one worker's contribution of 64 bytes.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from models.modes import Mode, elements_per_line
from models.parameters import DeviceParams
from neuron_fabric.capture import TensorSpec, write_capture
from neuron_fabric.errors import say
from scripts.benchmarks.goals import SpeedGoal, in_turn
from scripts.benchmarks.goals import judge as judge_goals
from scripts.build import registry
from scripts.cli import replay as nf_replay
from scripts.common.arguments import up_to
from scripts.common.memory_options import add_memory, memory_of
from scripts.common.paths import BUILD
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import VerilatedDevice, VerilatedModel
from verif.mem.memory_timing import LATENCIES, MemoryTiming
from verif.replay.bulk.bulk_transport import stream
from verif.replay.bulk.epoch_block import EpochBlock
from verif.replay.epoch import EpochLines
from verif.replay.gradient_source import HeldLines, SyntheticSource
from verif.replay.line_check import judge
from verif.replay.options import EPOCH_LINES_LOG2
from verif.replay.plan import Plan, plan_step
from verif.replay.runner import peak_mebibytes

HELP = "bulk replay against the model alone and against signal level: speed, start, memory"
WORKERS = 8
ROUTES = (Mode.G_BINARY, Mode.FP32)
SEED = 1
SIGNAL_LINES = 256
"""Lines a worker at signal level: a minute would not make the figure truer."""
BARE, BULK, SIGNAL = "(a) bare C++ harness", "(b) bulk, all checks", "(c) signal level"
LEAST = {BARE: 0.85, SIGNAL: 50}
"""Least speed of (b) as a multiple of these."""
_LINES_LOG2 = DeviceParams().mem_lines_log2


@dataclass(frozen=True)
class ReplayLoad:
    """Packed lines of every worker for a replay of one tensor by one route."""

    source: HeldLines
    plan: Plan
    mode: Mode

    @staticmethod
    def of(mode: Mode, lines: int) -> ReplayLoad:
        """Return the load of a synthetic tensor with ``lines`` lines a worker."""
        tensor = TensorSpec("bench", (lines * elements_per_line(mode),))
        routes = {tensor.name: mode}
        drawn = SyntheticSource("bench", (tensor,), WORKERS, routes, 0.7, SEED)
        plan = plan_step(
            (tensor,), routes, WORKERS, DeviceParams(), epoch_lines_log2=EPOCH_LINES_LOG2
        )
        uses = ((0, use) for number in range(plan.epochs) for use in plan.epoch(number))
        source = HeldLines.of(drawn, uses)
        return ReplayLoad(source, plan, mode)

    def blocks(self) -> Iterator[EpochBlock]:
        """Yield the operations of every epoch, computed on demand."""
        for number in range(self.plan.epochs):
            work = EpochLines.read(self.source, self.plan, (0, number), 1 + number)
            yield EpochBlock.of(work, SEED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runs", type=up_to(1000), default=5, metavar="N", help="medians of N runs (5)")
    add("--lines", type=up_to(1 << 24), default=24576, metavar="N", help="lines a worker (24576)")
    add_memory(parser, " ".join(map(str, LATENCIES)), nargs="+")


def run(args: argparse.Namespace, files: Path = BUILD / "bench" / "replay") -> int:
    """Measure and print; return 1 when a goal is missed, else 0.

    `files` is the folder for the runs.
    """
    os.environ.pop("NF_BULK_QUICK", None)  # the speed of what was compiled for speed
    simulators = Simulators(files=files, command="nf measure bench")
    model = simulators.bulk(registry.names()[0], {})
    assert isinstance(model, VerilatedModel)
    goals: list[SpeedGoal] = []
    for latency in args.memory_latency:
        memory = memory_of(args, latency)
        say(f"{memory} in (a), (b) and (c)")
        say(f"route      {'lines/s, median of ' + str(args.runs):26} least     most")
        with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:
            for mode in ROUTES:
                goals += _compare(simulators, model, Path(folder), args, (memory, mode))
    start = time.monotonic()
    model.open(files, _LINES_LOG2, SEED).close()
    start = time.monotonic() - start
    code = judge_goals(goals)
    say(f"{model.took_seconds:.1f} s to build, {1000 * start:.0f} ms to start, "
        f"peak memory {peak_mebibytes():,.0f} MiB")  # fmt: skip
    return code


def _compare(
    simulators: Simulators,
    model: VerilatedModel,
    folder: Path,
    args: argparse.Namespace,
    at: tuple[MemoryTiming, Mode],
) -> list[SpeedGoal]:
    """Print lines per second of (a), (b) and (c) by one route; return the goals of their ratios.

    `at` is the memory timing and the route.
    """
    memory, mode = at
    load = ReplayLoad.of(mode, args.lines)
    blocks = [made.block for made in load.blocks()]

    def bare() -> float:
        with closing(VerilatedDevice(model.unchecked, _LINES_LOG2, SEED, memory)) as device:
            start = time.perf_counter()
            for block in blocks:
                device.run(block)
            return time.perf_counter() - start

    def signal_level() -> float:
        """Return the seconds of a replay of some lines, less those of one line (start-up)."""
        whole, one = (_replay(simulators, folder, at, n) for n in (SIGNAL_LINES, 1))
        return whole - one

    lines = {BARE: args.lines, BULK: args.lines, SIGNAL: SIGNAL_LINES}
    ways = {BARE: bare, BULK: lambda: _bulk(model, folder, load, memory), SIGNAL: signal_level}
    middle: dict[str, float] = {}
    for what, seconds in in_turn(ways, args.runs).items():
        speeds = [lines[what] * WORKERS / max(one, 1e-9) for one in seconds]
        middle[what] = median(speeds)
        numbers = f"{middle[what]:9,.0f} {min(speeds):8,.0f} {max(speeds):8,.0f}"
        say(f"{mode.name:10} {what:26} {numbers}", flush=True)
    return [
        SpeedGoal(
            f"{mode.name} at {memory} (b) / {to[:3]}", middle[BULK] / middle[to], least, least=True
        )
        for to, least in LEAST.items()
    ]


def _bulk(model: VerilatedModel, folder: Path, load: ReplayLoad, memory: MemoryTiming) -> float:
    """Return the seconds of a bulk replay; raise AssertionError for a wrong line."""
    with closing(model.open(folder, _LINES_LOG2, SEED, memory)) as device:
        start = time.perf_counter()
        for block, _ in stream(device, load.blocks()):
            found, told = judge(block.work).first, block.problems()
            if found is not None or told:
                raise AssertionError(found.text if found is not None else told[0])
        return time.perf_counter() - start


def _replay(
    simulators: Simulators, folder: Path, at: tuple[MemoryTiming, Mode], lines: int
) -> float:
    """Return the seconds of a signal-level replay of `lines` lines a worker.

    AssertionError is raised when it fails.
    """
    memory, mode = at
    capture = folder / f"capture-{mode.name}-{lines}"
    if not capture.exists():
        size = (WORKERS, lines * elements_per_line(mode))
        values = np.random.default_rng(SEED).standard_normal(size, np.float32)
        write_capture(capture, "bench", {0: {"bench": values}})
    parser = argparse.ArgumentParser()
    nf_replay.add_arguments(parser)
    words = [str(capture), "--sim", registry.names()[0], "--route", f"*={mode.name}"]
    words += ["--transport", "signal", "--memory-latency", str(memory.latency)]
    words += ["--memory-beat", str(memory.beat), "--memory-stall", str(memory.stall)]
    start = time.perf_counter()
    with redirect_stdout(io.StringIO()) as said:
        code = nf_replay.run(parser.parse_args(words), simulators)
    if code:
        raise AssertionError(said.getvalue())
    return time.perf_counter() - start
