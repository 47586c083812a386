# SPDX-License-Identifier: Apache-2.0
"""Draws what surrounds the device: behaviour of memory and link, and errors of the memory."""

from __future__ import annotations

import random
from collections.abc import Sequence

from models.line_packing import Mode
from models.parameters import DeviceParams
from models.regions import planes_kept, record_lines, records, state_lines
from verif.scenario.live_region import LiveRegion
from verif.scenario.scenario_data import Do, Link, Memory, Operation
from verif.scenario.weights import Weights

_LATENCIES = {"1..3": (1, 3), "2..12": (2, 12), "2..40": (2, 40), "100..300": (100, 300)}
_SHARES = {"few": 0.1, "half": 0.5, "all": 1.0}


def draw_memory(weights: Weights, rng: random.Random) -> Memory:
    """Latency, stalls and order."""
    low, high = _LATENCIES[weights.pick(rng, "latency")]
    first = rng.randint(low, high)
    most = {"none": 0.0, "some": 0.3, "heavy": 0.8}[weights.pick(rng, "stalls")]
    aw, w, ar, b, r = (
        round(rng.uniform(0, most), 2) if rng.random() < 0.7 else 0.0 for _ in range(5)
    )
    order = weights.pick(rng, "memory_order")
    return Memory(
        (first, rng.randint(first, high)),
        *(aw, w, ar, b, r),
        reorder=order != "in order",
        interleave=order == "interleaved",
    )


def draw_link(weights: Weights, rng: random.Random) -> Link:
    """Packing, gaps, back-pressure and credits of the host."""
    gaps = {"none": 0.0, "some": 0.2, "many": 0.6}[weights.pick(rng, "host_gaps")]
    ready = {"always": 1.0, "often": 0.8, "seldom": 0.3}[weights.pick(rng, "ready")]
    credits = weights.pick(rng, "credits")
    few = credits != "many"
    grants = {"many": (64, 64), "few": (rng.randint(3, 16), rng.randint(3, 8)), "two": (2, 2)}
    plain, data = grants[credits]
    return Link(
        dense=weights.pick(rng, "packing") == "dense",
        empty_weight=rng.choice((0.2, 0.6, 1.5)),
        idle_rate=gaps,
        idle_flit_rate=rng.choice((0.0, 0.1)),
        ready_rate=ready,
        ready_hold=(1, rng.choice((1, 4, 12))),
        grant_plain=plain,
        grant_data=data,
        return_delay=(0, rng.choice((0, 20, 40))) if few else (0, 0),
        return_batch=rng.choice((1, 2)) if credits == "few" else 1,
        ak_in_headers=rng.random() < 0.8,
        credits_in_headers=rng.random() < 0.8,
    )


def draw_faults(
    weights: Weights,
    rng: random.Random,
    hardware: DeviceParams,
    live: Sequence[LiveRegion],
    pool: Sequence[int],
) -> Operation | None:
    """Lines of memory that fail from here on, and lines that the medium poisons now; None if the
    place that was drawn does not exist."""
    cnt_w = hardware.cnt_w
    place, kind = weights.pick(rng, "fault_place"), weights.pick(rng, "fault_kind")
    if place == "any access":
        rate = {"few": 0.02, "half": 0.05, "all": 0.1}[weights.pick(rng, "fault_rate")]
        write = rate / 2 if kind == "write error" else 0.0
        read = 0.0 if write else rate
        return Operation(Do.FAULTS, idle=True, read_error_rate=read, write_error_rate=write)
    areas = [
        range(one.config.state_line, one.config.state_line + state_lines(one.config, cnt_w))
        for one in live
    ]
    lines = [line for line in pool if not any(line in area for area in areas)]
    lines = lines if place == "plain" else []
    for one in live:
        config, used = one.config, one.lines[:16]
        if place == "IDENTITY" and config.mode is Mode.IDENTITY:
            lines += [config.state_line + s * config.lines + i for s in range(4) for i in used]
        elif place == "FP32 data" and config.mode is Mode.FP32:
            workers = range(config.workers)
            lines += [config.state_line + w * config.lines + i for w in workers for i in used]
        elif place == "records" and config.mode is Mode.FP32:
            first, distance = records(config, cnt_w)
            lines += [first + distance * i + rng.randrange(distance) for i in used]
        elif place == "records" and config.mode.low_bit:
            size = record_lines(config.most, cnt_w)
            beats = 1 + planes_kept(config.most, cnt_w)
            beat = rng.choice((0, rng.randrange(beats)))
            lines += [config.state_line + i * size + beat for i in used]
    rate = _SHARES[weights.pick(rng, "fault_rate")]
    bad = tuple(line for line in lines[:200] if rng.random() < rate)
    if not bad:
        return None
    return Operation(
        Do.FAULTS,
        idle=True,
        read_errors=bad if kind == "read error" else (),
        write_errors=bad if kind == "write error" else (),
        poisoned=bad if kind == "poison" and place != "records" else (),
        spoilt=bad if kind == "poison" and place == "records" else (),
    )
