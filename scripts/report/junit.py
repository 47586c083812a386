# SPDX-License-Identifier: Apache-2.0
"""JUnit XML for Jenkins (schema junit-10) and GitLab; the rules are in `scripts/schema/junit.xsd`.

A run is a suite, so that simulator, build and seed stay visible. A flaky test is a failure: most
readers show the format's own marks for it as green.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from scripts.common.records import RunRecord
from scripts.record.cause_key import key_of
from scripts.report.document import Report
from scripts.report.invocation import Invocation
from scripts.report.outcome import Outcome, Result, results

# Characters that XML 1.0 cannot contain, not even escaped; a log may contain them.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(report: Report) -> str:
    """Return the document. Missing runs are separate errors, so that CI sees them."""
    invocation, total = report.invocation, report.counts
    ended = report.missing == 0 and bool(report.records)
    root = ElementTree.Element(
        "testsuites",
        name=_clean(invocation.title),
        tests=str(total.passed + total.failed + total.flaky + total.skipped + (not ended)),
        failures=str(sum(_failures(record) for record in report.records)),
        errors=str(sum(_errors(record) for record in report.records) + (not ended)),
        time=f"{invocation.seconds:.3f}",
    )
    if not ended:
        _not_ended(root, report)
    for record in report.records:
        _suite(root, record, invocation)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _not_ended(root: ElementTree.Element, report: Report) -> None:
    said = f"{report.missing} of {report.invocation.expected} runs did not finish"
    if not report.missing:
        said = "nothing was run"
    suite = ElementTree.SubElement(
        root, "testsuite", name="nf", tests="1", failures="0", errors="1", time="0"
    )
    case = ElementTree.SubElement(suite, "testcase", classname="nf", name="every run", time="0")
    ElementTree.SubElement(case, "error", message=said, type="interrupted")


def _clean(value: str) -> str:
    return _ILLEGAL.sub("?", value)


def _failures(record: RunRecord) -> int:
    red = (Outcome.FAILED, Outcome.FLAKY)
    return sum(test.outcome in red and not test.whole_run for test in results(record))


def _errors(record: RunRecord) -> int:
    return sum(test.whole_run for test in results(record))


def _suite(root: ElementTree.Element, record: RunRecord, invocation: Invocation) -> None:
    found = results(record)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_clean(record.id),
        tests=str(len(found)),
        failures=str(_failures(record)),
        errors=str(_errors(record)),
        skipped=str(sum(test.outcome is Outcome.SKIPPED for test in found)),
        time=f"{record.seconds:.3f}",
        timestamp=invocation.started,
        hostname=_clean(invocation.host),
    )
    properties = ElementTree.SubElement(suite, "properties")
    facts = {
        "seed": str(record.seed),
        "simulator": str(record.sim),
        "build": record.build_name,
        **{f"parameter {name}": str(value) for name, value in record.parameters},
        "revision": invocation.revision,
        "log": record.log,
        "rerun": record.rerun,
        **({} if record.passed else {"cause key": key_of(record)[1]}),
    }
    for name, value in facts.items():
        ElementTree.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    for test in found:
        _case(suite, test)


def _case(suite: ElementTree.Element, test: Result) -> None:
    record = test.record
    element = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_clean(f"{test.module}.{record.sim}.{record.build_name}.s{record.seed}"),
        name=_clean(test.name),
        time=f"{test.seconds:.3f}",
    )
    if test.outcome is Outcome.SKIPPED:
        ElementTree.SubElement(element, "skipped")
    elif test.outcome is not Outcome.PASSED:
        kind = "flaky" if test.outcome is Outcome.FLAKY else str(record.kind)
        tag = "error" if test.whole_run else "failure"
        red = ElementTree.SubElement(element, tag, message=_clean(test.cause), type=_clean(kind))
        red.text = _clean(f"{test.message}\nlog: {record.log}\nrerun: {record.rerun}")
