# SPDX-License-Identifier: Apache-2.0
"""Clocks that whole buckets take in the RTL, for `nf measure capacity table --measure`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.line_packing import Mode
from neuron_fabric.capacity.cost_model import place
from neuron_fabric.capacity.substrate import shipped
from neuron_fabric.codec.routes import Route, lines_of
from scripts.benchmarks.miss_loads import MissBench
from scripts.build import registry
from scripts.common.errors import NfError
from scripts.common.paths import BUILD
from scripts.run.replay_simulators import Simulators
from verif.mem.memory_timing import MemoryTiming


@dataclass(frozen=True)
class DeviceClocks:
    """``clocks`` of a bucket by (workers, elements): contributions in step, and the vote to each
    worker. A flit takes ``flit_s`` seconds, a clock each."""

    clocks: dict[tuple[int, int], int]
    flit_s: float
    memory_latency: float

    def seconds(self, workers: int, elements: int) -> float:
        """Return seconds of a bucket."""
        return self.clocks[workers, elements] * self.flit_s


def device_clocks(
    workers: Sequence[int], elements: Sequence[int], flit_s: float, memory: MemoryTiming
) -> DeviceClocks:
    """Each bucket on a device that has just been reset, G_BINARY; one that is larger than a region
    takes a full region's clocks in each of its rounds."""
    sim = registry.names()[0]
    files = BUILD / "bench" / "misses"
    model = Simulators(files=files, command="nf measure capacity").bulk(sim, {})
    found = {}
    with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:
        for size in elements:
            for count in workers:
                placed = place(shipped().device, Route.G_BINARY, size, count)
                if placed is None:
                    raise NfError(f"capacity: no line of {count} workers fits the device.")
                lines = min(lines_of(size, Route.G_BINARY), 1 << placed.lines_log2)
                clocks = MissBench(model, Path(folder), memory, lines).bucket(
                    Mode.G_BINARY, count, (0,)
                )
                found[count, size] = placed.rounds * clocks
    return DeviceClocks(found, flit_s, memory.latency)
