# SPDX-License-Identifier: Apache-2.0
"""Tests of the list of known failures: what it covers, and when an entry is an error."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.common.records import CaseResult, FailureKind, RunRecord
from scripts.conftest import QUICK, RECORD, Project
from scripts.plan.discover import TestCase
from scripts.report import known_failures, write_report
from scripts.report.known_failures import KnownFailure, marked, misfits, problems
from scripts.report.test_report import written
from scripts.run.schedule import line_of

ENTRY = {"test": "test_x::t*", "cause": "scoreboard: data", "ticket": "NF-1", "until": "2026-06-30"}
KNOWN = typed(KnownFailure, ENTRY)
LAST, LATE = date(2026, 6, 30), date(2026, 7, 1)
RED = replace(
    RECORD,
    name="test_x::two",
    passed=False,
    kind=FailureKind.MISMATCH,
    cause="got 1",
    cause_key="scoreboard: data; in a byte",
    cases=(CaseResult("two/n=1", "failed", 1, 1, "got 1", cause_key="of the record"),),
)
SECOND = CaseResult("two/n=2", "failed", 1, 1, "got 2", cause_key="scoreboard: data")


@pytest.mark.parametrize(
    ("record", "entry", "today", "known"),
    [
        (RED, KNOWN, LAST, True),
        (replace(RED, cases=()), KNOWN, LAST, True),  # a crash that names no case
        (replace(RED, cases=(*RED.cases, SECOND)), KNOWN, LAST, True),
        (replace(RED, cases=(*RED.cases, replace(SECOND, cause_key="x"))), KNOWN, LAST, False),
        (replace(RED, cases=(*RED.cases, replace(SECOND, name="a"))), KNOWN, LAST, False),
        (replace(RED, cause_key="scoreboard: data lost"), KNOWN, LAST, False),
        (replace(RED, name="test_y::two"), KNOWN, LAST, False),
        (replace(RED, flaky=True), KNOWN, LAST, False),
        (RED, KNOWN, LATE, False),
        (RED, replace(KNOWN, sim="verilator"), LAST, False),
        (RED, replace(KNOWN, build="default", sim="ica*"), LAST, True),
        (RECORD, KNOWN, LAST, False),
    ],
)
def test_a_failure_is_known_by_test_and_cause(
    record: RunRecord, entry: KnownFailure, today: date, known: bool
) -> None:
    found = marked(record, [entry], today)
    assert found.known == ("NF-1, until 2026-06-30" if known else "")
    assert found.red is not (known or record.passed)
    assert line_of(found).startswith("KNOWN ") is known


def test_an_entry_that_has_expired_or_passed_is_an_error() -> None:
    passed = replace(RECORD, name="test_x::two", cases=(CaseResult("two", "passed", 1, 1),))
    skipped = replace(passed, cases=(CaseResult("two", "skipped", 1, 1),))
    now = marked(RED, [KNOWN], LAST)
    says = "known failure of test_x::t* (NF-1, until 2026-06-30)"
    assert problems([KNOWN], [passed, skipped, RECORD], LAST) == [
        f"{says}: all of its runs passed; delete the entry"
    ]
    assert problems([KNOWN], [RED], LATE) == [
        f"{says} has expired: mend it, or give it another date"
    ]
    for records in ([passed, now], [passed, RED], [skipped], [RECORD], []):
        assert problems([KNOWN], records, LAST) == []
    test = TestCase("verif.tests.test_x", "two", "")
    assert misfits([KNOWN], [test], LAST) == []
    assert misfits([KNOWN], [], LATE) == [f"{says}: no test matches", f"{says} has expired"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("until: 2026-13-01", "not YAML"),
        ("until: soon", "known[0].until: 'soon' is not a date like 2026-12-31"),
        ("until: 20261231", "known[0].until"),
        ("until: 2026-12-31 10:00:00", "not a date"),
        ("cause: ''", "known[0].cause"),
        ("test: '*'", "one of 'test', 'build' and 'sim' must be there"),
        ("tset: a", "tset"),
        ("ticket: ", "known[0].ticket"),
    ],
)
def test_a_bad_entry_is_one_line(tmp_path: Path, change: str, says: str) -> None:
    key = change.partition(":")[0]
    lines = [f"{name}: '{one}'" for name, one in ENTRY.items() if name != key]
    path = tmp_path / "known.yaml"
    path.write_text("known:\n  - " + "\n    ".join([change, *lines]), encoding="utf-8")
    with pytest.raises(NfError) as caught:
        known_failures.read(path)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_reports_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_failures, "read", lambda: [replace(KNOWN, test="test_x::one")])
    known = marked(replace(RED, cases=()), [KNOWN], LAST)
    made = write_report.write_all([known, RECORD], "x", tmp_path)
    assert (made.green, made.counts.known) == (False, 1)  # the other test's entry is not needed
    data, root = written(tmp_path)
    assert sorted(one["known"] for one in data["records"]) == ["", "NF-1, until 2026-06-30"]
    assert len(data["errors"]) == 1
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "0", "1"]
    skipped = [one.get("message") for one in root.iter("skipped")]
    assert skipped == ["known failure, NF-1, until 2026-06-30: got 1"]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("NF-1, until 2026-06-30") == 2  # the run, and the error
    assert data["errors"][0].partition(" (")[0] in page
    (line,) = write_report.summary([known, RECORD], 1.0, 2)  # no failure by cause
    assert "1 passed, 0 failed, 1 known" in line


def test_a_known_failure_does_not_gate(project: Project) -> None:
    listed = project.folder / "verif/known_failures.yaml"
    before = listed.read_text(encoding="utf-8")

    def run(test: str, until: str) -> tuple[int, str]:
        entry = f'test: "test_toy::{test}", cause: "the toy\'s checker", ticket: T, until: {until}'
        listed.write_text(f"known: [{{{entry}}}]", encoding="utf-8")
        return project.nf("run", f"test_toy::{test}", "--no-rerun", "--sim", QUICK)

    try:
        code, out = run("checker", "2999-01-01")
        assert (code, "KNOWN test_toy::checker" in out) == (0, True), out
        assert "===== 0 passed, 0 failed, 1 known in" in out
        code, out = run("adds_one", "2999-01-01")
        assert (code, "all of its runs passed; delete the entry" in out) == (1, True), out
        code, out = run("wrong", "tomorrow")
        assert code == 2
        _, line = out.splitlines()
        assert line.startswith("nf: verif/known_failures.yaml: known[0].until: 'tomorrow' is not")
    finally:
        listed.write_text(before, encoding="utf-8")
