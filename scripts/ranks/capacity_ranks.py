# SPDX-License-Identifier: Apache-2.0
"""Rank of `nf measure capacity table --measure`, a process of a gloo group.

Call: `python -m scripts.ranks.capacity_ranks FOLDER RUNS SIZE ...`; SIZE is the
elements of a bucket. Rank 0 writes FOLDER/result.json: of each bucket the seconds of both ways in
turn, FP32 by an all-reduce and G_BINARY by the `torch` reducer, packing and decoding included; and
the inputs of the model: the rates of this host, and the latencies of its collectives.
"""

from __future__ import annotations

from timeit import repeat, timeit

import numpy as np
import torch
import torch.distributed as dist

from neuron_fabric.codec import F32, Route, pack, unpack
from neuron_fabric.hook.payload import column, common_scale, decode, sidecar
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.interface import Part
from neuron_fabric.reducers.torch_reducer import TorchReducer
from scripts.ranks.rank_process import Rank

HOW = PhaseRoute(Route.G_BINARY)
RATED = 1 << 20
"""Elements by which the host's rates are measured."""
MOST_MORE = 8
"""Times as many runs of small buckets: theirs hang on which process has the core just then."""


def main(rank: Rank, runs: int, sizes: list[int]) -> None:
    """Measure all buckets in step with the other ranks; rank 0 writes the results."""
    reducer = TorchReducer(600.0)
    reducer.open(dist.group.WORLD)
    waits, cells = reducer.first_group.latencies(), []
    for elements in sizes:
        x = np.random.default_rng(rank.number).standard_normal(elements).astype(np.float32)
        out, flat = np.empty_like(x), torch.from_numpy(x.copy())
        ways: dict[str, list[float]] = {"fp32": [], "low": []}
        more = max(1, min(MOST_MORE, RATED // elements))
        for run in range((1 + runs) * more):  # the first ones are for buffers and caches
            for name, work in (
                ("fp32", lambda flat=flat: dist.all_reduce(flat)),
                ("low", lambda x=x, out=out, run=run: _low(reducer, run, x, out)),
            ):
                dist.barrier()
                took = timeit(work, number=1)
                if run >= more:
                    ways[name].append(took)
        cells.append({"elements": elements, **ways})
    rank.leave({"cells": cells, "waits": waits, **_rates(runs)})
    dist.barrier()
    reducer.close()


def _low(reducer: TorchReducer, step: int, x: F32, out: F32) -> None:
    packed = pack(x, HOW.route)
    side = sidecar([column(packed, x.size, packed.scale)])
    part = Part(HOW.route, False, packed.lines, (0,), (0,))
    outcome = reducer.wait(reducer.submit(step, 0, [part], side))
    present = outcome.present[0]
    s = common_scale(outcome.scales[0], present, HOW)
    decode(outcome.parts[0], HOW.route, False, [out], [s], [present])


def _rates(runs: int) -> dict[str, float]:
    """Return the float32 bytes per second that this process packs and unpacks."""
    x = np.random.default_rng(1).standard_normal(RATED).astype(np.float32)
    lines = pack(x, HOW.route).lines
    packs = min(repeat(lambda: pack(x, HOW.route), number=1, repeat=runs))
    unpacks = min(repeat(lambda: unpack(lines, HOW.route, RATED), number=1, repeat=runs))
    return {"pack_rate": x.nbytes / packs, "unpack_rate": x.nbytes / unpacks}


if __name__ == "__main__":
    rank, (runs, *sizes) = Rank.of_command()
    with rank.joined():
        main(rank, int(runs), [int(one) for one in sizes])
