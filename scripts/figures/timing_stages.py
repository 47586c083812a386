# SPDX-License-Identifier: Apache-2.0
"""Where the clocks of an access are spent, by what the stage probe saw (`nf_stage_probe.sv`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.figures.timing_loads import Timed
from verif.host.c_interface import READS, WRITES, Stage

Clocks = NDArray[np.int64]

IN_ORDER = ("link in", "decode", "unit", "respond", "link out")
"""Parts of an access under load: from the request's flit to the core, to the unit that does it, in
the unit and its memory accesses, to the core's end, to the response's flit."""
UNIT = ("unit, before memory", "memory", "further beats", "unit, after memory")
"""Parts of "unit" where one access is under way at a time: until the first request to memory,
until its first answer, until the last answer, until the unit's answer."""
ALONE = (*IN_ORDER[:2], *UNIT, *IN_ORDER[3:])
LOADED = (*IN_ORDER[:2], "engine", "memory", *IN_ORDER[3:])
"""The parts of `IN_ORDER` with "unit" in two: from an access's first request to memory until its
last answer, and what the unit takes before and behind."""
_NOT_THE_ACCESS = (WRITES + 0, WRITES + 3)
"""Clients of the write port that nobody waits for: evictions and the initialiser of records."""
_GATHER = READS + 2
"""The client that reads the lines of FP32 sums: two sums take turns."""
_TAGS = 1 << 16


def split(timed: Timed) -> dict[str, Clocks]:
    """Clocks of each access by the parts of `IN_ORDER`, int64[n] each; they add up to its own."""
    return _between(IN_ORDER, _marks(timed))


def in_core(timed: Timed) -> dict[str, Clocks]:
    """Those parts of `IN_ORDER` in which an access holds its place in the core."""
    return {name: clocks for name, clocks in split(timed).items() if not name.startswith("link")}


def split_loaded(timed: Timed) -> dict[str, Clocks]:
    """The same by the parts of `LOADED`; FP32 sums by those of `IN_ORDER`, as the lines of two are
    fetched in turns. Memory answers a client in the order in which it asked, and units end their
    accesses in the order of these answers: each access has its share of every client's requests.
    ValueError where this cannot be so."""
    marks, events = _marks(timed), _of_memory(timed)
    whole = _between(IN_ORDER, marks)
    if np.any(events["who"] == _GATHER):
        return whole
    order = np.argsort(marks[3], kind="stable")
    asked, answered = (
        [
            _shares(events["clock"][(events["stage"] == stage) & (events["who"] == who)], order)
            for who in np.unique(events["who"])
        ]
        for stage in (Stage.MEMORY_ASKED, Stage.MEMORY_ANSWERED)
    )
    first = np.min([share[:, 0] for share in asked], axis=0)
    last = np.max([share[:, -1] for share in answered], axis=0)
    if np.any(first < marks[2]) or np.any(last < first) or np.any(marks[3] < last):
        raise ValueError("the requests to memory are not in the order of the accesses")
    inner = {"memory": last - first, "engine": whole["unit"] - (last - first)}
    return {name: (whole | inner)[name] for name in LOADED}


def _shares(clocks: NDArray[Any], order: NDArray[np.int64]) -> Clocks:
    """The clocks of each access, int64[n, share]; ``order``: the accesses in the order of them."""
    if not len(clocks) or len(clocks) % len(order):
        raise ValueError(f"{len(clocks)} events at memory of {len(order)} accesses")
    shares = np.empty((len(order), len(clocks) // len(order)), np.int64)
    shares[order] = clocks.reshape(len(order), -1)
    return shares


def _of_memory(timed: Timed) -> NDArray[Any]:
    """What the probe saw at the memory ports, without what nobody waits for."""
    at_memory = np.isin(timed.passed["stage"], (Stage.MEMORY_ASKED, Stage.MEMORY_ANSWERED))
    return timed.passed[at_memory & ~np.isin(timed.passed["who"], _NOT_THE_ACCESS)]


def split_alone(timed: Timed) -> dict[str, Clocks]:
    """The same by the parts of `ALONE`; accesses that overlap are told apart no more."""
    marks, events = _marks(timed), _of_memory(timed)
    asked, answered = (
        events["clock"][events["stage"] == stage].astype(np.int64)
        for stage in (Stage.MEMORY_ASKED, Stage.MEMORY_ANSWERED)
    )
    inner = np.stack([marks[2]] * 3)
    for n, (first, last) in enumerate(zip(marks[2], marks[3], strict=True)):
        own_asked = asked[(asked >= first) & (asked <= last)]
        own = answered[(answered >= first) & (answered <= last)]
        if len(own_asked) and len(own):
            inner[:, n] = own_asked[0], own[0], own[-1]
    return _between(ALONE, [*marks[:3], *inner, *marks[3:]])


def _between(names: Sequence[str], ends: Sequence[Clocks]) -> dict[str, Clocks]:
    """What lies between each end and the next, by name."""
    return {name: ends[at + 1] - ends[at] for at, name in enumerate(names)}


def _marks(timed: Timed) -> list[Clocks]:
    """Clock of each access at the host, into the core, into its unit, out of it, out of the core,
    at the host; int64[n] each. ValueError when the probe missed one."""
    ended = timed.ended.astype(np.int64)
    out = [ended - timed.each.astype(np.int64)]
    seen: dict[int, dict[int, int]] = defaultdict(dict)
    for event in timed.passed:
        seen[int(event["stage"])].setdefault(int(event["who"]), int(event["clock"]))
    first = next(iter(seen[Stage.CORE_IN]), 0)
    for stage in (Stage.CORE_IN, Stage.UNIT_IN, Stage.UNIT_OUT, Stage.CORE_OUT):
        clocks = [seen[stage].get((first + n) % _TAGS) for n in range(timed.accesses)]
        if None in clocks:
            raise ValueError(f"access {clocks.index(None)} has not passed {stage.name}")
        out.append(np.array(clocks, np.int64))
    return [*out, ended]


def percentiles(clocks: NDArray[Any]) -> tuple[int, int, int, int]:
    """Least, median, 95th of 100 and most."""
    values = np.percentile(clocks, (0, 50, 95, 100), method="lower")
    least, middle, late, most = (int(value) for value in values)
    return least, middle, late, most
