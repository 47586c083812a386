# SPDX-License-Identifier: Apache-2.0
"""Rank of `nf measure hooks`: runs a training script with a chosen communication hook.

Call: `python -m scripts.ranks.hook_launcher FOLDER HOOK STEPS SCRIPT ARG...`. The
script needs no change: `StepMeter` wraps `DistributedDataParallel`, so that the hook is registered
on the model that the script makes, and `Tensor.backward`, which ends a step. After `SETTLE` + STEPS
steps the process ends, and rank 0 has written FOLDER/result.json.
"""

# No postponed annotations here: register_comm_hook looks at those of the hook.

import os
import runpy
import sys
import time
from functools import wraps
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.codec import Route
from neuron_fabric.errors import say
from neuron_fabric.hook.attachment import attach
from neuron_fabric.profile import PhaseRoute, Profile
from neuron_fabric.profile.profile_types import LEAST_WARMUP, Kind, Rule
from scripts.ranks import rank_process
from scripts.ranks.rank_process import Rank

SETTLE = LEAST_WARMUP + 7
"""Steps before the measured ones. Every hook that compresses begins after `LEAST_WARMUP` steps."""
LAST = 10
"""The loss is the mean over one in so many of the measured steps, the last ones."""


def register(name: str, model: DistributedDataParallel) -> Any:
    """Register a hook on a model.

    Args:
        name: "DDP" for none, "bf16", "PowerSGD rank N", or a route with or without a decode.
        model: The model, before its first backward.

    Returns:
        The session of the runtime for a route, else None.
    """
    match name.split():
        case ["DDP"]:
            return None
        case ["bf16"]:
            model.register_comm_hook(None, _bf16_hook)
        case ["PowerSGD", _, rank]:
            state = powerSGD_hook.PowerSGDState(None, int(rank), LEAST_WARMUP)
            model.register_comm_hook(state, _one_at_a_time)
        case [route, *decode]:
            how = PhaseRoute(Route(route), "net" if decode == ["net"] else "vote")
            return attach(model, profile_of(model.module, how), scaler=False, env={})
    return None


def _bf16_hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Run the bf16 hook of torch; under its own name DDP accepts it with NCCL only."""
    return default_hooks.bf16_compress_hook(None, bucket)


def _one_at_a_time(
    state: powerSGD_hook.PowerSGDState, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Run the PowerSGD hook of torch on a bucket to its end.

    With two buckets in flight it crashes under gloo: callbacks of both start collectives from the
    threads of gloo, in an order that differs between ranks.
    """
    future = powerSGD_hook.powerSGD_hook(state, bucket)
    future.wait()
    return future


def profile_of(net: torch.nn.Module, how: PhaseRoute) -> Profile:
    """Return a profile with one route for a model; signals of the monitor are off.

    The kinds that the rule protects from votes (head and embedding) keep FP32 with votes.
    """
    kept = Rule().protect if how.route.votes else ()
    return rank_process.profile_of(net, how, kinds=set(Kind) - set(kept))


class StepMeter:
    """Meter of a training: time, processor time, bytes and loss of its steady steps.

    Args:
        rank: This process.
        hook: Name for `register`.
        steps: Number of measured steps.
    """

    def __init__(self, rank: Rank, hook: str, steps: int) -> None:
        self._rank, self._hook, self._steps = rank, hook, steps
        self._model: DistributedDataParallel | None = None
        self._session: Any = None
        self._losses: list[float] = []
        self._before: dict[str, float] = {}

    def install(self) -> None:
        """Wrap `DistributedDataParallel` and `Tensor.backward`, for the rest of this process."""
        make, backward = DistributedDataParallel.__init__, torch.Tensor.backward

        @wraps(make)
        def made(model: DistributedDataParallel, *args: Any, **words: Any) -> None:
            make(model, *args, **words)
            if self._model is not None:
                sys.exit("the script makes two DistributedDataParallel models; one is measured")
            self._model, self._session = model, register(self._hook, model)

        @wraps(backward)
        def done(loss: torch.Tensor, *args: Any, **words: Any) -> None:
            backward(loss, *args, **words)  # type: ignore[no-untyped-call]
            # Accumulated gradients are not reduced before the last backward of a step.
            if self._model is not None and self._model.require_backward_grad_sync:
                self._step(float(loss.detach()))

        DistributedDataParallel.__init__ = made  # type: ignore[method-assign]
        torch.Tensor.backward = done  # type: ignore[method-assign]

    def missing(self) -> str:
        """Return why a script that has ended was not measured."""
        if self._model is None:
            return "the script makes no DistributedDataParallel model"
        need = SETTLE + self._steps
        return f"the script ended after {len(self._losses)} steps, {need} are needed: --steps less"

    def _step(self, loss: float) -> None:
        self._losses.append(loss)
        if len(self._losses) == SETTLE:
            self._before = self._now()
        elif len(self._losses) == SETTLE + self._steps:
            self._end()

    def _now(self) -> dict[str, float]:
        """Return seconds, processor time of all threads, bytes written, and times of our hook.

        gloo writes to its sockets by `writev`, which `wchar` counts; headers of TCP are not in it.
        """
        written = Path("/proc/self/io").read_text(encoding="ascii").split("wchar: ")[1].split()[0]
        parts = {} if self._session is None else dict(self._session.reducer_counters.seconds)
        now = {"wall": time.perf_counter(), "cpu": time.process_time(), "bytes": float(written)}
        return {**now, **parts}

    def _end(self) -> None:
        """Write the means over the ranks, a step, and end the process."""
        now, last = self._now(), max(1, self._steps // LAST)
        found = {key: (now[key] - self._before.get(key, 0)) / self._steps for key in now}
        found["loss"] = mean(self._losses[-last:])
        if self._session is not None:
            self._session.close()
        every: list[Any] = [None] * self._rank.world
        dist.all_gather_object(every, found)
        self._rank.leave({key: mean(one[key] for one in every) for key in found})
        dist.barrier()
        os._exit(0)  # the rest of the script is not needed


if __name__ == "__main__":
    rank, (hook, steps, script, *words) = Rank.of_command()
    meter = StepMeter(rank, hook, int(steps))
    meter.install()
    sys.argv, sys.path[0] = [script, *words], str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
    say(meter.missing())
    sys.exit(1)
