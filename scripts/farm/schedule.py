# SPDX-License-Identifier: Apache-2.0
"""Parallel scheduler of RunSpecs on threads, with progress output and orderly end on Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from typing import TextIO

from neuron_fabric.errors import say
from neuron_fabric.progress_bar import ProgressBar, clock, filled
from scripts.build import build_cache
from scripts.common import process
from scripts.common.process import Interrupted
from scripts.common.records import BuildSpec, RunRecord, RunSpec
from scripts.run import simulate

Runner = Callable[[RunSpec], RunRecord]
_TICK_S = 0.5
_SHORT_S = 1.0  # shorter builds are not announced


class RunProgress:
    """Progress of runs: one line per finished run; on a terminal also a bar with the time left.

    The time left is that of the runs by the history, corrected by the pace of the finished ones.

    Args:
        total: Number of runs.
        out: Output; None: standard output.
        seconds: Duration of earlier runs by record id; other runs count as the average.
        jobs: Runs at the same time.
    """

    def __init__(
        self,
        total: int,
        out: TextIO | None = None,
        seconds: Mapping[str, float] | None = None,
        jobs: int = 1,
    ) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self.out = out or sys.stdout
        self._bar = ProgressBar(self.out)
        self.start = time.monotonic()
        self._jobs = max(1, jobs)
        self._seconds = dict(seconds or {})
        known = list(self._seconds.values())
        self._usual = sum(known) / len(known) if known else 1.0
        self._all = sum(known) + self._usual * (total - len(known))
        self._worked = 0.0  # expected seconds of finished runs
        self._told: set[BuildSpec] = set()

    def finished(self, record: RunRecord) -> None:
        """Print the line of a finished run, and the details of a failure."""
        self.done += 1
        self.failed += not record.passed
        self._worked += self._seconds.get(record.id, self._usual)
        self._bar.clear()
        say(line_of(record), file=self.out, flush=True)
        if not record.passed:
            say(*details(record), file=self.out, flush=True)
        self.tick()

    def tick(self) -> None:
        """Redraw the bar; in a log, print which builds have begun."""
        if self._bar.live and self.done < self.total:
            self._bar.draw(self.status(time.monotonic() - self.start))
        for build in [] if self._bar.live else _builds():
            if build not in self._told:
                self._told.add(build)
                say(f"building {build.top} for {build.sim}", file=self.out, flush=True)

    def status(self, spent: float) -> str:
        """Return the text of the bar after ``spent`` seconds."""
        share = self._worked / self._all if self._all else 0.0
        text = f"{filled(share, '.')} {self.done}/{self.total} runs"
        if self.failed:
            text += f", {self.failed} failed"
        for build in _builds():
            text += f", building {build.top} for {build.sim}"
        left = self.left(spent)
        return text if left is None else f"{text}, {clock(left)} left"

    def left(self, spent: float) -> float | None:
        """Estimate the seconds until all runs are finished; None while nothing is known."""
        if self._worked:
            return spent / self._worked * (self._all - self._worked)
        return self._all / self._jobs if self._seconds else None

    def close(self) -> None:
        """Remove the bar."""
        self._bar.clear()


def _builds() -> list[BuildSpec]:
    """Return the builds in progress, in any thread, that began at least 1 s ago."""
    now = time.monotonic()
    found = [build for build, since in build_cache.under_way() if now - since >= _SHORT_S]
    return list(dict.fromkeys(found))


def line_of(record: RunRecord) -> str:
    """Return the result of a run in one line: "PASS test_x::y icarus seed 1 2.0 s"."""
    word = {"passed": "PASS", "failed": "FAIL", "flaky": "FLAKY"}[record.status]
    cases = f" ({len(record.cases)} tests)" if len(record.cases) > 1 else ""
    build = "" if record.build_name == "default" else f" {record.build_name}"
    return (
        f"{word} {record.name}{cases} {record.sim}{build} seed {record.seed} {record.seconds:.1f} s"
    )


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
        return not all(record.passed for record in came)

    def note(_number: int) -> None:
        """Handle a signal without raising inside `on_record`."""
        if stop.is_set():
            process.interrupt()
        stop.set()

    with process.handling(note, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
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
