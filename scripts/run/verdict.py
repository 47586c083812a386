# SPDX-License-Identifier: Apache-2.0
"""Reads what a simulation left behind and says in one line what went wrong.

The result file alone is not to be trusted: an SVA that fires ends the simulator before cocotb can
name it, and a filter that matches nothing leaves an empty file and exit code 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from neuron_fabric.data import DataError, read_bytes, read_json
from neuron_fabric.typed import typed
from scripts.build import registry
from scripts.common.paths import ROOT
from scripts.common.process import Finished
from scripts.common.records import CaseResult, FailureKind, Verdict
from scripts.record.cause_key import normalised
from scripts.run import tracebacks
from verif.scoreboard.finding import KEY_LINE, link_rule

_NAMED_ASSERT = re.compile(r"\[ASSERT FAILED\]\s*(?P<where>[^\s:]+):\s*\"?(?P<name>\w+)")
_PLAIN_ASSERT = r"(?:{}):\s*(?P<at>[^\s:]+:\d+)(?::\d+)?:\s*(?:Assertion failed in )?(?P<text>.*)"
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
_ENDED = "ended by its time limit: "
# A second run would end in the same way: at the limit again, or with nothing to look at in waves.
_UNLOADABLE = ("SyntaxError", "IndentationError", "TabError", "ImportError", "ModuleNotFoundError")
_NOTHING_TO_SEE = (_ENDED, *(f"{name} at " for name in (*_UNLOADABLE, "BdbQuit", "EOFError")))
_SYNTAX_PLACE = re.compile(r" \([^()]+, line \d+\)$")  # it stands behind every cause
# What ends a run on purpose, in words; {} is what it said.
_ENDINGS = {
    "BdbQuit": "a debugger ended the test: a run has no terminal for breakpoint() and pdb",
    "SystemExit": "the test was ended by sys.exit({})",
    "KeyboardInterrupt": "the test was ended by a KeyboardInterrupt",
}
_NOT_BEGUN = "Test initialization failed"
_READ_EOF = "EOFError: EOF when reading a line"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RUNNING = re.compile(
    r"cocotb\.regression +(?:running|Failed to initialize) (?P<test>\S+?)!? \(\d+/\d+\)"
)
_SIMULATOR_LINE = r"(?:{}|\S+:\d+: |[A-Z]+: )"
_MAX_CAUSE = 600
_TRUTH = re.compile(r"(?:not )?(?:False|True|None|0|1)")


def read_results(path: Path, bench: Path = ROOT) -> tuple[CaseResult, ...] | None:
    """Test cases of a cocotb result file; None when it is missing or broken.

    `bench` is the folder that places in the bench are shown relative to.
    """
    try:
        root = ElementTree.fromstring(read_bytes(path))
        return tuple(_case(element, bench) for element in root.iter("testcase"))
    except (OSError, ElementTree.ParseError, ValueError, LookupError, RecursionError):
        return None  # no XML, a coding that Python does not know, a time that is no number


def _case(element: ElementTree.Element, bench: Path) -> CaseResult:
    status, message, error_type, place = "passed", "", "", ""
    for child in element:
        if child.tag in ("failure", "error"):
            status = "failed"
            message = child.get("message") or child.get("error_msg") or ""
            error_type = child.get("type") or child.get("error_type") or ""
            place = tracebacks.place(child.text or "", bench)
        elif child.tag == "skipped" and child.get("type") != "xfail":
            status = "skipped"
    properties = {p.get("name"): p.get("value") for p in element.iter("property") if p.get("name")}
    sim_time = properties.get("sim_time_duration") or element.get("sim_time_ns") or "0"
    said = message.strip().splitlines()
    return CaseResult(
        name=element.get("name", "?"),
        status=status,
        seconds=_number(element.get("time") or "0"),
        sim_time_ns=_number(sim_time),
        message="\n".join(line for line in said if not line.startswith(KEY_LINE)),
        error_type=error_type.rpartition(".")[2],
        cause_key=next((x.removeprefix(KEY_LINE) for x in said if x.startswith(KEY_LINE)), ""),
        place=place,
    )


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no time")
    return value


def read_log(path: Path) -> list[str]:
    """Lines of a log without colour codes."""
    try:
        return _ANSI.sub("", path.read_text(errors="replace", encoding="utf-8")).splitlines()
    except OSError:
        return []


def judge(
    finished: Finished,
    cases: tuple[CaseResult, ...] | None,
    lines: list[str],
    expected: Sequence[str] = (),
    bench: Path = ROOT,
) -> Verdict:
    """Decide on a simulation that ended, from its exit, its cases and its log.

    `expected` names tests, without parameters, each of which must have left a case; `bench` is as
    in `read_results`.
    """
    assertion = _assertion(lines)
    if assertion is not None:
        return _verdict(FailureKind.ASSERTION, assertion)
    if finished.timed_out:
        why = finished.why or f"took {finished.seconds:.0f} s"
        return _verdict(FailureKind.TIME_OUT, f"{_ENDED}it {why}")
    for case in cases or ():
        if case.status == "failed":
            return _failed_case(case, lines, bench)
    if finished.returncode != 0 or cases is None:
        return _crash(finished, lines, bench)
    if not any(case.status == "passed" for case in cases):
        text = "every test was skipped" if cases else "no test matched: nothing was run"
        return _verdict(FailureKind.NO_TEST, text)
    missing = [test for test in expected if not any(_is_one_of(c.name, [test]) for c in cases)]
    if missing:
        text = f"no result of {', '.join(missing)}: nothing of that name was run"
        return _verdict(FailureKind.NO_TEST, text)
    return Verdict(True)


def read_names(path: Path) -> tuple[str, ...] | None:
    """The tests that cocotb has registered in a run; None if the list is missing or broken."""
    try:
        return typed(tuple[str, ...], read_json(path))
    except (OSError, DataError):
        return None


def as_registered(
    registered: Sequence[str] | None,
    planned: Sequence[str] | None,
    expected: Sequence[str],
    cases: Sequence[CaseResult],
) -> Verdict:
    """Compare the tests that cocotb registered with those that were planned, and those of them
    that were to run with the results. `planned` is None if the module belongs to no testplan."""
    if registered is None:
        return _verdict(FailureKind.NO_TEST, "cocotb left no list of the tests that it registered")
    due = [name for name in registered if not expected or _is_one_of(name, expected)]
    pairs = (
        ("cocotb registered {}, which the plan does not know", registered, planned),
        ("cocotb did not register {}, which the plan knows", planned, registered),
        ("no result of {}, which cocotb registered", due, [case.name for case in cases]),
        ("a result of {}, which was not to run", [case.name for case in cases], due),
    )
    for text, names, others in pairs:
        if names is not None and others is not None:
            surplus = list((Counter(names) - Counter(others)).elements())
            if surplus:
                shown = ", ".join(surplus[:3]) + (
                    f" and {len(surplus) - 3} more" if surplus[3:] else ""
                )
                return _verdict(FailureKind.NO_TEST, text.format(shown))
    return Verdict(True)


def worth_a_rerun(key: str) -> bool:
    """False where a run with waves would show nothing (the bench does not load, or pdb ends it), or
    would take until its time limit again."""
    return not key.startswith(_NOTHING_TO_SEE)


def _verdict(kind: FailureKind, text: str, key: str = "", place: str = "") -> Verdict:
    """The text in one line, cut if need be, but never its place; the key of the whole text."""
    end = f" ({place})" if place else ""
    one_line = " ".join(text.split())
    room = _MAX_CAUSE - len(end)
    short = one_line if len(one_line) <= room else one_line[: room - 3] + "..."
    return Verdict(False, kind, short + end, key or normalised(one_line))


def _is_one_of(name: str, tests: Sequence[str]) -> bool:
    """A test with parameters leaves a case for each of their values."""
    return any(name == test or name.startswith(f"{test}/") for test in tests)


def _assertion(lines: list[str]) -> str | None:
    simulators = registry.simulators()
    severities = [word for simulator in simulators for word in simulator.severities]
    plain_assert = re.compile(_PLAIN_ASSERT.format("|".join(severities)))
    for line in lines:
        named = _NAMED_ASSERT.search(line)
        if named:
            return f"{named['name']} in {named['where']}"
        plain = plain_assert.search(line)
        if plain and not any(one.says_nothing(line) for one in simulators):
            return f"{plain['text'].strip() or 'assertion'} at {plain['at']}"
    return None


def _failed_case(case: CaseResult, lines: list[str], bench: Path) -> Verdict:
    first = case.message.splitlines()[0] if case.message else ""
    lines = _lines_of(case, lines)
    ended = tracebacks.last_exception(lines, bench)
    if any(line.strip() == "bdb.BdbQuit" for line in lines):  # in a task, or given another name
        return _died("BdbQuit", case.place, lines, bench)
    if case.error_type == "SimFailure" and ended[0].partition(":")[0] in _ENDINGS:
        return _died(*ended, lines, bench)
    if case.cause_key:
        return _verdict(FailureKind.MISMATCH, first, case.cause_key)
    if case.error_type == "SimFailure":
        starts = "|".join(simulator.message_start for simulator in registry.simulators())
        own = re.compile(_SIMULATOR_LINE.format(starts))
        last = next((x.strip() for x in lines if own.match(x)), "")
        last = last or "$finish, no event left, or sys.exit() in a task that the test awaits"
        return _verdict(FailureKind.CRASH, f"the simulation ended early: {last}")
    if not first and not case.error_type:
        first = ended[0] or "no message"
    text = ": ".join(filter(None, (case.error_type, first)))
    if first == _NOT_BEGUN:  # no coroutine, or with other parameters
        return _died(ended[0] or first, case.place, lines, bench)
    if case.error_type in _TIME_OUTS or _TIME_OUT_TEXT.search(first):
        return _verdict(FailureKind.TIME_OUT, text)
    if case.error_type in _BENCH_ERRORS or case.error_type in _ENDINGS:
        return _died(text, case.place, lines, bench)
    # What an assertion without a text of its own shows are values; its place tells what it checks.
    bare = case.place and (not first or first.startswith("assert "))
    key = f"{case.error_type} at {case.place}" if bare else link_rule(first) or normalised(text)
    return _verdict(FailureKind.MISMATCH, text + _values(case.message), key, case.place)


def _values(message: str) -> str:
    """What the rewritten assertion says behind a text of its own; of a mere truth value also where
    it comes from. "" without a text: then the assertion is the first line already."""
    text, mark, values = message.partition("\nassert ")
    if not mark or text.startswith("assert "):
        return ""
    line, _, where = values.partition("\n")
    return f"; assert {values if where and _TRUTH.fullmatch(line) else line}"


def _lines_of(case: CaseResult, lines: list[str]) -> list[str]:
    """The part of a log that one test wrote; all of it if its begin is not found."""
    begins = [(n, found["test"]) for n, x in enumerate(lines) if (found := _RUNNING.search(x))]
    for number, (first, test) in enumerate(begins):
        if test.endswith(f".{case.name}"):
            return lines[first : begins[number + 1][0] if begins[number + 1 :] else None]
    return lines


def _died(exception: str, place: str, lines: list[str], bench: Path) -> Verdict:
    """The bench raised what no checker raises: a fault of its own, or an order to end."""
    kind, _, said = exception.partition(": ")
    kind = kind.rpartition(".")[2]
    if kind == "BdbQuit":
        place = tracebacks.place_of_debugger(lines, bench) or place
    key = f"{kind} at {place}" if place else ""
    text = _ENDINGS[kind].format(said) if kind in _ENDINGS else exception
    if exception == _READ_EOF:
        text = "the test read from standard input: a run has no terminal"
    text = _SYNTAX_PLACE.sub("", text) if place else text
    return _verdict(FailureKind.CRASH, text, key, place)


def _crash(finished: Finished, lines: list[str], bench: Path) -> Verdict:
    """The simulator left no results, or ended badly after them."""
    how = (
        f"signal {-finished.returncode}"
        if finished.returncode < 0
        else f"exit code {finished.returncode}"
    )
    begins = [number for number, line in enumerate(lines) if _RUNNING.search(line)]
    # Earlier tests of the process are over, whatever they raised.
    exception, place = tracebacks.last_exception(lines[begins[-1] if begins else 0 :], bench)
    if exception and finished.returncode >= 0:
        return _died(exception, place, lines, bench)
    running = [found["test"] for found in map(_RUNNING.search, lines) if found]
    if finished.returncode == 0:
        where = f"in {running[-1]}" if running else "while the tests were loaded"
        text = f"the simulator ended {where} without results: did the bench call exit?"
        return _verdict(FailureKind.CRASH, text)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    text = f"simulator ended with {how}: {exception or last}"
    return _verdict(FailureKind.CRASH, text, place=place)
