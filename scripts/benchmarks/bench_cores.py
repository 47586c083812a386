# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench replay --jobs N`: speed-up of the bulk replay of an FP32 step by N cores.

One job and N jobs take turns, in the same command. The measured ratio is printed with the one that
the processor time of both would allow on N idle cores: where a machine is busy with other
things, the first says less.
"""

from __future__ import annotations

import argparse
import io
import resource
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import median

from neuron_fabric.errors import say
from scripts.benchmarks.goals import SpeedGoal, judge
from scripts.cli import replay as nf_replay
from scripts.run.replay_simulators import Simulators

STEP = ("--synthetic", "resnet18", "--route", "*=FP32", "--transport", "bulk")
SHARE = 0.9
"""Least speed-up of N jobs as a share of N."""


def measure(jobs: int, runs: int, part: int, files: Path) -> int:
    """Measure every ``part``-th piece of the step and print; 1 when the goal is missed."""
    simulators = Simulators(files=files, command="nf measure bench")
    simulators.bulk("verilator", {})
    wall: dict[int, list[float]] = {1: [], jobs: []}
    cpu: dict[int, list[float]] = {1: [], jobs: []}
    for _ in range(runs):
        for count in wall:
            start, used = time.perf_counter(), _cpu_seconds()
            last = _replay(simulators, count, part)
            wall[count].append(time.perf_counter() - start)
            cpu[count].append(_cpu_seconds() - used)
    say(last)
    for count, seconds in wall.items():
        say(f"-j {count}: {median(seconds):.2f} s, {median(cpu[count]):.2f} s of processor time")
    least = SHARE * jobs
    allowed = jobs * median(cpu[1]) / median(cpu[jobs])
    name = f"-j {jobs} against -j 1"
    return judge(
        [
            SpeedGoal(name, median(wall[1]) / median(wall[jobs]), least, " times", least=True),
            SpeedGoal(f"{name}, by processor time", allowed, least, " times", least=True),
        ]
    )


def _replay(simulators: Simulators, jobs: int, part: int) -> str:
    """The last line of a replay; AssertionError when it fails."""
    parser = argparse.ArgumentParser()
    nf_replay.add_arguments(parser)
    with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:
        words = [*STEP, "-j", str(jobs)]
        if part > 1:
            words += ["--shard", f"1/{part}", "--out", f"{folder}/out.safetensors"]
        with redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()) as error:
            code = nf_replay.run(parser.parse_args(words), simulators)
    if code:
        raise AssertionError(error.getvalue())
    return said.getvalue().splitlines()[-1]


def _cpu_seconds() -> float:
    """Return CPU seconds of this process and of the children it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
