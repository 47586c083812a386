# SPDX-License-Identifier: Apache-2.0
"""Tests of verdicts from result files, logs and tracebacks, without a simulator.

Real simulations fail in test_simulate.py.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.common.process import Finished
from scripts.common.records import CaseResult, FailureKind, Verdict
from scripts.run.verdict import as_registered, judge, place_of_trace, read_results, worth_a_rerun
from verif.scoreboard.finding import CheckFailed, Finding

ENDED = Finished(0, False, 1.0)
TRACE = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/cocotb/_event_loop.py", line 26, in _run
    self._func()
  File "/tree/verif/tests/test_x.py", line 33, in key
    helper.boom({})
  File "/tree/verif/env/helper.py", line 4, in boom
    return d['x']
           ~^^^^^
  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode
KeyError: 'x'
"""
ROOT = Path("/tree")


def verdict(tmp_path: Path, error: str, message: str, trace: str = TRACE) -> Verdict:
    """Return the verdict on a result file with one failed case.

    `error` is the type of the exception, `message` its text, `trace` its traceback.
    """
    root = ElementTree.Element("testsuites")
    case = ElementTree.SubElement(root, "testcase", name="one", time="1")
    failed = ElementTree.SubElement(case, "failure", message=message, type=error)
    failed.text = trace
    ElementTree.ElementTree(root).write(tmp_path / "results.xml")
    cases = read_results(tmp_path / "results.xml", ROOT)
    return judge(ENDED, cases, [], ("one",), ROOT)


def test_a_crash_names_the_line_of_the_bench(tmp_path: Path) -> None:
    found = verdict(tmp_path, "KeyError", "'x'")
    assert found.kind is FailureKind.CRASH
    assert found.cause == "KeyError: 'x' (verif/env/helper.py:4)"
    assert found.key == "KeyError at verif/env/helper.py:4"
    long = verdict(tmp_path, "KeyError", "y" * 5000)
    assert long.cause.endswith("... (verif/env/helper.py:4)")  # never cut
    assert len(long.cause) <= 600


def test_the_last_exception_of_a_chain_counts() -> None:
    text = "\nDuring handling of the above exception, another exception occurred:\n\n"
    second = 'Traceback (most recent call last):\n  File "/tree/b.py", line 7, in x\nOSError: no\n'
    assert place_of_trace(TRACE + text + second, ROOT) == "b.py:7"
    foreign = second.replace("/tree", "/usr/lib/python3/dist-packages")
    assert place_of_trace(TRACE + text + foreign, ROOT) == "verif/env/helper.py:4"
    assert place_of_trace(foreign, ROOT) == ""


def test_a_checker_gives_the_key(tmp_path: Path) -> None:
    found = Finding("explained", "scoreboard, FP32: data", "got 00ff")
    error = CheckFailed([found, "and more"], "seed 7, profile idle")
    told = verdict(tmp_path, "CheckFailed", str(error))
    assert told.cause == "explained; seed 7, profile idle; got 00ff"
    assert (told.kind, told.key) == (FailureKind.MISMATCH, "scoreboard, FP32: data")
    cases = read_results(tmp_path / "results.xml")
    assert cases is not None
    assert cases[0].message == "explained; seed 7, profile idle; got 00ff\nand more"


def test_without_a_checker_the_place_of_a_bare_assertion_is_the_key(tmp_path: Path) -> None:
    bare = verdict(tmp_path, "AssertionError", "assert {1: b'0a'} == {2: b'ff'}")
    assert bare.key == "AssertionError at verif/env/helper.py:4"
    said = verdict(tmp_path, "AssertionError", "q is not 77")
    assert said.key == "AssertionError: q is not N"


def test_an_assertion_with_a_text_shows_its_values_as_well(tmp_path: Path) -> None:
    """Check that the cause has the assertion's message and values, and the key only the message.

    So two failures that differ in values have one key.
    """
    shown = "assert Credits(plain=62, data=8) == Credits(plain=64, data=8)"
    found = verdict(tmp_path, "AssertionError", f"credits came back\n{shown}\n  more")
    assert found.cause == f"AssertionError: credits came back; {shown} (verif/env/helper.py:4)"
    assert found.key == "AssertionError: credits came back"
    where = "assert False\n +  where False = crc_ok(77)"
    found = verdict(tmp_path, "AssertionError", f"CRC\n{where}")
    assert "CRC; assert False + where False = crc_ok(77) (verif" in found.cause


def test_a_broken_link_rule_is_the_key(tmp_path: Path) -> None:
    for text in ("2 link errors, first: clock 71: S2M crc: flit 0a", "clock 9: S2M crc: flit ff"):
        assert verdict(tmp_path, "AssertionError", text).key == "link: S2M crc"
        assert Finding(text).key == "link: S2M crc"
    raised = verdict(tmp_path, "CxlError", "S2M credit: 2 are left, at clock 7; owed: DRS tag 1f")
    assert (raised.kind, raised.key) == (FailureKind.MISMATCH, "link: S2M credit")
    assert Finding("axi: cycle 12: AWADDR 0x1f is not aligned").key == "AWADDR N is not aligned"


