# SPDX-License-Identifier: Apache-2.0
"""Reads what a simulation left behind and says in one line what went wrong.

The result file alone is not to be trusted: an SVA that fires ends the simulator before cocotb can
name it, and a filter that matches nothing leaves an empty file and exit code 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from nf_capture.data import read_bytes
from scripts.process import Finished
from scripts.records import CaseResult, FailureKind

_NAMED_ASSERT = re.compile(r"\[ASSERT FAILED\]\s*(?P<where>[^\s:]+):\s*\"?(?P<name>\w+)")
_PLAIN_ASSERT = re.compile(
    r"(?:%Error|%Fatal|ERROR|FATAL):\s*(?P<at>[^\s:]+:\d+)(?::\d+)?:\s*"
    r"(?:Assertion failed in )?(?P<text>.*)"
)
_TIME_OUTS = ("SimTimeoutError", "TimeoutError")
_TIME_OUT_TEXT = re.compile(r"\btime[d]?[ -]?out\b", re.IGNORECASE)
# Exceptions that no checker raises on purpose: the bench itself is broken.
_BENCH_ERRORS = frozenset(
    {
        *("ArithmeticError", "AttributeError", "EOFError", "FileNotFoundError", "ImportError"),
        *("IndexError", "IndentationError", "KeyError", "LookupError", "MemoryError"),
        *("ModuleNotFoundError", "NameError", "OSError", "OverflowError", "RecursionError"),
        *("RuntimeError", "StopIteration", "SyntaxError", "TypeError", "UnboundLocalError"),
        *("UVMConfigItemNotFound", "UVMFactoryError", "ValueError", "ZeroDivisionError"),
    }
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_TRACE_END = re.compile(r"^\s*[A-Za-z_][\w.]*(?:Error|Exception|Interrupt): ?.*")
_SIMULATOR_LINE = re.compile(r"^(?:%\w+:|\S*vvp\b|\S+:\d+: |[A-Z]+: )")
_MAX_CAUSE = 300


@dataclass(frozen=True)
class Verdict:
    """passed, or why not."""

    passed: bool
    kind: FailureKind | None = None
    cause: str = ""


def read_results(path: Path) -> tuple[CaseResult, ...]:
    """Test cases of a cocotb result file; empty when it is missing or broken."""
    try:
        root = ElementTree.fromstring(read_bytes(path))
        return tuple(_case(element) for element in root.iter("testcase"))
    except (OSError, ElementTree.ParseError, ValueError, LookupError, RecursionError):
        return ()  # no XML, a coding that Python does not know, a time that is no number


def _case(element: ElementTree.Element) -> CaseResult:
    status, message, error_type = "passed", "", ""
    for child in element:
        if child.tag in ("failure", "error"):
            status = "failed"
            message = child.get("message") or child.get("error_msg") or (child.text or "")
            error_type = child.get("type") or child.get("error_type") or ""
        elif child.tag == "skipped" and child.get("type") != "xfail":
            status = "skipped"
    properties = {p.get("name"): p.get("value") for p in element.iter("property") if p.get("name")}
    sim_time = properties.get("sim_time_duration") or element.get("sim_time_ns") or "0"
    return CaseResult(
        name=element.get("name", "?"),
        status=status,
        seconds=_number(element.get("time") or "0"),
        sim_time_ns=_number(sim_time),
        message=message.strip(),
        error_type=error_type.rpartition(".")[2],
    )


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no time")
    return value


def read_log(path: Path) -> list[str]:
    """Lines of a log without colour codes."""
    try:
        return _ANSI.sub("", path.read_text(errors="replace")).splitlines()
    except OSError:
        return []


def judge(
    finished: Finished,
    cases: tuple[CaseResult, ...],
    lines: list[str],
    expected: Sequence[str] = (),
) -> Verdict:
    """Decide on a simulation that ended, from its exit, its cases and its log.

    `expected` names tests, without parameters, each of which must have left a case.
    """
    assertion = _assertion(lines)
    if assertion is not None:
        return Verdict(False, FailureKind.ASSERTION, _short(assertion))
    if finished.timed_out:
        text = f"killed after {finished.seconds:.0f} s of wall-clock time"
        return Verdict(False, FailureKind.TIME_OUT, text)
    for case in cases:
        if case.status == "failed":
            return _failed_case(case, lines)
    if finished.returncode != 0:
        return Verdict(False, FailureKind.CRASH, _crash(finished, lines))
    if not any(case.status == "passed" for case in cases):
        died = _last_exception(lines)
        if not cases and died:
            return Verdict(False, FailureKind.CRASH, _short(died))
        text = "every test was skipped" if cases else "no test matched: nothing was run"
        return Verdict(False, FailureKind.NO_TEST, text)
    missing = [test for test in expected if not any(_is_case_of(case, test) for case in cases)]
    if missing:
        text = f"no result of {', '.join(missing)}: nothing of that name was run"
        return Verdict(False, FailureKind.NO_TEST, _short(text))
    return Verdict(True)


def _is_case_of(case: CaseResult, test: str) -> bool:
    """A test with parameters leaves a case for each of their values."""
    return case.name == test or case.name.startswith(f"{test}/")


def _assertion(lines: list[str]) -> str | None:
    for line in lines:
        named = _NAMED_ASSERT.search(line)
        if named:
            return f"{named['name']} in {named['where']}"
        plain = _PLAIN_ASSERT.search(line)
        if plain and "Verilog $stop" not in line:
            return f"{plain['text'].strip() or 'assertion'} at {plain['at']}"
    return None


def _failed_case(case: CaseResult, lines: list[str]) -> Verdict:
    message = case.message.strip()
    first = message.splitlines()[0] if message else _last_exception(lines) or "no message"
    text = _short(f"{case.error_type}: {first}" if case.error_type else first)
    if case.error_type in _TIME_OUTS or _TIME_OUT_TEXT.search(first):
        return Verdict(False, FailureKind.TIME_OUT, text)
    if case.error_type == "SimFailure":
        last = next((x.strip() for x in lines if _SIMULATOR_LINE.match(x)), "it said nothing")
        return Verdict(False, FailureKind.CRASH, _short(f"the simulation ended early: {last}"))
    if case.error_type in _BENCH_ERRORS:
        return Verdict(False, FailureKind.CRASH, text)
    return Verdict(False, FailureKind.MISMATCH, text)


def _crash(finished: Finished, lines: list[str]) -> str:
    died = _last_exception(lines)
    how = (
        f"signal {-finished.returncode}"
        if finished.returncode < 0
        else f"exit code {finished.returncode}"
    )
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    return _short(f"simulator ended with {how}: {died or last}")


def _last_exception(lines: list[str]) -> str | None:
    for line in reversed(lines):
        found = _TRACE_END.match(line)
        if found:
            return line.strip()
    return None


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _MAX_CAUSE else one_line[: _MAX_CAUSE - 3] + "..."
