# SPDX-License-Identifier: Apache-2.0
"""A second gloo group over the ranks of a process group, for a thread of its own; needs torch.

Collectives of a group have to start in one order on every rank, so two threads take two groups.
`dist.new_group` cannot make it: it is called by the whole world, not by the ranks of a part of it
alone, unless with ``use_local_synchronization``, whose names for groups count what other groups a
rank is in.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist

from neuron_fabric.runtime.link_times import usual

OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}
AT_ONCE = 1 << 22
"""Bytes of all ranks together up to which each sends its own to every other at once: as many
messages and bytes as gloo's ring has, but one round instead of W - 1. Eight ranks on two cores take
3.8 ms for it instead of 12.7 (568 bytes each), 8.2 instead of 15.8 (512 KiB each). An all-reduce is
two rings, of two messages a round: 17 ms."""
_FEW = 1 << 10
_GROUPS: WeakSet[OwnGroup] = WeakSet()


def _keep_groups() -> None:
    """Never destroy a group in a forked process (a worker of a DataLoader): the destructor waits
    for gloo's threads, which the process does not have. Garbage of the parent is collected there
    too, and an exit clears all modules, so the reference is one that Python does not know of."""
    for group in tuple(_GROUPS):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group._gloo))


os.register_at_fork(after_in_child=_keep_groups)


class OwnGroup:
    """Tensors are on the host, whatever the backend of the other group."""

    def __init__(self, group: Any, timeout_s: float) -> None:
        """Every rank of ``group`` comes. A rank that is waited for longer than ``timeout_s`` is an
        error on those that wait."""
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        name = [os.urandom(8).hex()]
        dist.broadcast_object_list(name, src=dist.get_global_rank(group, 0), group=group)
        store = dist.PrefixStore(
            f"neuron_fabric/{name[0]}", dist.distributed_c10d._get_default_store()
        )
        seconds = timedelta(seconds=timeout_s)
        self._gloo: Any = dist.ProcessGroupGloo(store, self.rank, self.size, timeout=seconds)
        _GROUPS.add(self)

    def exchange(self, inbox: torch.Tensor, sent: torch.Tensor) -> Any:
        """Start it: row n of ``sent`` goes to rank n; what waits."""
        return self._gloo.alltoall_base(inbox, sent, [], [])

    def gather(self, own: torch.Tensor) -> torch.Tensor:
        """``own`` [n] of every rank, [ranks, n]."""
        return self.start_gather(own)()

    def start_gather(self, own: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Start it; what waits and gives `gather`'s."""
        everything = torch.empty((self.size, own.numel()), dtype=own.dtype)
        if everything.nbytes <= AT_ONCE:
            sent = own.expand(self.size, -1).contiguous()
            work = self.exchange(everything, sent)
        else:
            sent = own
            work = self._gloo.allgather([list(everything)], [sent])

        def wait(_: torch.Tensor = sent) -> torch.Tensor:  # kept until it has gone
            work.wait()
            return everything

        return wait

    def latencies(self, runs: int = 17) -> tuple[float, float]:
        """What an exchange and a gather of a few bytes take together, in times of an all-reduce of
        as many, and in seconds: of each what it usually takes, as the line through all-reduces goes
        by that; rank 0's on every rank. With eight ranks on two cores 0.4 times; with a core for
        each, and a network that is slow to answer, 2 / (2 W - 2): it is measured, not assumed."""
        few = torch.zeros(self.size, _FEW, dtype=torch.uint8)
        ways: list[Callable[[], object]] = [
            lambda: (self.exchange(torch.empty_like(few), few).wait(), self.gather(few[0])),
            lambda: self.all_reduce(torch.zeros(_FEW))(),
        ]
        took: list[list[float]] = [[], []]
        for run in range(runs + 1):
            for times, way in zip(took, ways, strict=True):
                self.gather(few[0, :1])  # all begin at one time
                start = time.perf_counter()
                way()
                times += [time.perf_counter() - start] * (run > 0)
        packed, full = map(usual, took)
        ratio, seconds = self.gather(torch.tensor([packed / max(full, 1e-9), packed]))[0].tolist()
        return ratio, seconds

    def all_reduce(self, values: torch.Tensor, op: str = "sum") -> Callable[[], torch.Tensor]:
        """Start it, in place; what waits and gives ``values``."""
        options = dist.AllreduceOptions()
        options.reduceOp = OPS[op]
        work = self._gloo.allreduce([values], options)

        def wait() -> torch.Tensor:
            work.wait()
            return values

        return wait
