# SPDX-License-Identifier: Apache-2.0
"""Shipped schedules by each executor, and the digests of their outputs.

The inputs follow from the seed alone, so the executors give one digest for a collective and route.
Every output is compared with the oracle.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from models.line_packing import U8
from models.pool import Pool
from models.pool_oracle import digest, drawn_inputs, expected
from neuron_fabric import collectives
from neuron_fabric.codec import LINE, Route
from neuron_fabric.collectives.pool import ROOM
from neuron_fabric.collectives.schedule import Adder, Collective, Schedule
from neuron_fabric.collectives.shipped import SUMS, TILE, shipped_any
from scripts.common.errors import NfError
from verif.host.bulk_device import BulkModel
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming
from verif.replay.bulk.bulk_pool import BulkPool, PoolError
from verif.replay.bulk.bulk_schedule import PoolRun, run_schedule

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

    def schedule(self, ranks: int, devices: int, lines: int) -> Schedule:
        """Return the shipped schedule; see `shipped`. A barrier has no lines."""
        shape = (ranks, devices, lines)
        return shipped_any(self.collective, *shape, self.adder, self.route, tile=TILE)


def kinds_of(collective: Collective) -> list[CollectiveKind]:
    """Return a collective with every adder and route."""
    if collective not in SUMS:
        return [CollectiveKind(collective)]
    return [CollectiveKind(collective, adder, route) for adder in Adder for route in Route]


def checked(what: str, schedule: Schedule, inputs: Sequence[U8], outputs: Sequence[U8]) -> str:
    """Compare the outputs of all ranks with the oracle and return their digest.

    Args:
        what: Name of the run, for the error.
        schedule: The schedule.
        inputs: "in" buffer of each rank.
        outputs: "out" buffer of each rank.

    Raises:
        NfError: A rank has a wrong output.
    """
    for rank, (got, want) in enumerate(zip(outputs, expected(schedule, inputs), strict=True)):
        wrong = np.flatnonzero((got != want).any(axis=1))
        if len(wrong):
            lines = f"{len(wrong)} wrong lines of rank {rank}, first {wrong[0]}"
            raise NfError(f"{what}: {lines}; nf collectives check finds a race.")
    return digest(outputs)


def run_checked(
    schedule: Schedule, seed: int, model: BulkModel, memory: MemoryTiming = USUAL_MEMORY
) -> PoolRun:
    """Run a schedule in bulk and compare the outputs of all ranks with the oracle.

    Args:
        schedule: The schedule.
        seed: Seed of the inputs.
        model: Design, built for bulk runs.
        memory: Timing of the memories of the devices.

    Returns:
        Outputs, clocks and counters.

    Raises:
        NfError: A rank has a wrong output, or a device answered wrongly.
    """
    name = f"{schedule.collective} of {schedule.ranks} ranks on {schedule.devices} devices"
    inputs = drawn_inputs(schedule, seed)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="nf-pool-") as folder,
            BulkPool(model, Path(folder), schedule, memory=memory) as pool,
        ):
            found = run_schedule(pool, inputs)
    except PoolError as error:
        raise NfError(f"{name}, seed {seed}: {error}.") from None
    checked(f"{name}, seed {seed}", schedule, inputs, found.outputs)
    return found


def run_processes(schedule: Schedule, seed: int) -> str:
    """Run a schedule whose ranks add, or none does, by processes that share memory.

    Returns:
        The digest of the outputs.

    Raises:
        NfError: A rank has a wrong output.
    """
    inputs = drawn_inputs(schedule, seed)
    with tempfile.TemporaryDirectory(prefix="nf-pool-") as folder:
        rank_of = partial(_rank, f"{folder}/pool", schedule)
        with ProcessPoolExecutor(schedule.ranks) as processes:
            found = list(processes.map(rank_of, range(schedule.ranks), inputs))
    what = f"{schedule.collective} by {schedule.ranks} processes, seed {seed}"
    return checked(what, schedule, inputs, found)


def _rank(path: str, plan: Schedule, rank: int, given: U8) -> U8:
    """Run one rank; return its buffer "out"."""
    room = max(ROOM, plan.devices * plan.room * LINE)
    with collectives.open(path, rank, plan.ranks, room=room) as pool:
        return pool.run_schedule(plan, given)


def bulk_lines(
    collective: Collective, shape: tuple[int, int, int], seed: int, sim: str, model: BulkModel
) -> Iterator[str]:
    """Yield digest and clocks of a collective in bulk, with every adder and route.

    Args:
        collective: The collective.
        shape: Ranks, devices, and lines of a vector or part.
        seed: Seed of the inputs.
        sim: Name of the simulator.
        model: Design, built for bulk runs.
    """
    for kind in kinds_of(collective):
        found = run_checked(kind.schedule(*shape), seed, model)
        what = f"{sim}, seed {seed}: digest of {kind.name}: {digest(found.outputs)}"
        yield f"{what}, {found.clocks:,} clocks in {found.phases} phases"


def process_lines(collective: Collective, shape: tuple[int, int, int], seed: int) -> Iterator[str]:
    """Yield the digests of a collective by processes, passive with every route."""
    for kind in kinds_of(collective):
        if kind.adder is not Adder.DEVICE:
            found = run_processes(kind.schedule(*shape), seed)
            yield f"processes, seed {seed}: digest of {kind.name}: {found}"


def compared(
    kind: CollectiveKind,
    shape: tuple[int, int, int],
    seed: int,
    models: Mapping[str, BulkModel],
    signal_level: Mapping[str, Mapping[str, str]],
) -> str:
    """Run a collective by all executors; return a row with its one digest and their names.

    Args:
        kind: The collective.
        shape: Ranks, devices, and lines of a vector or part.
        seed: Seed of the inputs.
        models: Design for bulk runs, for each simulator.
        signal_level: Digests of runs at signal level by name of the collective, for each simulator.

    Raises:
        NfError: An executor has a wrong output, or another digest.
    """
    plan = kind.schedule(*shape)
    inputs = drawn_inputs(plan, seed)
    pool = Pool([plan], [inputs])
    pool.run(seed)
    found = {"numpy": checked(f"{kind.name} by numpy", plan, inputs, pool.outputs(0))}
    for sim, digests in signal_level.items():
        found[f"pyuvm ({sim})"] = digests.get(kind.name, "no digest")
    for sim, model in models.items():
        found[f"bulk ({sim})"] = digest(run_checked(plan, seed, model).outputs)
    if kind.adder is not Adder.DEVICE:
        found["processes"] = run_processes(plan, seed)
    want = found["numpy"]
    if other := next((name for name, one in found.items() if one != want), ""):
        raise NfError(f"{kind.name}, seed {seed}: {other} gives {found[other]}, numpy {want}.")
    return f"  {kind.name:32} {want}  {', '.join(found)}"
