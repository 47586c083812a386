# SPDX-License-Identifier: Apache-2.0
"""What a commit leaves in the memory that the region owned, or now owns.

An FP32 region's data lie in its state area as ordinary memory does; when the round ends, and more
so when the region moves away, a line holds what was stored there. Where racing stores leave that
open, the line's content is unknown. In an area that is claimed for records nothing is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from models.device import MEMORY_KEY, DeviceModel
from models.line_packing import Mode
from models.memory import UNKNOWN_LINE, MemoryLine
from models.regions import RegionConfig, state_lines
from verif.scoreboard.linearize import State

Ambiguous = Mapping[int, Sequence[State]]
"""States that each line of a region may have had at the end of a round; none: any."""


def stored(config: RegionConfig, ambiguous: Ambiguous) -> dict[int, MemoryLine]:
    """What the data lines of an FP32 region hold after a round with ambiguous lines."""
    out: dict[int, MemoryLine] = {}
    for index, states in ambiguous.items():
        lines = [state.snap.line for state in states]
        for worker in range(config.workers):
            held = {
                (line.data.get(worker), worker in line.marked) for line in lines if line is not None
            }
            place = config.state_line + worker * config.lines + index
            data, marked = next(iter(held), (None, False))
            if len(held) == 1 and data is not None:
                out[place] = MemoryLine(data, marked)
            elif len(held) != 1:
                out[place] = UNKNOWN_LINE
    return out


def settle(
    model: DeviceModel,
    before: RegionConfig | None,
    after: RegionConfig,
    ambiguous: Ambiguous,
    uncertain: Iterable[Hashable],
) -> list[Hashable]:
    """A commit was accepted: brings memory up to date.

    Returns the keys among `uncertain`, lines of more than one possible state, that are so no more.
    """
    ended: set[int] = set()
    if before is not None and before.mode is Mode.FP32:
        for place, line in stored(before, ambiguous).items():
            model.memory.store(place, line)
            ended.add(place)
    start, size = after.state_line, state_lines(after, model.params.cnt_w)
    over: list[Hashable] = []
    for key in uncertain:
        if not (isinstance(key, tuple) and key[0] == MEMORY_KEY):
            continue
        line = key[1]
        if line in ended or (after.mode.low_bit and start <= line < start + size):
            over.append(key)
    return over
