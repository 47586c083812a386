# SPDX-License-Identifier: Apache-2.0
"""`nf replay`: captured gradients through the design; every result is checked.

Exit code 0: every line is right; 1: something differs; 2: it cannot be done.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from neuron_fabric.errors import CaptureError, one_line, say, telling
from scripts.build import bulk_build, registry
from scripts.build.sources import design_key
from scripts.cli import replay_options
from scripts.common import process, run_folders, secret_values, tool_environment
from scripts.common.errors import BuildError, OptionError
from scripts.common.paths import BUILD, shown
from scripts.common.records import (
    FILELIST,
    TOP,
    BuildSpec,
    CaseResult,
    Dut,
    Edit,
    FailureKind,
    RunRecord,
    RunSpec,
)
from scripts.farm.cluster import connect
from scripts.farm.pieces import Pieces
from scripts.plan.testplan import with_dut
from scripts.record.database import Recorder
from scripts.report.invocation import revision
from scripts.run import evidence
from scripts.run.signal_replay import STIMULUS_BENCH, SignalTransport, cause, patience
from scripts.run.simulate import run_tests, save
from verif.host.bulk_device import BulkModel
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.job import Replay, Shard, make_replay
from verif.replay.result import check_out, check_steps, hold
from verif.replay.runner import Runner, merge
from verif.replay.stimulus import STIMULUS, Stimulus
from verif.replay.transport import Transport

FILES = BUILD / "replay" / "runs"
_NAME = 150  # characters of a workspace's name: a capture may have any

EXAMPLES = """examples:
  nf replay captures/digits-resnet-8x        every step, by the default routes
  nf replay CAPTURE --transport bulk -j 4    faster, on four cores
  nf replay CAPTURE --transport bulk --cluster tcp://farm:8786   on the workers of a Dask scheduler
  nf replay CAPTURE --steps 3 --route '*=G_TERNARY' --sim both --out out.safetensors
