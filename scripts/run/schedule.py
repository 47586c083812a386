# SPDX-License-Identifier: Apache-2.0
"""Parallel scheduler of RunSpecs on threads, with progress output and orderly end on Ctrl-C."""

from __future__ import annotations

import heapq
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from typing import Any

from neuron_fabric.errors import say
from scripts.build import build_cache
from scripts.common import interrupt, process
from scripts.common.process import Interrupted
from scripts.common.records import BuildSpec, RunRecord, RunSpec
from scripts.common.terminal import Bars, clock
from scripts.run import simulate

Runner = Callable[[RunSpec], RunRecord]
_TICK_S = 0.5
_SHORT_S = 1.0  # shorter builds are not announced


class RunProgress(Bars):
    """Progress of runs: bars of missing builds and of runs on a terminal, else the builds that
    have begun.

    Args:
        specs: Runs, in the order of running.
        jobs: Runs at the same time.
        show: Prints a finished run.
        seconds: Duration of earlier runs by record id.
        builds: Builds that are missing, with the seconds of the last similar build, if known. None:
            builds are not announced in a log.
        what: Name of the runs; only "runs" are counted as passed and failed.
    """

    def __init__(
        self,
        specs: Sequence[RunSpec],
        jobs: int,
        show: Callable[[RunRecord], None],
        seconds: Mapping[str, float] | None = None,
        builds: Mapping[BuildSpec, float | None] | None = None,
        what: str = "runs",
    ) -> None:
        super().__init__()
        self._what, self._show, self._jobs = what, show, max(1, jobs)
        self._specs, self._todo = specs, {spec.id: spec for spec in specs}
        self._seconds, self._builds = dict(seconds or {}), dict(builds or {})
        self._announces = builds is not None
        self._took: dict[str, float] = {}  # seconds of finished runs
        self._begun: dict[str, float] = {}
        self._failed = 0
        self._told: set[BuildSpec] = set()  # builds that began
        self._built: set[BuildSpec] = set()

    def run(self, runner: Runner = simulate.run, **options: Any) -> list[RunRecord]:
        """Run everything as `run_all` does with these options, and return the records."""

        def begin(spec: RunSpec) -> RunRecord:
            self._begun[spec.id] = time.monotonic()
            return runner(spec)

        with self:
            return run_all(
                *(self._specs, self._jobs, self.finished, begin), on_tick=self.tick, **options
            )

    def finished(self, record: RunRecord) -> None:
        """Count and show a finished run."""
        spec = self._todo.pop(record.id, None)
        self._built |= {spec.build} if spec else set()
        self._failed += record.red
        self._took[record.id] = record.seconds
        self._show(record)
        self.tick()

    def tick(self) -> None:
        """Draw the bars; in a log, print which builds have begun."""
        if self.moves and self._todo:
            self._draw(time.monotonic())
        for build in _builds(_SHORT_S) if self._announces and not self.moves else ():
            if build not in self._told:
                self._told.add(build)
                say(f"building {build.top} for {build.sim}", flush=True)

    def _draw(self, now: float) -> None:
        running = _builds()
        self._told |= running.keys()
        self._built |= self._told - running.keys()
        bars = {"builds": (len(self._built & self._builds.keys()), len(self._builds))}
        bars = bars if self._builds else {}
        bars[self._what] = len(self._took), len(self._specs)
        counts = f"{len(self._todo)} to go"
        if self._what == "runs":
            passed = len(self._took) - self._failed
            counts = f"{passed} passed, {self._failed} failed, {counts}"
        lines = [
            f"building {build.top} for {build.sim}, {clock(now - since)}"
            for build, since in running.items()
        ]
        self.draw("\n".join([f"{counts}; {self.time_left(now)}", *lines]), **bars)

    def time_left(self, now: float) -> str:
        """Return the time left in words, with what it does not know."""
        left, new = self.left(now), len(self._todo.keys() - self._seconds.keys())
        if left is None:
            return "time left unknown: no duration is recorded"
        words = f"about {clock(left)} left" if left >= 1 else "longer than recorded"
        return f"{words} ({new} never recorded)" if new else words

    def left(self, now: float) -> float | None:
        """Estimate the seconds until all runs are finished; None if nothing was ever measured.

        Runs and missing builds are assigned to the jobs in their order, as `run_all` does, with
        their recorded seconds; so the estimate covers the longest run and the sum of all. A run
        without a record counts as the mean. If the finished runs took longer than recorded, the
        others count longer by the same factor; they never count shorter.
        """
        known = list(self._seconds.values()) or list(self._took.values())
        if not known:
            return None
        both = self._took.keys() & self._seconds.keys()
        recorded = sum(self._seconds[one] for one in both)
        pace = max(1.0, sum(self._took[one] for one in both) / recorded) if recorded else 1.0
        running = _builds()
        free, ready = [0.0] * self._jobs, dict[BuildSpec, float]()
        for spec in self._todo.values():
            seconds = pace * self._seconds.get(spec.id, sum(known) / len(known))
            begin, build = free[0], spec.build
            if build in running or (build in self._builds and build not in self._built):
                rest = (self._builds.get(build) or 0.0) - (now - running.get(build, now))
                begin = max(begin, ready.setdefault(build, begin + max(rest, 0.0)))
            elif spec.id in self._begun:
                seconds = max(seconds - (now - self._begun[spec.id]), 0.0)
            heapq.heapreplace(free, begin + seconds)
        return max(free)


