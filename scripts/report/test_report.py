# SPDX-License-Identifier: Apache-2.0
"""Every report says the same of the same records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema

from neuron_fabric import output
from neuron_fabric.lock import Busy, Lock
from scripts.common.cause_key import normalised
from scripts.common.errors import NfError
from scripts.common.paths import SCHEMAS
from scripts.common.records import CaseResult, FailureKind, RunRecord
from scripts.conftest import RECORD, record
from scripts.plan import discover
from scripts.plan.discover import TestCase
from scripts.report import json_file, trend, write_report
from scripts.report.failure_causes import buckets
from scripts.report.invocation import describe, moment
from scripts.report.outcome import Counts, Outcome, counts, results

# Bad luck in one line: HTML, a quote, a character that XML cannot hold.
NASTY = "got </script><script>document.title='owned'</script> \"&\x1b want 2"
RED = replace(
    RECORD,
    id="test_x.two-icarus-default-s7",
    name="test_x::two",
    seed=7,
    passed=False,
    kind=FailureKind.MISMATCH,
    cause=NASTY,
    cases=(CaseResult("two", "failed", 2.5, 5.0, NASTY), CaseResult("three", "skipped", 0.0, 0.0)),
    waves="build/runs/x/waves 1.fst",
    rerun="nf run test_x::two --seed 7",
)
CRASHED = replace(
    RECORD,
    id="test_y.all-verilator-default-s1",
    name="test_y::*",
    sim="verilator",
    passed=False,
    kind=FailureKind.CRASH,
    cause="signal 11",
    cases=(),
)
RECORDS = [RECORD, RED, CRASHED]

CASES = [("first", "passed"), ("second", "failed"), ("third", "failed"), ("fourth", "skipped")]
FLAKY = RunRecord(**{**vars(RED), "id": "flaky", "cause": "once", "flaky": True})


def written(folder: Path) -> tuple[dict[str, Any], ElementTree.Element]:
    """Return the JSON report of a folder and its JUnit XML, held against their schemas."""
    data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    jsonschema.validate(data, json.loads((SCHEMAS / "report.json").read_text(encoding="utf-8")))
    xmlschema.XMLSchema(SCHEMAS / "junit.xsd").validate(folder / "junit.xml")
    return data, ElementTree.parse(folder / "junit.xml").getroot()


def test_json_is_versioned_and_keeps_its_schema(tmp_path: Path) -> None:
    found = write_report.write_all(RECORDS, "try <it>", tmp_path, seconds=3.0, expected=4)
    data, _ = written(tmp_path)
    assert data["counts"] == {"passed": 1, "failed": 2, "flaky": 0, "skipped": 1, "known": 0}
    assert (data["green"], data["missing"], found.green) == (False, 1, False)
    assert data["invocation"]["seeds"] == [1, 7]
    assert sorted(json_file.read(tmp_path / "results.json").records, key=lambda r: r.id) == RECORDS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "no report of nf"),
        ('{"format": "neuron-fabric report", "version": 99}', "version 99"),
        ('{"format": "neuron-fabric report", "version": 2}', "damaged"),
        ("{", "damaged"),
        (None, "cannot read"),
    ],
)
def test_a_bad_json_report_is_one_line(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(NfError, match=says):
        json_file.read(path)
    write_report.write_all([RECORD], "next", tmp_path)  # its history is lost, the new report is not
    assert json_file.read(path).records == (RECORD,)


def test_junit_keeps_its_schema(tmp_path: Path) -> None:
    write_report.write_all([*RECORDS, FLAKY], "try <it>", tmp_path)
    _, root = written(tmp_path)
    assert [len(list(root.iter(tag))) for tag in ("testcase", "failure", "error", "skipped")] == [
        *(6, 2, 1, 2)
    ]
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["6", "2", "1"]
    suites = {suite.get("name"): suite for suite in root}
    red = suites[RED.id]
    properties = {p.get("name"): p.get("value") for p in red.iter("property")}
    assert properties["seed"] == "7"
    assert properties["rerun"] == RED.rerun
    failure = red.find(".//failure")
    assert failure is not None
    assert failure.get("message") == NASTY.replace("\x1b", "?")  # escape is no XML character
    assert failure.get("type") == "mismatch"
    flaky = suites["flaky"].find(".//failure")
    assert flaky is not None  # never green
    assert flaky.get("type") == "flaky"


@pytest.mark.parametrize(
    ("records", "expected", "says"),
    [([RECORD], 3, "2 of 3 runs did not finish"), ([], None, "1 of 1 runs did not finish")],
)
def test_junit_of_an_interrupted_run_is_red(
    tmp_path: Path, records: list[RunRecord], expected: int | None, says: str
) -> None:
    write_report.write_all(records, "x", tmp_path, expected=expected)
    _, root = written(tmp_path)
    assert [error.get("message") for error in root.iter("error")] == [says]
    assert root.get("errors") == "1"


def test_junit_names_the_line_of_each_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = TestCase("verif.tests.test_x", "one", "", line=7)
    monkeypatch.setattr(discover, "last", lambda: [known])
    profile = replace(RECORD, cases=(CaseResult("one/profile=idle", "passed", 1.0, 5.0),))
    write_report.write_all([profile, CRASHED], "x", tmp_path)
    found = written(tmp_path)[1].iter("testcase")
    places = {one.get("name"): (one.get("file"), one.get("line")) for one in found}
    assert places == {"one/profile=idle": ("verif/tests/test_x.py", "7"), "*": (None, None)}


def test_junit_schema_can_refuse(tmp_path: Path) -> None:
    schema = xmlschema.XMLSchema(SCHEMAS / "junit.xsd")
    write_report.write_all(RECORDS, "x", tmp_path)
    text = (tmp_path / "junit.xml").read_text(encoding="utf-8")
    for old, new in (('failures="1"', 'failures="one"'), ("<failure ", "<fail "), ("</fail", "<f")):
        with pytest.raises((xmlschema.XMLSchemaException, ElementTree.ParseError)):
            schema.validate(text.replace(old, new))


def test_reports_of_two_commands_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the history that is read to the last file that is written, nobody else may write."""
    seen: list[str] = []

    def alone(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any) -> Any:
            with pytest.raises(Busy):
                Lock(tmp_path).acquire()
            seen.append(name)
            return real(*words)

        return call

    monkeypatch.setattr(trend, "from_report", alone("read", trend.from_report))
    monkeypatch.setattr(output, "write_text", alone("write", output.write_text))
    write_report.write_all(RECORDS, "x", tmp_path)
    assert seen == ["read", "write", "write", "write"]


