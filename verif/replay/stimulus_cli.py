# SPDX-License-Identifier: Apache-2.0
"""`nf replay --stimulus FILE`: what a bulk replay found wrong, at signal level."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from neuron_fabric.text import say
from verif.replay.backend import Backend, SimulationJob
from verif.replay.stimulus import STIMULUS, Stimulus

BENCH = "verif.replay.stimulus_bench"
TEST = "stimulus"
# Wall-clock limit: a start, and Icarus on a slow machine for every operation.
BASE_SECONDS, OPERATION_SECONDS = 300.0, 0.05


def run(args: argparse.Namespace, backend: Backend) -> int:
    """Drive it; exit code 1 when the device is wrong, as the file says it is."""
    path = Path(args.stimulus)
    stimulus = Stimulus.read(path)
    sims, note = backend.simulators(args.sim)
    if note:
        say(note)
    say(f"stimulus of {len(stimulus.operations)} operations: {stimulus.note}")
    failed = False
    for sim in sims:
        folder = backend.workspace(f"stimulus-{path.stem}-{sim}")
        words = [".venv/bin/nf", "replay", "--stimulus", args.stimulus, "--sim", sim]
        limit = BASE_SECONDS + OPERATION_SECONDS * len(stimulus.operations)
        outcome = backend.simulate(
            SimulationJob(
                simulator=sim,
                module=BENCH,
                test=TEST,
                folder=folder / "run",
                env={STIMULUS: str(path.resolve())},
                parameters=stimulus.parameters,
                seed=stimulus.seed,
                timeout_s=args.timeout or limit,
                waves=args.waves,
                rerun=shlex.join(words),
            )
        )
        if outcome.waves:
            say(f"{sim}: waves in {outcome.waves}")
        if outcome.passed:
            say(f"{sim}: every answer is right")
        else:
            failed = True
            say(f"nf replay: {sim}: {outcome.cause} (log: {outcome.log})", file=sys.stderr)
    return int(failed)
