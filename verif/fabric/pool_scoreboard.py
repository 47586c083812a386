# SPDX-License-Identifier: Apache-2.0
"""Scoreboard of a pool: the outputs of every rank against the oracle, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.line_packing import U8
from models.pool_oracle import digest, expected
from neuron_fabric.collectives.schedule import Schedule


class PoolScoreboard:
    """Outputs that the ranks report, compared when all collectives have ended.

    Args:
        schedules: The collectives in their order.
        inputs: "in" buffer of each rank, for each collective.
    """

    def __init__(self, schedules: Sequence[Schedule], inputs: Sequence[Sequence[U8]]) -> None:
        self.schedules = schedules
        self.wanted = [expected(*pair) for pair in zip(schedules, inputs, strict=True)]
        self.outputs: dict[tuple[int, int], U8] = {}
        self.errors: list[str] = []

    def ended(self, rank: int, number: int, output: U8) -> None:
        """Record the output of a rank of collective ``number``, and compare it."""
        what = f"{self.schedules[number].collective} {number}, rank {rank}"
        wanted = self.wanted[number][rank]
        if (number, rank) in self.outputs:
            self.errors.append(f"pool: {what} has ended twice")
        self.outputs[number, rank] = output
        if output.shape != wanted.shape:
            self.errors.append(f"pool: {what} has {len(output)} lines, not {len(wanted)}")
            return
        wrong = np.flatnonzero((output != wanted).any(axis=1))
        if len(wrong):
            line = wrong[0]
            self.errors.append(
                f"pool: {what}: {len(wrong)} of {len(wanted)} lines differ; line {line} is "
                f"{output[line].tobytes().hex()}, expected {wanted[line].tobytes().hex()}"
            )

    def digests(self) -> list[str]:
        """Return the digest of each collective that has ended on all ranks."""
        worlds = [range(one.ranks) for one in self.schedules]
        return [
            digest([self.outputs[number, rank] for rank in world])
            for number, world in enumerate(worlds)
            if all((number, rank) in self.outputs for rank in world)
        ]

    def finish(self) -> list[str]:
        """Return all differences, and every rank that has ended no collective or not all."""
        missing = [
            f"pool: {schedule.collective} {number} has not ended on rank {rank}"
            for number, schedule in enumerate(self.schedules)
            for rank in range(schedule.ranks)
            if (number, rank) not in self.outputs
        ]
        nothing = [] if self.schedules else ["pool: there was no collective"]
        return [*self.errors, *missing, *nothing]