@pytest.mark.parametrize(
    ("records", "expected", "found", "green"),
    [
        (RECORDS, 4, Counts(passed=1, failed=2, skipped=1), False),
        ([RECORD, FLAKY], 2, Counts(passed=1, flaky=1, skipped=1), False),
        ([], 0, Counts(), False),
        ([RECORD], 2, Counts(passed=1), False),
        ([RECORD], 1, Counts(passed=1), True),
    ],
)
def test_only_what_ran_and_passed_is_green(
    records: list[RunRecord], expected: int, found: Counts, green: bool, tmp_path: Path
) -> None:
    made = write_report.write_all(records, "x", tmp_path, expected=expected)
    assert (made.counts, made.green) == (found, green)
    *lines, last = write_report.summary(records, 3.0, expected)
    assert last == f"===== {found} in 3.0 s ({len(records)} runs) ====="
    late = f"interrupted: {expected - len(records)} of {expected} runs did not finish"
    assert (late in lines) == (len(records) < expected)


def test_of_an_earlier_command(tmp_path: Path) -> None:
    now = describe("nf run --suite smoke", [RECORD], 7.5)
    then = replace(now, started=moment(0.0), host="", tools=())
    assert write_report.write_all([RECORD], then, tmp_path).invocation is then
    data, _ = written(tmp_path)
    assert data["invocation"]["started"].startswith(("1970-01-01T", "1969-12-31T"))
    assert (tmp_path / "index.html").read_text(encoding="utf-8").count("not recorded") == 2


def test_a_run_that_died_late_keeps_its_tests() -> None:
    died = record(passed=False, kind=FailureKind.ASSERTION, cause="Never_A in top.u")
    assert [(r.name, r.outcome, r.whole_run) for r in results(died)] == [
        ("one", Outcome.PASSED, False),
        ("one", Outcome.FAILED, True),
    ]


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("seed 1, profile idle: line 0x10 got 3", "seed 22, profile slow: line 0xff got 4", True),
        ("tag 00ff12ab9 late by 3.5 ns", "tag deadbeef01 late by 12 ns", True),
        ("12 bytes, first byte 0: ee, expected 48", "1 bytes, first byte 3: 3d, expected ff", True),
        ("EARLY_READ wrong", "STRICT wrong", False),
        ("CheckA_A in top.u_a", "CheckB_A in top.u_a", False),
    ],
)
def test_causes_are_the_same_but_for_numbers(one: str, two: str, same: bool) -> None:
    assert (normalised(one) == normalised(two)) is same


def test_buckets_name_the_cause_as_it_is_if_all_agree() -> None:
    def red(cause: str, seed: int) -> RunRecord:
        return record(passed=False, kind=FailureKind.MISMATCH, cause=cause, seed=seed)

    runs = [red("got 1", 1), red("got 1", 2), red("lost 5", 3), red("lost 6", 4), red("lost 6", 5)]
    assert [(len(b.records), b.cause) for b in buckets(runs)] == [(3, "lost N"), (2, "got 1")]


