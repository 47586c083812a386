# SPDX-License-Identifier: Apache-2.0
"""Replay at signal level: a session is a cocotb test like any other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.common.records import RunRecord
from verif.replay.epoch import Key
from verif.replay.signal.session import SESSION, Session, read_raw, steps_of
from verif.replay.transport import Driven, Transport

REPLAY_BENCH = "verif.replay.signal.replay_bench"
STIMULUS_BENCH = "verif.replay.signal.stimulus_bench"

Simulate = Callable[..., RunRecord]
"""`scripts.run.simulate.run_tests`, without its first three names."""


@dataclass
class SignalTransport(Transport):
    """Transport through the pyuvm environment, in one process of ``simulate`` for each session."""

    simulate: Simulate
    rerun: str
    timeout_s: float | None = None
    waves: bool = False
    records: list[RunRecord] = field(default_factory=list)

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """Drive the buckets in one simulator process (see Transport)."""
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
            timeout_s=self.timeout_s or patience(lines),
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


def patience(lines: int) -> float:
    """Return the limit of a simulator process in seconds of processor time: a start, and Icarus on
    a slow machine for every line."""
    return 300.0 + 0.05 * lines


def cause(record: RunRecord) -> str:
    """Return the reason why a run is red."""
    text = f"{record.kind}: {record.cause}" if record.kind else ""
    return f"{text} (log: {record.log})"
