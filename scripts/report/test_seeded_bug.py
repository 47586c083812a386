# SPDX-License-Identifier: Apache-2.0
"""A suite over a design with one seeded bug: every report of the run shows it, and it alone.

The bug is a mutant of `verif/mutants.yaml` (a tie goes to the other side), the suite its own test
and two that must stay green beside it.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import mutants, report, schedule, simulate, testplan
from scripts.conftest import QUICK
from scripts.records import FailureKind, RunRecord
from scripts.report.browser import Page

BUG = "wrong-tie"
RED = "test_modes::g_binary"
GREEN = ("test_regs::reset_values", "test_modes::fp32")


@dataclass(frozen=True)
class Suite:
    """What the suite left: its records, what the terminal showed, the folder of the reports."""

    records: list[RunRecord]
    terminal: str
    folder: Path


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Run it once, as `nf run` does."""
    folder = tmp_path_factory.mktemp("seeded")
    (mutant,) = (m for m in mutants.read() if m.id == BUG)
    specs = mutants.runs_of(replace(mutant, sim=QUICK, tests=(RED, *GREEN)), testplan.read())
    out = io.StringIO()
    progress = schedule.Progress(len(specs), out)
    records = schedule.run_all(
        specs, 1, progress.finished, runner=lambda spec: simulate.run(spec, folder / "runs")
    )
    progress.close()
    report.write_all(records, "seeded bug", folder / "report", expected=len(specs))
    out.write(report.summary(records, 1.0, len(specs)))
    return Suite(records, out.getvalue(), folder / "report")


def _red(suite: Suite) -> RunRecord:
    (red,) = (record for record in suite.records if not record.passed)
    assert (red.name, red.kind) == (RED, FailureKind.MISMATCH)
    return red


def test_terminal(suite: Suite) -> None:
    red = _red(suite)
    assert f"FAIL {RED}" in suite.terminal
    assert f"mismatch: {red.cause}" in suite.terminal
    assert f"rerun: .venv/bin/nf mutate {BUG}" in suite.terminal
    for name in GREEN:
        assert f"PASS {name}" in suite.terminal
    assert suite.terminal.splitlines()[-1].startswith("===== ")


def test_junit(suite: Suite) -> None:
    root = ElementTree.parse(suite.folder / "junit.xml").getroot()
    bad = [s for s in root.iter("testsuite") if s.find(".//failure") is not None]
    assert [s.get("name") for s in bad] == [_red(suite).id]
    failure = bad[0].find(".//failure")
    assert failure is not None
    assert failure.get("message") == _red(suite).cause
    assert not list(root.iter("error"))


def test_json(suite: Suite) -> None:
    data = json.loads((suite.folder / "results.json").read_text())
    assert not data["green"]
    assert [r["name"] for r in data["records"] if not r["passed"]] == [RED]
    assert "test_modes::g_binary" in data["testplan"]["stages"][0]["red"]


def test_page(suite: Suite, chromium: Page) -> None:
    chromium.complaints.clear()
    chromium.open(suite.folder / "index.html")
    assert chromium.ask("document.querySelector('.verdict').innerText") == "✗ failed"
    shown = chromium.ask("document.querySelector('.failure').innerText")
    assert RED in shown
    assert _red(suite).cause in " ".join(shown.split())
    log = chromium.ask("document.querySelector('.failure a').href")
    assert Path(log.removeprefix("file://")).is_file()  # the link leads to the log
    assert chromium.ask("document.querySelectorAll('.failure').length") == 1
    assert chromium.complaints == []


# `nf history`: `suite.records` in a history of their own must name RED and its cause, nothing else.
