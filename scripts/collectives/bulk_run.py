# SPDX-License-Identifier: Apache-2.0
"""`nf collectives run --bulk`: schedules on RTL devices in threads, compared with the oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from models.pool_oracle import drawn_inputs, expected
from neuron_fabric.collectives.schedule import Schedule
from scripts.common.errors import NfError
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import BulkModel
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming
from verif.replay.bulk.bulk_pool import BulkPool, PoolError
from verif.replay.bulk.bulk_schedule import PoolRun, run_schedule

BulkRunner = Callable[[Schedule, int], PoolRun]
"""Runs a schedule with the inputs of a seed; NfError if an output is wrong."""


@contextmanager
def bulk_runner(sim: str, memory: MemoryTiming = USUAL_MEMORY) -> Iterator[BulkRunner]:
    """Context that builds the design, and whose value runs schedules on it.

    Args:
        sim: Name of the simulator.
        memory: Timing of the memories of the devices.
    """
    model = Simulators(command="nf collectives").bulk(sim, {})

    def run(schedule: Schedule, seed: int) -> PoolRun:
        with tempfile.TemporaryDirectory(prefix="nf-pool-") as folder:
            return run_checked(schedule, seed, model, Path(folder), memory)

    yield run


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
