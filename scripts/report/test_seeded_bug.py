# SPDX-License-Identifier: Apache-2.0
"""A suite over a design with one seeded bug: terminal and records show it, and it alone.

The bug is a mutant of `verif/mutants/` (a tie goes to the other side). Six runs of three tests
see it, each with other data; two other tests must stay green.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.common.records import FailureKind, RunRecord
from scripts.conftest import QUICK
from scripts.plan import listed_mutants, testplan
from scripts.report import write_report
from scripts.run import schedule, simulate

BUG = "wrong-tie"
RED = "test_modes::g_binary"
ALSO_RED = "test_engine_timing::latency_and_interval", "test_epochs::epoch_other_region"
RED_RUNS = (
    *((RED, 1), (ALSO_RED[1], 1)),
    *((ALSO_RED[0], seed) for seed in (1, 2, 3, 4)),  # a second each
)
CAUSE = "scoreboard, G_BINARY: data; in whole line, RESULT"
GREEN = ("test_regs::reset_values", "test_modes::fp32")


class Suite(NamedTuple):
    """Results of the suite: records, and the terminal output."""

    records: list[RunRecord]
    terminal: str


def run_suite(folder: Path) -> Suite:
    """Run it as `nf run` does."""
    (mutant,) = (m for m in listed_mutants.read() if m.id == BUG)
    wanted = (*RED_RUNS, *((name, 1) for name in GREEN))
    specs = [
        spec
        for name, seed in wanted
        for spec in listed_mutants.runs_of(
            replace(mutant, sim=QUICK, tests=(name,), seed=seed), testplan.read()
        )
    ]
    out = io.StringIO()
    with redirect_stdout(out):
        records = schedule.run_all(
            specs, 1, schedule.show, runner=lambda spec: simulate.run(spec, folder / "runs")
        )
    out.write("\n".join(write_report.summary(records, 1.0, len(specs))))
    return Suite(records, out.getvalue())


def _red(suite: Suite) -> list[RunRecord]:
    red = [record for record in suite.records if not record.passed]
    assert [(one.name, one.seed) for one in red] == list(RED_RUNS)
    assert {one.kind for one in red} == {FailureKind.MISMATCH}
    return red


@pytest.mark.nightly("20 s: two builds; test_a_failure_is_shown_everywhere takes a toy")
def test_a_suite_with_one_bug(tmp_path: Path) -> None:
    """Check causes, messages and terminal of one run of the suite, which takes 20 s."""
    suite = run_suite(tmp_path)
    red = _red(suite)
    six_red_runs_have_one_cause(suite, red)
    a_failure_explains_itself_before_its_data(red)
    the_terminal_shows_it(suite, red)


def six_red_runs_have_one_cause(suite: Suite, red: list[RunRecord]) -> None:
    assert len({record.cause for record in red}) == 6
    assert {record.cause_key for record in red} == {CAUSE}
    head = suite.terminal.splitlines().index("failures by cause (N: a value that differs):")
    assert suite.terminal.splitlines()[head + 1 : -1] == [f"  6 x mismatch: {CAUSE}"]


def a_failure_explains_itself_before_its_data(red: list[RunRecord]) -> None:
    for record in red:
        cause = record.cause
        words = (
            "MISMATCH",
            "expected",
            "; model: MEM_RD",
            "; seed ",
            "; got DRS(",
            ", expected DRS(",
        )
        places = [cause.index(word) for word in words]
        assert places == sorted(places)
        assert f"; seed {record.seed}, profile " in cause  # as --seed takes it
        assert not cause.endswith("...")
        assert "data=" in record.cases[0].message  # all of them


def the_terminal_shows_it(suite: Suite, red: list[RunRecord]) -> None:
    for record in red:
        assert f"FAIL {record.name}" in suite.terminal
        assert f"mismatch: {record.cause}" in suite.terminal
    assert f"rerun: .venv/bin/nf mutate {BUG}" in suite.terminal
    for name in GREEN:
        assert f"PASS {name}" in suite.terminal
    assert suite.terminal.splitlines()[-1].startswith("===== ")
