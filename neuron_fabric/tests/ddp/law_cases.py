# SPDX-License-Identifier: Apache-2.0
"""The laws of the runtime and the cases of a bucket, as counts of differences (0: it holds)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from neuron_fabric.codec import Route
from neuron_fabric.hook import bucket_hook, payload
from neuron_fabric.hook.payload import Memory, column, common_scale
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.tests.ddp.law_ranks import Job, Ranks, differ, patched

B = PhaseRoute(Route.G_BINARY, "vote", "mean_abs", 1.0, False, "")
BN = PhaseRoute(Route.G_BINARY, "net", "mean_abs", 0.5, False, "")
T = PhaseRoute(Route.G_TERNARY, "vote", "rms", 1.0, False, "")
TN = PhaseRoute(Route.G_TERNARY, "net", "mean_abs", 1.0, False, "")
E = PhaseRoute(Route.G_TERNARY, "net", "mean_abs", 1.0, True, "")
EB = PhaseRoute(Route.G_BINARY, "net", "mean_abs", 1.0, True, "")
M = PhaseRoute(Route.G_BINARY, "vote", "mean_abs", 1.0, False, "", signal="momentum", beta=0.9)
FULL = PhaseRoute(Route.FP32, "vote", "mean_abs", 1.0, False, "")
KINDS = (B, BN, T, TN, E, EB, M, FULL)
Case = Callable[[Ranks, int], int]


def walk(step: int) -> dict[str, PhaseRoute]:
    """A walk through the states: any route for any region, the same on every rank."""
    draw = np.random.default_rng(step)
    return {region: KINDS[int(draw.integers(len(KINDS)))] for region in "abc"}


def mixed(step: int) -> dict[str, PhaseRoute]:
    return {"a": B, "b": BN, "c": TN}


def none(step: int) -> dict[str, PhaseRoute]:
    return {}


def equal_parameters(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    def other_scale(*args: Any) -> Any:
        return common_scale(*args) * np.float32(1 + (ranks.rank == 1) / 256)

    found = 0
    with patched(bucket_hook, "common_scale", other_scale if wrong else common_scale):
        for fp32 in ("ring", "ordered", "whole"):
            job = Job(ranks, workers, walk, fp32=fp32, sampled=lambda step: frozenset("ab"))
            found += ranks.same(workers, job.train(range(7)))
            job.close()
    return found


def all_fp32(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    found = 0
    for cap_mb, view in ((0.008, False), (25, True)):
        weights = []
        for routes in (None, none):
            options = {"gradient_as_bucket_view": view}
            job = Job(ranks, workers, routes, cap_mb=cap_mb, options=options)
            if routes is not None and wrong and workers == 3:
                job.router.mean = partial(_divided, ranks.of(workers))
            elif routes is not None and wrong:
                job.controls.of = lambda step: {"a": B} if step == 2 else {}
            weights.append(job.train(range(4)))
            job.close()
        found += differ(*weights)
    return found


def _divided(group: Any, _: Any, bucket: Any) -> Any:
    """As torch's own `allreduce_hook`: W divides, where DDP multiplies by 1/W."""
    work = dist.all_reduce(bucket.buffer().div_(group.size()), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def shadows(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    weights = []
    for routes in (None, none):
        job = Job(
            ranks,
            workers,
            routes,
            sampled=lambda step: frozenset("abc"),
            shadows=mixed(0),
        )
        if wrong and routes is not None:
            job.controls.of = mixed
        weights.append(job.train(range(4)))
        seen = [] if routes is None else job.controls.reports
        job.close()
    missing = sum(set(one.cosines) != set("abc") for one in seen)
    return differ(*weights) + missing


def neighbours(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """FP32 gradients with other neighbours and buckets; the twin: added by a ring."""
    seen = []
    for cap_mb, routes in ((0.008, none), (25, none), (0.008, mixed), (25, mixed)):
        job = Job(ranks, workers, _only(routes, "ab"), cap_mb=cap_mb, fp32=_path(wrong), lr=0)
        job.train(range(3))  # DDP has made its buckets anew
        seen.append(_rest(job, "ab"))
        job.close()
    return sum(differ(seen[0], one) for one in seen[1:])


def _path(ring: bool) -> str:
    return "ring" if ring else "ordered"


def _only(routes: Any, regions: str) -> Any:
    return lambda step: {name: how for name, how in routes(step).items() if name in regions}


def _rest(job: Job, low: str) -> torch.Tensor:
    """All gradients but those of these regions."""
    gradients = job.gradients()
    return torch.cat(
        [g.flatten() for name, g in gradients.items() if name.removesuffix(".weight") not in low]
    )


def whole(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    seen = []
    for routes in (None, _only(mixed, "ab")):
        job = Job(ranks, workers, routes, cap_mb=25, lr=0, fp32="ring" if wrong else "whole")
        job.train(range(3))
        seen.append(_rest(job, "ab"))
        job.close()
    return differ(*seen)


def abstaining(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """The last of three has nothing; the first two, without it, are compared."""
    seen = []
    with patched(payload, "column", (lambda *a: (float(a[2]), 1.0)) if wrong else column):
        for these in (workers, workers - 1):
            if ranks.rank >= these:
                continue
            job = Job(ranks, these, mixed, lr=0)
            for step in range(2):
                job.backward(step, 0.0 if ranks.rank == workers - 1 else 1.0)
            seen.append(torch.cat([job.gradients()[f"{one}.weight"].flatten() for one in "abc"]))
            job.close()
    return differ(*seen) if len(seen) == 2 else 0


def not_finite(
    ranks: Ranks, workers: int, wrong: bool = False, dtype: torch.dtype = torch.float32
) -> int:
    """Parameters that are not finite: the set of plain DDP, and NaN throughout."""
    blind = (lambda *a: tuple(np.nan_to_num(column(*a)))) if wrong else column
    sets = []
    with patched(payload, "column", blind):
        for routes in (None, mixed):
            job = Job(ranks, workers, routes, dtype=dtype, lr=0)
            _spoil(job)
            job.backward(0)
            bad = {n: g for n, g in job.gradients().items() if not g.isfinite().all()}
            sets.append(frozenset(bad))
            partly = sum(not bad[n].isnan().all() for n in bad if routes and n in REGIONS_LOW)
            job.close()
    return len(sets[0] ^ sets[1]) + partly + (sets[0] != {"b.weight", "c.weight", "head.bias"})


REGIONS_LOW = ("a.weight", "b.weight", "c.weight")


def _spoil(job: Job) -> None:
    """A NaN on one rank, an infinity on another, one in an FP32 parameter."""
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


def fallback(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    seen = []
    for routes in (None, mixed):
        after = "nan" if wrong else "fallback"
        job = Job(ranks, workers, routes, lr=0, nonfinite=after)
        _spoil(job)
        job.backward(0)
        seen.append(torch.cat([job.gradients()[f"{one}.weight"].flatten() for one in "bc"]))
        job.close()
    return differ(*(one.nan_to_num(1e9) for one in seen))


def conserved(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """The sum of decoded gradients and the mean of what is kept at the end are the sum of mean
    gradients, through changes of the route; the twin loses the residual where FP32 begins."""
    order = [E, EB, E, FULL, E, EB, FULL, EB, E, E]

    def lost(memory: Memory, name: str) -> None:
        memory.residuals.pop(name, None)

    job = Job(ranks, workers, lambda step: {"b": order[step]}, lr=0.02)
    parameter = job.model.module.b.weight
    raw, out = torch.zeros_like(parameter), torch.zeros_like(parameter)
    parameter.register_hook(partial(_add, raw))
    with patched(Memory, "flushed", lost if wrong else Memory.flushed):
        for step in range(len(order)):
            job.train([step])
            out += job.gradients()["b.weight"]
    kept = torch.from_numpy(job.router.memory.residuals["b.weight"]).view_as(out)
    both = torch.stack([raw.detach(), kept])
    dist.all_reduce(both, group=ranks.of(workers))
    both /= workers
    job.close()
    return int(((out + both[1] - both[0]).abs() > 1e-5 * both[0].abs().max()).sum())


def _add(total: torch.Tensor, gradient: torch.Tensor) -> None:
    total += gradient


def resumed(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    job = Job(ranks, workers, walk)
    straight = job.train(range(10))
    job.close()
    first = Job(ranks, workers, walk)
    first.train(range(5))
    state = first.runtime.state_dict()
    path = f"{ranks.folder}/state-{ranks.rank}-{wrong}.pt"
    torch.save({"runtime": state, "net": first.model.module.state_dict()}, path)
    first.close()
    second, held = Job(ranks, workers, walk), torch.load(path)
    second.model.module.load_state_dict(held["net"])
    if wrong:
        held["runtime"]["residuals"] = {}
    second.runtime.load_state_dict(held["runtime"])
    again = second.train(range(5, 10))
    second.close()
    return differ(straight, again)


def in_parts(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """Integers, so that sums of gradients are exact in any order."""
    seen = []
    for parts in (1, 3):
        job = Job(ranks, workers, mixed, linear=True, lr=0)
        draw = torch.Generator().manual_seed(7 + ranks.rank)
        with torch.no_grad():
            same = torch.Generator().manual_seed(3)
            for p in job.model.parameters():
                p.copy_(torch.randint(-1, 2, p.shape, generator=same))
        x = torch.randint(-1, 2, (9, 128), generator=draw).float()
        for n, part in enumerate(x.chunk(parts)):
            job.model.require_backward_grad_sync = wrong or n == parts - 1  # as no_sync does
            job.model(part).sum().backward()
        seen.append(torch.cat([g.flatten() for g in job.gradients().values()]))
        job.close()
    return differ(*seen)


def any_option(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """Options of DDP that change when gradients lie where; the twin: another fp32 path."""
    seen = []
    for option in ("", "static_graph", "gradient_as_bucket_view", "find_unused_parameters"):
        path = "ring" if wrong and option else "ordered"
        options = {option: True} if option else {}
        job = Job(ranks, workers, walk, fp32=path, options=options)
        seen.append(job.train(range(4)))
        job.close()
    return sum(differ(seen[0], one) for one in seen[1:])


def join_ends(ranks: Ranks, workers: int) -> int:
    job = Job(ranks, workers, walk)
    steps = 2 if ranks.rank == workers - 1 else 5
    with job.model.join():
        weights = job.train(range(steps))
    found = ranks.same(workers, job.weights())
    found += differ(weights, job.weights()) if steps == 5 else 0
    job.close()
    return found


def unused(ranks: Ranks, workers: int) -> int:
    """Nobody uses it: no gradient; one does: its own votes."""
    job = Job(ranks, workers, mixed, lr=0, options={"find_unused_parameters": True})
    job.backward(0, some=False)
    found = int(job.model.module.c.weight.grad is not None)
    job.backward(1, some=ranks.rank == 0)
    gradient = job.gradients()["c.weight"]
    sizes = gradient.abs().unique().numel()
    job.close()
    return found + ranks.same(workers, gradient) + int(sizes != 2)  # 0, and one scale


def one_worker(ranks: Ranks, workers: int) -> int:
    job, plain = Job(ranks, workers, mixed, lr=0), Job(ranks, workers, None, lr=0)
    for each in (job, plain):
        each.backward(0)
    got, own = job.gradients(), plain.gradients()
    a = own["a.weight"]
    scale = np.float32(a.double().abs().mean().item())
    votes = torch.where(a < 0, -torch.tensor(scale), torch.tensor(scale))
    found = differ(got["a.weight"], votes) + differ(got["head.weight"], own["head.weight"])
    job.close()
    plain.close()
    return found


def error_comes_out(ranks: Ranks, workers: int) -> int:
    """Of what packs beside backward, and of what waits for the reducer: behind that the next step
    fails at once, as nothing is sent any more."""
    found = 0
    for name, wrong, steps in (("_packed", _unpackable, [1]), ("wait", _gone, [1, 2])):
        job = Job(ranks, workers, mixed)
        job.train([0])
        with patched(job.router.reducer if name == "wait" else job.router, name, wrong):
            for step in steps:
                try:
                    job.backward(step)
                    found += 1
                except (RuntimeError, ValueError) as error:
                    found += int("nothing comes of it" not in str(error))
        job.router.thread.close()
        job.router.packer.close()
    return found


def _gone(handle: Any) -> Any:
    handle.work.wait()
    raise ValueError("nothing comes of it")


def _unpackable(signals: Any) -> Any:
    raise ValueError("nothing comes of it")


def samples(ranks: Ranks, workers: int) -> int:
    """What is reported of a sample against a plain training's mean at all places."""
    found = 0
    for fp32 in ("ring", "ordered", "whole"):
        job = Job(ranks, workers, mixed, lr=0, fp32=fp32, sampled=lambda step: frozenset("abc"))
        plain = Job(ranks, workers, None, lr=0)
        for each in (job, plain):
            each.backward(0)
        job.router.thread.drain()
        [report] = job.controls.reports
        for region in "abc":
            d, m = (x.gradients()[f"{region}.weight"].flatten().double() for x in (job, plain))
            dot, mean, decoded = report.cosines[region]
            near = 0.1 if region == "a" else 1e-5  # a is sampled in one line of twelve
            cosine = dot / (mean * decoded) ** 0.5
            found += int(abs(cosine - float(m @ d / (m.norm() * d.norm()))) > near)
            square = report.norms[region][0]
            found += int(abs(square - float(d @ d)) > 1e-4 * square)
        job.close()
        plain.close()
    return found


def _with_twin(law: str, workers: int, case: Any) -> list[tuple[str, int, Case]]:
    return [(law, workers, case), (f"twin: {law}", workers, partial(case, wrong=True))]


_BF16: Any = partial(not_finite, dtype=torch.bfloat16)
CASES: list[tuple[str, int, Case]] = [
    *_with_twin("equal parameters on all ranks", 4, equal_parameters),
    *_with_twin("all FP32 is DDP without a hook, 2 workers", 2, all_fp32),
    *_with_twin("all FP32 is DDP without a hook, 3 workers", 3, all_fp32),
    *_with_twin("all FP32 is DDP without a hook, 4 workers", 4, all_fp32),
    *_with_twin("shadows leave FP32 as it is", 3, shadows),
    *_with_twin("ordered sums do not depend on neighbours", 4, neighbours),
    *_with_twin("whole leaves FP32 parameters of mixed buckets as they are", 4, whole),
    *_with_twin("abstaining is not being there", 3, abstaining),
    *_with_twin("not finite where DDP is not", 2, not_finite),
    *_with_twin("not finite in bfloat16 where DDP is not", 2, _BF16),
    *_with_twin("fallback is DDP where a worker is not finite", 2, fallback),
    *_with_twin("sent and kept is what came in", 3, conserved),
    *_with_twin("resumed is uninterrupted", 2, resumed),
    *_with_twin("parts under no_sync are one backward", 3, in_parts),
    *_with_twin("options of DDP change nothing", 3, any_option),
    ("join ends", 3, join_ends),
    ("unused parameters keep no gradient", 3, unused),
    ("one worker gets its own votes", 1, one_worker),
    ("samples are the cosines", 2, samples),
    ("an error comes out of backward", 2, error_comes_out),
]
"""Name, workers, and what counts the differences; the last one leaves its thread broken."""
