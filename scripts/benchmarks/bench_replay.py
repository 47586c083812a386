# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench replay`: cost of the bulk transport against the bare model and pyuvm.

(a) the same model without checks and without Python at work, its traffic ready in memory
    (Icarus: a Verilog bench that reads the inputs of every clock from a file)
(b) bulk replay of the same lines, which lie packed in memory: ordered, driven, judged
(c) the signal-level replay of a capture

Medians of several runs that take turns; a line is one worker's contribution of 64 bytes.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from models.line_packing import Mode, elements_per_line
from models.regions import DeviceParams
from neuron_fabric.capture import TensorSpec, write_capture
from neuron_fabric.errors import say
from scripts.benchmarks import bench_cores
from scripts.benchmarks.goals import SpeedGoal
from scripts.benchmarks.goals import judge as judge_goals
from scripts.build import registry
from scripts.cli import replay as nf_replay
from scripts.common import tool_environment
from scripts.common.arguments import given, up_to
from scripts.common.errors import OptionError
from scripts.common.memory_options import add_memory, memory_of
from scripts.common.paths import BUILD
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import IcarusDevice, IcarusModel, VerilatedDevice, VerilatedModel
from verif.host.c_interface import Block
from verif.mem.memory_timing import LATENCIES, MemoryTiming
from verif.replay.bulk.bulk_transport import stream
from verif.replay.bulk.epoch_block import EpochBlock
from verif.replay.check import judge
from verif.replay.epoch import EpochLines
from verif.replay.options import EPOCH_LINES_LOG2
from verif.replay.plan import Plan, plan_step
from verif.replay.runner import peak_mebibytes
from verif.replay.source import HeldLines, SyntheticSource

HELP = "bulk replay against the model alone and against signal level: speed, start, memory"
WORKERS = 8
ROUTES = (Mode.G_BINARY, Mode.FP32)
SEED = 1
SIGNAL_LINES = 256
"""Lines a worker at signal level: a minute would not make the figure truer."""
ICARUS_LINES = 96
LEAST = {"(a)": 0.85, "(c)": 50}
"""Least speed of (b) as a multiple of these."""


@dataclass(frozen=True)
class ReplayLoad:
    """``lines`` a worker by one route, packed."""

    source: HeldLines
    plan: Plan
    mode: Mode

    @staticmethod
    def of(mode: Mode, lines: int) -> ReplayLoad:
        """A synthetic tensor of that many lines."""
        tensor = TensorSpec("bench", (lines * elements_per_line(mode),))
        routes = {tensor.name: mode}
        drawn = SyntheticSource("bench", (tensor,), WORKERS, routes, 0.7, SEED)
        plan = plan_step(
            *((tensor,), routes, WORKERS, DeviceParams()), epoch_lines_log2=EPOCH_LINES_LOG2
        )
        uses = ((0, use) for number in range(plan.epochs) for use in plan.epoch(number))
        source = HeldLines.of(drawn, uses)
        return ReplayLoad(source, plan, mode)

    @property
    def contributions(self) -> int:
        """Lines of all workers."""
        return self.plan.lines * WORKERS

    def blocks(self) -> Iterator[EpochBlock]:
        """Every epoch, made when it is asked for."""
        for number in range(self.plan.epochs):
            work = EpochLines.read(self.source, self.plan, (0, number), 1 + number)
            yield EpochBlock.of(work, SEED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP)
    add("--runs", type=up_to(1000), default=5, metavar="N", help="medians of N runs (5)")
    add(
        "--lines",
        type=up_to(1 << 24),
        default=24576,
        metavar="N",
        help="lines a worker under Verilator",
    )
    add_memory(parser, " ".join(map(str, LATENCIES)), nargs="+")
    add(
        *("--jobs", "-j"),
        type=up_to(1024, first=2),
        metavar="N",
        help="instead: N cores against one, on a training step by FP32",
    )
    add("--part", type=up_to(88), default=1, metavar="N", help="with --jobs: every N-th piece (1)")


def run(args: argparse.Namespace, files: Path = BUILD / "bench" / "replay") -> int:
    """Measure and print; the exit code is 1 when a goal is missed."""
    _check_words(args)
    if args.jobs:
        return bench_cores.measure(args.jobs, args.runs, args.part, files)
    simulators = Simulators(files=files, command="nf measure bench")
    sims, note = simulators.choose(args.sim)
    if note:
        say(note)
    goals: list[SpeedGoal] = []
    for latency in args.memory_latency:
        memory = memory_of(args, latency)
        say(f"{memory} in (a), (b) and (c)")
        say(f"simulator  route      {'lines/s, median of ' + str(args.runs):36} least     most")
        with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:
            for sim in sims:
                goals += _Bench(simulators, sim, Path(folder), args, memory).run()
    code = judge_goals(goals)
    say(f"peak memory {peak_mebibytes():,.0f} MiB")
    return code


def _check_words(args: argparse.Namespace) -> None:
    """OptionError for an option of the other measurement, which would say nothing."""
    words = given(args, add_arguments)
    strange = words - {"jobs", "part", "runs"} if args.jobs else words & {"part"}
    if strange:
        what = "--jobs measures one step with Verilator at the usual memory"
        what = what if args.jobs else "it is a part of what --jobs measures"
        raise OptionError(f"--{min(strange).replace('_', '-')}", what, "leave it out")


Measured = dict[str, tuple[ReplayLoad, Callable[[], float]]]
"""Load and a function that returns its seconds, by title."""


