# SPDX-License-Identifier: Apache-2.0
"""Progress against the testplan: result of every planned test in this invocation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scripts.common.records import RunRecord
from scripts.plan.testplan import Plan
from scripts.report.outcome import Outcome, all_results

NOT_RUN = "not run"


@dataclass(frozen=True)
class StageRow:
    """Planned tests of a stage or a feature, by state."""

    name: str
    passed: tuple[str, ...]
    red: tuple[str, ...]  # failed, flaky or known in at least one run
    not_run: tuple[str, ...]

    @property
    def total(self) -> int:
        return len(self.passed) + len(self.red) + len(self.not_run)


@dataclass(frozen=True)
class Progress:
    """Planned tests by stage, and by feature."""

    stages: tuple[StageRow, ...]
    features: tuple[StageRow, ...]


def states(plan: Plan, records: Iterable[RunRecord]) -> dict[str, str]:
    """Return the state of every planned test: the worst outcome over its runs, or NOT_RUN.

    A run that died before it could name its tests counts against every test of its module.
    """
    seen: dict[str, set[Outcome]] = defaultdict(set)
    for test in all_results(records):
        name = test.name.partition("/")[0]
        wanted = [f"{test.module}::{name}"]
        if name == "*":
            wanted = [t for t in plan.entries if t.startswith(f"{test.module}::")]
        for one in wanted:
            seen[one].add(test.outcome)
    out = {}
    for test_id in plan.entries:
        found = seen[test_id] - {Outcome.SKIPPED}
        out[test_id] = next((str(o) for o in Outcome if o in found), NOT_RUN)
    return out


def measure(plan: Plan, records: Iterable[RunRecord]) -> Progress:
    """Measure progress by stage (V1, V2, V3) and by feature, in the order of the plan."""
    by_state = states(plan, records)
    stages: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    features: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for entry in plan.entries.values():
        for rows, name in ((stages, entry.stage), (features, entry.feature)):
            rows[name][by_state[entry.test]].append(entry.test)
    return Progress(
        tuple(_row(name, tests) for name, tests in sorted(stages.items())),
        tuple(_row(name, tests) for name, tests in features.items()),
    )


def _row(name: str, by: dict[str, list[str]]) -> StageRow:
    red = (*by[Outcome.FAILED], *by[Outcome.FLAKY], *by[Outcome.KNOWN])
    return StageRow(name, tuple(by[Outcome.PASSED]), red, tuple(by[NOT_RUN]))
