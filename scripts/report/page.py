# SPDX-License-Identifier: Apache-2.0
"""Report page: one HTML file that needs no network, server or JavaScript.

The template escapes every text. In addition the page's own policy forbids the browser to load
anything and to run any script but ours: a cause that looks like HTML stays text.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections import deque
from pathlib import Path
from urllib.parse import quote

from scripts.common.paths import ROOT
from scripts.common.records import FailureKind, RunRecord
from scripts.coverage import functional_coverage
from scripts.coverage.places import KINDS
from scripts.report import metrics, source_page, trend
from scripts.report.failure_causes import buckets
from scripts.report.json_file import Report
from scripts.report.outcome import RED, Outcome, all_results, of_record
from scripts.report.picture import Picture
from scripts.report.templates import render, source

_STYLE, _SCRIPT = source("page.css"), source("page.js")
# Words and signs show the result; colour only helps.
_SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.FLAKY: "≈",
    Outcome.KNOWN: "!",
    Outcome.SKIPPED: "–",
}
_SLOWEST = 15
_LOG_LINES, _LOG_WIDTH = 10, 400  # lines of a log that are shown, and characters of each
_GAP = re.compile(r" {3,}")  # between the columns of cocotb, too wide for a card
_TIME = re.compile(r"\s*(\d+\.\d+)ns ")


def text(report: Report, folder: Path, picture: Picture | str | None = None) -> str:
    """Return the page.

    Args:
        report: data of the invocation.
        folder: folder of the page, to which its links are relative.
        picture: picture at its head, or the reason why it is missing; None: the page has none.
    """
    worst = list(Outcome)
    points = trend.comparable(report.history, report.invocation.title)
    before = points[-1].durations if points else {}
    now = trend.point(report.invocation, report.records)
    points = [*points, now][-trend.KEPT :]
    return render(
        "page.html.j2",
        link=lambda path: link(str(path), folder),
        sign=lambda outcome: f"{_SIGNS[outcome]} {outcome}",
        others=functional_coverage.others,
        span=span,
        report=report,
        picture=picture,
        style=_STYLE,
        script=_SCRIPT,
        policy=_policy(_STYLE, _SCRIPT),
        verdict=_verdict(report),
        tests=sorted(all_results(report.records), key=lambda one: worst.index(one.outcome)),
        red=[(of_record(r), r) for r in report.records if of_record(r) in RED],
        known=[r for r in report.records if r.known],
        buckets=buckets(report.records),
        slow=_slow(now.durations, before),
        end_of=log_end,
        FailureKind=FailureKind,
        trend=points,
        figures=metrics.lines(report.records),
        sims=sorted({str(record.sim) for record in report.records}),
        kinds=KINDS,
        source_page=source_page.NAME,
    )


def log_end(record: RunRecord) -> tuple[list[str], str]:
    """Return the last lines of the log of a run that timed out, and the simulated time reached.

    cocotb begins a line with the simulated time, and a run that its time limit ends logs one last
    line (`cocotb_private.prepare`). Lines after the one that names the failed test are left out:
    they are of other tests, or of cocotb's summary.
    """
    first = next((case.name for case in record.cases if case.status == "failed"), None)
    lines: deque[str] = deque(maxlen=_LOG_LINES)
    time = None
    try:
        with (ROOT / record.log).open(encoding="utf-8", errors="replace") as log:
            for line in filter(str.strip, log):
                lines.append(_GAP.sub("  ", line.strip())[:_LOG_WIDTH])
                time = _TIME.match(line) or time
                if first and line.rstrip().endswith(f".{first} failed"):
                    break
    except OSError as error:
        return [], f"unknown: the log cannot be read ({error.strerror})"
    if time is None:
        return [*lines], "unknown: no line of the log has a time"
    return [*lines], f"{float(time[1]):,.2f} ns, by the last line that has a time"


def _verdict(report: Report) -> str:
    if report.green:
        return "✓ passed"
    if report.counts.failed or report.counts.flaky or report.errors:
        return "✗ failed"
    return "✗ incomplete" if report.missing else "✗ nothing was run"


def _policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that allows only these two texts."""

    def digest(source: str) -> str:
        return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()

    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src 'sha256-{digest(style)}'; script-src 'sha256-{digest(script)}'"
    )


def link(path: str, folder: Path) -> str:
    """Return a path of a record (from the root, or absolute) as a relative, quoted URL."""
    return quote(os.path.relpath(ROOT / path, folder))


def span(seconds: float) -> str:
    """Return a duration as text: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _slow(
    now: dict[str, float], before: dict[str, float]
) -> list[tuple[str, float, float | None, str]]:
    """Return the slowest tests: name, seconds, seconds before, and the change beyond the noise."""
    out = []
    for name, seconds in sorted(now.items(), key=lambda item: (-item[1], item[0]))[:_SLOWEST]:
        old, change = before.get(name), ""
        if old is not None and old >= 0.1:
            percent = 100 * (seconds / old - 1)
            change = f"{percent:+.0f} %" if abs(percent) >= 1 else "same"
        out.append((name, seconds, old, change))
    return out
