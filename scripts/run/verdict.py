# SPDX-License-Identifier: Apache-2.0
"""Verdict of a simulation from its exit code, result file, log and tracebacks.

The result file alone is not reliable: an SVA assertion that fires ends the simulator before cocotb
can name it, and a filter that matches no test leaves an empty file and exit code 0. A cause is one
line; its key is equal for all runs that fail for this cause. Places are `file:line`, relative to
the root of the design and its testbench, so that they are the same on every machine.
"""

from __future__ import annotations

import builtins
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from neuron_fabric.data import read_bytes
from scripts.build import registry
from scripts.common.cause_key import normalised
from scripts.common.paths import ROOT, shown
from scripts.common.process import Finished
from scripts.common.records import CaseResult, FailureKind, Verdict
from verif.scoreboard.finding import KEY_LINE, link_rule

_NAMED_ASSERT = re.compile(r"\[ASSERT FAILED\]\s*(?P<where>[^\s:]+):\s*\"?(?P<name>\w+)")
_PLAIN_ASSERT = r"(?:{}):\s*(?P<at>[^\s:]+:\d+)(?::\d+)?:\s*(?:Assertion failed in )?(?P<text>.*)"
_TIME_OUTS = ("SimTimeoutError", "TimeoutError")
_TIME_OUT_TEXT = re.compile(r"\btime[d]?[ -]?out\b", re.IGNORECASE)
# Exceptions that no checker raises on purpose: the bench itself is faulty.
_LOADING = ("ImportError", "IndentationError", "ModuleNotFoundError", "SyntaxError")
_BUILT_IN = {name for name, one in vars(builtins).items() if isinstance(one, type)}
_UVM = {"UVMConfigItemNotFound", "UVMFactoryError"}
_BENCH_ERRORS = {*_BUILT_IN, *_UVM} - {"AssertionError", "Exception", *_TIME_OUTS}
_ENDED = "ended by its time limit: "
# Keys of failures whose second run would end in the same way, without any waves of interest.
_NOTHING_TO_SEE = (
    _ENDED,
    *(f"{name} at " for name in (*_LOADING, "TabError", "BdbQuit", "EOFError")),
)
_SYNTAX_PLACE = re.compile(r" \([^()]+, line \d+\)$")  # redundant: every cause ends with its place
# Exceptions that end a run on purpose; {} is the message of the exception.
_ENDINGS = {
    "BdbQuit": "a debugger ended the test; `nf run --pdb` gives breakpoint() and pdb a terminal",
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
_FRAME = re.compile(r'^[\s|]*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# Position of pdb: the traceback of its end does not always hold the line of the breakpoint.
_PDB = re.compile(r"^> (?P<file>.+)\((?P<line>\d+)\)\S*\(\)", re.MULTILINE)
# Python's own library, installed packages, and code without a file.
_FOREIGN = re.compile(r"^<|/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/")
_CHAINED = re.compile(r"^.*(?:another exception occurred|cause of the following exception):$", re.M)
_EXCEPTION = re.compile(
    r"^\s*(?P<text>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|BdbQuit|SystemExit)(?:: .*)?)$"
)
_TRACEBACK = "Traceback (most recent call last):"


# ---- reading


def read_results(path: Path, bench: Path = ROOT) -> tuple[CaseResult, ...] | None:
    """Read the test cases of a cocotb result file.

    Args:
        path: The XML file.
        bench: Folder that places in the testbench are shown relative to.

    Returns:
        The cases; None when the file is missing or damaged (no XML, an unknown encoding, a time
        that is not a number).
    """
    try:
        root = ElementTree.fromstring(read_bytes(path))
        return tuple(_case(element, bench) for element in root.iter("testcase"))
    except (OSError, ElementTree.ParseError, ValueError, LookupError, RecursionError):
        return None


def _case(element: ElementTree.Element, bench: Path) -> CaseResult:
    status, message, error_type, place = "passed", "", "", ""
    for child in element:
        if child.tag in ("failure", "error"):
            status = "failed"
            message, error_type = child.get("message") or "", child.get("type") or ""
            place = place_of_trace(child.text or "", bench)
        elif child.tag == "skipped":
            status = "skipped"
    properties = {one.get("name"): one.get("value") for one in element.iter("property")}
    said = message.strip().splitlines()
    return CaseResult(
        name=element.get("name", "?"),
        status=status,
        seconds=_number(element.get("time") or "0"),
        sim_time_ns=_number(properties.get("sim_time_duration") or "0"),
        message="\n".join(line for line in said if not line.startswith(KEY_LINE)),
        error_type=error_type.rpartition(".")[2],
        cause_key=next((x.removeprefix(KEY_LINE) for x in said if x.startswith(KEY_LINE)), ""),
        place=place,
    )


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a time")
    return value


def read_log(path: Path) -> list[str]:
    """Return the lines of a log without colour codes; [] if it cannot be read."""
    try:
        return _ANSI.sub("", path.read_text(errors="replace", encoding="utf-8")).splitlines()
    except OSError:
        return []


# ---- judging


def judge(
    finished: Finished,
    cases: tuple[CaseResult, ...] | None,
    lines: list[str],
    expected: Sequence[str] = (),
    bench: Path = ROOT,
) -> Verdict:
    """Return the verdict on a simulation that has ended.

    The order matters: an assertion of the RTL explains a crash, a time limit explains missing
    results, and a failed case explains a non-zero exit code.

    Args:
        finished: How the process ended.
        cases: As `read_results` returns them.
        lines: The log.
        expected: Tests, without parameters, each of which must have left a case.
        bench: As in `read_results`.
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


def with_keys(
    cases: Iterable[CaseResult], lines: list[str], bench: Path = ROOT
) -> tuple[CaseResult, ...]:
    """Return the cases, each failed one with the key of its cause; arguments as of `judge`."""
    return tuple(
        replace(one, cause_key=_failed_case(one, lines, bench).key)
        if one.status == "failed"
        else one
        for one in cases
    )


def as_registered(
    registered: Sequence[str] | None,
    planned: Sequence[str] | None,
    expected: Sequence[str],
    cases: Sequence[CaseResult],
) -> Verdict:
    """Return a verdict that fails if tests are missing or unexpected.

    Registered tests are compared with planned ones, and results with the tests that were to run.

    Args:
        registered: Names that cocotb registered; None when it left no list.
        planned: Names that discovery knows; None if the module belongs to no testplan.
        expected: Tests that were to run; empty means all.
        cases: Results of the run.
    """
    if registered is None:
        return _verdict(FailureKind.NO_TEST, "cocotb left no list of the tests that it registered")
    due = [name for name in registered if not expected or _is_one_of(name, expected)]
    results = [case.name for case in cases]
    pairs = (
        ("cocotb registered {}, which the plan does not know", registered, planned),
        ("cocotb did not register {}, which the plan knows", planned, registered),
        ("no result of {}, which cocotb registered", due, results),
        ("a result of {}, which was not to run", results, due),
    )
    for text, names, others in pairs:
        if names is None or others is None:
            continue
        if surplus := list((Counter(names) - Counter(others)).elements()):
            more = f" and {len(surplus) - 3} more" if surplus[3:] else ""
            return _verdict(FailureKind.NO_TEST, text.format(", ".join(surplus[:3]) + more))
    return Verdict(True)


def worth_a_rerun(key: str) -> bool:
    """Return whether a repetition with waves may show more of a failure with this cause key.

    It does not if the testbench does not load, a debugger ended it, or it ran into its time limit.
    """
    return not key.startswith(_NOTHING_TO_SEE)


def _verdict(kind: FailureKind, text: str, key: str = "", place: str = "") -> Verdict:
    """Make a failed verdict with the cause in one line.

    A long text is cut, its place never. Without a key, the key is made of the whole text.
    """
    end = f" ({place})" if place else ""
    one_line = " ".join(text.split())
    room = _MAX_CAUSE - len(end)
    short = one_line if len(one_line) <= room else one_line[: room - 3] + "..."
    return Verdict(False, kind, short + end, key or normalised(one_line))


def _is_one_of(name: str, tests: Sequence[str]) -> bool:
    """Return whether the name of a case is one of the tests, or a test with parameter values."""
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
    ended = last_exception(lines, bench)
    if any(line.strip() == "bdb.BdbQuit" for line in lines):  # in a task, or under another name
        return _died("BdbQuit", case.place, lines, bench)
    if case.error_type == "SimFailure":
        return _ended_early(case, first, ended, lines, bench)
    if case.cause_key:
        return _verdict(FailureKind.MISMATCH, first, case.cause_key)
    if not first and not case.error_type:
        first = ended[0] or "no message"
    text = ": ".join(filter(None, (case.error_type, first)))
    if first == _NOT_BEGUN:  # not a coroutine, or with other parameters
        return _died(ended[0] or first, case.place, lines, bench)
    if case.error_type in _TIME_OUTS or _TIME_OUT_TEXT.search(first):
        return _verdict(FailureKind.TIME_OUT, text)
    if case.error_type in _BENCH_ERRORS or case.error_type in _ENDINGS:
        return _died(text, case.place, lines, bench)
    # An assertion without a message shows values only; its place identifies it.
    bare = case.place and (not first or first.startswith("assert "))
    key = f"{case.error_type} at {case.place}" if bare else link_rule(first) or normalised(text)
    return _verdict(FailureKind.MISMATCH, text + _values(case.message), key, case.place)


def _ended_early(
    case: CaseResult, first: str, ended: tuple[str, str], lines: list[str], bench: Path
) -> Verdict:
    """Return the verdict for cocotb's SimFailure: the simulation ended before the test did."""
    if ended[0].partition(":")[0] in _ENDINGS:
        return _died(*ended, lines, bench)
    if case.cause_key:
        return _verdict(FailureKind.MISMATCH, first, case.cause_key)
    starts = "|".join(simulator.message_start for simulator in registry.simulators())
    own = re.compile(_SIMULATOR_LINE.format(starts))
    last = next((x.strip() for x in lines if own.match(x)), "")
    last = last or "$finish, no event left, or sys.exit() in a task that the test awaits"
    return _verdict(FailureKind.CRASH, f"the simulation ended early: {last}")


def _values(message: str) -> str:
    """Return the values that a rewritten assertion shows after its message; "" without a message.

    For a mere truth value (`assert False`), pytest's explanation of its origin is added.
    """
    text, mark, values = message.partition("\nassert ")
    if not mark or text.startswith("assert "):
        return ""
    line, _, where = values.partition("\n")
    return f"; assert {values if where and _TRUTH.fullmatch(line) else line}"


def _lines_of(case: CaseResult, lines: list[str]) -> list[str]:
    """Return the log lines that one test wrote; all lines if its start is not found."""
    begins = [(n, found["test"]) for n, x in enumerate(lines) if (found := _RUNNING.search(x))]
    for number, (first, test) in enumerate(begins):
        if test.endswith(f".{case.name}"):
            return lines[first : begins[number + 1][0] if begins[number + 1 :] else None]
    return lines


def _died(exception: str, place: str, lines: list[str], bench: Path) -> Verdict:
    """Return the verdict for an exception that no checker raises: a testbench fault or an exit."""
    kind, _, said = exception.partition(": ")
    kind = kind.rpartition(".")[2]
    if kind == "BdbQuit":
        place = place_of_debugger(lines, bench) or place
    key = f"{kind} at {place}" if place else ""
    text = _ENDINGS[kind].format(said) if kind in _ENDINGS else exception
    if exception == _READ_EOF:
        text = "the test read from standard input: a run has no terminal"
    text = _SYNTAX_PLACE.sub("", text) if place else text
    return _verdict(FailureKind.CRASH, text, key, place)


def _crash(finished: Finished, lines: list[str], bench: Path) -> Verdict:
    """Return the verdict for a simulator without results, or with a bad exit code after them."""
    code = finished.returncode
    begins = [number for number, line in enumerate(lines) if _RUNNING.search(line)]
    # Earlier tests of the process are over, so their exceptions explain nothing.
    exception, place = last_exception(lines[begins[-1] if begins else 0 :], bench)
    if exception and code >= 0:
        return _died(exception, place, lines, bench)
    running = [found["test"] for found in map(_RUNNING.search, lines) if found]
    if code == 0:
        where = f"in {running[-1]}" if running else "while the tests were loaded"
        text = f"the simulator ended {where} without results: did the bench call exit?"
        return _verdict(FailureKind.CRASH, text)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    text = f"simulator ended with {how}: {exception or last}"
    return _verdict(FailureKind.CRASH, text, place=place)


# ---- tracebacks


def place_of_trace(trace: str, root: Path = ROOT) -> str:
    """Return "file:line" of the innermost testbench frame in a traceback; "" without one.

    Of chained exceptions the last one with such a frame counts.
    """
    for part in reversed(_CHAINED.split(trace)):
        own = [f for f in _FRAME.finditer(part) if not _FOREIGN.search(f["file"])]
        if own:
            return _shown(own[-1], root)
    return ""


def place_of_debugger(lines: Sequence[str], root: Path = ROOT) -> str:
    """Return "file:line" where pdb last waited for a command; "" when it never did."""
    found = list(_PDB.finditer("\n".join(lines)))
    return _shown(found[-1], root) if found else ""


def _shown(found: re.Match[str], root: Path) -> str:
    path = Path(found["file"])
    inside = path.is_relative_to(root)
    return f"{path.relative_to(root) if inside else shown(path)}:{found['line']}"


def last_exception(lines: Sequence[str], root: Path = ROOT) -> tuple[str, str]:
    """Return the last exception in a log ("KIND: TEXT") and its "file:line"; else ("", "")."""
    for number in range(len(lines) - 1, -1, -1):
        found = _EXCEPTION.match(lines[number])
        if found:
            begins = [i for i in range(number) if lines[i].strip() == _TRACEBACK]
            first = begins[-1] if begins else number
            return found["text"], place_of_trace("\n".join(lines[first:number]), root)
    return "", ""
