# SPDX-License-Identifier: Apache-2.0
"""The laws of the runtime once more where regions go by integer codes, and those of codes alone; as
counts of differences (0: it holds)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from neuron_fabric.codec import BUCKET, LINE, Route, lines_of, units
from neuron_fabric.codec.draws import Key, draws
from neuron_fabric.hook import bucket_hook, payload
from neuron_fabric.hook.payload import SEED, values_of
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.tests.ddp import law_cases, lost_cases
from neuron_fabric.tests.ddp.law_cases import Case
from neuron_fabric.tests.ddp.law_ranks import Job, Ranks, differ, patched

I4, I8 = PhaseRoute(Route.G_INT4), PhaseRoute(Route.G_INT8)
NEAREST = PhaseRoute(Route.G_INT4, rounding="nearest")
FED, FED8 = PhaseRoute(Route.G_INT4, feedback=True), PhaseRoute(Route.G_INT8, feedback=True)
MOMENTUM = PhaseRoute(Route.G_INT8, signal="momentum", beta=0.9)
KINDS = (FED8, I8, NEAREST, MOMENTUM, law_cases.BN, FED, law_cases.FULL)
LOW = law_cases.REGIONS_LOW


def codes(step: int) -> dict[str, PhaseRoute]:
    return {"a": I8, "b": I4, "c": NEAREST}


def again(law: Callable[..., int], ranks: Ranks, workers: int, **more: Any) -> int:
    """A law of votes with integer codes in their place."""
    with (
        patched(law_cases, "mixed", codes),
        patched(law_cases, "KINDS", KINDS),
        patched(law_cases, "E", FED),
        patched(law_cases, "EB", FED8),
        patched(lost_cases, "mixed", codes),
    ):
        return law(ranks, workers, **more)


def equal(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """The twin: a rank packs and decodes by units that are not those of the others."""

    def alone(largest: Any, route: Route) -> Any:
        return units(largest * np.float32(1 + (ranks.rank == 1) / 256), route)

    with patched(bucket_hook, "units", alone if wrong else units):
        return again(law_cases.equal_parameters, ranks, workers)


def not_finite(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """The twin: a worker packs what is not finite as 0."""

    def blind(view: torch.Tensor) -> Any:
        return np.nan_to_num(values_of(view), posinf=0.0, neginf=0.0)

    found = 0
    with patched(payload, "values_of", blind if wrong else values_of):
        for dtype in (torch.float32, torch.bfloat16):
            found += again(law_cases.not_finite, ranks, workers, dtype=dtype)
    return found


def formula(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """Gradients are those that one process makes of every rank's own; the twin: ranks round by the
    same draws."""

    def shared(seed: int, step: int, rank: int, name: str) -> Key:
        return Key(seed, step, 0, name)

    with patched(payload, "Key", shared if wrong else Key):
        job = Job(ranks, workers, codes, lr=0)
        raw: dict[str, torch.Tensor] = {}
        for name, parameter in job.model.module.named_parameters():
            parameter.register_hook(partial(_note, raw, name))
        job.backward(0)
        got = job.gradients()
        job.close()
    every: list[Any] = [None] * workers
    own = {name: raw[name].flatten().numpy() for name in LOW}
    dist.all_gather_object(every, own, group=ranks.of(workers))
    found = 0
    for name, how in zip(LOW, codes(0).values(), strict=True):
        x = np.stack([one[name] for one in every])
        mean = torch.from_numpy(_mean(x, name, how)).view_as(got[name])
        found += differ(got[name], mean)
    return found


def _note(raw: dict[str, torch.Tensor], name: str, gradient: torch.Tensor) -> None:
    raw[name] = gradient.clone()  # DDP puts the mean in its place


def _mean(x: Any, name: str, how: PhaseRoute) -> Any:
    """float32[n] from float32[W, n], bucket by bucket."""
    top, out = 2 ** (how.route.bits - 1) - 1, np.empty(x.shape[1], np.float32)
    uniform = np.stack([draws(Key(SEED, 0, rank, name), x.shape[1]) for rank in range(len(x))])
    for first in range(0, x.shape[1], BUCKET):
        at = slice(first, first + BUCKET)
        largest = float(np.abs(x[:, at]).max())
        u = np.float32(largest / top)
        if float(u) * top < largest:
            u = np.nextafter(u, np.float32(np.inf))
        r = 0.5 if how.rounding == "nearest" else uniform[:, at]
        sums = np.floor(x[:, at].astype(np.float64) / float(u) + r).sum(axis=0)
        out[at] = float(u) * sums / len(x)
    return out


def bytes_of(ranks: Ranks, workers: int) -> int:
    """What a rank of two has sent in a step: each part's half to the other, and sums of twice the
    lines back; beside them the FP32 parameters, the sidecar, and a maximum a bucket of codes."""
    job = Job(ranks, workers, codes, lr=0, cap_mb=25)
    before = Counter(job.runtime.sent)
    job.backward(0)
    job.router.thread.drain()
    sent = Counter(job.runtime.sent) - before
    sizes = {name: p.numel() for name, p in job.model.module.named_parameters()}
    job.close()
    a, b, c = (sizes[name] for name in LOW)
    half = {
        "G_INT8": -(-lines_of(a, Route.G_INT8) // 2),
        "G_INT4": -(-(lines_of(b, Route.G_INT4) + lines_of(c, Route.G_INT4)) // 2),
    }
    numbers = sum(sizes.values()) - a - b - c + sum(-(-n // BUCKET) for n in (a, b, c))
    want = {route: 3 * LINE * lines for route, lines in half.items()}
    want["FP32"] = 4 * numbers + 3 * 8
    return sum(abs(sent[route] - want.get(route, 0)) for route in {*sent, *want})


def _with_twin(law: str, workers: int, case: Any) -> list[tuple[str, int, Case]]:
    law = f"codes: {law}"
    return [(law, workers, case), (f"twin: {law}", workers, partial(case, wrong=True))]


CASES: list[tuple[str, int, Case]] = [
    *_with_twin("equal parameters on all ranks", 4, equal),
    *_with_twin("the mean of what all have sent", 4, formula),
    *_with_twin("not finite where DDP is not", 2, not_finite),
    *_with_twin("shadows leave FP32 as it is", 3, partial(again, law_cases.shadows)),
    *_with_twin("abstaining is not being there", 3, partial(again, law_cases.abstaining)),
    *_with_twin("fallback is DDP", 2, partial(again, law_cases.fallback)),
    *_with_twin("sent and kept is what came in", 3, partial(again, law_cases.conserved)),
    *_with_twin("resumed is uninterrupted", 2, partial(again, law_cases.resumed)),
    *_with_twin("parts under no_sync are one backward", 3, partial(again, law_cases.in_parts)),
    *_with_twin("lost buckets are those of DDP", 2, partial(again, lost_cases.lost_is_ddp)),
    ("codes: join ends", 3, partial(again, law_cases.join_ends)),
    ("codes: samples are the cosines", 2, partial(again, law_cases.samples)),
    ("codes: one worker gets its own", 1, formula),
    ("codes: bytes are counted", 2, bytes_of),
]
"""Name, workers, and what counts the differences."""
