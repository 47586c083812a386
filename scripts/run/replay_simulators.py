# SPDX-License-Identifier: Apache-2.0
"""Simulators for replays of captures: folders, builds, and the signal-level transport.

That transport runs each session as a cocotb test.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from neuron_fabric.errors import telling
from scripts.build import bulk_build, registry
from scripts.build.sources import design_key
from scripts.common import folder_locks
from scripts.common.paths import BUILD, shown
from scripts.common.records import FILELIST, TOP, BuildSpec, Dut, Edit, RunRecord, RunSpec, Waves
from scripts.run import run_folders
from scripts.run.simulate import run as run_simulation
from verif.host.bulk_device import BulkModel
from verif.replay.epoch import Key
from verif.replay.runner import Driven, Transport
from verif.replay.signal.job_file import JOB, SignalJob, read_raw, steps_of

FILES = BUILD / "replay" / "runs"
STIMULUS_BENCH = "verif.replay.signal.stimulus_bench"
_REPLAY_BENCH = "verif.replay.signal.replay_bench"
_NAME = 150  # characters of the name of a run folder: a capture may have any name


@dataclass
class Simulators:
    """Builds and runs of a design for replays.

    Attributes:
        edits: Changes that break the design on purpose, for tests.
        files: Parent folder of the run folders.
        dut: Implementation of the controller.
        command: Command named in the message that is printed during a long build.
        quick: Whether to compile with little optimisation: it starts sooner and runs slower.
    """

    edits: Sequence[Edit] = ()
    files: Path = FILES
    dut: Dut = Dut.RTL
    command: str = "nf replay"
    quick: bool = False

    def choose(self, wanted: str) -> tuple[list[str], str | None]:
        """Return the names of the simulators for "verilator", "icarus" or "both".

        The second value is a note for the user if one is left out, else None.
        """
        sims, note = registry.choose(wanted)
        return [str(sim) for sim in sims], note

    def workspace(self, name: str, source: str = "") -> Path:
        """Return an empty folder for a replay.

        Args:
            name: Name of the folder below `files`.
            source: Input of the command, which must not be deleted; "" for none.

        Raises:
            NfError: ``source`` lies in the folder.
        """
        folder = folder_locks.folder(self.files / name[:_NAME])
        if source:
            run_folders.refuse(source, folder)
        run_folders.empty(folder)
        return folder

    def design(self) -> str:
        """Return the hash of the RTL text (`design_key`); raise NfError if a source is missing."""
        return design_key(self.edits, dut=self.dut)

    def simulate(
        self,
        sim: str,
        bench: str,
        *,
        parameters: Mapping[str, int],
        runs: Path,
        waves: bool,
        **run: Any,
    ) -> RunRecord:
        """Build the controller if needed, run the test of a testbench module, return the record.

        The test has the name of the module without "_bench".

        Args:
            sim: Name of the simulator.
            bench: Dotted name of the testbench module.
            parameters: Parameters of the controller.
            runs: Parent of the run folder.
            waves: Whether waves are written.
            run: Further fields of the RunSpec.
        """
        build = BuildSpec(
            sim,
            TOP,
            FILELIST,
            parameters=tuple(sorted(parameters.items())),
            edits=tuple(self.edits),
            dut=self.dut,
            waves=Waves.FST if waves else None,
            opt="-O0" if self.quick else BuildSpec.opt,
        )
        test = bench.rpartition(".")[2].removesuffix("_bench")
        return run_simulation(RunSpec(build, bench, (test,), **run), runs)

    def bulk(self, sim: str, parameters: Mapping[str, int]) -> BulkModel:
        """Return the model for bulk replay, compiled if needed; a long build is announced.

        Raises:
            BuildError: The RTL does not compile.
        """
        with telling(f"{self.command}: building the design for {sim}"):
            return bulk_build.build(sim, parameters, self.edits, self.dut, quick=self.quick)


@dataclass
class SignalTransport(Transport):
    """Signal-level transport of a replay: one simulator with the pyuvm environment per session.

    Attributes:
        simulate: `Simulators.simulate`.
        rerun: Command printed with a failure.
        timeout_s: Limit of a session in seconds of processor time; None derives it from its lines.
        waves: Whether waves are written.
        records: Record of each session.
    """

    simulate: Callable[..., RunRecord]
    rerun: str
    timeout_s: float | None = None
    waves: bool = False
    records: list[RunRecord] = field(default_factory=list)

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """Simulate one session, and yield each of its epochs with what was read; see Transport.

        A failed run becomes a fault of the transport.
        """
        options, number = self.replay.options, len(self.records)
        # The bench runs in another working directory.
        absolute = replace(options, capture=str(Path(options.capture).resolve()))
        job = self.folder / f"session-{number}.json"
        SignalJob(absolute, keys, self.folder, self.replay.content).write(job)
        plans = [self.replay.step(step).plan for step in dict.fromkeys(key[0] for key in keys)]
        lines = sum(plan.writes + plan.reads for plan in plans)
        record = self.simulate(
            self.simulator,
            _REPLAY_BENCH,
            parameters=options.parameters,
            runs=self.folder / f"session-{number}",
            waves=self.waves,
            seed=options.seed,
            timeout_s=self.timeout_s or timeout_of(lines),
            env=((JOB, str(job)),),
            rerun=self.rerun,
        )
        self.records.append(record)
        self.build_seconds += record.build_seconds
        missing = []
        for works in steps_of(self.replay, keys):
            found = read_raw(self.folder, works)
            if found is None:
                missing.append(f"step {works[0].step} was not completed")
                continue
            for work in works[:-1]:
                yield Driven(work)
            yield Driven(works[-1], *found)
        if record.waves:
            self.notes.append(f"{self.simulator}: waves in {record.waves}")
        if not record.passed:
            self.fault(cause_of(record))
            self.kind = str(record.kind or self.kind)
        self.fault(*missing)


def timeout_of(lines: int) -> float:
    """Return the limit of a session that drives so many memory lines, in seconds of processor time.

    It is 300 s to start, then 50 ms a line (Icarus on a slow machine).
    """
    return 300.0 + 0.05 * lines


def cause_of(record: RunRecord) -> str:
    """Return the kind, the cause and the log of a failed run as text."""
    text = f"{record.kind}: {record.cause}" if record.kind else ""
    return f"{text} (log: {record.log})"


def stimulus_command(stimulus: Path, sim: str, dut: str = Dut.RTL) -> str:
    """Return the `nf replay` command that drives a stimulus file again at signal level.

    It names a copy of the file, which no later replay deletes.
    """
    kept = shown(run_folders.kept(stimulus))
    words = [".venv/bin/nf", "replay", "--stimulus", kept, "--sim", sim]
    return shlex.join([*words, *(["--dut", dut] if dut != Dut.RTL else [])])