def test_one_key_is_one_cause_whatever_the_values() -> None:
    key = "scoreboard, FP32: data"
    red = record(passed=False, kind=FailureKind.MISMATCH, cause="MEM_RD got ff", cause_key=key)
    other = replace(red, cause="MEM_RD_DATA got 0a", seed=2)
    (bucket,) = buckets([red, other])
    assert (bucket.cause, len(bucket.records)) == (key, 2)
    (bucket,) = buckets([red, replace(red, seed=2)])
    assert bucket.cause == red.cause  # all say the same: then it is shown
    assert len(buckets([red, replace(red, cause_key="scoreboard, FP32: Poison")])) == 2


def test_clearly_different_runs_are_sub_causes() -> None:
    """A fault of a byte lane and one of a whole line are not one cause without more words."""
    main = "scoreboard, FP32: data"
    keys = [f"{main}; in {part}" for part in ("one byte, RESULT", "whole line, RESULT")]
    red = record(passed=False, kind=FailureKind.MISMATCH, cause="1", cases=())
    runs = [replace(red, cause=f"{n}x{key}", cause_key=key) for key in keys for n in (1, 2)]
    (bucket,) = buckets([*runs, replace(runs[0], cause="5y")])
    assert bucket.cause == main
    assert bucket.parts == ((3, "one byte, RESULT"), (2, "whole line, RESULT"))
    lines = write_report.summary(runs, 1.0, 4)
    at = lines.index(f"  4 x mismatch: {main}")
    assert lines[at + 1 : at + 3] == ["    2 x whole line, RESULT", "    2 x one byte, RESULT"]
    assert buckets(runs[:2])[0].parts == ()


def test_a_profile_that_is_red_alone_is_a_sub_cause() -> None:
    def cases(**status: str) -> tuple[CaseResult, ...]:
        return tuple(CaseResult(f"one/profile={n}", s, 1.0, 1.0) for n, s in status.items())

    red = record(passed=False, kind=FailureKind.MISMATCH, cause="x", cause_key="k")
    alone = replace(red, cases=cases(idle="failed", burst="passed"))
    assert buckets([alone])[0].parts == ((1, "profile idle alone"),)
    both = replace(red, cases=cases(idle="failed", burst="failed"))
    assert buckets([alone, both])[0].parts == ()
    other = replace(record(), cases=cases(burst="passed"))
    assert buckets([replace(red, cases=cases(idle="failed")), other])[0].parts


def test_waves_are_offered_for_the_tests_that_they_hold(tmp_path: Path) -> None:
    cases = [CaseResult(name, state, 1, 1) for name, state in CASES]
    rerun = replace(RED, cases=tuple(cases), rerun_log="build/runs/x/rerun.log")
    assert [r.name for r in results(rerun) if r.waves] == ["second"]  # it ran alone
    asked = replace(rerun, rerun_log=None)  # nf run --waves
    assert [r.name for r in results(asked) if r.waves] == ["first", "second", "third"]
    died = replace(rerun, cases=(CaseResult("first", "passed", 1, 1),))
    assert [(r.name, bool(r.waves)) for r in results(died)] == [("first", False), ("two", True)]
    write_report.write_all([rerun], "x", tmp_path)
    table = (tmp_path / "index.html").read_text(encoding="utf-8").partition('<table id="tests"')[2]
    rows = {name: row for row in table.split("<tr ") for name, _ in CASES if f"::{name}" in row}
    assert [name for name, _ in CASES if ">waves</a>" in rows[name]] == ["second"]


def test_each_failed_test_tells_its_own_cause(tmp_path: Path) -> None:
    cases = (CaseResult("a", "failed", 1, 1, "got 1"), CaseResult("b", "failed", 1, 1, "got 2\nx"))
    write_report.write_all([replace(RED, cause="E: got 1", cases=cases)], "x", tmp_path)
    failures = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("failure")
    assert [one.get("message") for one in failures] == ["E: got 1", "got 2"]
    table = (tmp_path / "index.html").read_text(encoding="utf-8").partition('<table id="tests"')[2]
    assert [table.count(text) for text in ("mismatch: E: got 1", "mismatch: got 2")] == [1, 1]


def test_one_case_of_many_red() -> None:
    cases = (CaseResult("a", "passed", 1, 1), CaseResult("b", "failed", 1, 1, "x"))
    both = record(passed=False, kind=FailureKind.MISMATCH, cause="x", cases=cases)
    assert str(counts([both, replace(CRASHED, passed=True)])) == "2 passed, 1 failed"
