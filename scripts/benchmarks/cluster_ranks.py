# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.benchmarks.cluster_ranks FOLDER RANK WORLD MASTER STEPS TIMEOUT [FILE]`: a
node of `nf train nodes`; FILE is its substrate.

FOLDER/progress-RANK: the number of steps done; FOLDER/rank-RANK.json: what was decided, or the
error that ended it. Only capacity decides here: signals of the training are off.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.codec import Route
from neuron_fabric.hook.attachment import attach
from neuron_fabric.profile import PhaseRoute, Profile, sketch
from neuron_fabric.profile.draft import draft

WIDTH = 256
WARMUP = 5
JUDGED = 5
"""Steps between two decisions of capacity, and between two samples."""
PORT = 29_511
_OFF = (
    *("cosine", "norm", "margin", "saturation", "agreement"),
    *("loss_spike", "loss_slope", "loss_drift"),
)


def net() -> nn.Module:
    """A MiB of gradients."""
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))


def profile_of(model: nn.Module) -> Profile:
    """All layers by G_BINARY."""
    found = draft("cluster", sketch(model))
    phases = {"steady": PhaseRoute(Route.G_BINARY), "recovery": PhaseRoute(Route.G_BINARY)}
    regions = tuple(
        replace(one, phases={**one.phases, **phases}) if one.kind == "linear" else one
        for one in found.regions
    )
    warmup = replace(found.phases, warmup=replace(found.phases.warmup, steps=WARMUP))
    limits = {"capacity_every": JUDGED, "sample_every": JUDGED, "off": list(_OFF)}
    return replace(found, regions=regions, phases=warmup, monitor=limits, verified=True)


def gradient_bytes() -> int:
    """FP32 bytes of the regions that may be low-bit."""
    return sum(4 * one.numel() for one in net().parameters() if one.dim() > 1)


def main(
    folder: str, rank: int, world: int, master: str, steps: int, timeout_s: float, substrate: str
) -> int:
    """Train; 1 when it could not be done to the end."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    begin, found = time.monotonic(), {"error": "", "seconds": 0.0}
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://{master}:{PORT}",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=timeout_s),
        )
        found |= _trained(Path(folder), rank, steps, timeout_s, substrate)
    except Exception as error:  # of any kind: that it comes is what is looked at
        found["error"] = f"{type(error).__name__}: {error}"[:400]
    found["seconds"] = time.monotonic() - begin
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    return int(bool(found["error"]))


def _trained(
    folder: Path, rank: int, steps: int, timeout_s: float, substrate: str
) -> dict[str, Any]:
    torch.manual_seed(1)
    model = DistributedDataParallel(net())
    runtime = attach(
        model,
        profile_of(model.module),
        substrate=substrate or None,
        monitor=folder / "run",
        timeout_s=timeout_s,
        env={},
    )
    assert runtime is not None
    draw, used = torch.Generator().manual_seed(rank), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, WIDTH, generator=draw)).square().mean().backward()
        optimizer.step()
        used.append(sorted({str(how.route) for how in runtime.routes.values()}))
        (folder / f"progress-{rank}").write_text(str(step + 1), encoding="utf-8")
    runtime.close()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().tobytes()
    controls: Any = runtime.controls
    decisions = [[one.step, one.region, one.target, one.signal] for one in controls.decisions]
    return {
        "routes": used,
        "decisions": decisions,
        "weights": hashlib.sha256(weights).hexdigest(),
    }


if __name__ == "__main__":
    folder, rank, world, master, steps, timeout, *more = sys.argv[1:]
    sys.exit(main(folder, int(rank), int(world), master, int(steps), float(timeout), "".join(more)))
