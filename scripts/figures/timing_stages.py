# SPDX-License-Identifier: Apache-2.0
"""Where the clocks of an access are spent, by what the stage probe saw (`nf_stage_probe.sv`)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.figures.timing_loads import Timed
from verif.host.c_interface import WRITES, Stage

Clocks = NDArray[np.int64]

IN_ORDER = ("link in", "decode", "unit", "respond", "link out")
"""Parts of an access under load: from the request's flit to the core, to the unit that does it, in
the unit and its memory accesses, to the core's end, to the response's flit."""
UNIT = ("unit, before memory", "memory", "further beats", "unit, after memory")
"""Parts of "unit" where one access is under way at a time: until the first request to memory,
until its first answer, until the last answer, until the unit's answer."""
ALONE = (*IN_ORDER[:2], *UNIT, *IN_ORDER[3:])
_NOT_THE_ACCESS = (WRITES + 0, WRITES + 3)
"""Clients of the write port that nobody waits for: evictions and the initialiser of records."""
_TAGS = 1 << 16


def split(timed: Timed) -> dict[str, Clocks]:
    """Clocks of each access by the parts of `IN_ORDER`, int64[n] each; they add up to its own."""
    marks = _marks(timed)
    return {name: marks[at + 1] - marks[at] for at, name in enumerate(IN_ORDER)}


def split_alone(timed: Timed) -> dict[str, Clocks]:
    """The same by the parts of `ALONE`; accesses that overlap are told apart no more."""
    marks = _marks(timed)
    events = timed.passed[~np.isin(timed.passed["who"], _NOT_THE_ACCESS)]
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
    ends = [*marks[:3], *inner, *marks[3:]]
    return {name: ends[at + 1] - ends[at] for at, name in enumerate(ALONE)}


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
