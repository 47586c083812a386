# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench model`: speed of the verilated controller as a ratio to an older commit.

Both trees are compiled by their own bulk replay: RTL, flags and C++ host of that commit. Then the
same blocks of operations go through both libraries in turns, in this process. What counts is the
CPU time of this process, as the machine may be shared; medians of several runs. All assertions
are on. Both have to bring back the same lines (spec: controller-2 §10).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import DeviceParams
from neuron_fabric.errors import say
from scripts.benchmarks.bench_replay import ROUTES, SEED, WORKERS, ReplayLoad
from scripts.benchmarks.goals import SpeedGoal, judge
from scripts.build import earlier, verilator
from scripts.common import git, toolchain
from scripts.common.arguments import up_to
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import BUILD, ROOT
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import VerilatedDevice, VerilatedModel
from verif.host.c_interface import Block, Kind
from verif.mem.memory_timing import MemoryTiming

HELP = "clocks a second of the verilated controller, as a ratio to an older commit"
BASELINE = "5293eb9"
"""The first edition, as it was when its speed was measured."""
LEAST = 2.2
_LINES_LOG2 = DeviceParams().mem_lines_log2
MEMORY = MemoryTiming(3)
"""The memory of the first edition answers after 3 clocks, and its library knows no other."""

# Runs in the older tree. Only the name of its module differs from commit to commit.
_BUILD = """
import sys
from pathlib import Path
try:
    from scripts.build.bulk_build import build
except ImportError:
    from scripts.bulk_build import build
print(build("verilator", base=Path(sys.argv[1])).library)
"""


@dataclass(frozen=True)
class Speed:
    """One library and one route: clocks, and CPU seconds of each run."""

    clocks: int
    seconds: list[float]

    @property
    def rate(self) -> float:
        """Clocks a second of CPU time, median."""
        return self.clocks / median(self.seconds)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--baseline", default=BASELINE, metavar="COMMIT", help=f"compared with ({BASELINE})")
    add("--runs", type=up_to(1000), default=9, metavar="N", help="medians of N runs (9)")
    add("--lines", type=up_to(1 << 20), default=2048, metavar="N", help="lines a worker (2048)")


def run(args: argparse.Namespace, files: Path = BUILD / "bench" / "model") -> int:
    """Measure and print; the exit code is 1 when the ratio is below LEAST."""
    older = baseline_library(args.baseline, files)
    present = Simulators(files=files, command="nf measure bench").bulk("verilator", {})
    assert isinstance(present, VerilatedModel)
    say(f"{args.lines} lines a worker, {WORKERS} workers, {MEMORY}; CPU time, one core: {_cpu()}")
    say(f"{verilator.Verilator.identity()}", flush=True)
    goals = []
    for mode in ROUTES:
        before, now = compare((older, present.library), mode, args.lines, args.runs)
        ratio = now.rate / before.rate
        for name, one in ((args.baseline, before), ("this tree", now)):
            rate = f"{one.rate:10,.0f} clocks/s, {one.clocks:,} clocks"
            say(f"{mode.name:9} {name:10} {rate}", flush=True)
        goals.append(SpeedGoal(f"{mode.name} clocks/s, ratio", ratio, LEAST, least=True))
        part = median(now.seconds) / median(before.seconds)
        say(f"{mode.name:9} the same lines in {part:.2f} of the time", flush=True)
    return judge(goals)


def baseline_library(commit: str, files: Path) -> Path:
    """The bulk library of an older commit, compiled unless it has been; NfError where git does
    not have it."""
    name = commit_name(commit)
    tree = files / name
    if not tree.is_dir():
        earlier.unpack(name, tree)
    say(f"compiling commit {commit}, unless it is there: {tree}", flush=True)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str((files / "builds").resolve())],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BuildError(f"commit {commit} does not build: {last}")
    return Path(done.stdout.strip().splitlines()[-1])


def commit_name(commit: str) -> str:
    """Its full name; NfError, one line, where this checkout has no history that holds it."""
    try:
        found = git.text("rev-parse", "--verify", f"{commit}^{{commit}}", root=ROOT)
    except git.GitError as error:
        raise NfError(
            f"nf measure bench model compares with commit {commit}, which the history here does "
            f"not hold (a copy without .git, or a shallow clone: git fetch --unshallow): {error}"
        ) from error
    return found.strip()


def compare(libraries: tuple[Path, Path], mode: Mode, lines: int, runs: int) -> list[Speed]:
    """The same blocks through each library in turns; AssertionError when the lines differ."""
    blocks = [made.block for made in ReplayLoad.of(mode, lines).blocks()]
    for block in blocks:
        # An older device has fewer registers: what is read of them is not compared here.
        block.ops["address"][block.ops["kind"] == Kind.REG_READ] = REG_MAP.expand()["ID"].address
    speeds = [Speed(0, []) for _ in libraries]
    for _ in range(runs):
        returned = []
        for place, library in enumerate(libraries):
            clocks, seconds = run_once(library, blocks)
            speeds[place] = Speed(clocks, [*speeds[place].seconds, seconds])
            returned.append([block.got.copy() for block in blocks])
        for first, second in zip(*returned, strict=True):
            if not np.array_equal(first, second):
                raise AssertionError(f"{mode.name}: the two models return different lines")
    return speeds


def run_once(library: Path, blocks: list[Block]) -> tuple[int, float]:
    """Return clocks and seconds of user CPU time of the blocks on a separate device."""
    with closing(VerilatedDevice(library, _LINES_LOG2, SEED, MEMORY)) as device:
        clocks, start = device.figures().cycles, _user_seconds()
        for block in blocks:
            device.run(block)
        return device.figures().cycles - clocks, _user_seconds() - start


def _user_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def _cpu() -> str:
    """The processor's name; the ratio depends on its caches."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "unknown processor"
    names = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return f"{next(names, 'unknown processor')}, {toolchain.gxx_version()}"
