# SPDX-License-Identifier: Apache-2.0
"""Runs many RunSpecs with a number of jobs, through concurrent.futures, and shows progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TextIO

from scripts import process, simulate
from scripts.process import Interrupted
from scripts.records import RunRecord, RunSpec, Sim

Runner = Callable[[RunSpec], RunRecord]


class Progress:
    """One line a finished run in a log; on a terminal also a status line that stays at the end."""

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self.out = out or sys.stdout
        self.live = self.out.isatty()
        self.start = time.monotonic()

    def finished(self, record: RunRecord) -> None:
        """Show one record."""
        self.done += 1
        self.failed += not record.passed
        self._clear()
        self._write(line_of(record) + "\n")
        if not record.passed:
            self._write(details(record) + "\n")
        self._status()

    def close(self) -> None:
        """Take the status line away."""
        self._clear()

    def _status(self) -> None:
        if not self.live or self.done >= self.total:
            return
        spent = time.monotonic() - self.start
        left = spent / self.done * (self.total - self.done)
        self._write(f"[{self.done}/{self.total}] {self.failed} failed, about {left:.0f} s left")

    def _clear(self) -> None:
        if self.live:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


def line_of(record: RunRecord) -> str:
    """The line of a run in the terminal and in a CI log."""
    word = {"passed": "PASS", "failed": "FAIL", "flaky": "FLAKY"}[record.status]
    cases = f" ({len(record.cases)} tests)" if len(record.cases) > 1 else ""
    build = "" if record.build_name == "default" else f" {record.build_name}"
    return (
        f"{word} {record.name}{cases} {record.sim}{build} seed {record.seed} {record.seconds:.1f} s"
    )


def details(record: RunRecord) -> str:
    """What a developer needs of a failure: cause, log, and the line to paste."""
    lines = [f"  {record.kind}: {record.cause}", f"  log:   {record.log}"]
    if record.waves:
        lines.append(f"  waves: {record.waves}")
    if record.note:
        lines.append(f"  note:  {record.note}")
    failed = [case.name for case in record.cases if case.status == "failed"]
    if failed and len(record.cases) > 1:
        lines.insert(0, f"  in {', '.join(failed)}")
    lines.append(f"  rerun: {record.rerun}")
    return "\n".join(lines)


def run_all(
    specs: Sequence[RunSpec],
    jobs: int,
    on_record: Callable[[RunRecord], None],
    runner: Runner = simulate.run,
    fail_fast: bool = False,
) -> list[RunRecord]:
    """Run everything; records come in the order they finish. Ctrl-C ends every simulator.

    Returns the finished records, also after Ctrl-C (the caller sees that some are missing).
    """
    records: list[RunRecord] = []
    pool = ThreadPoolExecutor(max_workers=max(1, jobs))
    pending: set[Future[RunRecord]] = {pool.submit(runner, spec) for spec in _ordered(specs)}
    try:
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    record = future.result()
                except Interrupted:
                    continue
                records.append(record)
                on_record(record)
                if fail_fast and not record.passed:
                    return records
    except KeyboardInterrupt:
        process.kill_all()
    finally:
        for future in pending:
            future.cancel()
        if pending:
            process.kill_all()
        pool.shutdown(wait=True)
    return records


def _ordered(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """First one run of each build, so that jobs compile side by side instead of waiting on a lock;
    then Icarus, which compiles at once, so that Verilator's compiler has its time."""
    by_build: dict[object, list[RunSpec]] = {}
    for spec in specs:
        by_build.setdefault(spec.build, []).append(spec)
    # The first run of each build first (that is what compiles), then the rest in order.
    firsts = [group[0] for group in by_build.values()]
    rest = [spec for group in by_build.values() for spec in group[1:]]
    return firsts + sorted(rest, key=lambda spec: spec.build.sim is Sim.VERILATOR)
