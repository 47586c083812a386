# SPDX-License-Identifier: Apache-2.0
"""Signals of real trainings, recorded: a monitor's log without times and bytes, compressed.

What the ranks have agreed on in every step is all that the state machine reads, so a recording
shows what today's thresholds would do to that training, up to their first decision that differs;
and how near each signal came to its limit. A fault of the loss can be put into it: what came next
in the training is not known then, but no more is asked than when it is found.
"""

from __future__ import annotations

import itertools
import json
import lzma
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from neuron_fabric.errors import MonitorError
from neuron_fabric.output import NewFile
from neuron_fabric.runtime.monitor import log
from neuron_fabric.runtime.monitor.consensus import COUNT_BIT, JOB_FIELDS, Codec
from neuron_fabric.runtime.monitor.limits import Limits, Signal
from neuron_fabric.runtime.monitor.log import Segment, Step, plain
from neuron_fabric.runtime.monitor.replay_log import replay
from neuron_fabric.runtime.monitor.signals import Reading
from neuron_fabric.runtime.monitor.states import Decision

SUFFIX = ".jsonl.xz"
RECORDED = "recorded"
"""Why a recording ends. It holds no decisions: without times, some of them could not be made."""
_TIMES = ("link_latency", "link_mib")
_LOSS = list(JOB_FIELDS).index("loss")


def name_of(run: Path) -> str:
    """`CHECK-VARIANT-SEED-REDUCER` of a folder of `nf train-check`; of a recording, its own."""
    if run.name.endswith(SUFFIX):
        return run.name.removesuffix(SUFFIX)
    folder = run if run.is_dir() else run.parent
    return f"{folder.parent.name}-{folder.name}"


def record(run: Path, folder: Path) -> Path:
    """Write the recording of a run into ``folder``. MonitorError, OSError."""
    segments, _ = log.read(log.find(run))
    lines = [json.dumps(one, separators=(",", ":")) for one in _records(segments)]
    path = folder / f"{name_of(run)}{SUFFIX}"
    text = "".join(f"{one}\n" for one in lines).encode()
    if len(text) > log.MOST_PLAIN:
        what = f"makes a recording of {len(text):,} bytes without compression"
        raise MonitorError(run, what, f"record a run of {log.MOST_PLAIN:,} bytes at most")
    data = lzma.compress(text, preset=9)
    with NewFile(path, path.with_name(f".{path.name}.new")) as file:
        file.put(data)
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
    """By name, the recordings of a folder. MonitorError where there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        what = f"holds no recordings (*{SUFFIX})"
        raise MonitorError(folder, what, "make them by `nf monitor record RUN --out FOLDER`")
    return {path.name.removesuffix(SUFFIX): log.read(path)[0][0] for path in paths}


def decided(
    segment: Segment, off: Sequence[Signal] = (), limits: Limits | None = None
) -> list[Decision]:
    """What ``limits`` (the defaults) decide over the signals of a recording, whatever the training
    had switched off."""
    plan = replace(segment.run.plan, limits=limits or Limits(), off=tuple(off))
    return replay(segment, plan).decisions


def with_loss(segment: Segment, at: int, factors: Sequence[float]) -> Segment:
    """The recording with its losses from step ``at`` on times ``factors``; it ends with these."""
    steps = [one for one in segment.steps if one.step < at + len(factors)]
    made = [_louder(one, factors[one.step - at]) if one.step >= at else one for one in steps]
    return replace(segment, steps=made)


def _louder(step: Step, factor: float) -> Step:
    number = step.vector[_LOSS]
    count = (number + (1 << (COUNT_BIT - 1))) >> COUNT_BIT
    value = round((number - (count << COUNT_BIT)) * factor)
    vector = list(step.vector)
    vector[_LOSS] = (count << COUNT_BIT) + value
    return replace(step, vector=tuple(vector))


def readings(segment: Segment) -> list[Reading]:
    """What the ranks have agreed on in every step. MonitorError where it is of other regions."""
    codec = Codec(segment.run.plan, segment.run.world, 0)
    if len(segment.run.fields) not in codec.lengths:
        what = "the log's numbers are of other regions than its plan"
        raise MonitorError("signals", what, "the log is damaged, or of another version")
    return [codec.decode(one.step, one.vector) for one in segment.steps]


def noise_of(segment: Segment) -> float:
    """Standard deviation of a loss beside the one before it, of their mean: what a slope hides
    in. Of the last 100 steps."""
    found = [one.loss for one in readings(segment)[-100:] if one.loss is not None]
    steps = [(b - a) / ((a + b) / 2) for a, b in itertools.pairwise(found) if a + b > 0]
    return statistics.pstdev(steps) / math.sqrt(2) if len(steps) > 1 else 0.0


@dataclass(frozen=True)
class Seen:
    """A signal of a region over a run: its values in order, and whose the least ones were."""

    region: str
    signal: Signal
    values: tuple[float, ...]
    limit: str
    workers: tuple[int, ...] = ()


def seen(segment: Segment) -> list[Seen]:
    """Every signal of every region that anything is known of."""
    limits, out = segment.run.plan.limits, []
    every = readings(segment)
    for number, region in enumerate(segment.run.plan.regions):
        own = [one.regions[number] for one in every]
        known: float | None = None
        ratios = []
        for one in own:
            known = one.reference if one.reference is not None else known
            if one.norm is not None and known is not None:
                ratios.append(2.0 ** min(max(one.norm - known, -99.0), 99.0))
        agreed = [(one.agreement, one.worker) for one in own if one.agreement is not None]
        norm = f"{1 / limits.norm_in:g} to {limits.norm_in:g}"
        rows = [
            (Signal.COSINE, [one.cosine for one in own], f">= {limits.drop:g}"),
            (Signal.NORM, ratios, norm),
            (Signal.MARGIN, [one.margin for one in own], f">= {limits.margin_in:g}"),
            (Signal.SATURATION, [one.saturation for one in own], f"<= {limits.saturation_in:g}"),
            (Signal.AGREEMENT, [one for one, _ in agreed], f">= {-limits.against_in:g}"),
        ]
        for signal, values, limit in rows:
            there = tuple(one for one in values if one is not None)
            whose = tuple(worker for _, worker in agreed) if signal == Signal.AGREEMENT else ()
            if there:
                out.append(Seen(region.name, signal, there, limit, whose))
    return out


def seen_lines(name: str, segment: Segment) -> list[str]:
    """A run's signals as a table: how near each came to its limit."""
    run = segment.run
    low = ", ".join(run.plan.regions[n].name for n in run.plan.eligible) or "none"
    out = [f"{name}: {len(segment.steps)} steps, {run.world} workers; low-bit: {low}"]
    for one in seen(segment):
        least, most = min(one.values), max(one.values)
        middle = statistics.median(one.values)
        whose = ""
        if one.workers:
            first = max(set(one.workers), key=one.workers.count)
            whose = f"  worker {first} in {one.workers.count(first) / len(one.workers):.0%}"
        out.append(
            f"  {one.region:14}{one.signal:11}{len(one.values):6} steps  {least:8.3f} "
            f"{middle:8.3f} {most:8.3f}  limit {one.limit}{whose}"
        )
    return out
