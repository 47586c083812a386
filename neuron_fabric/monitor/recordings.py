# SPDX-License-Identifier: Apache-2.0
"""Recorded trainings: the log of a monitor without times and bytes, compressed.

The state machine reads only what the ranks have agreed on in every step. A recording therefore
shows what the present thresholds would decide in that training, up to the first decision that
differs, and the distance of each signal from its limit. Faults of the loss can be injected: the
further course of such a training is unknown, but only the detection time is measured.
"""

from __future__ import annotations

import itertools
import json
import lzma
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from neuron_fabric.errors import MonitorError
from neuron_fabric.monitor import log
from neuron_fabric.monitor.consensus import COUNT_BIT, JOB_FIELDS, Codec, unpacked
from neuron_fabric.monitor.log import Segment, plain, replay
from neuron_fabric.monitor.signals import Reading, Reason
from neuron_fabric.monitor.states import Decision
from neuron_fabric.monitor.thresholds import Thresholds
from neuron_fabric.output import write_bytes

SUFFIX = ".jsonl.xz"
RECORDED = "recorded"
"""End of a recording. It has no decisions, because some depend on times."""
_TIMES = ("link_latency", "link_mib")
_LOSS = list(JOB_FIELDS).index("loss")


def name_of(run: Path) -> str:
    """Return the name of a run: `CHECK-VARIANT-SEED-REDUCER` for a folder of `nf train check`.

    For a recording it is the file name without the suffix.
    """
    if run.name.endswith(SUFFIX):
        return run.name.removesuffix(SUFFIX)
    folder = run if run.is_dir() else run.parent
    return f"{folder.parent.name}-{folder.name}"


def record(run: Path, folder: Path) -> Path:
    """Write the recording of a run's monitor log into ``folder``; return its path.

    Raises:
        MonitorError: The log cannot be used, or is too long.
        OSError: The recording cannot be written.
    """
    segments, _ = log.read(log.find(run))
    path = folder / f"{name_of(run)}{SUFFIX}"
    lines = (json.dumps(one, separators=(",", ":")) for one in _records(segments))
    text = "".join(f"{one}\n" for one in lines).encode()
    if len(text) > log.MOST_PLAIN:
        what = f"makes a recording of {len(text):,} bytes without compression"
        raise MonitorError(run, what, f"record a run of {log.MOST_PLAIN:,} bytes at most")
    write_bytes(path, lzma.compress(text, preset=9))
    return path


def _records(segments: Sequence[Segment]) -> Iterator[dict[str, object]]:
    for segment in segments:
        yield {"kind": "run", **plain(replace(segment.run, about={}))}
        times = [n for n, one in enumerate(segment.run.fields) if one in _TIMES]
        for step in segment.steps:
            vector = [0 if n in times else one for n, one in enumerate(step.vector)]
            yield {"kind": "step", "step": step.step, "vector": vector, "mode": step.mode}
        yield {"kind": "end", "why": RECORDED}