"""

add_arguments = replay_options.add_arguments


class Simulators:
    """The project's simulators; ``edits`` break the design ``dut`` on purpose, runs leave
    ``files``; ``command`` is who builds, for the line that says so."""

    def __init__(
        self,
        edits: Sequence[Edit] = (),
        files: Path = FILES,
        dut: Dut = Dut.RTL,
        command: str = "nf replay",
    ) -> None:
        self.edits = tuple(edits)
        self.files = files
        self.dut = dut
        self.command = command

    def choose(self, wanted: str) -> tuple[list[str], str | None]:
        """Simulators for verilator, icarus or both, and a line to show if one is left out."""
        sims, note = registry.choose(wanted)
        return [str(sim) for sim in sims], note

    def workspace(self, name: str, source: str = "") -> Path:
        """An empty folder for the files of a replay of `source`, which must not lie in it."""
        folder = run_folders.folder(self.files / name[:_NAME])
        if source:
            evidence.refuse(source, folder)
        evidence.empty(folder)
        return folder

    def design(self) -> str:
        """Names the RTL; NfError."""
        return design_key(self.edits, dut=self.dut)

    def simulate(self, sim: str, module: str, test: str, **how: Any) -> RunRecord:
        """Build if needed and run; see `run_tests`."""
        return run_tests(sim, module, test, edits=self.edits, dut=self.dut, **how)

    def bulk(self, sim: str, parameters: Mapping[str, int]) -> BulkModel:
        """Build for bulk replay if needed; BuildError."""
        with telling(f"{self.command}: building the design for {sim}"):
            return bulk_build.build(sim, parameters, self.edits, self.dut)


def run(args: argparse.Namespace, simulators: Simulators | None = None) -> int:
    """Replay; the exit code."""
    recorded = simulators is None  # a command of a user, not a part of something else
    start, simulators = time.monotonic(), simulators or Simulators(dut=Dut(args.dut))
    try:
        replay_options.check_words(args)
        if args.stimulus:
            return _stimulus(args, simulators)
        options, out = replay_options.options_of(args), None
        with ExitStack() as stack:
            if args.out is not None:
                out = Path(args.out)
                check_out(out, Path(args.capture) if args.capture else None)
                if args.shard is None or args.shard.of == 1:  # a shard writes its journal alone
                    stack.enter_context(hold(out))
            replay_options.check_kept(args)
            with telling(f"nf replay: reading {args.capture or args.synthetic}"):
                design = simulators.design() if options.bulk else ""
                replay = make_replay(options, args.shard or Shard(), design)
            if args.merge:
                merge(replay, Path(args.out), simulators.choose(args.sim)[0], args.merge)
                return 0
            if out is not None:
                check_steps(out, [one.step for one in replay.steps])
            code, records = _drive(args, replay, out, simulators, start)
            if recorded:
                _into_history(records, Dut(args.dut))
            return code
    except (CaptureError, OptionError) as error:
        say(f"nf replay: {error}", file=sys.stderr)
    except BuildError as error:
        say(f"nf replay: the RTL does not compile: {error}", file=sys.stderr)
    except BrokenPipeError:  # `nf replay .. | head`: as in every command
        raise
    except OSError as error:
        where = f"{one_line(error.filename)}: " if error.filename else ""
        say(f"nf replay: {where}{error.strerror or error}", file=sys.stderr)
    except MemoryError:
        say(f"nf replay: {args.capture}: not enough memory; take fewer steps", file=sys.stderr)
    return 2


def _drive(
    args: argparse.Namespace,
    replay: Replay,
    out: Path | None,
    simulators: Simulators,
    start: float,
) -> tuple[int, list[RunRecord]]:
    """The exit code, and what came of each simulator."""

    def transport(sim: str) -> Transport:
        place = with_dut(sim, Dut(args.dut))
        if replay.options.bulk:
            name = f"bulk-{Path(replay.source.name).name}-{place}".replace(" ", "-")
            folder = simulators.workspace(name, args.capture or "")
            model = simulators.bulk(sim, replay.options.parameters)
            drive = partial(drive_again, sim=sim, dut=args.dut)
            return BulkTransport(replay, sim, folder, model, ahead=args.jobs != 1, again=drive)
        name = Path(args.capture).resolve().name
        digest = hashlib.sha256(f"{place} {replay.options}".encode()).hexdigest()[:8]
        folder = simulators.workspace(f"{name}-{place}-{digest}", args.capture or "")
        again = replay_options.command(args, sim)
        return SignalTransport(
            replay, sim, folder, simulators.simulate, again, args.timeout, args.waves
        )

    sims, note = simulators.choose(args.sim)
    if note:
        say(note)
    hints = []
    if not replay.options.bulk:
        hints.append(f"rerun: {replay_options.command(args, args.sim)} --waves")
    with ExitStack() as stack:
        farm = stack.enter_context(connect(args.cluster, args.jobs)) if args.cluster else None
        spread = Pieces(args.jobs or process.cores(), farm)
        runner = Runner(replay, out, args.resume, hints, start, spread)
        try:
            code = runner.run(sims, transport)
        except (KeyboardInterrupt, process.Terminated):
            if out is not None and replay.options.bulk:
                todo = "go on with the same command and --resume"
                say(f"nf replay: what has come back is kept; {todo}", file=sys.stderr)
            raise
    records = [_record(runner, one, code == 0, Dut(args.dut)) for one in runner.done]
    for one, record in zip(runner.done, records, strict=True):
        folders = [one.folder] if args.record is None else [one.folder, Path(args.record)]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            save(record, folder)
    return code, records


def _into_history(records: list[RunRecord], dut: Dut = Dut.RTL) -> None:
    """Write the runs where `nf history` and `nf rerun` find them."""
    specs = [
        RunSpec(
            BuildSpec(record.sim, TOP, FILELIST, parameters=record.parameters, dut=dut),
            *("replay", (record.name.partition("::")[2],)),
            seed=record.seed,
            build_name=record.build_name,
            rerun=record.rerun,
        )
        for record in records
    ]
    recorder = Recorder("nf replay", specs, secret_values.command(), revision())
    for spec, record in zip(specs, records, strict=True):
        recorder.add(replace(record, id=spec.id))
    recorder.close()


def _record(runner: Runner, one: Transport, passed: bool, dut: Dut) -> RunRecord:
    """What came of a simulator, as of any run."""
    options = runner.replay.options
    name = f"{Path(runner.replay.source.name).name}{'-bulk' if options.bulk else ''}"
    cause = "" if passed else (*one.faults, "what came back is not what it should be")[0]
    return RunRecord(
        id="".join(
            c if c.isalnum() or c in "._-" else "_"
            for c in f"replay.{name}-{with_dut(one.simulator, dut)}"
        ),
        name=f"replay::{name}",
        sim=one.simulator,
        seed=options.seed,
        build_name=with_dut("default", dut),
        parameters=tuple(sorted(options.parameters.items())),
        passed=passed,
        kind=None if passed else FailureKind(one.kind),
        cause=cause,
        build_seconds=round(one.build_seconds, 3),
        seconds=round(one.seconds, 3),
        sim_time_ns=0.0,
        cases=(CaseResult(name, "passed" if passed else "failed", one.seconds, 0.0, cause),),
        log=shown(one.folder),
        waves=None,
        coverage=None,
        rerun=f".venv/bin/{secret_values.command()}",
        cycles=sum(figures["cycles"] for figures in one.figures.values()),
        environment=tool_environment.passed(),
    )


def drive_again(stimulus: Path, sim: str, dut: str = Dut.RTL) -> str:
    """Return the line that drives a stimulus; it names a copy, which no replay deletes."""
    words = [".venv/bin/nf", "replay", "--stimulus", shown(evidence.kept(stimulus)), "--sim", sim]
    return shlex.join([*words, *(["--dut", dut] if dut != Dut.RTL else [])])


def _stimulus(args: argparse.Namespace, simulators: Simulators) -> int:
    """Drive what a bulk replay found wrong at signal level; 1 when the device is wrong."""
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
            *(sim, STIMULUS_BENCH, "stimulus"),
            seed=stimulus.seed,
            parameters=stimulus.parameters,
            timeout_s=args.timeout or patience(len(stimulus.operations)),
            env={STIMULUS: str(path.resolve())},
            waves=args.waves,
            rerun=drive_again(path, sim, args.dut),
            runs=folder / "run",
        )
        if record.waves:
            say(f"{sim}: waves in {record.waves}")
        if record.passed:
            say(f"{sim}: every answer is right")
        else:
            say(f"nf replay: {sim}: {cause(record)}", file=sys.stderr)
            failed = True
    return int(failed)
