# SPDX-License-Identifier: Apache-2.0
"""Cases of the hook that compare gradients and weights bit by bit, for votes and integer codes.

A twin (``wrong`` True) puts a fault into the hook, and its case must fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

from neuron_fabric.codec import BUCKET, LINE, Route, lines_of, units
from neuron_fabric.codec.draws import Key, draws
from neuron_fabric.hook import (
    bucket_hook,
    error_feedback,
    payload,
    tensor_payload,
    training_session,
)
from neuron_fabric.hook.bucket_hook import BucketRouter
from neuron_fabric.hook.error_feedback import Memory, floats_of
from neuron_fabric.hook.low_rank import Factors
from neuron_fabric.hook.parameter_pieces import scatter
from neuron_fabric.hook.payload import (
    SEED,
    column,
    common_scale,
    common_scales,
    decode,
    packed_votes,
)
from neuron_fabric.monitor import StepReport
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.profile.profile_types import LEAST_ELEMENTS
from neuron_fabric.profile.slices import Slice
from neuron_fabric.reducers.interface import BucketLost, Outcome
from neuron_fabric.reducers.torch_reducer import TorchReducer
from neuron_fabric.tests.ddp import law_testbench
from neuron_fabric.tests.ddp.law_testbench import Job, Net, Ranks, Routes, Values, law, patched
from neuron_fabric.tests.ddp.shadow_cases import naive_mean, naive_votes

FULL = PhaseRoute(Route.FP32)
BINARY = PhaseRoute(Route.G_BINARY, "vote")
BINARY_NET = PhaseRoute(Route.G_BINARY, "net", shrink=0.5)
BINARY_FED = PhaseRoute(Route.G_BINARY, "net", feedback=True)
TERNARY_NET = PhaseRoute(Route.G_TERNARY, "net")
TERNARY_FED = PhaseRoute(Route.G_TERNARY, "net", feedback=True)
ROWS = PhaseRoute(Route.G_BINARY, "vote", granularity="row", block=5, shrink=0.5)
COLUMNS_NET = PhaseRoute(Route.G_BINARY, "net", granularity="column", block=7)
COLUMNS_FED = replace(COLUMNS_NET, feedback=True)
TERNARY_ROWS = PhaseRoute(Route.G_TERNARY, "net", "rms", granularity="row", block=3)
MOMENTUM = PhaseRoute(Route.G_BINARY, "vote", signal="momentum", beta=0.9)
INT4, INT8 = PhaseRoute(Route.G_INT4), PhaseRoute(Route.G_INT8)
NEAREST = PhaseRoute(Route.G_INT4, rounding="nearest")
RANK2, RANK4 = replace(FULL, low_rank=2), replace(FULL, low_rank=4)
INT4_FED, INT8_FED = replace(INT4, feedback=True), replace(INT8, feedback=True)
LOW = ("a.weight", "b.weight", "c.weight")
FULL_SIZE = ("a.bias", "b.bias", "c.bias", "head.weight", "head.bias")
"""Parameters of no region."""
CLOSED = "b.weight", "head.weight"
"""Parameters that `closed` checks: low-bit in most steps, and always in FP32."""
FP32_PATHS = ("ring", "ordered", "whole")


@dataclass(frozen=True)
class RouteSet:
    """Routes that a case is run with: votes or integer codes.

    Attributes:
        of_region: Route of each profile region in every step, for `mixed`.
        kinds: Routes that `walk` draws from.
        fed: Two routes with error feedback.
    """

    of_region: Mapping[str, PhaseRoute]
    kinds: Sequence[PhaseRoute]
    fed: tuple[PhaseRoute, PhaseRoute]

    def mixed(self, step: int) -> Mapping[str, PhaseRoute]:
        return self.of_region

    def walk(self, step: int) -> Mapping[str, PhaseRoute]:
        """Return a route for each region, drawn with ``step`` as the seed: the same on all
        ranks.
        """
        draw = np.random.default_rng(step)
        return {region: self.kinds[int(draw.integers(len(self.kinds)))] for region in "abc"}


VOTES = RouteSet(
    {"a": BINARY, "b": BINARY_NET, "c": TERNARY_NET},
    (
        BINARY,
        BINARY_NET,
        PhaseRoute(Route.G_TERNARY, "vote", "rms"),
        TERNARY_NET,
        TERNARY_FED,
        BINARY_FED,
        ROWS,
        COLUMNS_FED,
        TERNARY_ROWS,
        MOMENTUM,
        RANK2,
        RANK4,
        FULL,
    ),
    (TERNARY_FED, BINARY_FED),
)
OF_GROUPS = RouteSet(
    {"a": ROWS, "b": COLUMNS_NET, "c": TERNARY_ROWS},
    (ROWS,),
    (COLUMNS_FED, replace(TERNARY_ROWS, scale="mean_abs", feedback=True)),
)
CODES = RouteSet(
    {"a": INT8, "b": INT4, "c": NEAREST},
    (
        INT8_FED,
        INT8,
        NEAREST,
        PhaseRoute(Route.G_INT8, signal="momentum", beta=0.9),
        BINARY_NET,
        INT4_FED,
        FULL,
    ),
    (INT4_FED, INT8_FED),
)

FACTORS = RouteSet({"a": RANK4, "b": BINARY, "c": RANK2}, (RANK2, RANK4, FULL), (RANK2, RANK4))


def none(step: int) -> Mapping[str, PhaseRoute]:
    return {}


def of_all(how: PhaseRoute) -> Routes:
    return lambda step: dict.fromkeys("abc", how)


def only(routes: Routes, regions: str) -> Routes:
    return lambda step: {name: how for name, how in routes(step).items() if name in regions}


def everywhere(step: int) -> frozenset[str]:
    return frozenset("abc")


def _gradients(
    ranks: Ranks,
    workers: int,
    routes: Routes | None,
    *names: str,
    steps: int = 1,
    spoil: Callable[[Job], None] | None = None,
    factor: float = 1.0,
    **job: Any,
) -> Values:
    """Run some steps without updates of the weights; return the gradients of the last one.

    DDP rebuilds its buckets after the first step.

    Args:
        ranks: Ranks of the case.
        workers: Number of workers.
        routes: Routes of a step; None: DDP without a hook.
        *names: Parameters whose gradients are returned; none: all.
        steps: Number of steps.
        spoil: Called with the job before its first step.
        factor: Factor of the loss on this rank.
        **job: Further arguments of `Job`.
    """
    one = Job(ranks, workers, routes, lr=0, **job)
    if spoil is not None:
        spoil(one)
    for step in range(steps):
        one.backward(step, factor)
    return one.gradients(*names)


# -- laws over trainings --------------------------------------------------------------------------
@law("equal parameters on all ranks", 4, on_torch=True)
@law("codes: equal parameters on all ranks", 4, routes=CODES, on_torch=True)
def equal_parameters(
    ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False
) -> None:
    """Check that all ranks have the same weights after each step, whatever the routes.

    The twins: rank 1 decodes votes with a wrong scale, or uses wrong units for integer codes.
    """
    factor = np.float32(1 + (ranks.rank == 1 and wrong) / 256)

    def other_scale(*args: Any) -> Any:
        return common_scale(*args) * factor

    def other_units(largest: Any, route: Route) -> Any:
        return units(largest * factor, route)

    twin: tuple[Any, str, Any] = (payload, "common_scale", other_scale)
    if routes is not VOTES:
        twin = (payload, "units", other_units)
    with patched(*twin):
        for fp32 in FP32_PATHS:
            sampled = lambda step: frozenset("ab")  # noqa: E731
            job = Job(ranks, workers, routes.walk, fp32=fp32, sampled=sampled)
            ranks.same(workers, job.train(range(7)))


@dataclass(frozen=True)
class Variant:
    """Options of DistributedDataParallel, with a way to treat gradients between steps.

    Attributes:
        options: Options of DistributedDataParallel.
        to_none: Before a step gradients are set to None (True), zeroed (False), or kept (None).
        accumulate: Whether each step adds a backward under no_sync.
        dtype: Type of the parameters.
        cap_mb: Largest bucket, in MiB.
    """

    options: Mapping[str, bool]
    to_none: bool | None = True
    accumulate: bool = False
    dtype: torch.dtype = torch.float32
    cap_mb: float = 0.008

    def train(self, job: Job) -> Values:
        """Train four steps and return the weights; where unused parameters are allowed, some
        are.
        """
        unused = "find_unused_parameters" in self.options
        for step in range(4):
            job.to_none = self.to_none
            if self.accumulate:
                with job.model.no_sync():
                    job.backward(step + 4)
                job.to_none = None
            job.backward(step, some=not unused or (step + job.rank) % 3 > 0)
            job.optimizer.step()
        return job.weights()


VIEW, UNUSED = {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}
STATIC, BATCHED = {"static_graph": True}, {"batched_grad_copy": True}
OPTIONS: Sequence[Mapping[str, bool]] = ({}, STATIC, VIEW, BATCHED, UNUSED, VIEW | UNUSED)
EVERY_OPTION = [
    *(Variant(options, to_none) for options in OPTIONS for to_none in (True, False, None)),
    *(Variant(options, False, accumulate=True) for options in ({}, VIEW, VIEW | UNUSED)),
    *(Variant({}, dtype=dtype) for dtype in (torch.float16, torch.bfloat16)),
]


@law("all FP32 is DDP without a hook, 2 workers", 2)
@law("all FP32 is DDP without a hook, 3 workers", 3, on_torch=True)
@law("all FP32 is DDP without a hook, 4 workers", 4)
@law("any option of DDP in FP32 is DDP without a hook", 3, variants=EVERY_OPTION, on_torch=True)
def all_fp32(
    ranks: Ranks,
    workers: int,
    variants: Sequence[Variant] = (Variant({}), Variant(VIEW, cap_mb=25)),
    wrong: bool = False,
) -> None:
    """Check that the hook with only FP32 routes trains bit by bit like DDP without a hook.

    The twins: the gradients are divided by W before the sum, as torch's `allreduce_hook` does,
    where DDP multiplies by 1/W; or one step sends votes.
    """

    def divided(_: Any, bucket: Any) -> Any:
        buffer = bucket.buffer().div_(workers)
        work = dist.all_reduce(buffer, group=ranks.of(workers), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    for one in variants[:1] if wrong else variants:
        weights = []
        for routes in (None, none):
            job = Job(
                ranks, workers, routes, cap_mb=one.cap_mb, dtype=one.dtype, options=one.options
            )
            if routes is not None and wrong and workers == 3:
                job.router.mean = divided
            elif routes is not None and wrong:
                job.controls.of = lambda step: {"a": BINARY} if step == 2 else {}
            weights.append(one.train(job))
        ranks.equal(weights[1], weights[0])


@law("shadows leave FP32 as it is", 3, on_torch=True)
@law("codes: shadows leave FP32 as it is", 3, routes=CODES, on_torch=True)
def shadows(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    weights = []
    for how in (None, none):
        job = Job(ranks, workers, how, sampled=everywhere, shadows=routes.of_region)
        if wrong and how is not None:
            job.controls.of = routes.mixed
        weights.append(job.train(range(4)))
        for report in job.controls.reports if how is not None else ():
            seen = set(report.cosines)
            ranks.check(seen == set("abc"), f"step {report.step}: cosines of {seen} are reported")
    ranks.equal(weights[1], weights[0])


@law("ordered sums do not depend on neighbours", 4, on_torch=True)
def neighbours(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that ``ordered`` FP32 gradients do not depend on the bucket or its low-bit parameters.

    The twin sums along a ring.
    """
    path, names = "ring" if wrong else "ordered", ("c.weight", *FULL_SIZE)
    seen = [
        _gradients(ranks, workers, only(routes, "ab"), *names, steps=3, cap_mb=cap_mb, fp32=path)
        for routes in (none, VOTES.mixed)
        for cap_mb in (0.008, 25)
    ]
    for one in seen[1:]:
        ranks.equal(one, seen[0])