@dataclass
class _Bench:
    simulators: Simulators
    sim: str
    folder: Path
    args: argparse.Namespace
    memory: MemoryTiming

    def run(self) -> list[SpeedGoal]:
        """Every route on one simulator."""
        goals: list[SpeedGoal] = []
        model = self.simulators.bulk(self.sim, {})
        assert isinstance(model, VerilatedModel | IcarusModel)
        start = time.monotonic()
        model.open(self.folder, DeviceParams().mem_lines_log2, SEED).close()
        start = time.monotonic() - start
        for mode in ROUTES:
            if isinstance(model, VerilatedModel):
                goals += self._compare(mode, self._verilator(model, mode))
            else:
                goals += self._compare(mode, self._icarus(model, mode))
        took = f"{model.took_seconds:.1f} s to build, {1000 * start:.0f} ms to start"
        say(f"{self.sim:10} {took}", flush=True)
        return goals

    def _verilator(self, model: VerilatedModel, mode: Mode) -> Measured:
        load, small = ReplayLoad.of(mode, self.args.lines), ReplayLoad.of(mode, SIGNAL_LINES)
        blocks = [made.block for made in load.blocks()]
        return {
            "(a) bare C++ harness": (
                load,
                lambda: _bare_seconds(model.unchecked, self.memory, blocks),
            ),
            "(b) bulk, all checks": (load, lambda: self._bulk_seconds(model, load)),
            "(c) signal level": (small, lambda: self._signal_seconds(small)),
        }

    def _icarus(self, model: IcarusModel, mode: Mode) -> Measured:
        load = ReplayLoad.of(mode, ICARUS_LINES)
        inputs, nothing = self.folder / "inputs.bin", self.folder / "nothing.bin"
        _record_inputs(model, inputs, load, self.folder, self.memory)
        nothing.write_bytes(b"")
        return {
            "(a) bare Verilog bench": (
                load,
                lambda: _bench_seconds(model, inputs) - _bench_seconds(model, nothing),
            ),
            "(b) bulk, all checks": (load, lambda: self._bulk_seconds(model, load)),
        }

    def _compare(self, mode: Mode, measured: Measured) -> list[SpeedGoal]:
        """Print lines a second of each. They are measured run after run: whatever else the machine
        does hurts all alike."""
        speeds: dict[str, list[float]] = {what: [] for what in measured}
        for _ in range(self.args.runs):
            for what, (load, seconds) in measured.items():
                speeds[what].append(load.contributions / max(seconds(), 1e-9))
        middle: dict[str, float] = {}
        for what, found in speeds.items():
            middle[what[:3]] = median(found)
            numbers = f"{median(found):9,.0f} {min(found):8,.0f} {max(found):8,.0f}"
            say(f"{self.sim:10} {mode.name:10} {what:26} {numbers}", flush=True)
        return [
            SpeedGoal(
                f"{self.sim} {mode.name} at {self.memory} (b) / {to}",
                middle["(b)"] / middle[to],
                least,
                least=True,
            )
            for to, least in LEAST.items()
            if to in middle
        ]

    def _bulk_seconds(self, model: VerilatedModel | IcarusModel, load: ReplayLoad) -> float:
        log2 = load.plan.params.mem_lines_log2
        with closing(model.open(self.folder, log2, SEED, self.memory)) as device:
            start = time.perf_counter()
            for block, _ in stream(device, load.blocks()):
                found, told = judge(block.work).first, block.problems()
                if found is not None or told:
                    raise AssertionError(found.text if found is not None else told[0])
            return time.perf_counter() - start

    def _signal_seconds(self, load: ReplayLoad) -> float:
        """Signal-level replay of the same lines, less that of a single line: start-up is off."""
        return self._replay_seconds(load, load.plan.lines) - self._replay_seconds(load, 1)

    def _replay_seconds(self, load: ReplayLoad, lines: int) -> float:
        elements = lines * elements_per_line(load.mode)
        values = np.random.default_rng(SEED).standard_normal((WORKERS, elements), np.float32)
        capture = self.folder / f"capture-{load.mode.name}-{lines}"
        if not capture.exists():
            write_capture(capture, "bench", {0: {"bench": values}})
        parser = argparse.ArgumentParser()
        nf_replay.add_arguments(parser)
        words = [str(capture), "--sim", self.sim, "--route", f"*={load.mode.name}"]
        words += ["--transport", "signal", "--memory-latency", str(self.memory.latency)]
        words += ["--memory-beat", str(self.memory.beat), "--memory-stall", str(self.memory.stall)]
        start = time.perf_counter()
        with redirect_stdout(io.StringIO()) as said:
            code = nf_replay.run(parser.parse_args(words), self.simulators)
        if code:
            raise AssertionError(said.getvalue())
        return time.perf_counter() - start


def _bare_seconds(library: Path, memory: MemoryTiming, blocks: Sequence[Block]) -> float:
    """Seconds that a host without checks needs for blocks that lie ready."""
    device = VerilatedDevice(library, DeviceParams().mem_lines_log2, SEED, memory)
    with closing(device):
        start = time.perf_counter()
        for block in blocks:
            device.run(block)
        return time.perf_counter() - start


def _record_inputs(
    model: IcarusModel, path: Path, load: ReplayLoad, folder: Path, memory: MemoryTiming
) -> None:
    """The inputs of every clock of a bulk run from its reset on."""
    log, lines_log2 = folder / "record.log", load.plan.params.mem_lines_log2
    device = IcarusDevice(model.command, log, lines_log2, SEED, model.start, memory, path)
    with closing(device):
        for made in load.blocks():
            device.run(made.block)


def _bench_seconds(model: IcarusModel, inputs: Path) -> float:
    start = time.perf_counter()
    words = [*model.command, f"+inputs={inputs}"]
    subprocess.run(words, env=tool_environment.tools(), capture_output=True, check=True)
    return time.perf_counter() - start
