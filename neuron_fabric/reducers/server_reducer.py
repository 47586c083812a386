# SPDX-License-Identifier: Apache-2.0
"""Reducer by a reducer server (`nf serve`) with its device; needs torch.

The server and all ranks are on one machine. Lines go through shared memory, and so does the
outcome of every bucket. A server that is lost costs the training its low-bit gradients, not its
life: the ranks reduce such buckets in FP32, and come back when it is there again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.distributed as dist

from neuron_fabric.codec import Route
from neuron_fabric.errors import LineError, say
from neuron_fabric.rank_agreement import together
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers.interface import F32, BucketLost, Counters, Outcome, Part
from neuron_fabric.reducers.server_session import ServerSession, Ticket
from neuron_fabric.reducers.torch_reducer import OwnGroup

EVENTS = ("answers", "severe", "fallback")
"""Counts of the device that the monitor uses."""


class ServerReducer:
    """Reducer (see `Reducer`) that uses the device of a reducer server on this machine."""

    def __init__(self, path: Path, hello: wire.Hello, timeout_s: float = 60.0) -> None:
        """Create the reducer, not connected yet.

        Args:
            path: Socket of the server.
            hello: HELLO message without job, rank and world, which `open` fills in.
            timeout_s: Seconds after which a silent server is asked.
        """
        self.counters = Counters()
        self._path, self._hello, self._timeout_s, self._told = path, hello, timeout_s, False

    def open(self, group: Any) -> None:
        """Connect all ranks of ``group`` to the server; a collective call.

        An error is a LineError, the same on every rank.
        """
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        job = [os.urandom(8).hex()]
        dist.broadcast_object_list(job, src=dist.get_global_rank(group, 0), group=group)
        hello = replace(self._hello, job=job[0], rank=rank, world=world)
        self._server = ServerSession(self._path, hello, self._timeout_s)
        self._rank = rank
        try:
            together(self._server.join, group)
            together(self._server.joined, group)
        except LineError:
            self._server.close()
            raise
        self.first_group, self.second_group = (OwnGroup(group, self._timeout_s) for _ in range(2))

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: F32) -> Ticket:
        """Send a bucket to the server; return its ticket for `wait`. See `Reducer.submit`."""
        start = time.perf_counter()
        for part in parts:
            self.counters.moved(part.route, sent=part.lines.nbytes)
        self.counters.moved(Route.FP32, sent=sidecar.nbytes)
        ticket = self._server.submit(step, bucket, parts, sidecar)
        self.counters.seconds["submit"] += time.perf_counter() - start
        return ticket

    def wait(self, handle: Ticket) -> Outcome:
        """Wait for the server's result of a bucket and return it. See `Reducer.wait`.

        Rank 0 prints a line for the first of consecutive lost buckets.
        """
        try:
            outcome = self._server.wait(handle)
        except BucketLost as lost:
            self.counters.events["lost"] += 1
            if self._rank == 0 and not self._told:
                where = f"step {handle.submit.step} bucket {handle.submit.bucket}"
                what = f"the reducer is lost ({lost}); FP32 takes its place"
                say(f"nf runtime: {where}: {what}", file=sys.stderr, flush=True)
            self._told = True
            raise
        self._told = False
        self.counters.buckets += 1
        self.counters.closed += bool(outcome.late)
        self.counters.late += self._rank in outcome.late
        for part, one in zip(handle.parts, outcome.parts, strict=True):
            self.counters.moved(part.route, received=one.nbytes)
        self.counters.moved(Route.FP32, received=handle.sidecar.nbytes)
        for name in EVENTS:
            self.counters.events[name] += self._server.counters.pop(name, 0)
        return outcome

    def close(self) -> None:
        """Leave the server and release the groups."""
        self._server.close()
        del self.first_group, self.second_group
