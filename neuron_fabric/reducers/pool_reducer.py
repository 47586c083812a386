# SPDX-License-Identifier: Apache-2.0
"""Reducer by pools of shared memory (`neuron_fabric.collectives`); needs torch."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from neuron_fabric.collectives.pool import Pool, open_pool
from neuron_fabric.rank_agreement import together
from neuron_fabric.reducers.torch_reducer import TorchReducer

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
