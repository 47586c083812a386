# SPDX-License-Identifier: Apache-2.0
"""The page of a run: one HTML file, no script, nothing from outside (spec: runtime section 4.4).

It is well-formed XML too, so that a test without a browser can tell that nothing is broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from neuron_fabric.errors import one_line
from neuron_fabric.monitor.chart import Axes, short, spread, thinned
from neuron_fabric.monitor.consensus import least_of
from neuron_fabric.monitor.log import Segment, Step, bytes_by_route, last_run, loss_off, reason
from neuron_fabric.monitor.states import Decision, Mode, Status

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = Path(__file__).with_name("page.css")
_BARS = 160
_MOST_ROWS = 2000


def page(segments: Sequence[Segment]) -> str:
    """The page of the last run of a log."""
    parts = last_run(segments)
    first, last = parts[0].run, parts[-1]
    steps = [step for part in parts for step in part.steps]
    decisions = [one for part in parts for one in part.decisions]
    title = _text(first.profile or "a run")
    ends = (steps[0].step, steps[-1].step + 1) if steps else (0, 1)
    body = [
        f"<h1>{title}</h1>",
        _numbers(parts, steps, decisions),
        _section("Loss and states", _loss(steps, ends), _legend()),
        _section("Sampled cosines", _cosines(parts, decisions, ends)),
        _section("Agreement of the worker that agrees least", _agreements(parts, ends)),
        _section("Bytes a step, by route", _bytes(steps, ends)),
        _section("Decisions", _decisions(decisions)),
        _section("About", _about(last)),
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            '<meta name="color-scheme" content="light dark"/>',
            f"<title>{title}</title>",
            f"<style>{_STYLE.read_text(encoding='utf-8')}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>\n",
        ]
    )


def _numbers(parts: Sequence[Segment], steps: list[Step], decisions: list[Decision]) -> str:
    run = parts[-1].run
    modes = Counter(step.mode for step in steps)
    falls = sum(one.target == Mode.FALLBACK for one in decisions)
    words = [
        f"<b>{len(steps):,}</b> steps",
        f"<b>{run.world}</b> ranks",
        f"<b>{len(run.plan.regions)}</b> regions, {len(run.plan.eligible)} may be low-bit",
        f"<b>{falls}</b> fallbacks",
        *(f"{_text(mode)} <b>{100 * n / len(steps):.1f} %</b>" for mode, n in modes.items()),
    ]
    ended = parts[-1].end
    note = "" if ended in (None, "closed") else f"<p><b>Ended: {_text(ended)}</b></p>"
    spans = "".join(f"<span>{one}</span>" for one in words)
    return f'<p class="numbers">{spans}</p>{note}'


def _section(title: str, *parts: str) -> str:
    return "\n".join([f"<section><h2>{title}</h2>", *parts, "</section>"])


def _loss(steps: list[Step], ends: tuple[int, int]) -> str:
    if not steps:
        return '<p class="hint">No step was recorded.</p>'
    points = [(float(one.step), one.loss) for one in steps if one.loss is not None]
    height = 230.0 if points else 70.0
    axes = Axes(ends, spread([loss for _, loss in points]), height=height, scale=bool(points))
    bands = [
        axes.band(a, b, mode, mode) for mode, a, b in runs_of((one.step, one.mode) for one in steps)
    ]
    line = axes.line(thinned(points), "loss")
    none = "" if points else '<p class="hint">No loss was observed: its signals were off.</p>'
    label = "loss by step, states as bands" if points else "states by step"
    return f"<figure>{axes.draw(label, *bands, line)}</figure>{none}"


def runs_of(values: Iterable[tuple[int, str]]) -> list[tuple[str, int, int]]:
    """Stretches of steps with one value: it, its first step, and the step behind its last."""
    out = []
    for value, group in groupby(values, key=lambda one: one[1]):
        numbers = [step for step, _ in group]
        out.append((value, numbers[0], numbers[-1] + 1))
    return out


def _legend() -> str:
    return _keys([(mode, mode) for mode in Mode])


def _keys(names: Iterable[tuple[str, str]]) -> str:
    spans = "".join(
        f'<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="{kind}" '
        f'width="10" height="10"/></svg> {_text(name)}</span>'
        for kind, name in names
    )
    return f'<p class="legend">{spans}</p>'


def _cosines(parts: Sequence[Segment], decisions: list[Decision], ends: tuple[int, int]) -> str:
    run = parts[-1].run
    limits = run.plan.limits
    out = []
    for region in run.plan.regions:
        points = [
            (float(step), cosines[region.name])
            for part in parts
            for step, cosines in part.samples
            if region.name in cosines
        ]
        if not points:
            continue
        low = min(0.0, *(value for _, value in points))
        axes = Axes(ends, (low, 1.0), 400.0, 170.0, ticks=4)
        bands = [
            axes.band(a, b, status, status)
            for status, a, b in statuses(region.name, decisions, ends)
        ]
        drawn = axes.draw(
            f"cosine of {region.name}",
            *bands,
            axes.level(limits.drop, "drop", f"drop {limits.drop:g}"),
            axes.level(limits.floor, "floor", f"at once {limits.floor:g}"),
            axes.level(limits.good, "good", f"good {limits.good:g}", left=True),
            axes.line(thinned(points, 300), "cosine"),
            axes.dots(thinned(points, 120), "cosine", "cosine"),
        )
        name = f"<h3>{_text(region.name)}</h3>"
        about = f'<p class="hint">{region.elements:,} elements, last {points[-1][1]:.3f}</p>'
        out.append(f"<div>{name}{about}<figure>{drawn}</figure></div>")
    if not out:
        return '<p class="hint">Nothing was sampled.</p>'
    return f'<div class="many">{"".join(out)}</div>' + _keys([(one, one) for one in Status])


def _agreements(parts: Sequence[Segment], ends: tuple[int, int]) -> str:
    limits, out = parts[-1].run.plan.limits, []
    for region in parts[-1].run.plan.regions:
        points, whose = [], -1
        for part in parts:
            name = f"{region.name}.agreement"
            if name not in part.run.fields:
                continue
            at = part.run.fields.index(name)
            for step in part.steps:
                value, worker = least_of(step.vector[at])
                if value is not None:
                    points.append((float(step.step), value))
                    whose = worker
        if not points:
            continue
        values = [value for _, value in points]
        low = min(-2 * limits.against_in, *values)
        axes = Axes(ends, (low, max(2 * limits.against_in, *values)), 400.0, 170.0, ticks=4)
        drawn = axes.draw(
            f"least agreement of {region.name}",
            axes.level(-limits.against_in, "drop", f"against {-limits.against_in:g}"),
            axes.line(thinned(points, 300), "cosine"),
        )
        about = f'<p class="hint">last {values[-1]:.3f}, worker {whose}</p>'
        name = f"<h3>{_text(region.name)}</h3>"
        out.append(f"<div>{name}{about}<figure>{drawn}</figure></div>")
    none = '<p class="hint">No votes were compared.</p>'
    return f'<div class="many">{"".join(out)}</div>' if out else none


def statuses(
    region: str, decisions: Iterable[Decision], ends: tuple[int, int]
) -> list[tuple[str, int, int]]:
    """States of a region over a run. A FALLBACK of the job puts all that are low into FP32."""
    out: list[tuple[str, int, int]] = []
    now, since = str(Status.FP32), ends[0]
    for one in decisions:
        fell = not one.region and one.target in (Mode.FALLBACK, Mode.LOCKED_FP32)
        target = one.target if one.region == region and one.target in list(Status) else now
        if fell and now in (Status.LOW, Status.PROBE):
            target = Status.FP32
        if target != now:
            out.append((now, since, one.step + 1))
            now, since = str(target), one.step + 1
    return [one for one in [*out, (now, since, ends[1])] if one[2] > one[1]]


def _bytes(steps: list[Step], ends: tuple[int, int]) -> str:
    """What rank 0 sent and what it received, a chart each, to one scale."""
    total = bytes_by_route(steps)
    routes = list(total)
    if not any(map(sum, total.values())):
        return '<p class="hint">No bytes were counted.</p>'
    size = max(1, -(-len(steps) // _BARS))
    parts = [steps[at : at + size] for at in range(0, len(steps), size)]
    means = [
        [
            {
                route: sum(one.bytes.get(route, (0, 0))[way] for one in part) / len(part)
                for route in routes
            }
            for part in parts
        ]
        for way in range(2)
    ]
    most = max(sum(sums.values()) for way in means for sums in way)
    axes = Axes(ends, (0.0, most * 1.05), height=160.0)
    figures = []
    for name, way in zip(("sent", "received"), means, strict=True):
        drawn = []
        for part, sums in zip(parts, way, strict=True):
            first, last, low = part[0].step, part[-1].step, 0.0
            for number, route in enumerate(routes):
                what = f"steps {first} to {last}: {short(sums[route])}B a step {name}, {route}"
                high = low + sums[route]
                drawn.append(axes.bar(first, last + 1, low, high, f"r{number % 5}", what))
                low = high
        drawing = axes.draw(f"bytes a step {name}, by route", *drawn)
        figures.append(f"<h3>{name}</h3><figure>{drawing}</figure>")
    rows = "".join(
        f'<tr><th scope="row">{_text(route)}</th><td class="n">{up:,}</td>'
        f'<td class="n">{down:,}</td></tr>'
        for route, (up, down) in total.items()
    )
    head = '<tr><th>route</th><th class="n">bytes sent</th><th class="n">received</th></tr>'
    keys = _keys([(f"r{number % 5}", route) for number, route in enumerate(routes)])
    table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
    return f"{''.join(figures)}{keys}{table}"


def _decisions(decisions: list[Decision]) -> str:
    if not decisions:
        return '<p class="hint">None.</p>'
    rows = "".join(
        f'<tr><td class="n">{one.step}</td><td>{_text(one.region or "job")}</td>'
        f"<td>{_text(one.source)} → <b>{_text(one.target)}</b></td>"
        f"<td>{_text(reason(one))}</td></tr>"
        for one in decisions[:_MOST_ROWS]
    )
    more = len(decisions) - _MOST_ROWS
    note = f'<p class="hint">... and {more:,} more.</p>' if more > 0 else ""
    head = '<tr><th class="n">step</th><th>who</th><th>from, to</th><th>why</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{note}"


def _about(segment: Segment) -> str:
    run = segment.run
    off = [*map(str, run.plan.off), *loss_off(segment)]
    rows = {
        "fingerprint": run.fingerprint,
        "warm-up": f"{run.plan.warmup} steps",
        "profile": "unverified: every region had to pass PROBE" if run.plan.unverified else "used",
        "signals off": ", ".join(off) or "none",
        **run.about,
    }
    cells = "".join(
        f'<tr><th scope="row">{_text(key)}</th><td>{_text(value)}</td></tr>'
        for key, value in rows.items()
        if value
    )
    return f"<table><tbody>{cells}</tbody></table>"


def _text(value: object) -> str:
    """Any text as it may stand in the page: no markup, and no character that XML does not have."""
    return escape(one_line(value, 400))
