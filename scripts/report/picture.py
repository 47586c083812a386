# SPDX-License-Identifier: Apache-2.0
"""Picture at the head of the report of `nf regress`: votes against the true mean, bytes by route,
and tests, all from the replays and runs of this invocation.

The votes are those that the device returned, in the result files of the replays; the mean is that
of the captured gradients. The bytes are those of the lines that the replays wrote and read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neuron_fabric.capture import Capture
from neuron_fabric.capture.safetensors_io import TensorFile, open_tensors
from neuron_fabric.errors import CaptureError
from scripts.common.paths import CAPTURE
from scripts.common.terminal import many
from scripts.report import chart
from scripts.report.json_file import Report

_REPLAY = "replay::"
"""Begins the names of the records of replays."""
_VOTE = ".vote"
"""Suffix of the votes of a tensor in a result file."""
_POINTS = 25
"""Groups of elements with about the same mean; each is a point of a line."""
Floats = npt.NDArray[np.float64]


Replays = Mapping[str, Sequence[Path]]
"""Result files of green replays of the shipped capture by route, one for each step."""
_VOTED = ("binary", "ternary")
"""Routes by which every tensor is voted on, so that their votes are drawn."""


@dataclass(frozen=True)
class Picture:
    """Charts with their titles, as SVG elements, and the sentence below them."""

    charts: tuple[tuple[str, str], ...]
    said: str


def draw(report: Report, replayed: Replays) -> Picture | str:
    """Draw the picture, or return the reason why there is none: no green replay, or a file that
    cannot be read or is no result. The report of a long run must not be lost for a picture."""
    if not replayed:
        return "no replay was green"
    try:
        return _draw(report, replayed)
    except (CaptureError, OSError, KeyError) as error:
        return str(error)


def _draw(report: Report, replayed: Replays) -> Picture:
    """Draw the charts that the result files and the testplan allow."""
    results = {route: [*map(open_tensors, paths)] for route, paths in replayed.items()}
    capture = Capture.open(CAPTURE)
    charts = [("Bytes by route", _bytes(results))]
    if report.progress:
        charts.append(("What was run", _tests(report)))
    lines, agree = [], []
    for route in _VOTED:
        if route in results:
            mean, vote = votes(capture, results[route])
            lines.append((route, _curve(mean, vote), False))
            agree.append(_agreement(route, mean, vote))
    if lines:
        end = max(abs(x) for _, points, _ in lines for x, _ in points)
        lines.append(
            ("sign of the true mean", [(-end, -1.0), (0.0, -1.0), (0.0, 1.0), (end, 1.0)], True)
        )
        axes = "true mean / RMS of the means of its tensor", "mean of the returned votes"
        drawn = chart.line_chart(*axes, lines, size=chart.NARROW)
        charts.insert(0, ("Votes against the true mean", drawn))
    elements = sum(spec.elements for spec in capture.tensors)
    replays = (record.sim for record in report.records if record.name.startswith(_REPLAY))
    sims = sorted({sim for sims in replays for sim in sims.split("+")})
    said = (
        f"{many(len(capture.steps), 'step')} of {capture.model}: gradients of "
        f"{many(capture.world_size, 'worker')}, {elements:,} elements in "
        f"{many(len(capture.tensors), 'tensor')}, driven through the RTL by "
        f"{many(len(results), 'route')} ({', '.join(results)}) on {' and '.join(sims)}"
    )
    return Picture(tuple(charts), "; ".join([said, *agree]) + ".")


def votes(capture: Capture, results: Sequence[TensorFile]) -> tuple[Floats, Floats]:
    """Return the true means of all elements with a vote, and the votes.

    A mean is divided by the root mean square of the means of its tensor and step, so that tensors
    of different size share an axis. Raise CaptureError for files without votes.
    """
    means, found = [], []
    for result in results:
        gradients = capture.load(int(result.metadata["step"]))
        for name in result.tensors:
            if name.endswith(_VOTE):
                mean = gradients[name.removesuffix(_VOTE)].mean(axis=0, dtype=np.float64).ravel()
                means.append(mean / (np.sqrt(np.mean(mean**2)) or 1.0))
                found.append(result.read(name).ravel().astype(np.float64))
    if not means:
        raise CaptureError(results[0].path, "has no votes", "replay with a route that votes")
    return np.concatenate(means), np.concatenate(found)


def _agreement(route: str, mean: Floats, vote: Floats) -> str:
    """Return the share of the votes with the sign of the mean, of elements whose mean is not 0:
    each counted once, and each counted by the size of its mean."""
    moved = mean != 0
    same = np.sign(vote) == np.sign(mean)
    share, size = np.mean(same[moved]), np.sum(np.abs(mean)[same]) / np.sum(np.abs(mean))
    return (
        f"{100 * share:.1f} % of {np.sum(moved):,} {route} votes have the sign of the true mean "
        f"({100 * size:.1f} % weighted by its size)"
    )


def _curve(mean: Floats, vote: Floats) -> chart.Points:
    """Return the mean vote over the mean gradient, in groups of equally many elements."""
    order = np.argsort(mean)
    groups = (np.array_split(values[order], _POINTS) for values in (mean, vote))
    return [(float(np.median(a)), float(np.mean(b))) for a, b in zip(*groups, strict=True)]


def _bytes(results: Mapping[str, Sequence[TensorFile]]) -> str:
    """Draw the bytes of all steps to and from the device, longest bar first."""
    rows = {}
    for route, files in results.items():
        up, down, *fp32 = (
            sum(int(file.metadata[key]) for file in files)
            for way in ("", "fp32_")
            for key in (f"{way}bytes_to_device", f"{way}bytes_from_device")
        )
        share = 100 * (up + down) / (sum(fp32) or 1)
        rows[route] = (up / 1000, down / 1000), f"{share:.1f} %"
    rows = dict(sorted(rows.items(), key=lambda row: -sum(row[1][0])))
    parts = {"to the device": chart.BLUE, "from the device": chart.ORANGE}
    return chart.bar_chart("kB of all steps, with count planes (% of FP32)", rows, parts)


def _tests(report: Report) -> str:
    """Draw the replays and their comparison, and the planned tests by stage."""
    replays = [record.passed for record in report.records if record.name.startswith(_REPLAY)]
    states = {"replays": (sum(replays), len(replays) - sum(replays), 0)}
    for row in report.progress.stages if report.progress else ():
        states[f"stage {row.name}"] = len(row.passed), len(row.red), len(row.not_run)
    rows = {name: (counts, f"{counts[0]}/{sum(counts)}") for name, counts in states.items()}
    parts = {"passed": chart.BLUE, "red": chart.RED, "not run": chart.GREY}
    return chart.bar_chart("planned tests (passed/all)", rows, parts)
