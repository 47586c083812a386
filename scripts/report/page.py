# SPDX-License-Identifier: Apache-2.0
"""Report page: one HTML file that needs no network, server or JavaScript.

The template escapes every text. In addition the page's own policy forbids the browser to load
anything and to run any script but ours: a cause that looks like HTML stays text.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from urllib.parse import quote

from scripts.common.paths import ROOT
from scripts.coverage.places import KINDS
from scripts.report import functional, run_figures, source_page, trend
from scripts.report.document import Report
from scripts.report.outcome import Outcome, all_results, buckets, of_record
from scripts.report.templates import render, source

_STYLE, _SCRIPT = source("page.css"), source("page.js")
# Words and signs show the result; colour only helps.
_SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.FLAKY: "≈",
    Outcome.SKIPPED: "–",
}
_SLOWEST = 15


def text(report: Report, folder: Path) -> str:
    """Return the page, with links relative to its `folder`."""
    worst = list(Outcome)
    points = trend.comparable(report.history, report.invocation.title)
    before = points[-1].durations if points else {}
    now = trend.point(report.invocation, report.records)
    points = [*points, now][-trend.KEPT :]
    return render(
        "page.html.j2",
        link=lambda path: link(str(path), folder),
        sign=lambda outcome: f"{_SIGNS[outcome]} {outcome}",
        others=functional.others,
        span=span,
        report=report,
        style=_STYLE,
        script=_SCRIPT,
        policy=_policy(_STYLE, _SCRIPT),
        verdict=_verdict(report),
        tests=sorted(all_results(report.records), key=lambda one: worst.index(one.outcome)),
        red=[(of_record(r), r) for r in report.records if of_record(r) is not Outcome.PASSED],
        buckets=buckets(report.records),
        slow=_slow(now.durations, before),
        trend=points,
        figures=run_figures.lines(report.records),
        sims=sorted({str(record.sim) for record in report.records}),
        kinds=KINDS,
        source_page=source_page.NAME,
    )


def _verdict(report: Report) -> str:
    if report.green:
        return "✓ passed"
    if report.counts.failed or report.counts.flaky:
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
