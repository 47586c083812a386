# SPDX-License-Identifier: Apache-2.0
"""Rank of `nf measure bench hook`, a process of a gloo group.

Call: `python -m scripts.ranks.hook_ranks FOLDER RUNS`. It times steps of
plain DDP, of the hook with all in FP32, and of the hook with votes, in turn; and steps without any
communication, which give the time of backward itself. Rank 0 writes FOLDER/result.json: seconds of
each; with RUNS = 0 the memory that the hook takes, since a heap whose peaks can be compared
(bench_hook) is slow: it made a bucket of votes take 0.65 of plain DDP's time, not 0.54.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.capacity.scale_command import peak_memory
from neuron_fabric.codec import Route
from neuron_fabric.hook.attachment import attach
from neuron_fabric.profile.profile_types import LEAST_WARMUP
from scripts.ranks.rank_process import Rank, profile_of

PLAIN, FULL, LOW, ALONE = "plain", "fp32", "low", "alone"
BUCKET_WIDTH = 2560
"""A layer whose weights are a bucket of 25 MiB."""
LAYERS, WIDTH, ROWS = 12, 1443, 4
"""An MLP of 25 M parameters, and the examples of a worker."""
FINE_MIB = 4
"""Buckets of a layer each, where the share that backward hides is measured: the last bucket is
there when backward ends, and of four buckets of DDP's 25 MiB that alone is a quarter."""
SLEEP_SHARE = 4.0
"""A backward that is long enough: so many times what communication takes. What is left of it is
about the same at 8 times then; at 2, ranks still take the cores from each other's backward."""


class Mlp(nn.Module):
    """Multi-layer perceptron whose backward can sleep in each layer, like a slower device.

    Args:
        layers: Number of linear layers, each followed by a ReLU.
        width: Inputs and outputs of each layer.

    Attributes:
        pause: List of one number: seconds that backward sleeps in each layer; 0.0 for no sleep.
    """

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.pause = [0.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
            if self.pause[0]:  # like a device that computes, and needs no core
                x.register_hook(lambda _: time.sleep(self.pause[0]))  # type: ignore[no-untyped-call]
        return x


class Ways:
    """One net with a DDP model for each way of reducing its gradients."""

    def __init__(
        self, layers: int, width: int, rows: int, names: tuple[str, ...], mib: int | None = None
    ) -> None:
        """Make the models.

        Args:
            layers: Layers of the MLP.
            width: Width of a layer.
            rows: Examples of a worker.
            names: Ways: PLAIN, FULL, LOW.
            mib: Size of a bucket in MiB; None for DDP's default.
        """
        self.x = torch.randn(rows, width)
        self.models: dict[str, DistributedDataParallel] = {}
        self.runtimes: dict[str, Any] = {}
        for name in names:
            model = DistributedDataParallel(
                Mlp(layers, width), gradient_as_bucket_view=True, bucket_cap_mb=mib
            )
            if name != PLAIN:
                route = Route.G_BINARY if name == LOW else Route.FP32
                self.runtimes[name] = attach(model, profile_of(model.module, route), env={})
            self.models[name] = model

    def step(self, name: str) -> float:
        """Return the seconds of a forward and a backward, the longest of all ranks.

        `ALONE` is plain DDP without communication.
        """
        model = self.models[PLAIN if name == ALONE else name]
        for one in model.parameters():
            if one.grad is not None:
                one.grad.zero_()
        dist.barrier()
        start = time.perf_counter()
        if name == ALONE:
            with model.no_sync():
                model(self.x).sum().backward()
        else:
            model(self.x).sum().backward()
        took = time.perf_counter() - start
        longest = torch.tensor(took)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        return longest.item()

    def seconds(self, names: tuple[str, ...], runs: int, warm: int = 0) -> dict[str, list[float]]:
        """Return the seconds of ``runs`` steps of each way, in turn, after ``warm`` steps."""
        found: dict[str, list[float]] = {name: [] for name in names}
        for run in range(warm + runs):
            for name in names:
                took = self.step(name)
                if run >= warm:
                    found[name].append(took)
        return found

    def pause(self, seconds: float) -> None:
        """Make backward through each layer take so many seconds longer."""
        for model in self.models.values():
            model.module.pause[0] = seconds

    def close(self) -> None:
        """Close the hooks; raise RuntimeError if votes were sent by a way other than LOW.

        Also if LOW sent none.
        """
        for name, one in self.runtimes.items():
            one.close()
            if (one.sent.get(Route.G_BINARY, 0) > 0) != (name == LOW):
                raise RuntimeError(f"{name} has sent {dict(one.sent)}")
        self.models.clear()
        gc.collect()


def _seconds(runs: int) -> dict[str, Any]:
    """Time a bucket, a step, and a step in buckets of one layer with a long backward.

    Returns:
        Seconds by way, of "bucket", "step", "fine" (buckets of one layer) and "long".
    """
    warm = LEAST_WARMUP + 2
    bucket = Ways(1, BUCKET_WIDTH, 1, (PLAIN, LOW))
    found: dict[str, Any] = {"bucket": bucket.seconds((PLAIN, LOW, ALONE), runs, warm)}
    bucket.close()
    mlp = Ways(LAYERS, WIDTH, ROWS, (PLAIN, FULL, LOW))
    found["step"] = mlp.seconds((PLAIN, FULL, LOW, ALONE), runs, warm)
    mlp.close()
    fine = Ways(LAYERS, WIDTH, ROWS, (PLAIN, LOW), FINE_MIB)
    found["fine"] = fine.seconds((LOW, ALONE), runs, warm)
    spent = [sorted(found["fine"][name])[runs // 2] for name in (LOW, ALONE)]
    fine.pause(max(SLEEP_SHARE * (spent[0] - spent[1]), 1e-3) / LAYERS)
    found["long"] = fine.seconds((LOW, ALONE), runs, 1)
    fine.close()
    return found


def _memory() -> dict[str, Any]:
    """Return the peak bytes of this process while it trains, by plain DDP and by votes."""
    found = {}
    for name in (PLAIN, LOW):
        ways = Ways(LAYERS, WIDTH, ROWS, (name,))
        found[name] = _most(partial(ways.seconds, (name,), 2, LEAST_WARMUP + 2))
        ways.close()
        del ways
        gc.collect()
    return {"memory": found, "gradients": 4 * LAYERS * WIDTH * WIDTH}


def _most(work: Callable[[], object]) -> int:
    """Return the peak of resident memory in bytes during ``work``."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the most of from now on
    work()
    return peak_memory()


if __name__ == "__main__":
    rank, (runs,) = Rank.of_command()
    with rank.joined():
        rank.leave(_seconds(int(runs)) if int(runs) else _memory())
    os._exit(0)  # a thread of gloo may outlive what it works for
