# SPDX-License-Identifier: Apache-2.0
"""`nf collectives run --bulk`: schedules on RTL devices in threads, compared with the oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.parameters import DeviceParams
from models.pool_oracle import digest, drawn_inputs, expected
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import Adder, Collective, Schedule
from neuron_fabric.collectives.shipped import SUMS, shipped
from scripts.common.errors import NfError
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import BulkModel
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming
from verif.replay.bulk.bulk_pool import BulkPool, PoolError
from verif.replay.bulk.bulk_schedule import PoolRun, run_schedule

ROUTES = (Route.FP32, Route.G_BINARY, Route.G_TERNARY, Route.G_INT4, Route.G_INT8)
LINES = 100
"""Lines of a vector or part: more tiles than ranks that are ahead, and a last one that is short."""


@dataclass(frozen=True)
class CollectiveKind:
    """Collective with the adder and route of its sum; None for those that do not add."""

    collective: Collective
    adder: Adder | None = None
    route: Route | None = None

    @property
    def name(self) -> str:
        """Name in tables, for example "all_reduce device G_BINARY"."""
        return " ".join(str(one) for one in (self.collective, self.adder, self.route) if one)

    def schedule(self, ranks: int, devices: int, lines: int, tile: int) -> Schedule:
        """Return the shipped schedule; see `shipped`. A barrier has no lines."""
        lines = 0 if self.collective is Collective.BARRIER else lines
        how = {"tile": tile, "adder": self.adder, "route": self.route}
        return shipped(self.collective, ranks, devices, lines, **how)  # type: ignore[arg-type]


def kinds_of(collective: Collective) -> list[CollectiveKind]:
    """Return a collective with every adder and route."""
    if collective not in SUMS:
        return [CollectiveKind(collective)]
    return [CollectiveKind(collective, adder, route) for adder in Adder for route in ROUTES]


def run_bulk(
    collective: Collective, hosts: int, devices: int, lines: int, seed: int, sim: str
) -> Iterator[str]:
    """Run a collective in bulk, with every adder and route, and compare all outputs.

    Args:
        collective: The collective.
        hosts: Number of ranks.
        devices: Number of devices.
        lines: Lines of a vector or part.
        seed: Seed of the inputs.
        sim: Name of the simulator.

    Yields:
        A line with digest of the outputs and clocks of each.

    Raises:
        NfError: A rank has a wrong output, or a device answered wrongly.
    """
    model = Simulators(command="nf collectives run").bulk(sim, {})
    for kind in kinds_of(collective):
        with tempfile.TemporaryDirectory(prefix="nf-pool-") as folder:
            plan = kind.schedule(hosts, devices, lines, DeviceParams().slots // 4)
            found = run_checked(plan, seed, model, Path(folder))
        what = f"{sim}, seed {seed}: digest of {kind.name}: {digest(found.outputs)}"
        yield f"{what}, {found.clocks:,} clocks in {found.phases} phases"


def run_checked(
    schedule: Schedule,
    seed: int,
    model: BulkModel,
    folder: Path,
    memory: MemoryTiming = USUAL_MEMORY,
) -> PoolRun:
    """Run a schedule in bulk and compare the outputs of all ranks with the oracle.

    Args:
        schedule: The schedule.
        seed: Seed of the inputs.
        model: Design, built for bulk runs.
        folder: Folder for files of the simulators.
        memory: Timing of the memories of the devices.

    Returns:
        Outputs, clocks and counters.

    Raises:
        NfError: A rank has a wrong output, or a device answered wrongly.
    """
    name = f"{schedule.collective} of {schedule.ranks} ranks on {schedule.devices} devices"
    inputs = drawn_inputs(schedule, seed)
    try:
        with BulkPool(model, folder, schedule, memory=memory) as pool:
            found = run_schedule(pool, inputs)
    except PoolError as error:
        raise NfError(f"{name}, seed {seed}: {error}.") from None
    for rank, (got, want) in enumerate(zip(found.outputs, expected(schedule, inputs), strict=True)):
        wrong = np.flatnonzero((got != want).any(axis=1))
        if len(wrong):
            what = f"{len(wrong)} wrong lines of rank {rank}, first {wrong[0]}"
            raise NfError(f"{name}, seed {seed}: {what}; nf collectives check finds a race.")
    return found
