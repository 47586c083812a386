# SPDX-License-Identifier: Apache-2.0
"""Progress against the testplan: what every planned test came to in this invocation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scripts.common.records import RunRecord
from scripts.plan.testplan import Entry, Plan
from scripts.report.outcome import Outcome, all_results

NOT_RUN = "not run"


@dataclass(frozen=True)
class Row:
    """A stage or a feature: its planned tests by state."""

    name: str
    passed: tuple[str, ...]
    red: tuple[str, ...]  # failed or flaky in at least one run
    not_run: tuple[str, ...]

    @property
    def total(self) -> int:
        return len(self.passed) + len(self.red) + len(self.not_run)


@dataclass(frozen=True)
class Progress:
    """Planned tests by stage, and by feature."""

    stages: tuple[Row, ...]
    features: tuple[Row, ...]


def states(plan: Plan, records: Iterable[RunRecord]) -> dict[str, str]:
    """State of every planned test: the worst outcome over its runs, or NOT_RUN.

    A run that died before it could name its tests counts against every test of its module.
    """
    seen: dict[str, set[Outcome]] = {}
    for test in all_results(records):
        name = test.name.partition("/")[0]
        wanted = [f"{test.module}::{name}"]
        if name == "*":
            wanted = [t for t in plan.entries if t.startswith(f"{test.module}::")]
        for one in wanted:
            seen.setdefault(one, set()).add(test.outcome)
    out = {}
    for test_id in plan.entries:
        found = seen.get(test_id, set()) - {Outcome.SKIPPED}
        out[test_id] = next((str(o) for o in Outcome if o in found), NOT_RUN)
    return out


def measure(plan: Plan, records: Iterable[RunRecord]) -> Progress:
    """Progress by stage (V1, V2, V3) and by feature, in the order of the plan."""
    state = states(plan, records)
    stages: dict[str, list[Entry]] = {}
    features: dict[str, list[Entry]] = {}
    for entry in plan.entries.values():
        stages.setdefault(entry.stage, []).append(entry)
        features.setdefault(entry.feature, []).append(entry)
    return Progress(
        tuple(_row(name, entries, state) for name, entries in sorted(stages.items())),
        tuple(_row(name, entries, state) for name, entries in features.items()),
    )


def _row(name: str, entries: list[Entry], state: dict[str, str]) -> Row:
    by: dict[str, list[str]] = {}
    for entry in entries:
        by.setdefault(state[entry.test], []).append(entry.test)
    red = [*by.get(Outcome.FAILED, ()), *by.get(Outcome.FLAKY, ())]
    return Row(name, tuple(by.get(Outcome.PASSED, ())), tuple(red), tuple(by.get(NOT_RUN, ())))
