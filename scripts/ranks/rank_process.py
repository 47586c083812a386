# SPDX-License-Identifier: Apache-2.0
"""Common parts of the rank scripts of measurements.

`scripts.ranks.launch.rank_run` starts them as `python -m MODULE FOLDER RANK WORLD MASTER WORD...`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from neuron_fabric.codec import Route
from neuron_fabric.monitor.signals import Signal
from neuron_fabric.profile import PhaseRoute, Profile, sketch
from neuron_fabric.profile.draft_profile import draft
from neuron_fabric.profile.profile_types import LEAST_WARMUP, Kind

OFF = [str(one) for one in Signal if one != Signal.SCHEDULE]
"""Signals to switch off where the monitor is to decide nothing."""


@dataclass(frozen=True)
class Rank:
    """One gloo rank of a measurement: folder for results, number, world size, address of rank 0."""

    folder: Path
    number: int
    world: int
    master: str

    @staticmethod
    def of_command() -> tuple[Rank, list[str]]:
        """Return the rank of this process, and the remaining words of its command line."""
        folder, number, world, master, *words = sys.argv[1:]
        return Rank(Path(folder), int(number), int(world), master), words

    @contextmanager
    def joined(self, port: int, timeout_s: float = 1800.0, backend: str = "gloo") -> Iterator[None]:
        """Context of the joined process group, on one thread; all ranks leave it together."""
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        dist.init_process_group(
            backend,
            init_method=f"tcp://{self.master}:{port}",
            rank=self.number,
            world_size=self.world,
            timeout=timedelta(seconds=timeout_s),
        )
        yield
        dist.barrier()
        dist.destroy_process_group()
        sys.stdout.flush()

    def leave(self, name: str, found: Mapping[str, Any]) -> None:
        """Write results as JSON to a file of the folder, in rank 0 only."""
        if self.number == 0:
            (self.folder / name).write_text(json.dumps(found), encoding="utf-8")


def profile_of(
    net: nn.Module,
    route: Route | PhaseRoute,
    warmup: int = LEAST_WARMUP,
    monitor: Mapping[str, Any] = MappingProxyType({"off": OFF}),
    kinds: Container[Kind] = frozenset(Kind),
) -> Profile:
    """Return a profile that gives regions of a net one route; by default the monitor is off.

    Args:
        net: The model.
        route: Route of the regions of these ``kinds`` in the steady and the recovery phase.
        warmup: Steps of the warm-up.
        monitor: Limits of the monitor.
        kinds: Kinds of regions; others keep the route of the draft.
    """
    found = draft("bench", sketch(net))
    how = route if isinstance(route, PhaseRoute) else PhaseRoute(route)
    regions = tuple(
        replace(one, phases={**one.phases, "steady": how, "recovery": how})
        if one.kind in kinds
        else one
        for one in found.regions
    )
    phases = replace(found.phases, warmup=replace(found.phases.warmup, steps=warmup))
    return replace(found, regions=regions, phases=phases, monitor=dict(monitor), verified=True)