def recordings(folder: Path) -> dict[str, Segment]:
    """Return the recordings in a folder by name. Raise MonitorError if there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        what = f"holds no recordings (*{SUFFIX})"
        raise MonitorError(folder, what, "make them by `nf train monitor record RUN --out FOLDER`")
    return {path.name.removesuffix(SUFFIX): log.read(path)[0][0] for path in paths}


def decided(segment: Segment, off: Sequence[Reason] = ()) -> list[Decision]:
    """Return the decisions that the default thresholds make over a recording.

    All signals except ``off`` are used.
    """
    plan = replace(segment.run.plan, limits=Thresholds(), off=tuple(off))
    return replay(segment, plan).decisions


def with_loss(segment: Segment, at: int, factors: Sequence[float]) -> Segment:
    """Return a recording with its losses from step ``at`` on multiplied by ``factors``, one each.

    It ends after the last factor.
    """
    steps = [one for one in segment.steps if one.step < at]
    later = (one for one in segment.steps if one.step >= at)
    for step, factor in zip(later, factors, strict=False):
        count, total = unpacked(step.vector[_LOSS])
        vector = list(step.vector)
        vector[_LOSS] = (count << COUNT_BIT) + round(total * factor)
        steps.append(replace(step, vector=tuple(vector)))
    return replace(segment, steps=steps)


def readings(segment: Segment) -> list[Reading]:
    """Return the agreed reading of every step of a recording.

    Raises:
        MonitorError: The log's numbers do not belong to the regions of its plan.
    """
    codec = Codec(segment.run.plan, segment.run.world, 0)
    if len(segment.run.fields) not in codec.lengths:
        what = "the log's numbers are of other regions than its plan"
        raise MonitorError("signals", what, "the log is damaged, or of another version")
    return [codec.decode(one.step, one.vector) for one in segment.steps]


def noise_of(segment: Segment) -> float:
    """Return the relative standard deviation of a training's loss over the last 100 steps.

    It is computed from the differences of consecutive losses; 0.0 if there are too few.
    """
    found = [one.loss for one in readings(segment)[-100:] if one.loss is not None]
    steps = [(b - a) / ((a + b) / 2) for a, b in itertools.pairwise(found) if a + b > 0]
    return statistics.pstdev(steps) / math.sqrt(2) if len(steps) > 1 else 0.0


def signal_values(segment: Segment) -> dict[tuple[str, Reason], list[float]]:
    """Return the values of each measured signal over a run, by (region, signal)."""
    found: dict[tuple[str, Reason], list[float]] = {}
    every = readings(segment)
    for number, region in enumerate(segment.run.plan.regions):
        reference: float | None = None
        for one in (reading.regions[number] for reading in every):
            reference = one.reference if one.reference is not None else reference
            ratio = None
            if one.norm is not None and reference is not None:
                ratio = 2.0 ** min(max(one.norm - reference, -99.0), 99.0)
            for signal, value in (
                (Reason.COSINE, one.cosine),
                (Reason.NORM, ratio),
                (Reason.MARGIN, one.margin),
                (Reason.SATURATION, one.saturation),
                (Reason.AGREEMENT, one.agreement),
            ):
                if value is not None:
                    found.setdefault((region.name, signal), []).append(value)
    return found


def signal_lines(name: str, segment: Segment) -> list[str]:
    """Return the signals of a run as lines of a table: number, least, median, most, limit.

    With the agreement, the worker is named that agrees least in most steps.
    """
    run, limits = segment.run, segment.run.plan.limits
    ends = {
        Reason.COSINE: f">= {limits.drop:g}",
        Reason.NORM: f"{1 / limits.norm_in:g} to {limits.norm_in:g}",
        Reason.MARGIN: f">= {limits.margin_in:g}",
        Reason.SATURATION: f"<= {limits.saturation_in:g}",
        Reason.AGREEMENT: f">= {-limits.against_in:g}",
    }
    low = ", ".join(run.plan.regions[n].name for n in run.plan.eligible) or "none"
    out = [f"{name}: {len(segment.steps)} steps, {run.world} workers; low-bit: {low}"]
    found, every = signal_values(segment), readings(segment)
    for number, region in enumerate(run.plan.regions):
        for signal, limit in ends.items():
            if not (values := found.get((region.name, signal), [])):
                continue
            whose = ""
            if signal == Reason.AGREEMENT:
                workers = Counter(one.regions[number].worker for one in every)
                del workers[-1]  # no votes were compared
                [(worker, times)] = workers.most_common(1)
                whose = f"  worker {worker} in {times / len(values):.0%}"
            out.append(
                f"  {region.name:14}{signal:11}{len(values):6} steps  {min(values):8.3f} "
                f"{statistics.median(values):8.3f} {max(values):8.3f}  limit {limit}{whose}"
            )
    return out
