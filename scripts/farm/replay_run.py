# SPDX-License-Identifier: Apache-2.0
"""Replays as recorded runs on each chosen simulator.

A replay is of a capture, or of the stimulus that a failed bulk replay has left.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.common import interrupt, process, secret_values, tool_environment
from scripts.common.git import revision
from scripts.common.paths import shown
from scripts.common.records import (
    FILELIST,
    TOP,
    BuildSpec,
    CaseResult,
    Dut,
    FailureKind,
    RunRecord,
    RunSpec,
    Verdict,
)
from scripts.common.terminal import Bars, clock
from scripts.farm.cluster import if_named
from scripts.farm.replay_pieces import Pieces
from scripts.history.database import Recorder
from scripts.plan.testplan import with_dut
from scripts.run.replay_simulators import (
    STIMULUS_BENCH,
    SignalTransport,
    Simulators,
    cause_of,
    stimulus_command,
    timeout_of,
)
from scripts.run.simulate import save
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.job import Replay
from verif.replay.runner import OnLines, Runner, Transport, unseen
from verif.replay.stimulus_file import STIMULUS, Stimulus

Run = tuple[RunSpec, RunRecord]
_TERMINAL_SECONDS, _PLAIN_SECONDS = 0.2, 30.0


@contextmanager
def line_progress(whole: int, before: int) -> Iterator[OnLines]:
    """Show the progress of a bulk replay: a bar on a terminal, else a line every 30 s.

    Args:
        whole: All contribution lines.
        before: Lines that were finished before this run.
    """
    done, start = before, time.monotonic()
    last, bars = start, Bars(sys.stderr)

    def add(lines: int) -> None:
        nonlocal done, last
        done, now = done + lines, time.monotonic()
        if now - last < (_TERMINAL_SECONDS if bars.moves else _PLAIN_SECONDS):
            return
        last, share, speed = now, done / max(whole, 1), (done - before) / max(now - start, 1e-9)
        left = clock((whole - done) / speed) if speed else "?"
        rate = f"{speed:,.0f} lines/s, {left} left"
        bars.draw(f"{share:.0%}, {rate}", lines=(done, whole))
        if not bars.moves:
            bar = f"[{'#' * int(24 * share):24}]"
            text = f"{bar} {share:4.0%} {done:,} of {whole:,} lines, {rate}"
            say(text, file=sys.stderr, flush=True)

    with bars:
        yield add


def run_replay(
    args: argparse.Namespace,
    replay: Replay,
    simulators: Simulators,
    start: float,
    rerun: Callable[[str], str],
) -> tuple[int, list[Run]]:
    """Drive a planned replay on every simulator of ``--sim`` and save the record of each run.

    Args:
        args: Parsed options of `nf replay`.
        replay: Epochs to drive.
        simulators: Builds and run folders.
        start: Time at which the command began, by `time.monotonic`.
        rerun: Function from a simulator to the command that repeats the replay there.

    Returns:
        The exit code of the command, and one (spec, record) per simulator.
    """
    out = None if args.out is None else Path(args.out)
    sims, note = simulators.choose(args.sim)
    if note:
        say(note)
    hints = [] if replay.options.bulk else [f"rerun: {rerun(args.sim)} --waves"]
    transport = partial(_transport, args, replay, simulators, rerun)
    with if_named(args.cluster, args.jobs) as farm:
        spread = Pieces(args.jobs or process.cores(), farm)
        progress = line_progress if replay.options.bulk else unseen
        runner = Runner(replay, out, args.resume, hints, start, spread, progress)
        try:
            code = runner.run(sims, transport)
        except (KeyboardInterrupt, interrupt.Terminated):
            if out is not None and replay.options.bulk:
                todo = "go on with the same command and --resume"
                say(f"nf replay: all returned lines are kept; {todo}", file=sys.stderr)
            raise
    runs = [_run_of(runner, one, code == 0, Dut(args.dut)) for one in runner.done]
    for one, (_, record) in zip(runner.done, runs, strict=True):
        for folder in [one.folder, *([Path(args.record)] if args.record is not None else [])]:
            folder.mkdir(parents=True, exist_ok=True)
            save(record, folder)
    return code, runs


def _transport(
    args: argparse.Namespace,
    replay: Replay,
    simulators: Simulators,
    rerun: Callable[[str], str],
    sim: str,
) -> Transport:
    """Return the transport of a replay for a simulator: bulk (with its build) or signal level."""
    place, capture = with_dut(sim, Dut(args.dut)), args.capture or ""
    if replay.options.bulk:
        name = f"bulk-{Path(replay.source.name).name}-{place}".replace(" ", "-")
        folder = simulators.workspace(name, capture)
        model = simulators.bulk(sim, replay.options.parameters)
        again = partial(stimulus_command, sim=sim, dut=args.dut)
        return BulkTransport(replay, sim, folder, model, ahead=args.jobs != 1, again=again)
    # Replays of one capture with different options get different folders.
    digest = hashlib.sha256(f"{place} {replay.options}".encode()).hexdigest()[:8]
    folder = simulators.workspace(f"{Path(capture).resolve().name}-{place}-{digest}", capture)
    return SignalTransport(
        replay, sim, folder, simulators.simulate, rerun(sim), args.timeout, args.waves
    )


def _run_of(runner: Runner, one: Transport, passed: bool, dut: Dut) -> Run:
    """Return the outcome of a replay on one simulator as spec and record, like any other run."""
    options = runner.replay.options
    name = f"{Path(runner.replay.source.name).name}{'-bulk' if options.bulk else ''}"
    parameters = tuple(sorted(options.parameters.items()))
    spec = RunSpec(
        BuildSpec(one.simulator, TOP, FILELIST, parameters=parameters, dut=dut),
        "replay",
        (name,),
        seed=options.seed,
        build_name=with_dut("default", dut),
        rerun=f".venv/bin/{secret_values.command()}",
    )
    cause = "" if passed else (*one.faults, "the simulators returned different lines")[0]
    return spec, RunRecord.of(
        spec,
        Verdict(passed, None if passed else FailureKind(one.kind), cause),
        id="".join(
            c if c.isalnum() or c in "._-" else "_"
            for c in f"replay.{name}-{with_dut(one.simulator, dut)}"
        ),
        build_seconds=round(one.build_seconds, 3),
        seconds=round(one.seconds, 3),
        cases=(CaseResult(name, "passed" if passed else "failed", one.seconds, 0.0, cause),),
        log=shown(one.folder),
        cycles=sum(figures["cycles"] for figures in one.figures.values()),
        environment=tool_environment.passed(),
        sim_version=registry.get(one.simulator).version(),
    )


def write_history(runs: list[Run]) -> None:
    """Add replays to the history as one command, where `nf history` and `nf rerun` find them."""
    specs = [spec for spec, _ in runs]
    recorder = Recorder("nf replay", specs, secret_values.command(), revision())
    for spec, record in runs:
        recorder.add(replace(record, id=spec.id))
    recorder.close()


def run_stimulus(args: argparse.Namespace, simulators: Simulators) -> int:
    """Drive a stimulus at signal level on every simulator of ``--sim``, and print the results.

    Returns:
        Exit code: 0 if every answer is as the reducers computed it, else 1.
    """
    path = Path(args.stimulus)
    stimulus = Stimulus.read(path)
    sims, note = simulators.choose(args.sim)
    if note:
        say(note)
    say(f"stimulus of {len(stimulus.operations)} operations: {stimulus.note}")
    failed = False
    for sim in sims:
        folder = simulators.workspace(
            f"stimulus-{path.stem}-{with_dut(sim, Dut(args.dut))}", args.stimulus
        )
        record = simulators.simulate(
            sim,
            STIMULUS_BENCH,
            parameters=stimulus.parameters,
            runs=folder / "run",
            waves=args.waves,
            seed=stimulus.seed,
            timeout_s=args.timeout or timeout_of(len(stimulus.operations)),
            env=((STIMULUS, str(path.resolve())),),
            rerun=stimulus_command(path, sim, args.dut),
        )
        if record.waves:
            say(f"{sim}: waves in {record.waves}")
        if record.passed:
            say(f"{sim}: every answer is right")
        else:
            say(f"nf replay: {sim}: {cause_of(record)}", file=sys.stderr)
            failed = True
    return int(failed)
