# SPDX-License-Identifier: Apache-2.0
"""Communication hook that reduces each parameter of a bucket by its route; needs torch.

A bucket is reduced on two paths in parallel: FP32 parameters by one of `PATHS`, the others as
packed lines by the reducer. The hook starts both and returns. One thread packs and submits while
backward continues; another waits, decodes into the buffer of the bucket and completes the future.
Both work in the order of the buckets. A bucket of FP32 parameters alone is reduced as by DDP
without a hook, without a copy. The hook itself packs small buckets and the last one, which no more
backward overlaps.

Packing of integer codes waits for an exchange of one number per 1,024 elements: the ranks share the
units of their codes, so they exchange their maxima before they pack. The hook starts that exchange,
and leaves the packing to the thread.

Where regions name slices of a parameter, each of its pieces is packed like a parameter
(`parameter_pieces`).

A matrix whose route has a ``low_rank`` is sent as two factors (`low_rank`): the thread of backward
starts the all-reduce of the first, the one that waits sends the second.

Paths of FP32 parameters:

- ring: the all-reduce of DDP of 1/W times each gradient. Buckets of FP32 parameters alone have the
  bits of DDP without a hook. In a mixed bucket only the FP32 parameters are reduced: a ring of
  three or more ranks then adds in another order, as its chunks are cut elsewhere.
- ordered: the sum in the order of workers, divided by W. The bits depend on the gradients alone.
  The gradients are sent as FP32 lines with the votes.
- whole: for tests. Every bucket is reduced as by DDP, then votes overwrite their parameters: this
  saves nothing, and the FP32 parameters of mixed buckets are those of DDP.
"""

# No postponed annotations here: register_comm_hook looks at those of the hook.

import math
import queue
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.bits import route_errors
from neuron_fabric.capacity.network_times import NetworkTimes
from neuron_fabric.codec import Route
from neuron_fabric.codec.draws import Key
from neuron_fabric.codec.scale_groups import ScaleGroups, groups_of
from neuron_fabric.codec.torch_engine import on
from neuron_fabric.hook import payload
from neuron_fabric.hook.capture_hook import DdpMean
from neuron_fabric.hook.error_feedback import LocalSignal, Memory, floats_of, signal_of, values_of
from neuron_fabric.hook.hook_state import HookState, then_once
from neuron_fabric.hook.lost_ranks import Peers, is_lost
from neuron_fabric.hook.low_rank import Factors, rows_of
from neuron_fabric.hook.monitor_samples import NOTHING, Agreements, Measured, sample_of
from neuron_fabric.hook.parameter_pieces import Piece, gather, pieces_of, scatter, scattered
from neuron_fabric.hook.steady_signs import Signs
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.profile.profile_types import LEAST_ELEMENTS
from neuron_fabric.profile.slices import Slice, sliced
from neuron_fabric.reducers.interface import F32, BucketLost, Outcome, Reducer
from neuron_fabric.wrapped import named_parameters

RING, ORDERED, WHOLE = "ring", "ordered", "whole"
PATHS = (RING, ORDERED, WHOLE)


Found = TypeVar("Found")
Action = Callable[[], None]
Failed = Callable[[Exception], None]
Largest = Callable[[], torch.Tensor]


