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
from collections.abc import Sequence
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
from neuron_fabric.hook.capture_hook import DdpMean
from neuron_fabric.profile import PhaseRoute, Profile
from neuron_fabric.profile.profile_types import LEAST_WARMUP, Decode, Kind, Rule
from scripts.ranks import rank_process
from scripts.ranks.rank_process import Rank

SETTLE = LEAST_WARMUP + 7
"""Steps before the measured ones. Every hook that compresses begins after `LEAST_WARMUP` steps."""
LAST = 10
"""The loss is the mean over one in so many of the measured steps, the last ones."""


def register(name: str, model: DistributedDataParallel) -> Any:
    """Register a hook on a model.

    Args:
        name: "DDP" for none, "bf16", "PowerSGD rank N", "DDP every N steps", "embedding ROUTE" with
            votes for the rest, or ROUTE; a route is as of `route_of`.
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
        case ["DDP", _, every, _]:
            model.register_comm_hook(Seldom(model, int(every)), _seldom)
        case ["embedding", *words]:
            profile = profile_of(model.module, PhaseRoute(Route.G_BINARY), route_of(words))
            return attach(model, profile, scaler=False, env={})
        case words:
            profile = profile_of(model.module, route_of(words))
            return attach(model, profile, scaler=False, env={})
    return None


def route_of(words: Sequence[str]) -> PhaseRoute:
    """Return a route from its name and ``net`` (counts), ``fed`` (error feedback), ``rank N``."""
    decode: Decode = "net" if "net" in words else "vote"
    rank = int(words[-1]) if "rank" in words else 0
    return PhaseRoute(Route(words[0]), decode, feedback="fed" in words, low_rank=rank)


class Seldom:
    """State of a hook that sends in one of so many steps, and then the mean of the steps since.

    In between the optimizer gets the last result again. Buckets take turns.
    """

    def __init__(self, model: DistributedDataParallel, every: int) -> None:
        self.every, self.mean, self.step = every, DdpMean(model), -1
        self.since: dict[int, list[torch.Tensor]] = {}
        self.last: dict[int, torch.Tensor] = {}


def _seldom(state: Seldom, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    buffer, n = bucket.buffer(), bucket.index()
    state.step += n == 0
    if state.step < SETTLE // 2:  # DDP makes its buckets anew in the first steps
        return state.mean(None, bucket)
    state.since.setdefault(n, []).append(buffer.clone())
    if n in state.last and (state.step + n) % state.every:
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(buffer.copy_(state.last[n]))
        return done
    buffer.copy_(torch.stack(state.since.pop(n)).mean(0))

    def kept(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        state.last[n] = future.value().clone()
        return future.value()

    return state.mean(None, bucket).then(kept)


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


def profile_of(net: torch.nn.Module, how: PhaseRoute, others: PhaseRoute | None = None) -> Profile:
    """Return a profile for a model, with the signals of the monitor off.

    Args:
        net: The model.
        how: Route of the matrices.
        others: Route of embedding and head. None: that of the matrices, but FP32 with votes, from
            which the rule protects both.
    """
    protected = set(Rule().protect)
    others = others or (PhaseRoute(Route.FP32) if how.route.votes else how)
    profile = rank_process.profile_of(net, how, kinds=set(Kind) - protected)
    return rank_process.profile_of(net, others, kinds=protected, of=profile)


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

    def _rows(self) -> float | None:
        """Return the share of rows of embeddings with a gradient; None without an embedding."""
        assert self._model is not None
        kinds = [one for one in self._model.modules() if isinstance(one, torch.nn.Embedding)]
        rows = [one.weight.grad.any(1) for one in kinds if one.weight.grad is not None]
        return float(torch.cat(rows).float().mean()) if rows else None

    def _end(self) -> None:
        """Write the means over the ranks, a step, and end the process."""
        now, last = self._now(), max(1, self._steps // LAST)
        found = {key: (now[key] - self._before.get(key, 0)) / self._steps for key in now}
        found["loss"] = mean(self._losses[-last:])
        if self._session is not None:
            self._session.close()
        every: list[Any] = [None] * self._rank.world
        if (rows := self._rows()) is not None:
            found["rows"] = rows
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
