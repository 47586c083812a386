# SPDX-License-Identifier: Apache-2.0
"""A suite over a design with one seeded bug: every report of the run shows it, and it alone.

The bug is a mutant of `verif/mutants/` (a tie goes to the other side). Six runs of three tests
see it, each with other data; two other tests must stay green.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import report
from scripts.common.records import FailureKind, RunRecord
from scripts.conftest import QUICK
from scripts.farm import schedule
from scripts.plan import mutants, testplan
from scripts.report.test_browser import Page
from scripts.run import simulate

BUG = "wrong-tie"
RED = "test_modes::g_binary"
ALSO_RED = "test_engine_timing::latency_and_interval", "test_epochs::epoch_other_region"
RED_RUNS = (
    *((RED, 1), (ALSO_RED[1], 1)),
    *((ALSO_RED[0], seed) for seed in (1, 2, 3, 4)),  # a second each
)
CAUSE = "scoreboard, G_BINARY: data; in whole line, RESULT"
GREEN = ("test_regs::reset_values", "test_modes::fp32")


@dataclass(frozen=True)
class Suite:
    """Results of the suite: records, terminal output, folder of the reports."""

    records: list[RunRecord]
    terminal: str
    folder: Path


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Run it once, as `nf run` does."""
    folder = tmp_path_factory.mktemp("seeded")
    (mutant,) = (m for m in mutants.read() if m.id == BUG)
    wanted = (*RED_RUNS, *((name, 1) for name in GREEN))
    specs = [
        spec
        for name, seed in wanted
        for spec in mutants.runs_of(
            replace(mutant, sim=QUICK, tests=(name,), seed=seed), testplan.read()
        )
    ]
    out = io.StringIO()
    progress = schedule.RunProgress(len(specs), out)
    records = schedule.run_all(
        specs, 1, progress.finished, runner=lambda spec: simulate.run(spec, folder / "runs")
    )
    progress.close()
    report.write_all(records, "seeded bug", folder / "report", expected=len(specs))
    out.write(report.summary(records, 1.0, len(specs)))
    return Suite(records, out.getvalue(), folder / "report")


def _red(suite: Suite) -> list[RunRecord]:
    red = [record for record in suite.records if not record.passed]
    assert [(one.name, one.seed) for one in red] == list(RED_RUNS)
    assert {one.kind for one in red} == {FailureKind.MISMATCH}
    return red


def test_six_red_runs_have_one_cause(suite: Suite) -> None:
    red = _red(suite)
    assert len({record.cause for record in red}) == 6
    assert {record.cause_key for record in red} == {CAUSE}
    head = suite.terminal.splitlines().index("failures by cause (N: a value that differs):")
    assert suite.terminal.splitlines()[head + 1 : -1] == [f"  6 x mismatch: {CAUSE}"]


def test_a_failure_explains_itself_before_its_data(suite: Suite) -> None:
    for record in _red(suite):
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


def test_terminal(suite: Suite) -> None:
    for red in _red(suite):
        assert f"FAIL {red.name}" in suite.terminal
        assert f"mismatch: {red.cause}" in suite.terminal
    assert f"rerun: .venv/bin/nf mutate {BUG}" in suite.terminal
    for name in GREEN:
        assert f"PASS {name}" in suite.terminal
    assert suite.terminal.splitlines()[-1].startswith("===== ")


def test_junit(suite: Suite) -> None:
    root = ElementTree.parse(suite.folder / "junit.xml").getroot()
    red = {record.id: record for record in _red(suite)}
    bad = {s.get("name", ""): s for s in root.iter("testsuite") if s.find(".//failure") is not None}
    assert set(bad) == set(red)
    for name, found in bad.items():
        failure = found.find(".//failure")
        assert failure is not None
        assert failure.get("message") == red[name].cause
        assert found.find(f".//property[@name='cause key'][@value='{CAUSE}']") is not None
    assert len(list(root.iterfind(".//property[@name='cause key']"))) == len(red)
    assert not list(root.iter("error"))


def test_json(suite: Suite) -> None:
    data = json.loads((suite.folder / "results.json").read_text(encoding="utf-8"))
    assert not data["green"]
    bad = [r for r in data["records"] if not r["passed"]]
    assert sorted((r["name"], r["seed"]) for r in bad) == sorted(RED_RUNS)
    assert {r["cause_key"] for r in bad} == {CAUSE}
    assert "test_modes::g_binary" in data["testplan"]["stages"][0]["red"]


def test_page(suite: Suite, chromium: Page) -> None:
    chromium.complaints.clear()
    chromium.open(suite.folder / "index.html")
    assert chromium.ask("document.querySelector('.verdict').innerText") == "✗ failed"
    shown = chromium.ask("document.querySelector('#failures').innerText")
    for red in _red(suite):
        assert red.name in shown
        assert red.cause in " ".join(shown.split())
    assert chromium.ask("document.querySelectorAll('.buckets > li').length") == 1
    log = chromium.ask("document.querySelector('.failure a').href")
    assert Path(log.removeprefix("file://")).is_file()  # the link leads to the log
    assert chromium.ask("document.querySelectorAll('.failure').length") == 6
    assert chromium.complaints == []


# `nf history`: `suite.records` in a separate history must name RED and its cause, nothing else.
