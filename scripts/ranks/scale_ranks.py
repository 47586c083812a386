# SPDX-License-Identifier: Apache-2.0
"""Rank of `nf train scale MODEL --hook`, a process of a gloo group.

Call: `python -m scripts.ranks.scale_ranks FOLDER MODEL ROUTE CAP`. The hook
itself runs over every bucket that DDP would make of a model, with random gradients: the model's
parameters take no memory, and one bucket's gradients exist at a time. Rank 0 writes
FOLDER/result.json: of every rank the seconds, bytes by route, decisions, a digest of all results,
and the peak of memory.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.capacity.scale_command import model_of, peak_memory, profile_of
from neuron_fabric.codec import Route
from neuron_fabric.hook.attachment import attach
from neuron_fabric.hook.ddp_buckets import bucket_assignment
from neuron_fabric.profile import sketch
from neuron_fabric.profile.profile_types import LEAST_WARMUP, Phases, Warmup
from scripts.ranks.rank_process import OFF, Rank

DRAWN = 1 << 20
"""Gradients that are drawn; a bucket begins somewhere among them, and goes round."""
SIZE = 0.01


class Shapes(DistributedDataParallel):
    """Stand-in for a DistributedDataParallel model, without gradients and communication."""

    def __init__(self, module: nn.Module, cap: int) -> None:
        nn.Module.__init__(self)
        self.module, self.process_group = module, dist.group.WORLD
        self.bucket_bytes_cap, self.gradient_as_bucket_view = cap, False
        self.hook: Any = None

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return {}  # no hook yet

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Store the hook in `hook`, for `main` to call."""
        self.hook = partial(hook, state)


def without_memory(net: nn.Module) -> nn.Module:
    """Replace the parameters of ``net`` by CPU parameters that all show one number; return it.

    They take no memory. Parameters that are shared between modules stay shared.
    """
    made: dict[int, nn.Parameter] = {}
    for module in net.modules():
        for name, one in module.named_parameters(recurse=False):
            if id(one) not in made:
                shown = torch.zeros(1, dtype=one.dtype).expand(one.shape)
                made[id(one)] = nn.Parameter(shown, one.requires_grad)
            module._parameters[name] = made[id(one)]
    return net


def drawn_bucket(place: int, last: bool, members: Sequence[nn.Parameter], flat: Any) -> Any:
    """Return a stand-in for `dist.GradBucket` with random gradients ``flat``."""

    def gradients() -> list[torch.Tensor]:
        parts = flat.split([one.numel() for one in members])
        return [part.view(one.shape) for part, one in zip(parts, members, strict=True)]

    return SimpleNamespace(
        index=lambda: place,
        is_last=lambda: last,
        buffer=lambda: flat,
        parameters=lambda: list(members),
        gradients=gradients,
    )


def buckets(
    parameters: Sequence[nn.Parameter], cap: int, rank: int, step: int, few: bool
) -> Iterator[Any]:
    """Yield every bucket of a step with random gradients.

    Args:
        parameters: Parameters of the model.
        cap: Size of a bucket in bytes.
        rank: Rank, which determines the gradients.
        step: Step, which determines the gradients.
        few: Only the first bucket, which is small.
    """
    draw = torch.Generator().manual_seed(1_000 * step + rank)
    drawn = SIZE * torch.randn(DRAWN, generator=draw)
    found = bucket_assignment(parameters, cap)[: 1 if few else None]
    for place, numbers in enumerate(found):
        members = [parameters[n] for n in numbers]
        flat = torch.empty(sum(one.numel() for one in members))
        whole = drawn.roll(7_919 * place)
        for at in range(0, flat.numel(), DRAWN):
            flat[at : at + DRAWN] = whole[: flat.numel() - at]
        yield drawn_bucket(place, place == len(found) - 1, members, flat)


def main(rank: Rank, name: str, route: Route, cap: int) -> None:
    """Run the warm-up steps with the first bucket only, then one whole step; gather the results."""
    net, head = model_of(name)
    net = without_memory(net)
    profile = profile_of(name, sketch(net, head), route, Phases(Warmup(LEAST_WARMUP)), OFF)
    model = Shapes(net, cap)
    runtime = attach(model, profile, timeout_s=600.0, env={})
    assert runtime is not None
    parameters = [one for _, one in net.named_parameters()]
    for step in range(LEAST_WARMUP):
        for one in buckets(parameters, cap, rank.number, step, few=True):
            model.hook(one).wait()
    digest, count, low, before = hashlib.blake2b(), 0, 0, dict(runtime.sent)
    busy = 0.0
    for one in buckets(parameters, cap, rank.number, LEAST_WARMUP, few=False):
        start = time.perf_counter()
        model.hook(one).wait()
        busy += time.perf_counter() - start
        digest.update(one.buffer().numpy().data)
        count += 1
    low = len({name for name, how in runtime.routes.items() if how.route != Route.FP32})
    runtime.close()
    sent = {key: n - before.get(key, 0) for key, n in runtime.sent.items()}
    controls: Any = runtime.controls
    left = {
        "seconds": busy,
        "buckets": count,
        "low": low,
        "sent": {key: n for key, n in sent.items() if n},
        "decisions": [[one.step, one.region, one.target] for one in controls.decisions],
        "digest": digest.hexdigest(),
        "memory": peak_memory(),
    }
    every: list[Any] = [None] * rank.world
    dist.all_gather_object(every, left)
    rank.leave({"ranks": every})


if __name__ == "__main__":
    rank, (name, route, cap) = Rank.of_command()
    with rank.joined():
        main(rank, name, Route(route), int(cap))
    os._exit(0)  # a thread of gloo may outlive what it works for
