# SPDX-License-Identifier: Apache-2.0
"""Timing of device memory in replays and benchmarks, at signal level and in bulk."""

from __future__ import annotations

from dataclasses import dataclass, replace

from verif.mem.memory_config import MemConfig

MAX_LATENCY = 10_000
"""A host gives a device up after 20,000 clocks without any answer."""
MAX_BEAT = 64
MAX_STALL = 90
LATENCIES = (3, 48, 100, 300)
"""Clocks at which benches print every rate."""


@dataclass(frozen=True)
class MemoryTiming:
    """Timing of device memory.

    Attributes:
        latency: Cycles from a request to its answer.
        beat: Cycles per beat of read or write data.
        stall: Percent of the cycles in which memory accepts no request and no write data.

    Raises:
        ValueError: A value is out of range.
    """

    latency: int = 100
    beat: int = 1
    stall: int = 0

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("latency", self.latency, 1, MAX_LATENCY),
            ("beat", self.beat, 1, MAX_BEAT),
            ("stall", self.stall, 0, MAX_STALL),
        ):
            if not least <= value <= most:
                raise ValueError(f"memory {name} {value} is not {least} to {most}")

    def __str__(self) -> str:
        """Return the timing as text, such as "memory latency 100", to accompany figures measured
        with it.
        """
        beat = f", {self.beat} clocks a beat" if self.beat > 1 else ""
        stall = f", {self.stall} % stalled" if self.stall else ""
        return f"memory latency {self.latency}{beat}{stall}"

    def at(self, latency: int) -> MemoryTiming:
        """Return the same timing with another latency."""
        return replace(self, latency=latency)

    def apply(self, config: MemConfig) -> None:
        """Set this timing in the memory agent's settings, for signal level."""
        config.latency = (self.latency, self.latency)
        config.beat = self.beat
        config.aw_stall = config.w_stall = config.ar_stall = self.stall / 100


USUAL_MEMORY = MemoryTiming()
