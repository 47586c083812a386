# SPDX-License-Identifier: Apache-2.0
"""Shrinker of the stimulus of a failed scenario run: few operations remain.

The test runs again with smaller scenarios as long as they fail for the same cause and time is left
(`verif/scenario/delta_debugging.py`).
"""

from __future__ import annotations

import shlex
import shutil
import time
from dataclasses import replace
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, read_text
from scripts.common.cause_key import key_of
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.process import Interrupted
from scripts.common.records import CaseResult, FailureKind, RunRecord, RunSpec
from scripts.run import run_folders, simulate
from verif.scenario.delta_debugging import OutOfTime, reduce
from verif.scenario.scenario_data import Scenario, listing, parse

LIMIT_S = 60.0
VARIABLE = "NF_SCENARIO"
_PREFIX = "scenario-"


def reduced(
    record: RunRecord,
    spec: RunSpec,
    case: CaseResult | None,
    folder: Path,
    limit_s: float = LIMIT_S,
) -> RunRecord:
    """Reduce the scenario of a failed test, and add the result to the record as `stimulus`.

    Args:
        record: Record of the failed run.
        spec: The run.
        case: Its first failed test; None for none.
        folder: Folder of the run, with the scenario of each of its tests.
        limit_s: Wall-clock time for the search in seconds.

    Returns:
        The record, unchanged if the test left no scenario; with a `note` if the reduction failed.
    """
    if case is None or record.kind is FailureKind.INFRASTRUCTURE:
        return record
    try:
        drawn = parse(read_text(folder / f"{_PREFIX}{case.name}.json"))
    except (OSError, DataError):
        return record
    file, candidate = folder / f"reduced-{case.name}.json", folder / "reduce" / "candidate.json"
    end, key = time.monotonic() + limit_s, key_of(record)
    alone = _plain(spec, case)
    alone = replace(alone, env=(*alone.env, (VARIABLE, str(candidate))))
    tried = 0

    def fails(smaller: Scenario) -> bool:
        """Run a candidate; return whether it fails for the same cause as the first run."""
        nonlocal tried
        left = end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        candidate.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(candidate, smaller.text())
        tried += 1
        # A candidate that hangs in another way must not use up the time of all others.
        timeout_s = min(max(10.0, 3 * record.seconds), left + 10.0)
        found = simulate.run(replace(alone, timeout_s=timeout_s), candidate.parent)
        return key_of(found) == key

    try:
        found = reduce(drawn, fails, lambda best: output.write_text(file, best.text()))
    except (Interrupted, NfError, OSError) as error:
        return replace(record, note=f"{record.note}; not reduced: {str(error) or 'interrupted'}")
    finally:
        shutil.rmtree(candidate.parent, ignore_errors=True)
    before, after = len(drawn.operations), len(found.operations)
    again = simulate.rerun_command(_plain(spec, case))
    # The command empties the folder, so it reads a copy.
    command = f"{again} --scenario {shlex.quote(shown(run_folders.kept(file)))}"
    head = f"{after} of {before} operations fail the same way ({tried} runs)"
    return replace(record, stimulus=(head, *listing(found), command))


def _plain(spec: RunSpec, case: CaseResult) -> RunSpec:
    """Return a run of the failed test alone, without the variables that chose its stimulus."""
    env = tuple(one for one in spec.env if one[0] not in (VARIABLE, "NF_WEIGHTS"))
    return replace(spec, tests=(case.name,), env=env, rerun="")
