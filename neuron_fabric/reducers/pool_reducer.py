# SPDX-License-Identifier: Apache-2.0
"""Reducer by pools of shared memory (`neuron_fabric.collectives`); needs torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from neuron_fabric.codec import Route
from neuron_fabric.collectives.pool import Pool, open_pool
from neuron_fabric.collectives.rounds import Closing, Rounds
from neuron_fabric.rank_agreement import together
from neuron_fabric.reducers.interface import Outcome, Part
from neuron_fabric.reducers.torch_reducer import Handle, TorchReducer

PREFIX = "pool:"


class PoolReducer(TorchReducer):
    """Reducer (see `Reducer`) of ranks on one machine, with the results of `TorchReducer`.

    Lines go through shared memory. The two threads of the hook make their calls in an order of
    their own, so each has a pool. The few numbers of the monitor use gloo.
    """

    def __init__(self, path: str, timeout_s: float = 60.0) -> None:
        """Set the name of the shared memory, and the time-out of a call in seconds."""
        super().__init__(timeout_s)
        self._path = path

    def open(self, group: Any) -> None:
        """Open the pools; a collective call, whose PoolError is the same on every rank."""
        super().open(group)
        self._pools = ExitStack()

        def one(path: str) -> Pool:
            pool = open_pool(path, self._rank, self._workers, timeout=self._timeout_s)
            self._pools.callback(pool.close)
            return pool

        self._exchanges = together(lambda: one(self._path), group)
        self._gathers = together(lambda: one(f"{self._path}.results"), group)

    def close(self) -> None:
        """Leave the pools and release the groups."""
        self._pools.close()
        super().close()

    def _exchange(self, inbox: torch.Tensor, sent: torch.Tensor) -> Any:
        return self._exchanges.exchange(inbox.numpy(), sent.numpy(), async_op=True)

    def _gather(self, own: torch.Tensor) -> torch.Tensor:
        every = torch.empty((self._workers, own.numel()), dtype=own.dtype)
        self._gathers.all_gather(every.numpy(), own.numpy())
        return every


class RoundsReducer(TorchReducer):
    """Reducer (see `Reducer`) of ranks on one machine whose rounds are closed without late ranks.

    Each rank has the lines of all contributors in shared memory, and counts all of them: no result
    needs the work of another rank. A bucket without late ranks has the bits of `TorchReducer`; late
    ranks contribute zeros and no vote.
    """

    def __init__(self, path: str, closing: Closing, size: int, timeout_s: float = 60.0) -> None:
        """Create the reducer, not opened.

        Args:
            path: Name of the shared memory.
            closing: When a round may be closed.
            size: Bytes of a bucket's lines and sidecar, at most.
            timeout_s: Seconds to wait for a rank.
        """
        super().__init__(timeout_s)
        self._path, self._closing, self._size = Path(path), closing, size

    def open(self, group: Any) -> None:
        """Open the shared memory; a collective call, whose PoolError is the same on every rank."""
        super().open(group)
        ranks = self._rank, self._workers
        self._rounds = together(
            lambda: Rounds(self._path, *ranks, self._size, self._timeout_s), group
        )

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: Any) -> Any:
        """Write this rank's lines of a bucket; return a handle for `wait` (`Reducer.submit`)."""
        start = time.perf_counter()
        shares, tensors, sent = self._messages(parts, sidecar, 1)
        shapes = [(one.route, one.net, len(one.lines), one.starts, one.columns) for one in parts]
        what = f"step {step} bucket {bucket}: {shapes}"
        inbox = torch.empty((self._workers, sent.shape[1]), dtype=torch.uint8)
        own = self._rounds.submit(sent[0].numpy(), what, self._closing)
        others = self._workers - 1
        for part in parts:
            self.counters.moved(part.route, part.lines.nbytes, others * part.lines.nbytes)
        self.counters.moved(Route.FP32, 8 * tensors, others * 8 * tensors)
        self.counters.seconds["submit"] += time.perf_counter() - start
        return Handle(shares, tensors, sent, inbox, own)

    def wait(self, handle: Handle) -> Outcome:
        """Wait for the lines of a bucket, count them and return the result. See `Reducer.wait`."""
        late = self._rounds.wait(handle.work, handle.inbox.numpy())
        rows, counted = self._counted(handle)
        self.counters.buckets += 1
        self.counters.closed += bool(late)
        self.counters.late += self._rank in late
        return replace(self._outcome(counted, self._sum(rows)), late=late)

    def close(self) -> None:
        """Leave the shared memory and release the groups."""
        self._rounds.close()
        super().close()
