# SPDX-License-Identifier: Apache-2.0
"""Replays at signal level: a session, or a stimulus file, is a cocotb test like any other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from neuron_fabric.text import say
from scripts.common.records import RunRecord
from verif.replay.epoch import Key
from verif.replay.signal.session import SESSION, Session, read_raw, steps_of
from verif.replay.stimulus import STIMULUS, Stimulus
from verif.replay.transport import Driven, Transport

REPLAY_BENCH = "verif.replay.signal.replay_bench"
STIMULUS_BENCH = "verif.replay.signal.stimulus_bench"
# Wall-clock limit of a simulator process: a start, and Icarus on a slow machine for every line.
BASE_SECONDS, LINE_SECONDS = 300.0, 0.05

Simulate = Callable[..., RunRecord]
"""`scripts.run.simulate.run_tests`, without its first three names."""


@dataclass
class SignalTransport(Transport):
    """The pyuvm environment in processes that ``simulate`` starts, one a session."""

    simulate: Simulate
    rerun: str
    timeout_s: float | None = None
    waves: bool = False
    records: list[RunRecord] = field(default_factory=list)

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """See Transport."""
        options, number = self.replay.options, len(self.records)
        there = replace(options, capture=str(Path(options.capture).resolve()))
        job = self.folder / f"session-{number}.json"
        Session(there, keys, self.folder, self.replay.content).write(job)
        plans = [self.replay.step(step).plan for step in dict.fromkeys(key[0] for key in keys)]
        lines = sum(plan.writes + plan.reads for plan in plans)
        record = self.simulate(
            self.simulator,
            REPLAY_BENCH,
            "replay",
            seed=options.seed,
            parameters=options.parameters,
            timeout_s=self.timeout_s or BASE_SECONDS + LINE_SECONDS * lines,
            env={SESSION: str(job)},
            waves=self.waves,
            rerun=self.rerun,
            runs=self.folder / f"session-{number}",
        )
        self.records.append(record)
        self.build_seconds += record.build_seconds
        missing = []
        for works in steps_of(self.replay, keys):
            found = read_raw(self.folder, works)
            if found is None:
                missing.append(f"step {works[0].step} came to no end")
                continue
            for work in works[:-1]:
                yield Driven(work)
            yield Driven(works[-1], *found)
        if record.waves:
            self.notes.append(f"{self.simulator}: waves in {record.waves}")
        if not record.passed:
            self.fault(cause(record))
            self.kind = str(record.kind or self.kind)
        self.fault(*missing)


def cause(record: RunRecord) -> str:
    """Why a run is red."""
    text = f"{record.kind}: {record.cause}" if record.kind else ""
    return f"{text} (log: {record.log})"


def drive_stimulus(
    path: Path,
    stimulus: Stimulus,
    simulator: str,
    simulate: Simulate,
    folder: Path,
    rerun: str,
    timeout_s: float | None,
    waves: bool,
) -> bool:
    """Drive the operations of a stimulus file; False when the device is wrong, as the file says."""
    record = simulate(
        simulator,
        STIMULUS_BENCH,
        "stimulus",
        seed=stimulus.seed,
        parameters=stimulus.parameters,
        timeout_s=timeout_s or BASE_SECONDS + LINE_SECONDS * len(stimulus.operations),
        env={STIMULUS: str(path.resolve())},
        waves=waves,
        rerun=rerun,
        runs=folder / "run",
    )
    if record.waves:
        say(f"{simulator}: waves in {record.waves}")
    if record.passed:
        say(f"{simulator}: every answer is right")
    else:
        say(f"nf replay: {simulator}: {cause(record)}", file=sys.stderr)
    return record.passed
