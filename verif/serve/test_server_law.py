# SPDX-License-Identifier: Apache-2.0
"""Laws L2 and L6 of the reducer server: torch's reducer, the models and the RTL agree bit for bit.

Ranks may submit in any order, and messages may be sent twice.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from models.parameters import DeviceParams
from neuron_fabric.codec import LINE, Route
from neuron_fabric.collectives.rounds import Closing
from neuron_fabric.reducers.interface import Outcome
from neuron_fabric.reducers.server_session import ServerSession
from neuron_fabric.reducers.server_wire import send
from neuron_fabric.reducers.shared_lines import AHEAD
from scripts.run.replay_simulators import Simulators
from verif.serve import rtl_device
from verif.serve.conftest import (
    LINES,
    VOTES,
    Drawn,
    Rank,
    differences,
    drawn,
    joined,
    on_every_rank,
    outcome,
    serving,
    submitted,
    want,
    without,
)
from verif.serve.device_pool import DevicePool
from verif.serve.rtl_device import RtlDevice
from verif.serve.served_device import ModelDevice

CODES = (Route.G_INT4, Route.G_INT8)


def reduced(
    ranks: Sequence[ServerSession], buckets: Sequence[Drawn], shuffle: int = 0
) -> list[list[Outcome]]:
    """Submit all buckets on all ranks; return the outcomes by rank and bucket.

    ``shuffle``: if not 0, seed of random waits and of messages that are sent twice.
    """

    def one(rank: int) -> list[Outcome]:
        draw = random.Random(f"{shuffle} {rank}")
        tickets = []
        for n, bucket in enumerate(buckets):
            if shuffle:
                time.sleep(draw.random() * 0.01)
            ticket = ranks[rank].submit(0, n, bucket.parts[rank], bucket.sides[rank])
            tickets.append(ticket)
            if shuffle and ticket.session is not None and draw.random() < 0.5:
                assert send(ticket.session.sock, ticket.submit)
        return [ranks[rank].wait(ticket) for ticket in tickets]

    return list(on_every_rank(len(ranks), one))


def check(ranks: Sequence[ServerSession], buckets: Sequence[Drawn], shuffle: int = 0) -> None:
    for outcomes in reduced(ranks, buckets, shuffle):
        for got, bucket in zip(outcomes, buckets, strict=True):
            assert differences(got, want(bucket), bucket) == []


JOBS: dict[str, tuple[int, float, int, tuple[Route, ...]]] = {
    "votes-1": (1, 0.3, 1, VOTES),
    "votes-2": (2, 0.0, 0, VOTES),
    "votes-3": (3, 0.3, 2, VOTES),
    "votes-4": (4, 0.0, 3, VOTES),
    "votes-9": (9, 1.0, 4, VOTES),
    # Sums of integer codes have one byte up to 16 workers.
    "codes-1": (1, 0.3, 1, CODES),
    "codes-3": (3, 0.3, 1, CODES),
    "mixed-3": (3, 0.3, 1, (Route.G_BINARY, Route.G_INT4)),
    "codes-16": (16, 0.0, 1, CODES),
    "codes-17": (17, 0.4, 1, CODES),
}
"""(workers, share of absent tensors, shuffle, routes) by name of the case."""


@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("job", JOBS)
def test_the_models(job: str, devices: int) -> None:
    """Check that the models give the bits of torch's reducer for random buckets of each job.

    A tile of a device with 8 slots has two lines, so that each of several devices has some.
    """
    workers, absent, shuffle, routes = JOBS[job]
    seed = 10 * workers
    buckets = [drawn(seed + n, workers, absent, bool(n % 2), routes) for n in range(4)]
    pool = DevicePool([ModelDevice(DeviceParams(slots=8)) for _ in range(devices)])
    with serving(workers, pool) as served, joined(served.path, workers, routes=routes) as ranks:
        check(ranks, buckets, shuffle)


CLOSING = {"close_after_s": 0.1, "min_workers": 2}


@contextmanager
def closing_ranks(
    kind: str, workers: int, timeout_s: float = 20.0, routes: Sequence[Route] = VOTES, **words: Any
) -> Iterator[tuple[Sequence[Any], Sequence[str]]]:
    """Open the ranks of a job whose rounds are closed; yield them, and the log of the server.

    Args:
        kind: "unix", a server with two devices of models, or "pool", shared memory.
        workers: Number of ranks.
        timeout_s: Time-out for a rank.
        routes: Routes of the job.
        words: Changes of `CLOSING`.
    """
    closing = {**CLOSING, **words}
    if kind == "unix":
        pool = DevicePool([ModelDevice(DeviceParams(slots=8)) for _ in range(2)])
        with (
            serving(workers, pool, timeout_s) as served,
            joined(served.path, workers, routes=routes, **closing) as ranks,
        ):
            yield ranks, served.said
        return
    pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    from models import test_torch_reducer
    from neuron_fabric.reducers import pool_reducer, torch_reducer

    network = test_torch_reducer.Network(workers)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="nf-") as folder:
        patch.setattr(torch_reducer, "OwnGroup", test_torch_reducer.Group)
        patch.setattr(pool_reducer, "together", lambda do, group: do())
        size = f"{folder}/pool", Closing(**closing), LINES * LINE, timeout_s
        pooled = [pool_reducer.RoundsReducer(*size) for _ in range(workers)]
        on_every_rank(workers, lambda rank: pooled[rank].open((network, rank)))
        yield pooled, ()
        for one in pooled:
            one.close()
        assert not os.listdir(folder)


KINDS = pytest.mark.parametrize("kind", ["unix", "pool"])


def check_closed(ranks: Sequence[Rank], buckets: Sequence[Drawn], late: int) -> None:
    """Submit all buckets without rank ``late``, which submits them when the others have all."""
    on_time = [rank for rank in range(len(ranks)) if rank != late]

    def one(rank: int) -> None:
        for n, bucket in enumerate(buckets):
            ticket = ranks[rank].submit(0, n, bucket.parts[rank], bucket.sides[rank])
            got, want_of = ranks[rank].wait(ticket), without(bucket, [late])
            assert got.late == (late,)
            assert differences(got, want(want_of), want_of) == []

    on_every_rank(len(on_time), lambda n: one(on_time[n]))
    one(late)


@KINDS
@pytest.mark.parametrize("job", ["votes-3", "votes-4", "votes-9", "codes-3", "codes-17"])
def test_closed_rounds(job: str, kind: str) -> None:
    """Check that all ranks, a late one too, get the same result of the others' lines.

    As many rounds are closed as a rank may be late for, so that the memory is full of results.
    """
    workers, absent, _, routes = JOBS[job]
    buckets = [drawn(workers + n, workers, absent, bool(n % 2), routes) for n in range(AHEAD)]
    least = {"min_workers": workers - 1}  # no other rank is late
    with closing_ranks(kind, workers, routes=routes, **least) as (ranks, log):
        check_closed(ranks, buckets, workers - 2)
    if kind == "unix":
        said = [line for line in log if "closed without" in line]
        assert len(said) == AHEAD
        assert said[0].endswith(f"step 0 bucket 0: closed without rank {workers - 2}")


@KINDS
def test_a_rank_is_left_out_of_so_many_rounds(kind: str) -> None:
    """Check that a round waits for a rank that was late for `AHEAD` rounds in a row."""
    bucket = drawn(3, 3)
    with closing_ranks(kind, 3, timeout_s=2.0) as (ranks, _):
        for _ in range(AHEAD):
            assert [outcome(*one) for one in zip(ranks, submitted(ranks[:2], bucket))] == [
                "done"
            ] * 2
        lines = [outcome(*one) for one in zip(ranks, submitted(ranks[:2], bucket))]
    assert all("rank 2 has not come within 2 s" in line for line in lines), lines


@KINDS
def test_too_few_for_a_closed_round(kind: str) -> None:
    bucket = drawn(4, 4)
    with closing_ranks(kind, 4, timeout_s=1.0) as (ranks, _):
        [line] = [outcome(*one) for one in zip(ranks, submitted(ranks[:1], bucket))]
    assert "rank 1, 2, 3 has not come within 1 s" in line


@KINDS
def test_a_late_rank_with_another_bucket(kind: str) -> None:
    """Check that the training of a late rank ends if it submits another bucket than the others."""
    bucket, other = drawn(3, 3), drawn(4, 3)
    with closing_ranks(kind, 3) as (ranks, _):
        assert [outcome(*one) for one in zip(ranks, submitted(ranks[:2], bucket))] == ["done"] * 2
        ticket = ranks[2].submit(0, 0, other.parts[2], other.sides[2])
        line = outcome(ranks[2], ticket)
    why = {"unix": "without rank 2, which has another", "pool": "rank 2 makes another call"}
    assert why[kind] in line
    assert line.endswith("start all ranks alike")


@pytest.mark.parametrize(
    ("simulator", "devices"),
    [
        pytest.param("verilator", 1, marks=pytest.mark.nightly("two devices are the harder case")),
        ("verilator", 2),
        pytest.param("icarus", 1, marks=pytest.mark.nightly("12 s; test_rtl_device drives Icarus")),
    ],
)
def test_the_rtl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulator: str, devices: int
) -> None:
    """Check that the RTL gives the bits of torch's reducer: a job of votes, then one of codes.

    The device places its regions again for the second job. Regions have 4 lines, so that buckets
    need several rounds and use both regions of a route; some workers abstain. In a third job rounds
    are closed without a worker.
    """
    monkeypatch.setattr(rtl_device, "EPOCH_LINES_LOG2", 2)
    model = Simulators().bulk(simulator, {})
    pool = [RtlDevice(model, tmp_path, simulator, 3) for _ in range(devices)]
    with serving(3, DevicePool(pool), timeout_s=300.0) as served:
        for routes in (VOTES, CODES):
            buckets = [drawn(20 + n, 3, 0.3 * (n % 2), n == 1, routes) for n in range(3)]
            with joined(served.path, 3, routes=routes, job=str(routes)) as ranks:
                check(ranks, buckets, shuffle=1)
        with joined(served.path, 3, routes=CODES, job="closing", **CLOSING) as ranks:
            check_closed(ranks, buckets[:2], 1)


class WrongBit(ModelDevice):
    """Negative twin: device with one wrong bit in the last line of a bucket's first stretch."""

    def reduce(self, bucket):  # type: ignore[no-untyped-def]
        counts = super().reduce(bucket)
        bucket.got[:, bucket.stretches[0].lines[-1], 5] ^= 1
        return counts


