# SPDX-License-Identifier: Apache-2.0
"""Common parts of the rank scripts of measurements.

`scripts.ranks.launch.rank_run` starts them as `python -m MODULE FOLDER WORD...`, with the variables
of `init_process_group`.
"""

from __future__ import annotations

import json
import os
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
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.profile import PhaseRoute, Profile, sketch
from neuron_fabric.profile.draft_profile import draft, with_routes
from neuron_fabric.profile.profile_types import LEAST_WARMUP, Kind, Phase, Phases, Warmup
from scripts.ranks.launch import RESULT

OFF = [str(one) for one in Reason if one != Reason.SCHEDULE]
"""Signals to switch off where the monitor is to decide nothing."""


@dataclass(frozen=True)
class Rank:
    """One gloo rank of a measurement: folder for results, number and world size."""

    folder: Path
    number: int
    world: int

    @staticmethod
    def of_command() -> tuple[Rank, list[str]]:
        """Return the rank of this process, and the remaining words of its command line."""
        folder, *words = sys.argv[1:]
        number, world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
        return Rank(Path(folder), number, world), words

    @contextmanager
    def joined(self, timeout_s: float = 1800.0, backend: str = "gloo") -> Iterator[None]:
        """Context of the joined process group, on one thread; all ranks leave it together."""
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
        yield
        dist.barrier()
        dist.destroy_process_group()
        sys.stdout.flush()

    def leave(self, found: Mapping[str, Any]) -> None:
        """Write results as JSON to the file RESULT of the folder, in rank 0 only."""
        if self.number == 0:
            (self.folder / RESULT).write_text(json.dumps(found), encoding="utf-8")


def profile_of(
    net: nn.Module,
    route: Route | PhaseRoute,
    warmup: int = LEAST_WARMUP,
    monitor: Mapping[str, Any] = MappingProxyType({"off": OFF}),
    kinds: Container[Kind] = frozenset(Kind),
    of: Profile | None = None,
) -> Profile:
    """Return a profile that gives regions of a net one route; by default the monitor is off.

    Args:
        net: The model.
        route: Route of the regions of these ``kinds`` in the steady and the recovery phase.
        warmup: Steps of the warm-up.
        monitor: Limits of the monitor.
        kinds: Kinds of regions; others keep the route of ``of``.
        of: Profile whose routes are changed; None: a draft.
    """
    how = route if isinstance(route, PhaseRoute) else PhaseRoute(route)
    found = with_routes(
        of or draft("bench", sketch(net)),
        lambda one: how if one.kind in kinds else None,
        (Phase.STEADY, Phase.RECOVERY),
    )
    phases = Phases(Warmup(warmup))
    return replace(found, phases=phases, monitor=dict(monitor), verified=True)
