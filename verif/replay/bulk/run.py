# SPDX-License-Identifier: Apache-2.0
"""`nf replay --transport bulk`: rounds through the device, judged, kept, and made into tensors."""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from neuron_fabric.output import write_text
from neuron_fabric.text import say
from verif.coverage.bins import FUNCTIONAL
from verif.coverage.functional_coverage import NfCoverage
from verif.replay.backend import Backend, BulkModel
from verif.replay.bulk.device import MEMORY_LATENCY, BulkDevice, BulkFault
from verif.replay.bulk.job import BulkJob, StepPlan, metadata_of
from verif.replay.bulk.journal import Journal, Key
from verif.replay.bulk.narrow import Open, narrow, round_operations
from verif.replay.bulk.out import write_step
from verif.replay.bulk.pipeline import RoundFault, stream
from verif.replay.bulk.progress import Progress
from verif.replay.bulk.rounds import Mismatch, Round, judge, make_round, problems
from verif.replay.bulk.sample import sample, sample_memory
from verif.replay.bulk.source import route_lines
from verif.replay.result import hold, out_path
from verif.replay.stimulus import Stimulus

STIMULUS_FILE = "stimulus.json"
METRICS_FILE = "metrics.json"
"""Functional coverage, as a test of the runner leaves it."""
USED = ("SLOT_HIT", "SLOT_MISS", "EVICTION", "RX_FLIT", "TX_FLIT")


class _Stop(Exception):
    """A round was wrong; the text says all."""


@dataclass
class _Simulated:
    """What came of one simulator; ``figures`` of a step are sums over its rounds."""

    simulator: str
    journal: Journal | None
    folder: Path
    figures: dict[int, dict[str, int]] = field(default_factory=dict)
    lines: int = 0
    wrong: int = 0
    faults: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    build_seconds: float = 0.0
    seconds: float = 0.0

    def add(self, step: int, figures: Mapping[str, int]) -> None:
        """Adds the figures of a round to its step's."""
        sums = self.figures.setdefault(step, {})
        for name, value in figures.items():
            sums[name] = sums.get(name, 0) + value


