# SPDX-License-Identifier: Apache-2.0
"""Reruns of failures: a failed run is repeated with the same seed and waves of its last moments.

A run that passes the second time is flaky, which never counts as passed. Only the first few
failures of one cause are repeated: the tenth wave file of one fault adds nothing.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from scripts.common import folder_locks
from scripts.common.cause_key import key_of
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, RUNS, shown
from scripts.common.process import Interrupted
from scripts.common.records import CaseResult, FailureKind, RunRecord, RunSpec, Waves
from scripts.run import shrink_stimulus, simulate
from scripts.run.verdict import worth_a_rerun
from scripts.waves import messages, view

LIMIT = 3  # reruns for one cause
BEFORE_NS = 2000.0  # waves kept before the failure: 1000 clocks of the controller
AFTER_NS = 20.0

# Without a simulation there is nothing to look at.
_NO_WAVES = (FailureKind.BUILD, FailureKind.NO_TEST, FailureKind.INFRASTRUCTURE)

Run = Callable[[RunSpec], RunRecord]

_lock = threading.Lock()  # not in the object, which may be sent to another process


class RepeatingRunner:
    """Runner of specs that repeats failed ones. Make one object a regression: it counts the causes.

    `run` is what a scheduler calls in place of `simulate.run`; safe from several threads.
    """

    def __init__(self, first: Run, runs: Path | None = None) -> None:
        self._first, self._runs = first, runs or folder_locks.folder(RUNS)
        self._seen: Counter[tuple[FailureKind | None, str]] = Counter()

    def run(self, spec: RunSpec) -> RunRecord:
        """Return the record of a run; repeat the run first if it failed and its cause is rare.

        The first failure of a cause also gets a reduced stimulus.
        """
        record = self._first(spec)
        if record.passed or record.kind in _NO_WAVES or not worth_a_rerun(record.cause_key):
            return record
        key = key_of(record)
        with _lock:
            self._seen[key] += 1
            many = self._seen[key] > LIMIT
        if many:
            return replace(record, note=f"not run again: {LIMIT} runs of this cause were already")
        folder = self._runs / spec.id
        record = repeated(record, spec, self._runs)
        if self._seen[key] == 1 and not record.flaky:  # one reduced stimulus a cause
            record = shrink_stimulus.reduced(record, spec, _first_failed(record), folder)
        return simulate.save(record, folder)


def repeated(record: RunRecord, spec: RunSpec, runs: Path = RUNS) -> RunRecord:
    """Repeat a failed run once with waves.

    Args:
        record: Record of the failure.
        spec: The run.
        runs: Parent of the run folder.

    Returns:
        The record with the waves, the log of the repetition and a note on its result; `flaky` if it
        passed.
    """
    folder = runs / spec.id / "rerun"
    case = _first_failed(record)
    try:
        again = simulate.run(_with_waves(spec, case), folder)
    except (Interrupted, NfError, OSError) as error:
        why = str(error) or "interrupted"
        return replace(record, note=f"not run again: {why}")
    waves = _keep_waves(again, runs / spec.id)
    if waves:
        with suppress(OSError, ValueError):  # `nf waves` reports the error
            view.of_run(record, ROOT / waves).write()
    out = replace(
        record,
        waves=waves or record.waves,
        rerun_log=again.log,
        line_history=again.line_history or record.line_history,
    )
    if again.passed:
        return replace(out, flaky=True, note="passed when it was run again with the same seed")
    if again.kind in _NO_WAVES:
        return replace(out, note=f"the rerun with waves did not start: {again.cause}")
    if key_of(again) != key_of(record):
        return replace(out, note=f"failed differently when run again: {again.kind}: {again.cause}")
    return replace(out, note="failed the same way when it was run again")


def _first_failed(record: RunRecord) -> CaseResult | None:
    return next((case for case in record.cases if case.status == "failed"), None)


def _with_waves(spec: RunSpec, case: CaseResult | None) -> RunSpec:
    """Return the run for waves: only the first failed test, which then starts at time 0.

    Without a time of failure the waves are kept from the end of the simulation.
    """
    failed_ns = case.sim_time_ns if case else 0.0
    return replace(
        spec,
        # One run: compiling it as hard as a regression's takes longer than it saves.
        build=replace(spec.build, waves=Waves.FST, coverage=False, opt=min(spec.build.opt, "-O1")),
        tests=(case.name,) if case else spec.tests,
        timeout_s=spec.timeout_s * 4,
        window_ns=(max(0.0, failed_ns - BEFORE_NS), failed_ns + AFTER_NS)
        if failed_ns
        else (-BEFORE_NS, 0),
        direct=True,
    )


def _keep_waves(again: RunRecord, folder: Path) -> str | None:
    """Move the waves and messages of the repetition to the folder of the first run.

    Returns:
        The path of the waves, or None.
    """
    if again.waves is None:
        return None
    waves = ROOT / again.waves
    for path in (waves, waves.with_name(messages.FILE)):
        if path.is_file():
            shutil.move(path, folder / path.name)
    return shown(folder / waves.name)
