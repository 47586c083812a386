# SPDX-License-Identifier: Apache-2.0
"""Reduces packed gradients by a reducer server (`nf serve`), behind which is a device; needs torch.

The server and all ranks are on one machine. Lines go through shared memory, and so does the outcome
of every bucket. A server that is lost costs the training its low-bit gradients, not its life: the
ranks reduce such buckets in FP32, and come back when it is there again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from neuron_fabric.codec import Route
from neuron_fabric.ranks import together
from neuron_fabric.runtime.backends.interface import (
    F32,
    BucketLost,
    Counters,
    Limits,
    Outcome,
    Part,
)
from neuron_fabric.runtime.backends.own_group import OwnGroup
from neuron_fabric.runtime.backends.server_session import ServerSession, Ticket
from neuron_fabric.runtime.backends.server_wire import Hello
from neuron_fabric.text import LineError, say

MOST_WORKERS = 64
"""Of a region of the device."""
EVENTS = ("answers", "severe", "fallback")
"""What the device counts that the monitor looks at."""


class ServerReducer:
    """See `Reducer`."""

    def __init__(
        self,
        path: Path,
        lines: int,
        fingerprint: str,
        timeout_s: float = 60.0,
        routes: Sequence[Route] = (),
    ) -> None:
        """``lines``: the most that a rank will have in a bucket (`shared_lines.most_lines`);
        ``fingerprint``: of all that the ranks of the job have to agree on; ``routes``: those that
        buckets may have, beside FP32."""
        self.counters = Counters()
        self.limits = Limits(MOST_WORKERS, frozenset())
        self.device: dict[str, int | str] = {}
        self._path, self._lines, self._fingerprint = path, lines, fingerprint
        self._routes = tuple(routes)
        self._timeout_s, self._told = timeout_s, False

    def open(self, group: Any) -> None:
        """See `Reducer`."""
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        job = [os.urandom(8).hex()]
        dist.broadcast_object_list(job, src=dist.get_global_rank(group, 0), group=group)
        hello = Hello(job[0], rank, world, self._fingerprint, self._lines, self._routes)
        self._server = ServerSession(self._path, hello, self._timeout_s)
        self._rank = rank
        try:
            together(self._server.join, group)
            said = together(self._server.joined, group)
        except LineError:
            self._server.close()
            raise
        self.device = dict(said.device)
        self.limits = Limits(MOST_WORKERS, frozenset(said.routes))
        self._first, self._second = (OwnGroup(group, self._timeout_s) for _ in range(2))

    @property
    def first_group(self) -> OwnGroup:
        """See `Reducer`."""
        return self._first

    @property
    def second_group(self) -> OwnGroup:
        """See `Reducer`."""
        return self._second

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: F32) -> Ticket:
        """See `Reducer`."""
        start = time.perf_counter()
        for part in parts:
            self.counters.moved(part.route, sent=part.lines.nbytes)
        self.counters.moved(Route.FP32, sent=sidecar.nbytes)
        ticket = self._server.submit(step, bucket, parts, sidecar)
        self.counters.seconds["submit"] += time.perf_counter() - start
        return ticket

    def wait(self, handle: Ticket) -> Outcome:
        """See `Reducer`."""
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
        for part, one in zip(handle.parts, outcome.parts, strict=True):
            self.counters.moved(part.route, received=one.lines.nbytes + one.planes.nbytes)
        self.counters.moved(Route.FP32, received=handle.sidecar.nbytes)
        for name in EVENTS:
            self.counters.events[name] += self._server.counters.pop(name, 0)
        return outcome

    def close(self) -> None:
        """See `Reducer`."""
        self._server.close()
        del self._first, self._second
