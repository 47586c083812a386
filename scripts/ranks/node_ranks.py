# SPDX-License-Identifier: Apache-2.0
"""Node of `nf train nodes`, a process that trains a small net with low-bit gradients.

Call: `python -m scripts.ranks.node_ranks FOLDER STEPS TIMEOUT [FILE]`;
FILE is its substrate. It writes FOLDER/progress-RANK, the number of steps done, and
FOLDER/rank-RANK.json, the decisions, or the error that ended it. Only capacity decides here:
signals of the training are off.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.codec import Route
from neuron_fabric.hook.attachment import attach
from neuron_fabric.profile import Profile
from neuron_fabric.profile.profile_types import Kind
from scripts.ranks import rank_process
from scripts.ranks.rank_process import Rank

WIDTH = 256
WARMUP = 5
JUDGED = 5
"""Steps between two decisions of capacity, and between two samples."""
_OFF = (
    *("cosine", "norm", "margin", "saturation", "agreement"),
    *("loss_spike", "loss_slope", "loss_drift"),
)


def net() -> nn.Module:
    """Return the trained net, which has 1 MiB of gradients."""
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))


def profile_of(model: nn.Module) -> Profile:
    """Return a profile of the net in which all linear layers use G_BINARY."""
    limits = {"capacity_every": JUDGED, "sample_every": JUDGED, "off": list(_OFF)}
    return rank_process.profile_of(model, Route.G_BINARY, WARMUP, limits, (Kind.LINEAR,))


def main(rank: Rank, steps: int, timeout_s: float, substrate: str) -> int:
    """Train, and write the results or the error; return 1 if it ended by an error, else 0.

    Args:
        rank: This process.
        steps: Number of steps.
        timeout_s: Time to wait for the other ranks, in seconds.
        substrate: File of the substrate; "" for the default.
    """
    begin, found = time.monotonic(), {"error": "", "seconds": 0.0}
    try:
        with rank.joined(timeout_s):
            found |= _trained(rank, steps, timeout_s, substrate)
    except Exception as error:  # of any kind: that it comes is what is looked at
        found["error"] = f"{type(error).__name__}: {error}"[:400]
    found["seconds"] = time.monotonic() - begin
    path = rank.folder / f"rank-{rank.number}.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return int(bool(found["error"]))


def _trained(rank: Rank, steps: int, timeout_s: float, substrate: str) -> dict[str, Any]:
    torch.manual_seed(1)
    model = DistributedDataParallel(net())
    runtime = attach(
        model,
        profile_of(model.module),
        substrate=substrate or None,
        monitor=rank.folder / "run",
        timeout_s=timeout_s,
        env={},
    )
    assert runtime is not None
    draw, used = torch.Generator().manual_seed(rank.number), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, WIDTH, generator=draw)).square().mean().backward()
        optimizer.step()
        used.append(sorted({str(how.route) for how in runtime.routes.values()}))
        (rank.folder / f"progress-{rank.number}").write_text(str(step + 1), encoding="utf-8")
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
    rank, (steps, timeout, *more) = Rank.of_command()
    sys.exit(main(rank, int(steps), float(timeout), "".join(more)))