def _builds(least_s: float = 0.0) -> dict[BuildSpec, float]:
    """Return the builds in progress for at least ``least_s`` seconds, with their start."""
    begun = sorted(build_cache.under_way(), key=lambda one: -one[1])
    return {build: since for build, since in begun if time.monotonic() - since >= least_s}


def line_of(record: RunRecord) -> str:
    """Return the result of a run in one line: "PASS test_x::y icarus seed 1 2.0 s"."""
    words = {"passed": "PASS", "failed": "FAIL", "flaky": "FLAKY"}
    word = "KNOWN" if record.known else words[record.status]
    cases = f" ({len(record.cases)} tests)" if len(record.cases) > 1 else ""
    build = "" if record.build_name == "default" else f" {record.build_name}"
    return (
        f"{word} {record.name}{cases} {record.sim}{build} seed {record.seed} {record.seconds:.1f} s"
    )


def show(record: RunRecord) -> None:
    """Print the line of a finished run, and the details of a failure."""
    if record.known:
        say(line_of(record), f"  {record.known}: {record.cause}", flush=True)
        return
    say(line_of(record), *([] if record.passed else details(record)), flush=True)


def details(record: RunRecord) -> list[str]:
    """Return the lines on a failed run: cause, log, waves, and the command that repeats it."""
    lines = [f"  {record.kind}: {record.cause}", f"  log:   {record.log}"]
    if record.waves:
        lines.append(f"  waves: {record.waves}")
    if record.note:
        lines.append(f"  note:  {record.note}")
    if record.stimulus:
        head, *steps = record.stimulus
        lines += [f"  reduced: {head}", *(f"    {step}" for step in steps)]
    failed = [case.name for case in record.cases if case.status == "failed"]
    if failed and len(record.cases) > 1:
        lines.insert(0, f"  in {', '.join(failed)}")
    lines.append(f"  rerun: {record.rerun}")
    return lines


def run_all(
    specs: Sequence[RunSpec],
    jobs: int,
    on_record: Callable[[RunRecord], None],
    runner: Runner = simulate.run,
    fail_fast: bool = False,
    *,
    end: Callable[[], None] = process.kill_all,
    on_tick: Callable[[], None] = lambda: None,
    interrupted: threading.Event | None = None,
) -> list[RunRecord]:
    """Run everything, started in order; return the records in the order of completion.

    Ctrl-C (or SIGTERM, SIGHUP) sets ``interrupted``, calls ``end`` and returns what finished, so no
    record is lost. A second Ctrl-C raises KeyboardInterrupt.

    Args:
        specs: Runs.
        jobs: Runs at the same time.
        on_record: Called with each record.
        runner: Executes a run.
        fail_fast: Stop at the first failure.
        end: Ends every run in progress.
        on_tick: Called about twice a second.
        interrupted: Set on Ctrl-C.
    """
    records: list[RunRecord] = []
    stop = interrupted or threading.Event()
    pool = ThreadPoolExecutor(max_workers=max(1, jobs))
    pending: set[Future[RunRecord]] = set()

    def take(done: set[Future[RunRecord]]) -> bool:
        """Pass the records of finished futures to `on_record`; return whether one failed."""
        came = [record for record in map(_result, done) if record is not None]
        for record in came:
            records.append(record)
            on_record(record)
        return any(record.red for record in came)

    def note(_number: int) -> None:
        """Handle a signal without raising inside `on_record`."""
        if stop.is_set():
            interrupt.interrupt()
        stop.set()

    with interrupt.handling(note, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        try:
            pending.update(pool.submit(_safely, runner, spec) for spec in specs)
            while pending and not stop.is_set():
                done, pending = wait(pending, timeout=_TICK_S, return_when=FIRST_COMPLETED)
                if take(done) and fail_fast:
                    break
                on_tick()
        finally:
            if pending:
                end()
            pool.shutdown(wait=True, cancel_futures=True)
            process.resume()  # later calls may start processes again
        take(pending)  # runs that finished meanwhile
    return records


def _safely(runner: Runner, spec: RunSpec) -> RunRecord:
    """Execute a run; an exception of the runner becomes an infrastructure failure of this run."""
    try:
        return runner(spec)
    except (Interrupted, CancelledError):
        raise
    except Exception as error:
        return simulate.infrastructure(spec, f"{type(error).__name__}: {error}")


def _result(future: Future[RunRecord]) -> RunRecord | None:
    """Return the record of a future, or None for a run that was cancelled."""
    try:
        return future.result()
    except (Interrupted, CancelledError):
        return None
