# SPDX-License-Identifier: Apache-2.0
"""Writes what the records say: terminal summary, JUnit XML, JSON, one offline HTML page."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from scripts.paths import REPORT, shown
from scripts.records import RunRecord

# A cause may name its seed; failures are the same in spite of it.
_SEED = re.compile(r"\bseed \d+(?:, profile \w+)?: ")


def counts(records: Sequence[RunRecord]) -> tuple[int, int]:
    """(passed, failed) in test cases; a run that left no case counts as one."""
    passed = failed = 0
    for record in records:
        bad = sum(case.status == "failed" for case in record.cases)
        good = sum(case.status == "passed" for case in record.cases)
        if not record.passed and bad == 0:
            bad = 1
        passed, failed = passed + good, failed + bad
    return passed, failed


def summary(records: Sequence[RunRecord], seconds: float, expected: int) -> str:
    """The last lines in the terminal. `expected` runs were wanted; a missing one is named."""
    passed, failed = counts(records)
    lines: list[str] = []
    red = [r for r in records if not r.passed]
    if red:
        lines.append("failures by cause:")
        buckets = Counter((r.kind, _SEED.sub("", r.cause)) for r in red)
        for (kind, cause), number in buckets.most_common():
            lines.append(f"  {number} x {kind}: {cause}")
    if len(records) < expected:
        lines.append(f"interrupted: {expected - len(records)} of {expected} runs did not finish")
    lines.append(
        f"===== {passed} passed, {failed} failed in {seconds:.1f} s ({len(records)} runs) ====="
    )
    return "\n".join(lines)


def write_all(records: Sequence[RunRecord], title: str, folder: Path = REPORT) -> None:
    """Write results.json, junit.xml and index.html into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(records, key=lambda r: (r.passed, r.name, r.sim, r.seed))
    (folder / "results.json").write_text(json.dumps([r.to_json() for r in ordered], indent=1))
    write_junit(ordered, folder / "junit.xml")
    (folder / "index.html").write_text(to_html(ordered, title))


def write_junit(records: Sequence[RunRecord], path: Path) -> None:
    """JUnit XML: a suite a run, so that a simulator and a seed stay visible."""
    root = ElementTree.Element("testsuites", name="nf")
    for record in records:
        cases = record.cases
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=record.id,
            tests=str(max(1, len(cases))),
            failures=str(sum(c.status == "failed" for c in cases)),
            errors=str(int(not record.passed and not any(c.status == "failed" for c in cases))),
            time=f"{record.seconds:.3f}",
        )
        group = f"{record.name.partition('::')[0]}.{record.sim}.{record.build_name}.s{record.seed}"
        for case in cases:
            element = ElementTree.SubElement(
                suite, "testcase", classname=group, name=case.name, time=f"{case.seconds:.3f}"
            )
            if case.status == "failed":
                failure = ElementTree.SubElement(
                    element, "failure", message=record.cause, type=str(record.kind)
                )
                failure.text = f"{case.message}\nlog: {record.log}\nrerun: {record.rerun}"
            elif case.status == "skipped":
                ElementTree.SubElement(element, "skipped")
        if not record.passed and not any(c.status == "failed" for c in cases):
            element = ElementTree.SubElement(
                suite, "testcase", classname=group, name=record.name.partition("::")[2]
            )
            error = ElementTree.SubElement(
                element, "error", message=record.cause, type=str(record.kind)
            )
            error.text = f"log: {record.log}\nrerun: {record.rerun}"
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


_STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .25rem .5rem;
border-bottom: 1px solid #ccc; vertical-align: top; overflow-wrap: anywhere }
.fail { font-weight: bold } .fail td:first-child { border-left: .4rem solid #b00 }
code { font-size: 13px } td.n { text-align: right; white-space: nowrap }
"""


def to_html(records: Sequence[RunRecord], title: str) -> str:
    """One page without any outside reference; results are told by words, colour only helps."""
    passed, failed = counts(records)
    rows = "\n".join(_row(record) for record in records)
    verdict = "green" if records and not failed else "red"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{html.escape(title)}</h1>\n"
        f"<p>{verdict}: {passed} passed, {failed} failed, {len(records)} runs.</p>\n"
        "<table><thead><tr><th>result</th><th>test</th><th>simulator</th><th>build</th>"
        "<th>seed</th><th>time</th><th>cause</th></tr></thead><tbody>\n"
        f"{rows}\n</tbody></table></body></html>\n"
    )


def _row(record: RunRecord) -> str:
    word = "passed" if record.passed else f"failed ({record.kind})"
    cause = ""
    if not record.passed:
        cause = (
            f"{html.escape(record.cause)}<br><code>{html.escape(record.rerun)}</code>"
            f"<br><code>{html.escape(record.log)}</code>"
        )
    names = "<br>".join(html.escape(c.name) for c in record.cases) if len(record.cases) > 1 else ""
    detail = ""
    if names:
        detail = f"<details><summary>{len(record.cases)} tests</summary>{names}</details>"
    return (
        f'<tr class="{"pass" if record.passed else "fail"}"><td>{word}</td>'
        f"<td>{html.escape(record.name)}{detail}</td><td>{record.sim}</td>"
        f'<td>{html.escape(record.build_name)}</td><td class="n">{record.seed}</td>'
        f'<td class="n">{record.seconds:.1f} s</td><td>{cause}</td></tr>'
    )


def where(folder: Path = REPORT) -> str:
    """One line that tells where the reports lie."""
    return f"report: {shown(folder / 'index.html')} (also junit.xml, results.json)"