def test_a_wrong_bit_is_seen() -> None:
    bucket = next(
        one
        for one in (drawn(seed, 3, 0.0) for seed in range(9))
        if one.parts[0][0].route == Route.G_BINARY
    )
    with serving(3, WrongBit()) as served, joined(served.path, 3) as ranks:
        [[got], *_] = reduced(ranks, [bucket])
        assert differences(got, want(bucket), bucket) != []


def test_of_torch() -> None:
    """Check that `want`, the expected result of the other tests, is that of torch's reducer."""
    pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    from models import test_torch_reducer
    from neuron_fabric.reducers import torch_reducer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_reducer, "OwnGroup", test_torch_reducer.Group)
        for seed in range(4):
            bucket = drawn(seed, 1 + 2 * seed, 0.3, routes=(*VOTES, *CODES))
            parts = [list(own) for own in bucket.parts]
            for kind in (torch_reducer.TorchReducer, torch_reducer.TensorReducer):
                for got in test_torch_reducer.reduced(kind, parts, bucket.sides):
                    assert differences(got, want(bucket), bucket) == []


def test_fp32_with_nan_is_one_nan() -> None:
    """Check that FP32 sums that are NaN have the bits of the NaN that the device returns."""
    bucket = drawn(5, 2)
    lines = bucket.parts[0][-1].lines.view("<f4")
    lines[0, 0], lines[0, 1] = np.inf, np.nan
    bucket.parts[1][-1].lines.view("<f4")[0, :2] = -np.inf, 1.0
    with serving(2) as served, joined(served.path, 2) as ranks:
        check(ranks, [bucket])