class InOrder:
    """Thread that runs actions in the order in which they are queued.

    Collectives that depend on others must start in one order on every rank, while the callbacks of
    those others run in any order; so the hook queues them here in the order of the buckets. After
    the first action that fails all later ones fail at once with the same error, since the ranks no
    longer agree on the next collective.

    ``room`` bounds the actions that wait or run; 0: no bound. The thread ends with the last
    reference to this object, or by `close`.
    """

    def __init__(self, name: str, room: int = 0) -> None:
        self.context: Callable[[], AbstractContextManager[object]] = nullcontext
        """Context in which an action runs."""
        self._todo: queue.SimpleQueue[tuple[InOrder, Action, Failed] | None] = queue.SimpleQueue()
        self._idle = threading.Condition()
        self._open, self._room, self._closed = 0, room, False
        self.error: Exception | None = None
        # A daemon: a training that ends by an exception need not wait for the other ranks.
        self._thread = threading.Thread(target=_run, args=(self._todo,), name=name, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._todo.put, None).atexit = False

    def put(self, action: Action, failed: Failed = lambda error: None) -> None:
        """Queue an action; ``failed`` is called with the error if it, or an earlier action, fails.

        If ``room`` actions wait or run, this call waits for one of them.

        Raises:
            RuntimeError: the thread is closed.
        """
        with self._idle:
            self._idle.wait_for(lambda: not self._room or self._open < self._room)
            if self._closed:
                raise RuntimeError(f"{self._thread.name}: it is closed.")
            self._open += 1
            self._todo.put((self, action, failed))

    def ask(self, action: Callable[[], Found]) -> Callable[[], Found]:
        """Queue an action; return a function that waits for its result.

        The function returns the result or raises the error of the action.
        """
        found: Future[Found] = Future()
        self.put(lambda: found.set_result(action()), found.set_exception)
        return found.result

    def drain(self) -> None:
        """Wait until no action waits or runs. Raise the first error of any action, if any."""
        with self._idle:
            self._idle.wait_for(lambda: self._open == 0)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Wait for the queued actions, and end the thread."""
        with self._idle:
            self._closed = True
            self._todo.put(None)
        self._thread.join()

    def _do(self, action: Action, failed: Failed) -> None:
        try:
            if self.error is None:
                with self.context():
                    action()
        except Exception as error:
            self.error = error
        if self.error is not None:
            failed(self.error)
        with self._idle:
            self._open -= 1
            self._idle.notify_all()


def _run(todo: queue.SimpleQueue[tuple[InOrder, Action, Failed] | None]) -> None:
    while (item := todo.get()) is not None:
        one, action, failed = item
        one._do(action, failed)
        del item, one, action, failed  # what they hold is not kept until the next one comes


@dataclass(frozen=True)
class _Low:
    """Piece of a bucket with votes or codes in a step; ``shadow``: they are only compared."""

    at: int
    name: str
    region: str
    how: PhaseRoute
    shadow: bool
    groups: ScaleGroups | None


@dataclass(frozen=True)
class _Plan:
    """Pieces of a bucket by path, kept while routes and samples stay the same.

    Attributes:
        ids: Identities of its parameters.
        names: Names of its pieces.
        sizes: Elements of each.
        owners: Position of the parameter of each.
        moved: First element and end of each parameter to gather, with its pieces.
        full: Positions and names of those that are sent in FP32.
        runs: First element and end of adjacent FP32 pieces.
        low: Those with votes or codes, and shadows.
        ranked: Positions of those that are sent as factors, with name, rank and rows.
    """

    ids: Sequence[int]
    names: Sequence[str]
    sizes: Sequence[int]
    owners: Sequence[int]
    moved: Sequence[tuple[int, int, Sequence[Piece]]]
    full: Mapping[int, str]
    runs: Sequence[tuple[int, int]]
    low: Sequence[_Low]
    ranked: Mapping[int, tuple[str, int, int]]

    def arrange(self, how: Callable[..., None], buffer: torch.Tensor) -> None:
        """Gather or scatter the pieces of the parameters in a bucket's buffer."""
        for first, end, pieces in self.moved:
            how(buffer[first:end], pieces)


DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""Types that can be packed; a bucket of another type is reduced as by DDP."""
Where = tuple[int, dist.GradBucket]
"""Step and bucket."""
NAN, FALLBACK = "nan", "fallback"
SMALL = 1 << 18
"""Elements up to which the hook itself packs a bucket, in some 50 us."""
AHEAD = 2
"""Buckets that are being packed, or wait for it, before the hook waits: each may hold a copy of its
gradients, as of bfloat16. A bucket is two actions."""


def _run_now(action: Action, failed: Failed) -> None:
    """Run an action in this thread, with the interface of `InOrder.put`."""
    try:
        action()
    except Exception as error:
        failed(error)


class BucketRouter(HookState):
    """State of the hook that reduces buckets: routes of the step, residuals, threads and counters.

    ``first`` is called before the first bucket of a step and sets the step's ``routes`` (regions
    without one, and parameters without a region, use FP32) and ``samples``: profile regions to be
    compared with FP32 in this step; for those in FP32, ``shadows`` has the route to compare;
    ``tried``: routes whose errors are measured in all regions in this step.
    ``last`` is called after the last bucket; an action that it puts on ``thread`` runs after all
    buckets.

    Attributes:
        payload: Functions that pack on the host, or on a device (`tensor_payload`).
        inline: Whether the thread of backward does all: no collective blocks it.
    """

    payload: Any = payload
    inline = False

    def __init__(
        self,
        model: DistributedDataParallel,
        regions: Mapping[str, str],
        reducer: Reducer,
        *,
        fp32: str = RING,
        nonfinite: str = NAN,
        shadows: Mapping[str, PhaseRoute] | None = None,
    ) -> None:
        """Create threads and counters; the hook is not registered yet.

        Args:
            model: DistributedDataParallel model.
            regions: profile region by parameter, or by slice, with its end; those of fewer than
                `LEAST_ELEMENTS` elements use FP32.
            reducer: reducer of packed lines, open.
            fp32: path of FP32 parameters: ring, ordered or whole.
            nonfinite: for a tensor that is not finite on some rank: NaN on all ranks, as plain DDP
                spreads it; or fallback, which reduces it once more in FP32.
            shadows: routes with which regions in FP32 are compared.
        """
        self.group, self.workers = model.process_group, dist.get_world_size(model.process_group)
        self.rank = dist.get_rank(model.process_group)
        self.device = next(model.parameters()).device
        self.names = {id(p): name for name, p in named_parameters(model)}
        self.pieces = _pieces(dict(named_parameters(model)), regions)
        every = [piece for pieces in self.pieces.values() for piece in pieces]
        sizes = {one.name: one.elements for one in every}
        self.regions = {n: region for n, region in regions.items() if sizes[n] >= LEAST_ELEMENTS}
        self.layouts = {one.name: (one.shape, one.strides) for one in every}
        totals = dict.fromkeys(self.regions.values(), 0)
        for name, region in self.regions.items():
            totals[region] += sizes[name]
        self._share = {name: sizes[name] / totals[one] for name, one in self.regions.items()}
        self.reducer, self.fp32, self.nonfinite = reducer, fp32, nonfinite
        self.memory, self.mean, self.thread = Memory(), DdpMean(model), InOrder("nf reducer")
        self.factors = Factors()
        self.packer, self.small = InOrder("nf packer", 2 * AHEAD), SMALL
        self.routes: Mapping[str, PhaseRoute] = {}
        self.samples: frozenset[str] = frozenset()
        self.shadows, self.link = dict(shadows or {}), NetworkTimes()
        self.tried: Sequence[Route] = ()
        self.off: frozenset[Reason] = frozenset()
        """Signals of the monitor that are ignored: what they alone need is not computed."""
        self.measured, self.signs, self.step = Measured(), Signs(), -1
        self.agreements = Agreements(self.workers)
        self.gradient_bytes, self.packed_bytes = 4 * sum(sizes.values()), 0
        """Bytes of FP32 that this rank has packed so far, of shadows too."""
        self._given = math.inf
        """Time at which backward has handed over the last bucket of this step."""
        self._planned: Any = None
        self._plans: dict[int, _Plan] = {}
        self.release()
        self.peers: Peers | None = None
        self.telling = threading.Lock()

    def release(self) -> None:
        """Drop the callbacks, which breaks a reference cycle, so that this object is freed at once.

        A later garbage collection could run in a forked process, which lacks the threads of gloo.
        """
        self.first: Callable[[], None] = lambda: None
        self.last: Callable[[], None] = lambda: None

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the reduction of a bucket; return the future of its buffer.

        The first bucket of a step waits for all actions of the step before.
        """
        if bucket.index() == 0:
            self.step += 1
            self._given = math.inf
        if bucket.is_last():
            self._given = time.perf_counter()
        where = self.step, bucket
        try:
            if bucket.index() == 0:
                self.thread.drain()
                self.measured = Measured()
                self.first()
                self._reroute()
            future = self._reduce(bucket)
            if bucket.is_last():
                self.last()
        except Exception as error:
            self.tell_lost(error, where)
            raise

        # DDP ignores exceptions stored in the future; raise them from a `then()` callback.
        def value(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            try:
                found: torch.Tensor = future.value()
                return found
            except Exception as error:
                self.tell_lost(error, where)
                raise

        return then_once(future, value)

    def tell_lost(self, error: BaseException, where: Where | None = None) -> None:
        """Print one line per job if ``error`` tells a lost rank; ``where`` names the bucket."""
        if not is_lost(error):
            return
        with self.telling:  # a second thread waits, so that its traceback follows the line
            peers, self.peers = self.peers, None
            if peers is None:
                return
            place = f"after step {self.step}"
            if where is not None:
                step, bucket = where
                own = [self.pieces[self.names[id(one)]] for one in bucket.parameters()]
                hows = [self._low(piece.name) for pieces in own for piece in pieces]
                routes = {str(how.route) if how else str(Route.FP32) for how in hows}
                place = f"step {step}, bucket {bucket.index()} ({', '.join(sorted(routes))})"
            peers.tell(f"{place}: {peers.who()}; the training ends")

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        if buffer.is_sparse or buffer.dtype not in DTYPES:
            return self.mean(None, bucket)
        plan = self._plan(bucket)
        two_ways = plan.low or plan.ranked or self.fp32 == ORDERED
        if two_ways or self.tried or self.memory.residuals:
            plan.arrange(gather, buffer)
            views = buffer.split(plan.sizes)
            if self.tried:
                self._try(plan, views)
            if self.memory.residuals:
                for n, name in plan.full.items():
                    self._to_fp32(name, views[n])
            if two_ways:
                signals = [self._signal(one, views[one.at]) for one in plan.low]
                return self._two_ways(bucket, plan, views, signals)
            plan.arrange(scatter, buffer)
        self._count_ring(buffer)
        return self._timed(buffer, self.mean(None, bucket))

    def _try(self, plan: _Plan, views: Sequence[torch.Tensor]) -> None:
        """Measure the error of each tried route on the sampled elements of this rank's gradients.

        A tensor that is not finite is left out.
        """
        for name, view in zip(plan.names, views, strict=True):
            if (region := self.regions.get(name)) is None:
                continue
            index = sample_of(name, view.numel(), self.step)
            x = values_of(view if index is None else view[on(index, view.device)])
            if not np.isfinite(x).all():
                continue
            found = route_errors(x, Key(payload.SEED, self.step, self.rank, name), self.tried)
            found[NOTHING] = float(np.dot(x, x))
            factor = view.numel() / x.size
            self.measured.add_errors(region, {key: factor * e for key, e in found.items()})

    def _reroute(self) -> None:
        """Drop the plans of buckets, and records of signs, if routes or samples have changed."""
        if (asked := (self.routes, self.samples, self.shadows)) != self._planned:
            self._planned = asked
            self._plans.clear()
            for name in self.regions:
                if self._low(name) is None:
                    self.signs.forget(name)

    def _plan(self, bucket: dist.GradBucket) -> _Plan:
        parameters = bucket.parameters()
        ids, found = [id(one) for one in parameters], self._plans.get(bucket.index())
        if found is not None and found.ids == ids:  # DDP makes other buckets after its first step
            return found
        full: dict[int, str] = {}
        ranked: dict[int, tuple[str, int, int]] = {}
        runs: list[tuple[int, int]] = []
        own = [self.pieces[self.names[one]] for one in ids]
        owners = [n for n, pieces in enumerate(own) for _ in pieces]
        names = [piece.name for pieces in own for piece in pieces]
        sizes = [piece.elements for pieces in own for piece in pieces]
        low, ends = [], [0, *accumulate(sizes)]
        for at, (name, first, end) in enumerate(zip(names, ends, ends[1:], strict=False)):
            region, how = self.regions.get(name, ""), self._low(name)
            rank = self.routes[region].low_rank if region in self.routes else 0
            if rank and (rows := rows_of(*self.layouts[name], rank)):
                ranked[at] = name, rank, rows
                continue
            shadow = how is None
            if how is None:
                full[at] = name
                if runs and runs[-1][1] == first:
                    first = runs.pop()[0]
                runs.append((first, end))
                how = self.shadows.get(region) if region in self.samples else None
            if how is not None and how.route != Route.FP32:
                low.append(_Low(at, name, region, how, shadow, self.groups(name, how)))
        ends = [0, *accumulate(one.numel() for one in parameters)]
        each = zip(ends, ends[1:], own, strict=False)
        moved = [(first, end, pieces) for first, end, pieces in each if scattered(pieces)]
        plan = _Plan(ids, names, sizes, owners, moved, full, runs, low, ranked)
        self._plans[bucket.index()] = plan
        return plan

    def _two_ways(
        self,
        bucket: dist.GradBucket,
        plan: _Plan,
        views: Sequence[torch.Tensor],
        signals: Sequence[LocalSignal],
    ) -> torch.futures.Future[torch.Tensor]:
        buffer, index = bucket.buffer(), bucket.index()
        samples = [one.sample for one in signals if one.sample is not None]
        runs = [buffer[first:end] for first, end in plan.runs]
        full = [views[n] for n in plan.full]
        ordered = [*full, *samples] if self.fp32 == ORDERED else []
        wait: Callable[[], Any] = lambda: None  # noqa: E731
        factored = self._start_factors(plan, views)
        largest = self._start_maxima(signals)
        # What waits for the other ranks does not hold backward back.
        small = buffer.numel() < self.small or bucket.is_last()
        here = self.inline or (largest is None and small)
        ask = self._at_once if here else self.packer.ask
        packed = ask(lambda: self._votes_of(signals, largest))
        if self.fp32 == WHOLE or any(one.shadow for one in signals):
            packed()  # what comes now changes what is looked at

        def submit() -> tuple[Sequence[payload.Vote], Any]:
            votes = packed()
            return votes, self._submit(index, votes, ordered)

        if self.fp32 == ORDERED:
            self.mean.scale(bucket, {}, ())
        elif self.fp32 == WHOLE or len(plan.full) == len(plan.names):
            plan.arrange(scatter, buffer)  # the order of DDP, on which the bits of a ring depend
            self._count_ring(buffer)
            mean = self._timed(buffer, self.mean(None, bucket))

            def wait() -> None:
                mean.wait()
                plan.arrange(gather, buffer)

        else:
            parts = defaultdict[int, list[torch.Tensor]](list)
            for n in plan.full:
                parts[plan.owners[n]].append(views[n])
            wait = self._ring(bucket, parts, runs, samples)
        submitted = ask(submit)
        devices = [buffer.device] if buffer.is_cuda else None
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)

        def finish() -> None:
            votes, handle = submitted()  # a failure there is reported without waiting for others
            wait()
            factored()
            try:
                if handle is not None:
                    outcome = self.reducer.wait(handle)
                    if outcome.late:
                        votes = self._closed(index, outcome.late, votes, plan.full, full)
                    self._take(votes, outcome, ordered)
            except BucketLost:
                self._lost(votes, full if self.fp32 == ORDERED else [])
            plan.arrange(scatter, buffer)
            future.set_result(buffer)

        (_run_now if self.inline else self.thread.put)(finish, future.set_exception)
        return future

    def _submit(
        self, index: int, votes: Sequence[payload.Vote], ordered: Sequence[torch.Tensor]
    ) -> Any:
        """Submit votes, and gradients to be added in order; return the handle, None for nothing."""
        parts = self.payload.parts_of(votes)
        parts += [self.payload.fp32_part(ordered)] if ordered else []
        if not parts:
            return None
        columns = self.payload.sidecar([vote.column for vote in votes])
        return self.reducer.submit(self.step, index, parts, columns)

    def _take(
        self, votes: Sequence[payload.Vote], outcome: Outcome, ordered: Sequence[torch.Tensor]
    ) -> None:
        """Write the outcome of a bucket to its gradients."""
        if ordered:
            present = self.workers - len(outcome.late)
            self.payload.put_means(ordered, outcome.parts[-1][0], present)
        start = time.perf_counter()
        self._decode(votes, outcome)
        self.reducer.counters.seconds["decode"] += time.perf_counter() - start

    def _closed(
        self,
        index: int,
        late: tuple[int, ...],
        votes: Sequence[payload.Vote],
        names: Mapping[int, str],
        full: Sequence[torch.Tensor],
    ) -> Sequence[payload.Vote]:
        """Note a round that was closed without the ranks in ``late``.

        If this rank is one of them, its FP32 gradients ``full`` become residuals, and the votes
        that are returned abstain, so that decoding keeps all of their values as residuals.
        """
        self.measured.closed.append((index, late))
        if self.rank not in late:
            return votes
        for name, gradient in zip(names.values(), full, strict=True):
            self.memory.residuals[name] = self.memory.unsent(name, floats_of(gradient))
        column: Any = torch.zeros(2, device=self.device)
        return [
            replace(
                one,
                column=column,
                values=self.memory.unsent(one.name, one.values) if one.kept else one.values,
            )
            for one in votes
        ]

    def _start_factors(self, plan: _Plan, views: Sequence[torch.Tensor]) -> Callable[[], None]:
        """Start the all-reduce of the left factors of a bucket.

        Returns:
            A function that waits, sends the right factors, writes the means to the gradients, and
            keeps the residuals.
        """
        if not plan.ranked:
            return lambda: None
        names = [name for name, _, _ in plan.ranked.values()]
        matrices = [
            self.memory.corrected(name, floats_of(views[n])).view(rows, -1)
            for n, (name, _, rows) in plan.ranked.items()
        ]
        ranks = [rank for _, rank, _ in plan.ranked.values()]
        left = list(map(self.factors.left, names, matrices, ranks))
        flat = torch.cat([one.view(-1) for one in left])
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        self._count_ring(flat)

        def finish() -> None:
            work.wait()
            _spread(flat, [one.view(-1) for one in left])
            bases = list(map(self.factors.orthogonal, left))
            right = [one.T @ basis for one, basis in zip(matrices, bases, strict=True)]
            sent = torch.cat([one.reshape(-1) for one in right]).to(flat.dtype).cpu()
            self.reducer.second_group.all_reduce(sent)()
            self._count_ring(sent)
            _spread(sent.to(flat.device), [one.view(-1) for one in right])
            lost = []
            for n, name, matrix, basis, one in zip(
                plan.ranked, names, matrices, bases, right, strict=True
            ):
                mean = self.factors.mean(name, basis, one / self.workers).view(-1)
                finite = bool(mean.isfinite().all())
                if finite:
                    self.memory.keep(name, matrix.view(-1), mean)
                elif self.nonfinite == FALLBACK and self.fp32 != WHOLE:
                    lost.append(views[n])
                    continue
                views[n].copy_(mean)
            if lost:
                self._once_more(lost)

        return finish

    def _ring(
        self,
        bucket: dist.GradBucket,
        full: Mapping[int, Sequence[torch.Tensor]],
        runs: Sequence[torch.Tensor],
        samples: Sequence[torch.Tensor],
    ) -> Callable[[], None]:
        """Start the mean over ranks of a mixed bucket's FP32 gradients and of samples.

        Both are in one all-reduce.

        Args:
            bucket: The bucket.
            full: Views of its FP32 gradients, by position of their parameters.
            runs: Views of them, adjacent ones in one.
            samples: Sampled elements of other gradients, scaled by 1/W already.

        Returns:
            A function that waits for the mean and writes it to the gradients and samples.
        """
        self.mean.scale(bucket, full, runs)
        views = [*runs, *samples]
        if not views:
            return lambda: None
        flat = torch.cat(views)
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        self._count_ring(flat)
        self._timed(flat, work.get_future())

        def finish() -> None:
            work.wait()
            _spread(flat, views)

        return finish

    def _at_once(self, action: Callable[[], Any]) -> Callable[[], Any]:
        """Run an action now, after all queued ones; return a function that returns its result.

        This is the interface of `InOrder.ask`.
        """
        self.packer.drain()
        found = action()
        return lambda: found

    def _votes_of(
        self, signals: Sequence[LocalSignal], largest: Largest | None
    ) -> list[payload.Vote]:
        start = time.perf_counter()
        votes = self._packed(signals, largest)
        self.reducer.counters.seconds["pack"] += time.perf_counter() - start
        self.packed_bytes += sum(4 * one.values.numel() for one in signals)
        return votes

    def _timed(self, flat: torch.Tensor, future: Any) -> Any:
        """Time an all-reduce of ``flat`` that has just started; return its future."""
        self.link.watch(self.step, flat.numel() * flat.element_size(), future)
        return future

    def _low(self, name: str) -> PhaseRoute | None:
        """Return the low-bit route of a parameter in this step, or None for FP32."""
        how = self.routes.get(self.regions.get(name, ""))
        return None if how is None or how.route == Route.FP32 else how

    def _to_fp32(self, name: str, gradient: torch.Tensor) -> None:
        if (residual := self.memory.flushed(name)) is not None:
            gradient += residual.to(gradient.dtype)

    def _signal(self, one: _Low, view: torch.Tensor) -> LocalSignal:
        sample = index = None
        if one.region in self.samples and not one.shadow:
            index = sample_of(one.name, view.numel(), self.step)
            # What the mean is of, before the votes take its place; the ring adds what is scaled.
            sample = view.clone() if index is None else view[on(index, view.device)]
            if self.fp32 == RING:
                sample *= 1.0 / self.workers
        memory = None if one.shadow else self.memory
        more = {"shadow": one.shadow, "sample": sample, "index": index, "groups": one.groups}
        return signal_of(one.name, one.region, view, one.how, memory, **more)

    def regions_of(self) -> dict[str, set[str]]:
        """Return the profile regions of the pieces of each parameter, by name of parameter."""
        return {
            name: {self.regions[one.name] for one in pieces if one.name in self.regions}
            for name, pieces in self.pieces.items()
        }

    def groups(self, name: str, how: PhaseRoute) -> ScaleGroups | None:
        """Return the groups of a parameter that share a scale; None for one scale."""
        return groups_of(*self.layouts[name], how.route, how.granularity, how.block)

    def _start_maxima(self, signals: Sequence[LocalSignal]) -> Largest | None:
        """Start the exchange of the largest abs(x), which the codes of a bucket share.

        The thread of backward starts it, in the order of the buckets, long before they are packed.

        Returns:
            A function that waits, and returns the maxima of all parameters that go in codes, in the
            order of ``signals``; None if there is none.
        """
        own = [one for one in signals if one.how.route.codes]
        if not own:
            return None
        flat = self.payload.largest_of(own)
        if flat.is_cuda:  # gloo exchanges tensors of the host alone
            sent = every = flat.view(1, -1)
            work = dist.all_reduce(flat, dist.ReduceOp.MAX, group=self.group, async_op=True)
            self._count_ring(flat)
        else:
            # One round: a ring of W ranks takes 2 (W - 1), and each waits for a busy rank's thread.
            sent = flat.expand(self.workers, -1).contiguous()
            every = torch.empty_like(sent)
            work = dist.all_to_all_single(every, sent, group=self.group, async_op=True)
            moved = flat.nbytes * (self.workers - 1)
            self.reducer.counters.moved(Route.FP32, moved, moved)

        def wait(_: torch.Tensor = sent) -> torch.Tensor:  # kept until it has gone
            start, seconds = time.perf_counter(), self.reducer.counters.seconds
            work.wait()
            end = time.perf_counter()
            seconds["agree"] += end - start
            seconds["agree_exposed"] += exposed(start, end, self._given)
            seconds["pack"] -= end - start
            return every.amax(0)

        return wait

    def _packed(
        self, signals: Sequence[LocalSignal], largest: Largest | None
    ) -> list[payload.Vote]:
        """Pack the parameters: votes while the maxima for codes are exchanged, then the codes.

        Both are in the order of ``signals``, and the votes come first.
        """
        votes = self.payload.packed_votes([one for one in signals if not one.how.route.codes])
        if largest is not None:
            coded = [one for one in signals if one.how.route.codes]
            votes += self.payload.packed_codes(coded, largest(), self.step, self.rank)
        return votes

    def _decode(self, votes: Sequence[payload.Vote], outcome: Outcome) -> None:
        again, looked, outs = [], [], []
        scales = payload.common_scales(votes, outcome)
        lost = [not payload.is_finite(one) for one in scales]
        self.measured.nonfinite += sum(lost)
        means = list(map(self._mean_at, votes))  # before their place is written to
        for vote, gone in zip(votes, lost, strict=True):
            if gone and self.nonfinite == FALLBACK and not vote.shadow:
                again.append(vote)
            direct = vote.view.dtype == torch.float32 and not vote.shadow and vote not in again
            outs.append(
                vote.view.detach().numpy() if direct else np.empty(vote.view.numel(), np.float32)
            )
        payload.decode_all(votes, outcome, scales, self.workers, outs)
        each = zip(votes, outs, lost, means, scales, outcome.present, strict=True)
        for vote, d, gone, mean, scale, present in each:
            if vote.view.dtype != torch.float32 and not vote.shadow and vote not in again:
                vote.view.copy_(torch.from_numpy(d))
            if not gone:
                self._measure(vote, mean, d, scale, present)
                looked.append((vote, d, self._share[vote.name]))
        if Reason.SATURATION not in self.off:
            own = {one.name: (torch.from_numpy(d), of) for one, d, of in looked if not one.shadow}
            self.signs.see(own)
        if Reason.AGREEMENT not in self.off:
            voted = [one for one in looked if one[0].column[1]]
            self.agreements.see([(one.region, one.how.route, one.lines, *d) for one, *d in voted])
        if again and self.fp32 != WHOLE:
            self._once_more([vote.view for vote in again])

    def _mean_at(self, vote: payload.Vote) -> F32 | None:
        """Return the FP32 mean at the sampled elements of a parameter, None if it is not sampled.

        Under `WHOLE` it is read from the bucket's buffer, before the decoded votes overwrite it.
        """
        if vote.shadow:
            return values_of(vote.view)
        if vote.sample is None or self.fp32 != WHOLE:
            return None if vote.sample is None else values_of(vote.sample)
        mean = values_of(vote.view)
        return mean.copy() if vote.index is None else mean[vote.index]

    def settle(self) -> None:
        """Complete the measurements of a step; called on ``thread``, after all its buckets."""

    def _measure(self, vote: payload.Vote, mean: Any, d: F32, scales: Any, present: Any) -> None:
        if not vote.shadow:  # also if the signal is off: a norm that changes is sampled
            signs = vote.how.route == Route.G_BINARY and not vote.net and vote.groups is None
            self.measured.decoded(vote.region, d, float(scales) if signs else None)
        if not vote.shadow and vote.net and Reason.MARGIN not in self.off:
            of_each, one = d, float(scales) if vote.groups is None else 1.0
            if vote.groups is not None:
                of_each = d.copy()
                inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
                vote.groups.multiply(of_each, inverse)
            self.measured.margin(vote.region, of_each, one, int(present))
        if mean is not None:
            at = d if vote.index is None else d[vote.index]
            self.measured.sampled(vote.region, mean, at, d.size, vote.shadow)
        if vote.kept:
            sent = np.zeros(d.size, np.float32)
            if vote.column[1]:
                votes = payload.own_votes(vote.packed, vote.how.route, sent.size, vote.units)
                np.multiply(votes, scales if vote.groups is None else np.float32(1), out=sent)
                if vote.groups is not None:
                    vote.groups.multiply(sent, scales)
            self.memory.keep(vote.name, vote.values, torch.from_numpy(sent))

    def _lost(self, votes: Sequence[payload.Vote], others: Sequence[torch.Tensor]) -> None:
        """Reduce in FP32 a bucket that the reducer has lost; residuals stay as they are.

        ``others`` are FP32 gradients that were submitted with the votes.
        """
        if self.fp32 != WHOLE and (
            views := [*others, *(vote.view for vote in votes if not vote.shadow)]
        ):
            self._once_more(views)

    def _once_more(self, views: Sequence[torch.Tensor]) -> None:
        """Reduce the gradients in ``views`` in FP32 to their mean, in place; a collective call."""
        flat = (torch.cat(list(views)) * (1.0 / self.workers)).cpu()
        self.reducer.second_group.all_reduce(flat)()
        self._count_ring(flat)
        _spread(flat, views)

    def _count_ring(self, flat: torch.Tensor) -> None:
        """Count the bytes of a ring all-reduce, sent and received: 2 (W - 1) / W times the size."""
        moved = 2 * flat.numel() * flat.element_size() * (self.workers - 1) // self.workers
        self.reducer.counters.moved(Route.FP32, moved, moved)


def _pieces(
    parameters: Mapping[str, torch.Tensor], regions: Collection[str]
) -> dict[str, tuple[Piece, ...]]:
    """Return the pieces of each parameter; ``regions`` names parameters and slices of them."""
    slices = defaultdict[str, list[Slice]](list)
    for name in regions:
        whole, part = (name, None) if name in parameters else sliced(name)
        if part is not None:
            slices[whole].append(part)
    return {name: pieces_of(name, one, slices[name]) for name, one in parameters.items()}


def exposed(start: float, end: float, given: float) -> float:
    """Return how much of a wait from ``start`` to ``end`` is not hidden by backward.

    Args:
        start: When the wait began, in seconds.
        end: When it ended.
        given: When backward handed over its last bucket; infinite if it has not yet.
    """
    return max(0.0, end - max(start, given))


def _spread(flat: torch.Tensor, views: Sequence[torch.Tensor]) -> None:
    """Copy one concatenated buffer back into the views whose elements it holds."""
    torch._foreach_copy_(list(views), flat.split([one.numel() for one in views]))


def bucket_hook(state: BucketRouter, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Reduce a bucket: the function for `register_comm_hook`, with a `BucketRouter` as state."""
    return state.reduce(bucket)
