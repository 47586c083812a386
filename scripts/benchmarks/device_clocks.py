# SPDX-License-Identifier: Apache-2.0
"""Clocks that whole buckets take in the RTL, for `nf capacity table --measure`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.line_packing import Mode
from neuron_fabric.codec.routes import Route, lines_of
from scripts.benchmarks.miss_loads import Bench
from scripts.build import registry
from scripts.cli import replay as nf_replay
from scripts.common.paths import BUILD
from verif.mem.memory_timing import MemoryTiming


@dataclass(frozen=True)
class DeviceClocks:
    """``clocks`` of a bucket by (workers, elements): contributions in step, and the vote to each
    worker. A flit takes ``flit_s`` seconds, a clock each."""

    clocks: dict[tuple[int, int], int]
    flit_s: float
    memory: MemoryTiming

    def seconds(self, workers: int, elements: int) -> float:
        """Of a bucket."""
        return self.clocks[workers, elements] * self.flit_s


def device_clocks(
    workers: Sequence[int], elements: Sequence[int], flit_s: float, memory: MemoryTiming
) -> DeviceClocks:
    """Each bucket on a device that has just been reset, G_BINARY."""
    sim = registry.names()[0]
    files = BUILD / "bench" / "misses"
    model = nf_replay.Simulators(files=files, command="nf capacity").bulk(sim, {})
    found = {}
    with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:
        for size in elements:
            bench = Bench(model, Path(folder), memory, lines_of(size, Route.G_BINARY))
            for count in workers:
                found[count, size] = bench.bucket(Mode.G_BINARY, count)
    return DeviceClocks(found, flit_s, memory)
