# SPDX-License-Identifier: Apache-2.0
"""Reducer that uses collectives of torch: every rank counts a share of the lines.

A bucket takes two: an all_to_all, by which each rank gets its share of the lines of all workers
with their sidecars, and an all_gather of the counted results. At any W that is 1/32 (G_BINARY) of
the bytes of an FP32 ring; gathering all lines everywhere would grow with W. FP32 lines are sent the
same way, added in the order of workers, and integer codes, whose sums have no order.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from neuron_fabric.capacity.network_times import usual
from neuron_fabric.codec import LINE, Route, add_codes, count, sum_kind, torch_engine
from neuron_fabric.codec.reduction import ordered_sum
from neuron_fabric.codec.torch_engine import on
from neuron_fabric.reducers.interface import Counters, Outcome, Part, Reducer

AT_ONCE = 1 << 22
"""Bytes of all ranks together up to which each sends its own to every other at once: as many
messages and bytes as gloo's ring has, but one round instead of W - 1. Eight ranks on two cores take
3.8 ms for it instead of 12.7 (568 bytes each), 8.2 instead of 15.8 (512 KiB each). An all-reduce is
two rings, of two messages a round: 17 ms."""
_FEW = 1 << 10
_GROUPS: WeakSet[OwnGroup] = WeakSet()


def _keep_groups() -> None:
    """Keep all groups alive in a forked process, such as a worker of a DataLoader.

    The destructor of a group waits for gloo's threads, which that process does not have. Garbage of
    the parent is collected there too, and an exit clears all modules, so the reference is one that
    Python does not know of.
    """
    for group in tuple(_GROUPS):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group._gloo))


os.register_at_fork(after_in_child=_keep_groups)


class OwnGroup:
    """Separate gloo group over the ranks of a process group, for one thread and CPU tensors.

    Collectives of a group must start in one order on every rank, so two threads need two groups.
    `dist.new_group` cannot create it: the whole world must call it, not only the ranks of the
    group, unless ``use_local_synchronization`` is set, whose group names depend on the other groups
    of a rank.
    """

    def __init__(self, group: Any, timeout_s: float) -> None:
        """Create the group; every rank of ``group`` must call it.

        A collective that waits for a rank longer than ``timeout_s`` seconds raises an error.
        """
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
        """Start an all-to-all in which row n of ``sent`` is sent to rank n; return its work.

        Row n of ``inbox`` receives what rank n has sent to this one.
        """
        return self._gloo.alltoall_base(inbox, sent, [], [])

    def gather(self, own: torch.Tensor) -> torch.Tensor:
        """Gather ``own`` [n] of every rank; wait and return [ranks, n]."""
        return self.start_gather(own)()

    def start_gather(self, own: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Start a gather of ``own`` [n]; return a function that waits and returns [ranks, n]."""
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
        """Measure the time of one exchange and one gather of a few bytes.

        The ratio depends on ranks and cores: 0.4 with eight ranks on two cores, 2 / (2 W - 2) with
        a core for each and a slow network. So it is measured, by the lower quartile as for
        all-reduces.

        Returns:
            Their time as a multiple of an all-reduce of as many bytes, and in seconds; the result
            of rank 0 on every rank.
        """
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

    def all_reduce(self, values: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Start a sum in place; return a function that waits and returns ``values``."""
        work = self._gloo.allreduce([values], dist.AllreduceOptions())

        def wait() -> torch.Tensor:
            work.wait()
            return values

        return wait


MAX_WORKERS = 255
"""A count is a byte; sums of codes have room for as many."""


@dataclass(frozen=True)
class _Share:
    """Part of a bucket as it is exchanged: ``size`` lines per rank, at byte ``at`` of a message.

    ``first`` is the first of this rank's lines.
    """

    part: Part
    size: int
    at: int
    first: int


@dataclass(frozen=True)
class Handle:
    """Bucket whose exchange has started."""

    shares: Sequence[_Share]
    tensors: int
    sent: torch.Tensor  # kept until it has gone
    inbox: torch.Tensor
    work: Any


class TorchReducer:
    """Reducer (see `Reducer`) by collectives of gloo, whatever backend DDP uses.

    Lines are on the CPU.
    """

    def __init__(self, timeout_s: float = 60.0) -> None:
        """Set the time-out in seconds after which a missing rank ends the training."""
        self.counters = Counters()
        self._timeout_s = timeout_s

    def open(self, group: Any) -> None:
        """Create two groups over the ranks of ``group``, as two threads call `submit` and `wait`.

        A collective call.
        """
        self.first_group, self.second_group = (OwnGroup(group, self._timeout_s) for _ in range(2))
        self._workers, self._rank = self.first_group.size, self.first_group.rank

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: Any) -> Handle:
        """Start the exchange of a bucket's lines; return a handle for `wait` (`Reducer.submit`)."""
        start = time.perf_counter()
        shares, tensors, sent = self._messages(parts, sidecar, self._workers)
        inbox = torch.empty_like(sent)
        work = self._exchange(inbox, sent)
        for share in shares:
            foreign = share.size * LINE * (self._workers - 1)
            self.counters.moved(share.part.route, foreign, foreign)
        foreign = 8 * tensors * (self._workers - 1)
        self.counters.moved(Route.FP32, foreign, foreign)
        self.counters.seconds["submit"] += time.perf_counter() - start
        return Handle(shares, tensors, sent, inbox, work)

    def _messages(
        self, parts: Sequence[Part], sidecar: Any, ranks: int
    ) -> tuple[Sequence[_Share], int, torch.Tensor]:
        """Return the shares of a bucket over ranks, its tensors and messages, uint8[ranks, n]."""
        lines = [torch.as_tensor(part.lines) for part in parts]
        side = torch.as_tensor(sidecar)
        if lines:  # a sidecar without columns may be elsewhere
            side = side.to(lines[0].device)
        shares, at = [], side.nbytes
        for part in parts:
            size = -(-len(part.lines) // ranks)
            shares.append(_Share(part, size, at, self._rank % ranks * size))
            at += size * LINE
        sent = torch.empty((ranks, at), dtype=torch.uint8, device=side.device)
        sent[:, : side.nbytes] = side.reshape(-1).view(torch.uint8)
        for share, own in zip(shares, lines, strict=True):
            _put(sent, share, own)
        return shares, side.shape[1], sent

    def wait(self, handle: Handle) -> Outcome:
        """Count this rank's share of a bucket, gather all shares and return the result.

        See `Reducer.wait`.
        """
        handle.work.wait()
        rows, counted = self._counted(handle)
        own = torch.cat([one.reshape(-1) for one in counted])
        gathered = self._gather(own)
        total, parts, at = self._sum(rows), [], 0
        for share, one in zip(handle.shares, counted, strict=True):
            parts.append(_whole(gathered[:, at : at + one.numel()], share, one.shape[0]))
            at += one.numel()
            foreign = one.numel() * (self._workers - 1)
            self.counters.moved(share.part.route, foreign, foreign)
        self.counters.buckets += 1
        return self._outcome(parts, total)

    def _counted(self, handle: Handle) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        """Return the sidecars of a received bucket, f32[W, 2, T], and the counted shares."""
        start = time.perf_counter()
        inbox, tensors = handle.inbox, handle.tensors
        side = inbox[:, : 8 * tensors].contiguous().view(torch.float32)
        rows = side.reshape(self._workers, 2, tensors)
        counted = [self._count(inbox, share, rows[:, 1] > 0) for share in handle.shares]
        self.counters.seconds["count"] += time.perf_counter() - start
        return rows, counted

    def close(self) -> None:
        """Release the groups."""
        del self.first_group, self.second_group

    # What differs where lines are counted on a device, see `TensorReducer`.

    def _exchange(self, inbox: torch.Tensor, sent: torch.Tensor) -> Any:
        return self.first_group.exchange(inbox, sent)

    def _gather(self, own: torch.Tensor) -> torch.Tensor:
        return self.second_group.gather(own)

    def _sum(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(ordered_sum(rows.numpy()))

    def _outcome(self, parts: Sequence[torch.Tensor], total: torch.Tensor) -> Outcome:
        return Outcome([one.numpy() for one in parts], total[0].numpy(), total[1].numpy())

    def _count(self, inbox: torch.Tensor, share: _Share, here: torch.Tensor) -> torch.Tensor:
        """Count this rank's share of a part, over the workers: uint8[layers, size, 64].

        Args:
            inbox: Received messages, uint8[W, bytes].
            share: Place of the part in a message.
            here: Presence of each worker for each tensor, bool[W, T].
        """
        part, lines = share.part, self._lines(inbox, share)
        if part.route == Route.FP32:
            return self._sum(lines.view(torch.float32)).view(torch.uint8)[None]
        present = None
        if not here[:, list(part.columns)].all():
            present = here[:, self._columns(share)].numpy()
        if part.route.codes:
            return torch.from_numpy(add_codes(lines.numpy(), part.route, present))
        votes, planes = count(
            lines.numpy(), part.route, present=present, planes=part.net, vote=not part.net
        )
        return torch.from_numpy(planes if part.net else votes[None])

    def _lines(self, inbox: torch.Tensor, share: _Share) -> torch.Tensor:
        """Return this rank's share of the lines of all workers, uint8[W, size, 64]."""
        shape = (self._workers, share.size, LINE)
        return inbox[:, share.at : share.at + share.size * LINE].reshape(shape).contiguous()

    def _columns(self, share: _Share) -> NDArray[np.int64]:
        """Return the column of the sidecar for each line of this rank's share."""
        lines = share.first + np.arange(share.size)
        tensor = np.searchsorted(share.part.starts, lines, "right") - 1
        return np.array(share.part.columns, np.int64)[tensor]


class TensorReducer(TorchReducer):
    """Reducer that counts lines in torch operations, on the device where they are.

    CUDA tensors go through the process group of the model, which has to be NCCL: no call blocks the
    host, so one thread starts all collectives. CPU tensors go through the groups of `TorchReducer`.
    `Part.lines`, the sidecar and the outcome are tensors.
    """

    def open(self, group: Any) -> None:
        """Create the groups of `TorchReducer`: numbers of the monitor use gloo everywhere."""
        super().open(group)
        self._group = group

    def _exchange(self, inbox: torch.Tensor, sent: torch.Tensor) -> Any:
        if not sent.is_cuda:
            return super()._exchange(inbox, sent)
        return dist.all_to_all_single(inbox, sent, group=self._group, async_op=True)

    def _gather(self, own: torch.Tensor) -> torch.Tensor:
        if not own.is_cuda:
            return super()._gather(own)
        every = own.new_empty((self._workers, own.numel()))
        dist.all_gather_into_tensor(every, own, group=self._group)
        return every

    def _sum(self, rows: torch.Tensor) -> torch.Tensor:
        return torch_engine.ordered_sum(rows)

    def _outcome(self, parts: Sequence[torch.Tensor], total: torch.Tensor) -> Outcome:
        return Outcome(parts, *total)

    def _count(self, inbox: torch.Tensor, share: _Share, here: torch.Tensor) -> torch.Tensor:
        part, lines = share.part, self._lines(inbox, share)
        if part.route == Route.FP32:
            return self._sum(lines.view(torch.float32)).view(torch.uint8)[None]
        present = here[:, on(self._columns(share), here.device)]
        if part.route.codes:
            width = int(sum_kind(part.route, self._workers)[1][-1])
            return torch_engine.add_codes(lines, present, part.route, width)
        vote, planes = torch_engine.count(lines, present, part.route, part.net, not part.net)
        found = planes if vote is None else vote[None]
        assert found is not None
        return found


def _put(message: torch.Tensor, share: _Share, lines: torch.Tensor) -> None:
    """Copy the lines of a part into the messages uint8[rank, bytes], a share for each rank."""
    size = share.size * LINE
    whole, rest = divmod(lines.nbytes, size) if size else (0, 0)
    flat = lines.reshape(-1)
    message[:whole, share.at : share.at + size] = flat[: whole * size].reshape(whole, size)
    message[whole:, share.at : share.at + size] = 0
    if rest:
        message[whole, share.at : share.at + rest] = flat[whole * size :]


def _whole(gathered: torch.Tensor, share: _Share, layers: int) -> torch.Tensor:
    """Join all ranks' shares, uint8[W, bytes], to the result of a part, uint8[layers, n, 64]."""
    lines, first = len(share.part.lines), 0
    whole = gathered.new_empty((layers, lines, LINE))
    for one in gathered.reshape(len(gathered), layers, share.size, LINE):
        whole[:, first : first + share.size] = one[:, : max(0, lines - first)]
        first += share.size
    return whole


class HostReducer:
    """Reducer (see `Reducer`) that copies packed lines to the host for another one, and back.

    The copies use pinned memory, so that only packed lines cross the bus, at its full rate. Their
    times are in the counters: ``copy_to_host`` includes the wait for packing, ``copy_to_device`` is
    the time to start the copies. On the CPU nothing is copied.
    """

    def __init__(self, own: Reducer, device: torch.device) -> None:
        """Create the reducer, not opened.

        Args:
            own: Reducer of arrays.
            device: Device of the lines that are submitted, and of the results.
        """
        self._own, self._device, self.counters = own, device, own.counters

    def open(self, group: Any) -> None:
        """Open the reducer of arrays; a collective call."""
        self._own.open(group)
        self.first_group, self.second_group = self._own.first_group, self._own.second_group

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: torch.Tensor) -> Any:
        """Copy lines and sidecar to the host, wait for them and submit them."""
        start = time.perf_counter()
        here = [_to_host(one) for one in (sidecar, *(part.lines for part in parts))]
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        columns, *lines = (one.numpy() for one in here)
        self.counters.seconds["copy_to_host"] += time.perf_counter() - start
        own = [replace(part, lines=one) for part, one in zip(parts, lines, strict=True)]
        return self._own.submit(step, bucket, own, columns)

    def wait(self, handle: Any) -> Outcome:
        """Wait for the result of a bucket and start its copy to the device."""
        outcome = self._own.wait(handle)
        start = time.perf_counter()
        parts = [self._to_device(one) for one in outcome.parts]
        scales, present = self._to_device(outcome.scales), self._to_device(outcome.present)
        self.counters.seconds["copy_to_device"] += time.perf_counter() - start
        return replace(outcome, parts=parts, scales=scales, present=present)

    def close(self) -> None:
        """Close the reducer of arrays."""
        self._own.close()
        del self.first_group, self.second_group

    def _to_device(self, array: Any) -> torch.Tensor:
        tensor = torch.as_tensor(array)
        if self._device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Start a copy to pinned memory of the host; return it. A tensor on the CPU is returned."""
    if tensor.device.type == "cpu":
        return tensor
    out = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return out.copy_(tensor, non_blocking=True)
