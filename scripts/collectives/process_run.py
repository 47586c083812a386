# SPDX-License-Identifier: Apache-2.0
"""`nf collectives run --processes`: schedules by real processes that share memory.

The schedules and inputs are those of --bulk, so the digests are too, where the ranks add.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from models.parameters import DeviceParams
from models.pool_oracle import digest, drawn_inputs, expected
from neuron_fabric import collectives
from neuron_fabric.codec import LINE, U8
from neuron_fabric.collectives.pool import ROOM
from neuron_fabric.collectives.schedule import Adder, Collective, Schedule
from scripts.collectives.bulk_run import kinds_of
from scripts.common.errors import NfError


def run_processes(
    collective: Collective, hosts: int, devices: int, lines: int, seed: int
) -> Iterator[str]:
    """Run a collective by processes, with every route, and compare all outputs with the oracle.

    Args:
        collective: The collective.
        hosts: Number of processes.
        devices: Number of devices; their rooms are one shared memory.
        lines: Lines of a vector or part.
        seed: Seed of the inputs.

    Yields:
        A line with the digest of the outputs of each.

    Raises:
        NfError: A rank has a wrong output.
    """
    for kind in kinds_of(collective):
        if kind.adder is Adder.DEVICE:
            continue
        plan = kind.schedule(hosts, devices, lines, DeviceParams().slots // 4)
        inputs = drawn_inputs(plan, seed)
        with tempfile.TemporaryDirectory(prefix="nf-pool-") as folder:
            rank_of = partial(_rank, f"{folder}/pool", plan)
            with ProcessPoolExecutor(hosts) as processes:
                found = list(processes.map(rank_of, range(hosts), inputs))
        for rank, (got, want) in enumerate(zip(found, expected(plan, inputs), strict=True)):
            wrong = np.flatnonzero((got != want).any(axis=1))
            if len(wrong):
                what = f"{len(wrong)} wrong lines of rank {rank}, first {wrong[0]}"
                raise NfError(f"{kind.name} by processes, seed {seed}: {what}.")
        yield f"processes, seed {seed}: digest of {kind.name}: {digest(found)}"


def _rank(path: str, plan: Schedule, rank: int, given: U8) -> U8:
    """Run one rank; return its buffer "out"."""
    room = max(ROOM, plan.devices * plan.room * LINE)
    with collectives.open(path, rank, plan.ranks, room=room) as pool:
        return pool.run_schedule(plan, given)
