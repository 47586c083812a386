# SPDX-License-Identifier: Apache-2.0
"""What `nf replay` prints."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence

from models.line_packing import LINE_BYTES
from verif.replay.job import Replay, StepPlan
from verif.replay.plan import ROUTE_ORDER
from verif.replay.source import route_lines
from verif.replay.transport import Transport


def opening(replay: Replay) -> Iterator[str]:
    """What will be driven."""
    source, first = replay.source, replay.steps[0]
    what = f"{source.workers} workers, {len(source.steps)} step(s), {len(source.tensors)} tensors"
    lines = route_lines(source.tensors, first.routes)
    if replay.options.bulk:
        shard = replay.shard
        part = f", shard {shard.number} of {shard.of}" if shard.of > 1 else ""
        yield (
            f"bulk replay of {source.name}: {what}, {len(replay.own_keys())} rounds{part}, "
            f"{replay.options.memory}"
        )
        yield from (f"  {mode.name:9} {lines[mode]:10,} lines a worker" for mode in sorted(lines))
        return
    yield f"replay of {source.name} ({replay.model}): {what}, {replay.options.memory}"
    for mode in ROUTE_ORDER:
        own = [spec for spec in source.tensors if first.routes[spec.name] == mode]
        if own:
            elements = sum(spec.elements for spec in own)
            count = lines.get(mode, 0)
            yield f"  {mode.name:9} {len(own):4} tensors {elements:10,} elements {count:8,} lines"
    for one in replay.steps[1:]:
        moved = [name for name, mode in one.routes.items() if mode != first.routes[name]]
        if moved:
            yield f"  step {one.step} takes other routes for {len(moved)}: {', '.join(moved[:4])}"


def of_step(replay: Replay, one: StepPlan, done: Transport) -> str:
    """One step on one simulator."""
    figures, plan = done.figures[one.step], one.plan
    lookups = max(1, figures["SLOT_HIT"] + figures["SLOT_MISS"])
    read = ""
    if not replay.options.bulk:
        read = f"{plan.reads:,} lines read back, {done.wrong[one.step]} mismatches, "
    return (
        f"{done.simulator:9} step {one.step}: {figures['lines']:,} lines x {plan.workers} workers, "
        f"{read}{figures['cycles']:,} cycles at {replay.options.memory}, "
        f"slot hits {figures['SLOT_HIT'] / lookups:.1%}, "
        f"flits {figures['RX_FLIT']:,} in {figures['TX_FLIT']:,} out"
    )


def traffic(replay: Replay, lines: Sequence[int]) -> Iterator[str]:
    """Bytes carried against what FP32 would have carried, where the ``lines`` of each simulator
    are all there are; 64-byte lines, all steps."""
    plans = [one.plan for one in replay.steps]
    whole = sum(plan.lines for plan in plans)
    if replay.options.bulk or any(count != whole for count in lines):
        return
    to = sum(plan.writes for plan in plans) * LINE_BYTES
    back = sum(plan.results for plan in plans) * LINE_BYTES
    counts = sum(plan.reads for plan in plans) * LINE_BYTES - back
    fp32_back = replay.fp32_lines * len(plans) * LINE_BYTES
    fp32_to = fp32_back * replay.source.workers
    yield (
        f"traffic to the device {to:,} bytes, FP32 takes {fp32_to:,} "
        f"({fp32_to / max(1, to):.2f} times as many)"
    )
    yield (
        f"traffic from the device {back:,} bytes of results, FP32 takes {fp32_back:,} "
        f"({fp32_back / max(1, back):.2f} times as many); count planes read besides: {counts:,}"
    )


def closing(replay: Replay, done: Sequence[Transport], start: float, failed: bool) -> str:
    """The last line; ``start``: when the command began."""
    bulk = replay.options.bulk
    cycles = sum(figures["cycles"] for one in done for figures in one.figures.values())
    built = sum(one.build_seconds for one in done)
    lines, speed, peak = f"{sum(one.lines for one in done):,} lines", "", ""
    shards = ""
    if bulk:
        writes = sum(one.writes for one in done)
        pieces = sum(len(one.cycles) for one in done)
        if pieces > 1:
            most_cycles = max(max(one.cycles.values(), default=0) for one in done)
            shards = f"{pieces:,} shards of at most {most_cycles:,} cycles, "
        lines = f"{writes:,} contributions"
        seconds = max(sum(one.seconds for one in done), 1e-9)
        speed = f"{writes / seconds:,.0f} lines/s, "
        most = max([peak_mebibytes(), *(one.peak for one in done)])
        peak = f", peak memory {most:,.0f} MiB"
    return (
        f"nf replay: {'FAILED, ' * failed}{lines}, "
        f"{sum(one.wrong.total() for one in done)} mismatches, "
        f"{cycles:,} cycles at {replay.options.memory}, {shards}{speed}"
        f"{time.monotonic() - start:.1f} s on "
        f"{' and '.join(one.simulator for one in done)}"
        f"{f' ({built:.1f} s of it to build)' * (built >= 1)}{peak}"
    )


def peak_mebibytes() -> float:
    """Largest resident memory that this process has had, the verilated model included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
