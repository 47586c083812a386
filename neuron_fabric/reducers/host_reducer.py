# SPDX-License-Identifier: Apache-2.0
"""Reducer for tensors of a device whose lines are counted on the host; needs torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from neuron_fabric.reducers.interface import Outcome, Part, Reducer


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
