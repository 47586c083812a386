# SPDX-License-Identifier: Apache-2.0
"""What the parts of `nf figures timing` share: runs that are kept, and kinds of access."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.figures import timing_loads as loads
from scripts.figures.result_file import Line, Plot, Table
from scripts.figures.timing_loads import MODES, PLAIN, Setting, Stimulus, Timed
from verif.host.bulk_device import VerilatedModel

LATENCY = 300
"""Of the memory, in clocks, where it is not what is varied."""


@dataclass
class Bench:
    """Runs, each kept: a part may ask for one that another has made."""

    model: VerilatedModel
    folder: Path
    done: dict[tuple[str, Setting, Stimulus], Timed] = field(default_factory=dict)

    def run(self, mode: str, setting: Setting, stimulus: Stimulus) -> Timed:
        """One run in the mode of that name."""
        key = (mode, setting, stimulus)
        if key not in self.done:
            self.done[key] = loads.timed(self.model, self.folder, mode, setting, stimulus)
        return self.done[key]

    def exposed(self, mode: str, setting: Setting, stimulus: Stimulus) -> float:
        """Overhead over plain memory in percent."""
        plain = self.run(PLAIN, setting, stimulus)
        return loads.exposed(self.run(mode, setting, stimulus), plain)


@dataclass
class Found:
    """What the parts add to."""

    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    followed: dict[str, float] = field(default_factory=dict)


Part = Callable[[Bench, Found], None]


@dataclass(frozen=True)
class Access:
    """A kind of access that misses: workers of the region, and the worker whose contributions are
    counted, all before it done; None: results are read. ``planes``: those that the record has."""

    name: str
    workers: int
    worker: int | None
    planes: int

    def stimulus(self, setting: Setting) -> Stimulus:
        """What is driven."""
        if self.worker is None:
            return loads.results(setting)
        return loads.nth_worker(setting, self.worker)


SECOND = Access("contribution, second of 8 workers", 8, 1, 1)
LAST = Access("contribution, last of 8 workers", 8, 7, 3)
READ = Access("result read, 8 workers", 8, None, 4)
ACCESSES = (
    *(SECOND, LAST, Access("contribution, last of 64 workers", 64, 63, 6)),
    *(READ, Access("result read, 64 workers", 64, None, 7)),
)
FIRST = Access("contribution, first of 8 workers (nothing to fetch)", 8, 0, 0)

SUMS_APART = "FP32 sums are left out: each gathers a line of every worker."


def modes_of(access: Access) -> list[str]:
    """Those that are drawn: an FP32 sum needs a scale of its own."""
    return [name for name in MODES if access.worker is not None or name != "FP32"]


def curve(
    name: str, over: Iterable[float], value: Callable[[float], float], formula: bool = False
) -> Line:
    """A value at each place of an axis."""
    return Line(name, tuple((float(x), value(x)) for x in over), formula)