def test_the_key_is_of_the_whole_text(tmp_path: Path) -> None:
    ends = [verdict(tmp_path, "AssertionError", f"{'x' * n} {'y' * 600} end") for n in (1, 2)]
    assert ends[0].key != ends[1].key
    cut = [verdict(tmp_path, "AssertionError", f"{10**n}: {'x' * 600} end") for n in (1, 9)]
    assert cut[0].key == cut[1].key


@pytest.mark.parametrize(
    ("error", "again"),
    [
        ("SyntaxError", False),
        ("ModuleNotFoundError", False),
        ("BdbQuit", False),
        ("KeyError", True),
    ],
)
def test_what_ends_at_the_same_line_every_time_is_not_run_again(
    tmp_path: Path, error: str, again: bool
) -> None:
    found = verdict(tmp_path, error, "")
    assert found.kind is FailureKind.CRASH
    assert worth_a_rerun(found.key) is again


def test_a_log_without_results() -> None:
    running = "   0.00ns INFO  cocotb.regression    running test_x.one (1/2)"
    lines = [running, *TRACE.splitlines()[:-1], "bdb.BdbQuit"]
    found = judge(ENDED, None, lines, ("one",), ROOT)
    assert found.cause.startswith("a debugger ended the test")
    assert found.cause.endswith("(verif/env/helper.py:4)")
    lines = [running, "> /tree/verif/tests/test_x.py(12)one()->None", "(Pdb) ", "bdb.BdbQuit"]
    assert judge(ENDED, None, lines, ("one",), ROOT).key == ("BdbQuit at verif/tests/test_x.py:12")
    silent = judge(ENDED, None, [running], ("one",), ROOT)
    assert "ended in test_x.one without results" in silent.cause
    assert "while the tests were loaded" in judge(ENDED, None, [], (), ROOT).cause
    assert judge(ENDED, (), [], (), ROOT).kind is FailureKind.NO_TEST


@pytest.mark.parametrize(
    ("registered", "planned", "expected", "ran", "says"),
    [
        (None, None, [], ["a"], "left no list"),
        (["a", "b"], None, ["a"], ["a"], ""),
        (["a", "b"], ["a"], ["a"], ["a"], "registered b, which the plan does not know"),
        (["a"], ["a", "b"], ["a"], ["a"], "did not register b, which"),
        (["a/n=1", "a/n=2"], ["a/n=1", "a/n=2"], ["a"], ["a/n=1"], "no result of a/n=2"),
        (["a/n=1", "a/n=2"], None, ["a/n=1"], ["a/n=1"], ""),
        (["a", "b"], None, [], ["a"], "no result of b"),
        (["a", "b"], None, ["a"], ["a", "b"], "a result of b, which was not to run"),
        (["a", "a"], None, ["a"], ["a"], "no result of a"),
    ],
)
def test_the_tests_of_cocotb_are_those_of_the_plan(
    registered: list[str] | None,
    planned: list[str] | None,
    expected: list[str],
    ran: list[str],
    says: str,
) -> None:
    cases = [CaseResult(name, "passed", 0.0, 0.0) for name in ran]
    found = as_registered(registered, planned, expected, cases)
    assert found.passed is not bool(says)
    assert says in found.cause


def test_a_test_that_cannot_begin_is_a_crash_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(
        '<testsuites><testsuite><testcase name="one/n=1" time="0">'
        '<error message="Test initialization failed"/></testcase></testsuite></testsuites>',
        encoding="utf-8",
    )
    log = """
        0.00ns ERROR cocotb.regression  Failed to initialize verif.tests.test_x.one/n=1! (1/1)
            Traceback (most recent call last):
              File "/lib/python3.11/site-packages/cocotb/regression.py", line 4, in _init_test
            TypeError: one() got an unexpected keyword argument 'n'
    """
    cases = read_results(tmp_path / "results.xml", ROOT)
    found = judge(ENDED, cases, log.splitlines(), ("one",), ROOT)
    assert found.kind is FailureKind.CRASH
    assert found.cause == "TypeError: one() got an unexpected keyword argument 'n'"


def test_an_exception_of_an_earlier_test_does_not_explain_an_exit() -> None:
    log = """
        0.00ns INFO cocotb.regression  running verif.tests.test_x.one (1/2)
            Traceback (most recent call last):
              File "/tree/verif/tests/test_x.py", line 3, in one
            ValueError: of the first test
        0.00ns INFO cocotb.regression  running verif.tests.test_x.two (2/2)
    """
    found = judge(ENDED, None, log.splitlines(), ("one", "two"), ROOT)
    assert found.cause.startswith("the simulator ended in verif.tests.test_x.two without results")