@law("whole leaves FP32 parameters of mixed buckets as they are", 4, on_torch=True)
def whole(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    path, names = "ring" if wrong else "whole", ("c.weight", *FULL_SIZE)
    plain, mixed = (
        _gradients(ranks, workers, routes, *names, steps=3, cap_mb=25, fp32=path)
        for routes in (None, only(VOTES.mixed, "ab"))
    )
    ranks.equal(mixed, plain)


@law("abstaining is not being there", 3, on_torch=True)
@law("codes: abstaining is not being there", 3, routes=CODES, on_torch=True)
def abstaining(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check that a worker whose gradients are all 0 has no influence on the others' result.

    Two workers with a third one that has zeros must decode what two workers alone decode. The twin
    counts the third one.
    """
    with patched(payload, "column", (lambda *a: (float(a[2]), 1.0)) if wrong else column):
        factor = 0.0 if ranks.rank == workers - 1 else 1.0
        seen = [
            _gradients(ranks, these, routes.mixed, *LOW, steps=2, factor=factor)
            for these in (workers, workers - 1)
            if ranks.rank < these
        ]
    if len(seen) == 2:
        ranks.equal(*seen)


def _spoil(job: Job) -> None:
    """Make some gradients not finite.

    Rank 1: NaN in ``b.weight`` and infinity in the FP32 parameter ``head.bias``; rank 0: -infinity
    in ``c.weight``.
    """
    net, places = job.model.module, {}
    if job.rank == 1:
        places = {net.b.weight: torch.nan, net.head.bias: torch.inf}
    elif job.rank == 0:
        places = {net.c.weight: -torch.inf}
    for parameter, value in places.items():
        parameter.register_hook(partial(_with_first, value))


def _with_first(value: float, gradient: torch.Tensor) -> torch.Tensor:
    changed = gradient.clone()
    changed.view(-1)[0] = value
    return changed


@law("not finite where DDP is not", 2, on_torch=True)
@law("codes: not finite where DDP is not", 2, routes=CODES, on_torch=True)
def not_finite(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check that plain DDP's parameters are not finite, and low-bit ones of them are all NaN.

    The twins hide the value: the worker's scale is sent as a number, or 0 is packed in its place.
    """

    def zeros(view: torch.Tensor) -> Any:
        return floats_of(view).nan_to_num(posinf=0.0, neginf=0.0)

    place: Any = payload
    name, blind = "column", lambda *a: tuple(np.nan_to_num(column(*a)))
    if routes is CODES:
        place, name, blind = error_feedback, "floats_of", zeros  # type: ignore[assignment]
    wanted = {"b.weight", "c.weight", "head.bias"}
    with patched(place, name, blind if wrong else getattr(place, name)):
        for dtype in (torch.float32, torch.bfloat16):
            for how in (None, routes.mixed):
                job = Job(ranks, workers, how, dtype=dtype, lr=0)
                _spoil(job)
                job.backward(0)
                bad = {key[1]: g for key, g in job.gradients().items() if not g.isfinite().all()}
                ranks.check(bad.keys() == wanted, f"{dtype}: {[*bad]} are not finite")
                for low in bad.keys() & LOW if how else ():
                    ranks.check(bad[low].isnan().all(), f"{low} is not NaN throughout")


@law("fallback is DDP where a worker is not finite", 2)
@law("codes: fallback is DDP", 2, routes=CODES)
def fallback(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    path = "nan" if wrong else "fallback"
    plain, again = (
        _gradients(ranks, workers, how, "b.weight", "c.weight", spoil=_spoil, nonfinite=path)
        for how in (None, routes.mixed)
    )
    finite = [{key: g.nan_to_num(1e9) for key, g in one.items()} for one in (again, plain)]
    ranks.equal(*finite)


@law("sent and kept is what came in", 3, on_torch=True)
@law("codes: sent and kept is what came in", 3, routes=CODES, on_torch=True)
@law("groups: sent and kept is what came in", 3, routes=OF_GROUPS, on_torch=True)
@law("low rank: sent and kept is what came in", 3, routes=FACTORS)
def conserved(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check that decoded gradients and the mean residual add up to the mean gradients.

    Ten steps change between routes with feedback and FP32. The twin drops the residual at a change
    to FP32.
    """
    one, other = routes.fed
    order = [one, other, one, FULL, one, other, FULL, other, one, one]

    def lost(memory: Memory, name: str) -> None:
        memory.residuals.pop(name, None)

    job = Job(ranks, workers, lambda step: {"b": order[step]}, lr=0.02)
    parameter = job.model.module.b.weight
    raw, out = torch.zeros_like(parameter), torch.zeros_like(parameter)
    parameter.register_hook(partial(_add, raw))
    with patched(Memory, "flushed", lost if wrong else Memory.flushed):
        for step in range(len(order)):
            job.train([step])
            out += job.gradient("b.weight")
    kept = job.router.memory.residuals["b.weight"].view_as(out)
    both = torch.stack([raw.detach(), kept])
    dist.all_reduce(both, group=ranks.of(workers))
    both /= workers
    lost_now = (out + both[1] - both[0]).abs() / both[0].abs().max()
    most = float(lost_now.max())
    ranks.check(most <= 1e-5, f"b.weight, step 9: {most:.3g} of the gradient is lost")


def _add(total: torch.Tensor, gradient: torch.Tensor) -> None:
    total += gradient


@law("resumed is uninterrupted", 2, on_torch=True)
@law("codes: resumed is uninterrupted", 2, routes=CODES, on_torch=True)
def resumed(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    job = Job(ranks, workers, routes.walk)
    straight = job.train(range(10))
    first = Job(ranks, workers, routes.walk)
    first.train(range(5))
    path = f"{ranks.folder}/state-{ranks.rank}.pt"
    net = first.model.module.state_dict()
    torch.save({"session": first.session.state_dict(), "net": net}, path)
    second, held = Job(ranks, workers, routes.walk), torch.load(path)
    second.model.module.load_state_dict(held["net"])
    if wrong:
        held["session"] |= {"residuals": {}, "factors": {}}
    second.session.load_state_dict(held["session"])
    again = second.train(range(5, 10))
    ranks.equal(again, {key: one for key, one in straight.items() if key in again})


@law("low rank: a mean of that rank is sent whole", 2)
def whole_rank(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that factors of rank 16 give the mean of two batches of 8, within bfloat16.

    They are counted as what a rank sends: 2 bytes an element of both, once for two workers. The
    twin has rank 1.
    """
    rank = 1 if wrong else 16
    sent = []
    for how in (FULL, replace(FULL, low_rank=rank)):
        job = Job(ranks, workers, lambda step, how=how: {"a": how}, lr=0)  # type: ignore[misc]
        counted = job.router.reducer.counters.sent
        before = counted[Route.FP32.value]
        job.backward(0)
        job.router.thread.drain()
        sent.append((job.gradient("a.weight"), counted[Route.FP32.value] - before))
    (mean, full), (found, factors) = sent
    off = float((found - mean).norm() / mean.norm())
    ranks.check(off < 0.02, f"a.weight, step 0: {off:.3f} of the mean is missing")
    saved = full - factors - 4 * mean.numel() + 2 * rank * sum(mean.shape)
    ranks.check(saved == 0, f"{saved} bytes are counted beyond factors")


@law("low rank: what is not finite costs one step", 2)
def factors_stay(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that NaN reaches every rank, and neither the residual nor the factors of later steps.

    The twin keeps the NaN.
    """

    def keeps(one: Factors, name: str, basis: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        one.right[name] = right
        return basis @ right.T

    for nonfinite in ("nan", "fallback"):
        with patched(Factors, "mean", keeps if wrong else Factors.mean):
            job = Job(ranks, workers, of_all(RANK4), lr=0, nonfinite=nonfinite)
            for step in range(3):
                job.backward(step, np.nan if step == 1 else 1.0)
                got = job.gradient("a.weight").isnan()
                ranks.check(bool(got.all()) == (step == 1), f"{nonfinite}, step {step}: NaN or not")
                ranks.check(not got.any() or step == 1, f"{nonfinite}, step {step}: some NaN")


@law("parts under no_sync are one backward", 3)
@law("codes: parts under no_sync are one backward", 3, routes=CODES)
def in_parts(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check that a batch in three parts, two under no_sync, has the gradients of one backward.

    Weights and inputs are integers, so that sums are exact in any order. The twin synchronizes each
    part.
    """
    seen = []
    for parts in (1, 3):
        job = Job(ranks, workers, routes.mixed, linear=True, lr=0)
        draw = torch.Generator().manual_seed(7 + ranks.rank)
        with torch.no_grad():
            same = torch.Generator().manual_seed(3)
            for p in job.model.parameters():
                p.copy_(torch.randint(-1, 2, p.shape, generator=same))
        x = torch.randint(-1, 2, (9, 128), generator=draw).float()
        for n, part in enumerate(x.chunk(parts)):
            job.model.require_backward_grad_sync = wrong or n == parts - 1  # as no_sync does
            job.model(part).sum().backward()
        seen.append(job.gradients())
    ranks.equal(seen[1], seen[0])


@law("options of DDP change nothing", 3)
def any_option(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that options of DDP that move gradients in memory leave the weights as they are.

    The twin takes another FP32 path.
    """
    seen = []
    for option in ("", "static_graph", "gradient_as_bucket_view", "find_unused_parameters"):
        path = "ring" if wrong and option else "ordered"
        options = {option: True} if option else {}
        job = Job(ranks, workers, VOTES.walk, fp32=path, options=options)
        seen.append(job.train(range(4)))
    for one in seen[1:]:
        ranks.equal(one, seen[0])


@law("join ends", 3)
@law("codes: join ends", 3, routes=CODES)
def join_ends(ranks: Ranks, workers: int, routes: RouteSet = VOTES) -> None:
    job = Job(ranks, workers, routes.walk)
    steps = 2 if ranks.rank == workers - 1 else 5
    with job.model.join():
        weights = job.train(range(steps))
    job.step = 4
    last = job.weights()
    ranks.same(workers, last)
    if steps == 5:
        ranks.equal(last, {key: one for key, one in weights.items() if key in last})


# -- slices of parameters -------------------------------------------------------------------------
Cut = tuple[int, list[int]]
"""Dimension of a weight, and two borders in it."""


def drawn_cuts(seed: int) -> dict[str, Cut]:
    """Return where each weight of `LOW` is cut, drawn from a seed: into rows or columns."""
    draw, net = np.random.default_rng(seed), Net()
    cuts = {}
    for name in LOW:
        axis = int(draw.integers(2))
        size = net.get_parameter(name).shape[axis]
        cuts[name] = axis, sorted(draw.choice(range(1, size), 2, replace=False).tolist())
    return cuts


SPLIT = "{}.parametrizations.weight.original{}"
"""Name of a part of a layer's weight in `split_net`."""


@contextmanager
def in_slices(cuts: Mapping[str, Cut], split: bool = False) -> Iterator[None]:
    """Let jobs give the first two parts of each weight a region, and those of 64 elements a route.

    Args:
        cuts: Cuts of the weights.
        split: Whether the parts are parameters, as in `split_net`, or slices.
    """
    regions = {}
    for name, (axis, borders) in cuts.items():
        for n, (first, end) in enumerate(pairwise([0, *borders])):
            part = SPLIT.format(name[0], n) if split else f"{name}{Slice(axis, first, end)}"
            regions[part] = "abcc"["abc".index(name[0]) + n]
    with patched(law_testbench, "REGIONS", regions), patched(bucket_hook, "LEAST_ELEMENTS", 64):
        yield


class Joined(nn.Module):
    """Parametrization: a weight that is joined of parameters."""

    def __init__(self, axis: int, borders: Sequence[int]) -> None:
        super().__init__()
        self.axis, self.borders = axis, borders

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        return torch.cat(parts, self.axis)

    def right_inverse(self, whole: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(one.clone() for one in whole.tensor_split(self.borders, self.axis))


def split_net(cuts: Mapping[str, Cut], linear: bool = False) -> Net:
    """Return a `Net` whose cut weights are joined of a parameter for each part."""
    net = Net(linear)
    for name, cut in cuts.items():
        register_parametrization(net.get_submodule(name[0]), "weight", Joined(*cut))
    return net


@law("slices are reduced as parameters, 2 workers", 2, on_torch=True)
@law("slices are reduced as parameters, 3 workers", 3, on_torch=True)
def as_parameters(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that a net with slices has the gradients of one whose slices are parameters.

    The routes are those whose draws do not depend on names. A ring of three ranks adds FP32
    gradients in another order, so they are compared with a tolerance. The twin does not return the
    pieces to their places.
    """
    kinds = (*VOTES.kinds, NEAREST, replace(NEAREST, feedback=True))
    walk = replace(VOTES, kinds=[one for one in kinds if not one.low_rank]).walk
    for seed, fp32 in enumerate(FP32_PATHS):
        cuts = drawn_cuts(seed)
        more: dict[str, Any] = {"fp32": fp32, "options": VIEW, "lr": 0.05 * (workers == 2)}
        with in_slices(cuts):
            job = Job(ranks, workers, walk, **more)
        with in_slices(cuts, split=True), patched(law_testbench, "Net", partial(split_net, cuts)):
            apart = Job(ranks, workers, walk, **more)
        for step in range(8):
            with patched(bucket_hook, "scatter", (lambda *_: None) if wrong else scatter):
                job.train([step])
            apart.train([step])
            for name, (axis, borders) in cuts.items():
                parts = job.gradient(name).tensor_split(borders, axis)
                got = {(step, SPLIT.format(name[0], n)): one for n, one in enumerate(parts)}
                wanted = apart.gradients(*(split for _, split in got))
                if workers == 2:
                    ranks.equal(got, wanted)
                    continue
                near = all(torch.allclose(got[key], wanted[key], 1e-4, 1e-7) for key in got)
                ranks.check(near, f"{name}, step {step}, {fp32}: other gradients")
        ranks.check(len(job.router.regions) > 3, f"{[*job.router.regions]} alone have routes")


@law("slices: equal parameters on all ranks", 4, on_torch=True, case=equal_parameters)
@law("slices: shadows leave FP32 as it is", 3, on_torch=True, case=shadows)
@law("slices: whole leaves FP32 parameters as they are", 4, on_torch=True, case=whole)
@law("slices: resumed is uninterrupted", 2, on_torch=True, case=resumed)
def of_slices(ranks: Ranks, workers: int, case: Callable[..., None], wrong: bool = False) -> None:
    """Run a case with slices of the weights in place of them; the twin is that of the case."""
    with in_slices(drawn_cuts(5)):
        case(ranks, workers, wrong=wrong)


@law("slices: residuals of other slices are dropped", 1)
def other_slices(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that a checkpoint gives a piece its own residual alone, with one line on the others.

    The twin has the same slices.
    """
    lines: list[str] = []
    with in_slices(drawn_cuts(5)):
        job, other = (Job(ranks, workers, of_all(BINARY_FED)) for _ in range(2))
    if not wrong:
        other = Job(ranks, workers, of_all(BINARY_FED))
    job.train([0])
    with patched(training_session, "warn", lines.append):
        other.session.load_state_dict(job.session.state_dict())
    known, held = set(other.router.layouts), set(other.router.memory.residuals)
    ranks.check(held <= known, f"residuals of {held - known} are held")
    ranks.check(len(lines) == 1 and "are dropped: no slice has that name" in lines[0], f"{lines}")


# -- laws over one bucket -------------------------------------------------------------------------
@law("unused parameters keep no gradient", 3)
def unused(ranks: Ranks, workers: int) -> None:
    """Check a parameter that no rank uses, and one that rank 0 alone uses.

    The first has no gradient (None); the second has rank 0's votes, the same on each rank.
    """
    job = Job(ranks, workers, VOTES.mixed, lr=0, options={"find_unused_parameters": True})
    job.backward(0, some=False)
    ranks.check(job.model.module.c.weight.grad is None, "c.weight, step 0: has a gradient")
    job.backward(1, some=ranks.rank == 0)
    gradient = job.gradients("c.weight")
    sizes = job.gradient("c.weight").abs().unique().numel()
    ranks.check(sizes == 2, f"c.weight, step 1: {sizes} magnitudes, not 0 and one scale")
    ranks.same(workers, gradient)


def _signs(gradient: torch.Tensor) -> torch.Tensor:
    """Return a worker's decoded binary vote: the mean magnitude, with each element's sign."""
    scale = torch.tensor(np.float32(gradient.double().abs().mean().item()))
    return torch.where(gradient < 0, -scale, scale)


@law("tensors of one part get their own votes", 1)
def same_part(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that tensors that share a route and a bucket each get their own votes, with one worker.

    The twin decodes each from the first line.
    """

    def from_the_start(reduced: Any, route: Any, net: bool, *tensors: Any) -> None:
        for out, s, present in zip(*tensors[:3], strict=True):
            decode(reduced, route, net, [out], [s], [present])

    with patched(payload, "decode", from_the_start if wrong else decode):
        got, own = (
            _gradients(ranks, workers, how, *LOW, steps=2, cap_mb=25)
            for how in (of_all(BINARY), None)
        )
    ranks.equal(got, {key: _signs(one) for key, one in own.items()})


@law("small parameters stay in FP32", 2)
def small(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that a parameter below `LEAST_ELEMENTS` stays in FP32 though its region is low-bit.

    It has 216 elements; the twin sets the limit to 1.
    """
    regions = {**law_testbench.REGIONS, "head.weight": "c"}
    with (
        patched(law_testbench, "REGIONS", regions),
        patched(bucket_hook, "LEAST_ELEMENTS", 1 if wrong else LEAST_ELEMENTS),
    ):
        plain, mixed = (
            _gradients(ranks, workers, how, "head.weight") for how in (None, VOTES.mixed)
        )
    ranks.equal(mixed, plain)


@law("samples are the cosines", 2)
@law("codes: samples are the cosines", 2, routes=CODES)
def samples(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check the sampled cosines and norms of a step against the full FP32 mean of a plain training.

    The twin takes the norm of the workers' sum for that of their mean.
    """
    for fp32 in FP32_PATHS:
        job = Job(ranks, workers, routes.mixed, lr=0, fp32=fp32, sampled=everywhere)
        plain = Job(ranks, workers, None, lr=0)
        for each in (job, plain):
            each.backward(0)
        job.router.thread.drain()
        [report] = job.controls.reports
        for region in "abc":
            d, m = (x.gradient(f"{region}.weight").flatten().double() for x in (job, plain))
            dot, mean, decoded = report.cosines[region]
            near = 0.1 if region == "a" else 1e-5  # a is sampled in one line of twelve
            got, wanted = dot / (mean * decoded) ** 0.5, float(m @ d / (m.norm() * d.norm()))
            place = f"{region}.weight, step 0, {fp32}"
            ranks.check(abs(got - wanted) <= near, f"{place}: cosine {got:.6f} != {wanted:.6f}")
            square, exact = report.norms[region][0], float(d @ d)
            ranks.check(abs(square / exact - 1) <= 1e-4, f"{place}: norm {square} != {exact}")
            sampled = (report.norms[region][1] or 0.0) / float(m @ m)
            sampled /= workers**2 if wrong else 1
            ranks.check(0.5 < sampled < 2, f"{place}: the sample has {sampled} of the FP32 norm")


@law("a worker of the wrong sign is seen", 4)
def wrong_sign(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that worker 1, whose votes have the wrong sign, alone has negative agreements.

    In the twin its signs are right.
    """

    def flipped(ones: Any) -> Any:
        return [replace(vote, lines=~vote.lines) for vote in packed_votes(ones)]

    there = ranks.rank == 1 and not wrong
    with patched(payload, "packed_votes", flipped if there else packed_votes):
        job = Job(ranks, workers, of_all(BINARY), lr=0)
        for step in range(12):
            job.backward(step)
        job.router.thread.drain()
    every = ranks.gather(workers, dict(job.controls.reports[-1].agreements))
    low = [rank for rank, one in enumerate(every) for region in "abc" if one[region] < -0.02]
    ranks.check(low == [1, 1, 1], f"step 11: ranks {low} disagree, not rank 1 in each region")


def _got_and_sent(
    ranks: Ranks, workers: int, routes: RouteSet
) -> tuple[Values, dict[str, np.ndarray]]:
    """Run one step; return the reduced gradients of `LOW`, and every rank's, float32[W, *shape]."""
    job = Job(ranks, workers, routes.mixed, lr=0)
    raw: dict[str, torch.Tensor] = {}
    for name, parameter in job.model.module.named_parameters():
        parameter.register_hook(partial(_note, raw, name))
    job.backward(0)
    got = job.gradients(*LOW)
    every = ranks.gather(workers, {name: raw[name].numpy() for name in LOW})
    return got, {name: np.stack([one[name] for one in every]) for name in LOW}


def _note(raw: dict[str, torch.Tensor], name: str, gradient: torch.Tensor) -> None:
    raw[name] = gradient.clone()  # DDP replaces it by the mean


@law("codes: the mean of what all have sent", 4, on_torch=True)
@law("codes: one worker gets its own", 1, twin=False)
def formula(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check integer codes against a mean that numpy computes from every rank's gradient.

    The twin draws the random rounding of each rank with the key of rank 0.
    """

    def shared(seed: int, step: int, rank: int, name: str) -> Key:
        return Key(seed, step, 0, name)

    with patched(payload, "Key", shared if wrong else Key):
        got, sent = _got_and_sent(ranks, workers, CODES)
    wanted = {}
    for name, how in zip(LOW, CODES.of_region.values(), strict=True):
        x = sent[name].reshape(workers, -1)
        uniform = np.stack([draws(Key(SEED, 0, rank, name), x.shape[1]) for rank in range(workers)])
        if how.rounding == "nearest":
            uniform[:] = 0.5
        wanted[0, name] = torch.from_numpy(naive_mean(x, how.route.bits, uniform))
    ranks.equal(got, wanted)


@law("groups: each has its own scale", 3, on_torch=True)
def scales_of_groups(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check votes with scales of rows or columns against numpy, from every rank's gradient.

    The twin gives every group the scale of the next one.
    """

    def shifted(*args: Any) -> Any:
        return [np.roll(one, 1) if np.ndim(one) else one for one in common_scales(*args)]

    with patched(payload, "common_scales", shifted if wrong else common_scales):
        got, sent = _got_and_sent(ranks, workers, OF_GROUPS)
    wanted = {}
    for name, how in zip(LOW, OF_GROUPS.of_region.values(), strict=True):
        x = sent[name]
        ids = np.indices(x.shape[1:])[int(how.granularity == "column")] // how.block
        flat, rms = x.reshape(workers, -1), how.scale == "rms"
        voices, scales, _ = naive_votes(flat, how.route, ids.reshape(-1), rms)
        votes = voices / workers if how.decode == "net" else np.where(voices < 0, -1, 1)
        wanted[0, name] = torch.from_numpy((how.shrink * scales * votes).astype(np.float32))
    for key, one in wanted.items():
        near = torch.isclose(got[key].reshape(-1), one, rtol=1e-6, atol=0)
        ranks.check(bool(near.all()), f"{key[1]}: {int((~near).sum())} elements differ")


@law("codes: bytes are counted", 2)
def bytes_of(ranks: Ranks, workers: int) -> None:
    """Check the number of bytes that one of two ranks sends in a step with integer codes.

    It sends half the lines of each part, and returns the sums of the other half in twice the lines.
    FP32 are the parameters of no region, the sidecar, and one maximum for each 1,024 coded
    elements.
    """
    job = Job(ranks, workers, CODES.mixed, lr=0, cap_mb=25)
    before = Counter(job.session.sent)
    job.backward(0)
    job.router.thread.drain()
    sent = Counter(job.session.sent) - before
    sizes = {name: p.numel() for name, p in job.model.module.named_parameters()}
    a, b, c = (sizes[name] for name in LOW)
    half = {
        "G_INT8": -(-lines_of(a, Route.G_INT8) // 2),
        "G_INT4": -(-(lines_of(b, Route.G_INT4) + lines_of(c, Route.G_INT4)) // 2),
    }
    numbers = sum(sizes.values()) - a - b - c + sum(-(-n // BUCKET) for n in (a, b, c))
    wanted = {route: 3 * LINE * lines for route, lines in half.items()}
    wanted["FP32"] = 4 * numbers + 3 * 8
    ranks.check(sent == wanted, f"step 0: sent {dict(sent)}, not {wanted} bytes")


# -- the engine `torch` ---------------------------------------------------------------------------
@law("torch: the weights are those of the engine c", 4)
@law("torch: codes: the weights are those of the engine c", 4, routes=CODES)
def engines(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check that both engines train bit by bit alike, and that the monitor gets the same numbers.

    Scales of groups and root mean squares are summed in another order and left out. The twin has
    one wrong bit in the lines of one rank.
    """
    exact = [one for one in routes.kinds if one.granularity == "tensor" and one.scale != "rms"]
    walk = replace(routes, kinds=exact).walk

    def flipped(pack: Callable[..., Any], *args: Any) -> Any:
        vote = pack(*args)
        vote.lines[0, 0] ^= int(wrong and ranks.rank == 1)
        return vote

    votes, codes = tensor_payload.packed_vote, tensor_payload.packed_code
    with (
        patched(tensor_payload, "packed_vote", partial(flipped, votes)),
        patched(tensor_payload, "packed_code", partial(flipped, codes)),
    ):
        for fp32 in FP32_PATHS[:1] if wrong else FP32_PATHS:
            weights, reports = [], []
            for engine in ("c", "torch", "host"):
                more: dict[str, Any] = {"fp32": fp32, "shadows": routes.of_region, "engine": engine}
                job = Job(ranks, workers, walk, sampled=everywhere, **more)
                weights.append(job.train(range(9)))
                job.router.thread.drain()
                reports.append(job.controls.reports)
            for found, seen in zip(weights[1:], reports[1:], strict=True):
                ranks.equal(found, weights[0])
                for one, other in zip(reports[0], seen, strict=True):
                    _near(ranks, one, other)


def _near(ranks: Ranks, one: StepReport, other: StepReport) -> None:
    """Check that two reports of a step have the same numbers, but for the order of sums."""
    for name in ("norms", "cosines", "margins", "agreements", "saturation"):
        a, b = (_numbers(getattr(report, name)) for report in (one, other))
        near = a.keys() == b.keys() and all(np.allclose(a[key], b[key], 1e-4, 1e-9) for key in a)
        ranks.check(near, f"step {one.step}: {name} {a} and {b}")


def _numbers(measured: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return numbers by region as lists, with 0 for None."""
    return {
        region: [one or 0.0 for one in (values if isinstance(values, tuple) else (values,))]
        for region, values in measured.items()
    }


# -- lost buckets and errors ----------------------------------------------------------------------
class LossyReducer:
    """Wrapper of a TorchReducer that reduces a bucket, then raises BucketLost in the given
    steps.
    """

    def __init__(self, own: TorchReducer, steps: Sequence[int]) -> None:
        self.own, self.steps = own, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def submit(self, step: int, *what: Any) -> Any:
        return step, self.own.submit(step, *what)

    def wait(self, handle: Any) -> Outcome:
        step, own = handle
        outcome = self.own.wait(own)
        if step in self.steps:
            self.counters.events["lost"] += 1
            raise BucketLost("for the test")
        return outcome


@law("a lost bucket is that of DDP", 2, on_torch=True)
@law("codes: lost buckets are those of DDP", 2, routes=CODES, on_torch=True)
def lost_is_ddp(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check that lost buckets have DDP's gradients bit by bit on both ranks, and are reported.

    Two workers have one order of sums. The twin ignores the loss.
    """
    instead = (lambda *args: None) if wrong else BucketRouter._lost
    for fp32 in FP32_PATHS:
        with patched(BucketRouter, "_lost", instead):
            job = Job(ranks, workers, routes.mixed, fp32=fp32)
            job.router.reducer = LossyReducer(job.router.reducer, range(9))
            plain = Job(ranks, workers, None)
            for step in range(3):
                for one in (job, plain):
                    one.backward(step)
                ranks.equal(job.gradients(), plain.gradients())
                ranks.same(workers, job.gradients())
            job.router.thread.drain()
            lost = sum(one.reducer.lost for one in job.controls.reports)
            ranks.check(lost, f"{fp32}: no lost bucket is reported")


@law("a lost bucket leaves residuals", 3, on_torch=True)
def residuals_stay(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that a lost bucket, which is sent in FP32, keeps its residuals; the twin clears
    them.
    """

    def forgets(router: BucketRouter, votes: Any, others: Any) -> None:
        router.memory.residuals.clear()

    job = Job(ranks, workers, of_all(BINARY_FED))
    job.router.reducer = LossyReducer(job.router.reducer, (1,))
    job.backward(0)
    job.router.thread.drain()
    before = {(1, n): held.clone() for n, held in job.router.memory.residuals.items()}
    ranks.check(len(before) == len(LOW), f"step 0: residuals of {[*before]}")
    with patched(BucketRouter, "_lost", forgets if wrong else BucketRouter._lost):
        job.backward(1)
        job.router.thread.drain()
    after = {(1, n): held.clone() for n, held in job.router.memory.residuals.items()}
    ranks.equal(after, before)


class ClosingReducer:
    """Wrapper of a TorchReducer that closes three rounds of four without rank ``step % W``.

    The late rank contributes zeros, and no vote.
    """

    def __init__(self, own: TorchReducer, rank: int, workers: int) -> None:
        self.own, self.rank, self.workers = own, rank, workers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def late(self, step: int) -> tuple[int, ...]:
        return (step % self.workers,) if step % 4 < 3 else ()

    def submit(self, step: int, bucket: int, parts: Any, sidecar: Any) -> Any:
        if self.rank in self.late(step):
            parts = [replace(part, lines=part.lines * 0) for part in parts]
            sidecar = sidecar * 0
        return step, self.own.submit(step, bucket, parts, sidecar)

    def wait(self, handle: Any) -> Outcome:
        step, own = handle
        return replace(self.own.wait(own), late=self.late(step))


@law("closed rounds keep late gradients", 3, on_torch=True)
@law("codes: closed rounds keep late gradients", 3, routes=CODES, on_torch=True)
@law("groups: closed rounds keep late gradients", 3, routes=OF_GROUPS, on_torch=True)
def closed(ranks: Ranks, workers: int, routes: RouteSet = VOTES, wrong: bool = False) -> None:
    """Check that the sums of those on time and all residuals add up to all gradients.

    All ranks have the same gradients. The twin forgets what a late rank could not send.
    """

    def forgets(memory: Memory, name: str, values: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(values)

    one, other = routes.fed
    order = [one, other, one, FULL, FULL, other, FULL, other, one, one]
    job = Job(ranks, workers, lambda step: {"b": order[step]}, lr=0.02, fp32="ordered")
    job.router.reducer = closing = ClosingReducer(job.router.reducer, ranks.rank, workers)
    of_name = {name: dict(job.model.module.named_parameters())[name] for name in CLOSED}
    raw = {name: torch.zeros_like(p) for name, p in of_name.items()}
    out = {name: torch.zeros_like(p) for name, p in of_name.items()}
    for name, parameter in of_name.items():
        parameter.register_hook(partial(_add, raw[name]))
    with patched(Memory, "unsent", forgets if wrong else Memory.unsent):
        for step in range(len(order)):
            job.train([step])
            ranks.same(workers, job.gradients())
            for name in CLOSED:
                out[name] += job.gradient(name) * (workers - len(closing.late(step)))
    job.router.thread.drain()
    for report in job.controls.reports:
        late = {ranks for _, ranks in report.closed} or {()}
        ranks.check(late == {closing.late(report.step)}, f"step {report.step}: {late} are late")
    for name in CLOSED:
        kept = job.router.memory.residuals.get(name, torch.zeros(raw[name].numel()))
        both = torch.stack([raw[name].detach(), kept.view_as(raw[name])])
        dist.all_reduce(both, group=ranks.of(workers))
        most = float((out[name] + both[1] - both[0]).abs().max() / both[0].abs().max())
        ranks.check(most <= 1e-5, f"{name}, step 9: {most:.3g} of the gradient is lost")


@law("an error comes out of backward", 2)
def error_comes_out(ranks: Ranks, workers: int) -> None:
    """Check that an error while packing or waiting for a bucket is raised from `backward`.

    After an error of the reducer the next step raises too. This case comes last: it leaves the
    threads of its reducer broken.
    """

    def fails(*args: Any) -> Any:
        raise ValueError("nothing comes of it")

    def gone(handle: Any) -> Any:
        handle.work.wait()
        fails()

    tries: list[tuple[str, Callable[..., Any], list[int]]] = [
        ("_packed", fails, [1]),
        ("wait", gone, [1, 2]),
    ]
    for name, wrong, steps in tries:
        job = Job(ranks, workers, VOTES.mixed)
        job.train([0])
        with patched(job.router.reducer if name == "wait" else job.router, name, wrong):
            for step in steps:
                said = "no error"
                try:
                    job.backward(step)
                except (RuntimeError, ValueError) as error:
                    said = str(error)
                ranks.check("nothing comes of it" in said, f"step {step}, {name}: {said}")
        job.router.thread.close()
        job.router.packer.close()
        job.router = None