@dataclass
class BulkRunner:
    """One call of `nf replay` after everything has been checked."""

    args: argparse.Namespace
    backend: Backend
    job: BulkJob
    start: float
    held: ExitStack = field(default_factory=ExitStack)
    """Journals, and the locks of those that belong to a shard."""

    def run(self) -> int:
        """Replay; the exit code."""
        with self.held:
            return self._run()

    def _run(self) -> int:
        sims, note = self.backend.simulators(self.args.sim)
        if note:
            say(note)
        for line in self._opening():
            say(line, flush=True)
        for line in self.job.warnings:
            say(f"nf replay: warning: {line}", file=sys.stderr)
        done = [self._simulate(sim) for sim in sims]
        faults = [f"{one.simulator}: {text}" for one in done for text in one.faults]
        if not faults:
            faults = self._between(done)
        if not faults and self.args.out is not None and self.job.shard.of == 1:
            write_outs(self.job, Path(self.args.out), {one.simulator: one.journal for one in done})
        for one in done:
            if one.journal is not None:
                one.journal.close(delete=not faults and self.job.shard.of == 1)
        for text in faults:
            say(f"nf replay: {text}", file=sys.stderr)
        for text in (hint for one in done for hint in one.hints):
            say(text)
        self._closing(done, bool(faults))
        return 1 if faults else 0

    # -- text ---------------------------------------------------------------------------------
    def _opening(self) -> Iterator[str]:
        job = self.job
        source = job.source
        rounds = len(job.rounds())
        part = f", shard {job.shard.number} of {job.shard.of}" if job.shard.of > 1 else ""
        yield (
            f"bulk replay of {source.name}: {source.workers} workers, {len(source.steps)} step(s), "
            f"{len(source.tensors)} tensors, {rounds} rounds{part}, memory latency "
            f"{MEMORY_LATENCY} clocks"
        )
        for mode, lines in sorted(route_lines(source.tensors, job.steps[0].routes).items()):
            yield f"  {mode.name:9} {lines:10,} lines a worker"

    def _closing(self, done: Sequence[_Simulated], failed: bool) -> None:
        lines = sum(one.lines for one in done)
        cycles = sum(f.get("cycles", 0) for one in done for f in one.figures.values())
        built = sum(one.build_seconds for one in done)
        building = f" ({built:.1f} s of it to build)" if built >= 1 else ""
        seconds = max(sum(one.seconds for one in done), 1e-9)
        say(
            f"nf replay: {'FAILED, ' if failed else ''}{lines:,} contributions, "
            f"{sum(one.wrong for one in done)} mismatches, {cycles:,} cycles, "
            f"{lines / seconds:,.0f} lines/s at memory latency {MEMORY_LATENCY}, "
            f"{time.monotonic() - self.start:.1f} s on "
            f"{' and '.join(one.simulator for one in done)}{building}, peak memory "
            f"{peak_mebibytes():,.0f} MiB",
            flush=True,
        )

    # -- simulation ---------------------------------------------------------------------------
    def _simulate(self, sim: str) -> _Simulated:
        job = self.job
        folder = self.backend.workspace(
            f"bulk-{Path(job.source.name).name}-{sim}".replace(" ", "-")
        )
        journal = self._journal(sim)
        done = _Simulated(sim, journal, folder)
        model = self.backend.bulk(sim, job.options.parameters)
        done.build_seconds = model.build_seconds
        keys = job.rounds()
        if journal is not None:
            for (step, _), record in journal.records.items():
                done.add(step, record.figures)
            keys = [key for key in keys if key not in journal.records]
            if len(keys) < len(job.rounds()):
                say(f"{sim}: {len(job.rounds()) - len(keys)} rounds are there, {len(keys)} to go")
        whole = job.lines(job.rounds())
        progress = Progress(whole, whole - job.lines(keys))
        coverage = NfCoverage()
        started = time.monotonic()
        try:
            # Steps that take the same routes follow each other on one device.
            for _, group in groupby(keys, key=lambda key: tuple(job.step(key[0]).routes.items())):
                self._session(model, list(group), done, progress, coverage)
        except _Stop as stop:
            done.faults.append(str(stop))
        except RoundFault as fault:
            note = " ".join(str(fault).split())[:600]
            operations = round_operations(fault.round, job.options.device)
            self._leave(Stimulus(note, job.options.parameters, job.options.seed, operations), done)
            done.faults.append(note)
        except BulkFault as fault:  # before the first round
            done.faults.append(" ".join(str(fault).split())[:600])
        finally:
            progress.finish()
        done.seconds = time.monotonic() - started
        metrics = {FUNCTIONAL: coverage.model.hits()}
        write_text(folder / METRICS_FILE, json.dumps(metrics, indent=1))
        for step, figures in done.figures.items():
            say(_of_step(sim, job.step(step), figures), flush=True)
        return done

    def _journal(self, sim: str) -> Journal | None:
        if self.args.out is None:
            return None
        path = journal_path(Path(self.args.out), sim, self.job)
        identity = self.job.identity(sim)
        if self.job.shard.of > 1:
            self.held.enter_context(hold(path))
        make = Journal.open if self.args.resume else Journal.create
        journal = make(path, identity)
        self.held.callback(journal.close)
        return journal

    def _session(
        self,
        model: BulkModel,
        keys: Sequence[Key],
        done: _Simulated,
        progress: Progress,
        coverage: NfCoverage,
    ) -> None:
        options = self.job.options
        lines_log2 = options.device.mem_lines_log2

        def fresh() -> BulkDevice:
            return model.open(done.folder, lines_log2, options.seed)

        def take(work: Round, cycles: int) -> None:
            found = judge(work, options.device)
            if found is not None:
                done.wrong += 1
                self._narrow(found, fresh, done)
            told = problems(work)
            if told:
                raise _Stop("; ".join(told[:3]))
            figures = {name: work.counter(name) for name in USED}
            figures |= {"cycles": cycles, "lines": work.lines}
            lines = work.lines * self.job.source.workers
            done.add(work.step, figures)
            done.lines += lines
            if done.journal is not None:
                done.journal.append((work.step, work.number), figures, work.traffic.got)
            sample(coverage, work)
            progress.add(lines)

        device = fresh()
        try:
            stream(device, self._rounds(keys), take)
            sample_memory(coverage, device.figures())
        finally:
            device.close()

    def _rounds(self, keys: Sequence[Key]) -> Iterator[Round]:
        seed = self.job.options.seed
        for step, number in keys:
            one = self.job.step(step)
            epoch = one.first_epoch + number
            yield make_round(self.job.source, one.plan, step, number, epoch, seed)

    def _narrow(self, found: Mismatch, fresh: Open, done: _Simulated) -> None:
        """Say which worker it was, leave a stimulus, and stop."""
        options = self.job.options
        finding = narrow(found, options.device, fresh, options.parameters, options.seed)
        if finding.stimulus is not None:
            self._leave(finding.stimulus, done)
        raise _Stop(f"{found.text}; {finding.text}")

    def _leave(self, stimulus: Stimulus, done: _Simulated) -> None:
        """Write a stimulus, and remember the command that drives it."""
        path = done.folder / STIMULUS_FILE
        stimulus.write(path)
        words = [".venv/bin/nf", "replay", "--stimulus", str(path), "--sim", done.simulator]
        done.hints.append(f"at signal level: {shlex.join(words)} --waves")

    # -- the end ------------------------------------------------------------------------------
    def _between(self, done: Sequence[_Simulated]) -> list[str]:
        """Nothing may be missing, and the simulators must have returned the same lines."""
        out = []
        checked = any(one.lines or (one.journal and one.journal.records) for one in done)
        if not checked and self.job.rounds():  # a shard of a small replay may be empty
            out.append("no line was checked")
        first, *others = done
        for other in others:
            if first.journal is None or other.journal is None:
                continue
            for key in self.job.rounds():
                if first.journal.lines(key).tobytes() != other.journal.lines(key).tobytes():
                    names = f"{first.simulator} and {other.simulator}"
                    out.append(f"step {key[0]} round {key[1]} differs between {names}")
                    break
        return out


def journal_path(out: Path, sim: str, job: BulkJob) -> Path:
    """Where a simulator's journal lies, beside the results; a shard has its own."""
    shard = job.shard
    part = f".shard-{shard.number}-of-{shard.of}" if shard.of > 1 else ""
    return out.with_name(f"{out.name}.{sim}{part}.journal")


def write_outs(job: BulkJob, out: Path, journals: Mapping[str, Journal | None]) -> None:
    """Every step's result file from whole journals, one a simulator."""
    _, first = next(iter(journals.items()))
    assert first is not None
    for one in job.steps:
        owners = dict.fromkeys(range(one.plan.rounds), first)
        cycles = {
            sim: sum(r.figures["cycles"] for (s, _), r in j.records.items() if s == one.step)
            for sim, j in journals.items()
            if j is not None
        }
        write_one(job, out, one, owners, cycles)


def write_one(
    job: BulkJob,
    out: Path,
    one: StepPlan,
    owners: Mapping[int, Journal],
    cycles: Mapping[str, int],
) -> None:
    """A step's result file; ``owners``: the journal of each round."""
    path = out_path(out, one.step, len(job.steps))
    metadata = metadata_of(job, one, cycles)
    write_step(path, job.source.tensors, one.routes, one.plan, one.step, owners, metadata)
    say(f"wrote {path}")


def peak_mebibytes() -> float:
    """Largest resident memory that this process has had, the verilated model included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _of_step(sim: str, one: StepPlan, figures: Mapping[str, int]) -> str:
    lookups = max(1, figures["SLOT_HIT"] + figures["SLOT_MISS"])
    return (
        f"{sim:9} step {one.step}: {figures['lines']:,} lines x {one.plan.workers} workers, "
        f"{figures['cycles']:,} cycles, slot hits {figures['SLOT_HIT'] / lookups:.1%}, flits "
        f"{figures['RX_FLIT']:,} in {figures['TX_FLIT']:,} out"
    )
