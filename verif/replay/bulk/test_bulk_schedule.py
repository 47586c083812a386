# SPDX-License-Identifier: Apache-2.0
"""Bulk executor of schedules: outputs of all ranks, clocks, and each way in which a run fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.parameters import DeviceParams
from models.pool_oracle import drawn_inputs, expected
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import (
    Adder,
    Collective,
    Contribute,
    Op,
    Schedule,
    Stream,
    Wait,
    Write,
)
from neuron_fabric.collectives.shipped import SUMS, shipped, views_of
from scripts.collectives.executor_runs import run_checked
from scripts.common.errors import NfError
from scripts.run.replay_simulators import Simulators
from verif.host.c_interface import Block, Kind
from verif.mem.memory_timing import MemoryTiming
from verif.replay.bulk.bulk_pool import BulkPool, PoolError
from verif.replay.bulk.bulk_schedule import PoolRun, run_schedule


def run(
    folder: Path,
    schedule: Schedule,
    times: int = 1,
    simulator: str = "verilator",
    latency: int = 48,
) -> PoolRun:
    """Run a schedule several times, and compare the outputs of all ranks; return the last run."""
    model = Simulators().bulk(simulator, {})
    with BulkPool(model, folder, schedule, memory=MemoryTiming(latency)) as pool:
        for seed in range(times):
            inputs = drawn_inputs(schedule, seed)
            found = run_schedule(pool, inputs)
            for got, want in zip(found.outputs, expected(schedule, inputs), strict=True):
                assert np.array_equal(got, want)
    return found


@pytest.mark.parametrize(("ranks", "devices"), [(3, 2), (17, 3)])
@pytest.mark.parametrize("collective", [one for one in Collective if one not in SUMS])
def test_collectives(tmp_path: Path, collective: Collective, ranks: int, devices: int) -> None:
    """Check the outputs of three collectives in a row, on places and bells of both parities."""
    lines = 0 if collective is Collective.BARRIER else 70
    run(tmp_path, shipped(collective, ranks, devices, lines, granule=8), times=3)


@pytest.mark.parametrize("adder", Adder)
@pytest.mark.parametrize("route", Route)
@pytest.mark.parametrize("collective", SUMS)
def test_sums(tmp_path: Path, collective: Collective, route: Route, adder: Adder) -> None:
    """Check the outputs of sums, with all views; the third use is on a region used before."""
    plan = shipped(
        collective, 3, 2, 40, granule=8, adder=adder, route=route, views=views_of(route, 3)
    )
    run(tmp_path, plan, times=3)


@pytest.mark.parametrize("collective", [Collective.ALL_GATHER, Collective.ALL_REDUCE])
def test_icarus(tmp_path: Path, collective: Collective) -> None:
    adds = collective in SUMS
    adder, route = (Adder.DEVICE, Route.G_BINARY) if adds else (None, None)
    run(tmp_path, shipped(collective, 2, 2, 20, adder=adder, route=route), 2, "icarus")


def votes(devices: int) -> Schedule:
    return shipped(
        *(Collective.ALL_REDUCE, 8, devices, 512), adder=Adder.DEVICE, route=Route.G_BINARY
    )


def test_clocks(tmp_path: Path) -> None:
    """Check goals of the clocks: votes on one and two devices, a barrier at any memory latency."""
    alone, together = (run(tmp_path, votes(devices)).clocks for devices in (1, 2))
    assert alone <= 2.4 * 8 * 512
    assert alone >= 1.9 * together
    barriers = {
        run(tmp_path, shipped(Collective.BARRIER, 8, 1, 0), latency=latency).clocks
        for latency in (48, 300)
    }
    assert max(barriers) <= 45


def test_the_slowest_device(tmp_path: Path) -> None:
    """Check the clocks where one of three devices has all data, the others only bells."""
    plan = shipped(Collective.BROADCAST, 2, 3, 64, granule=64)
    assert run(tmp_path, plan).clocks > 128


# -- schedules that are wrong -------------------------------------------------------------------
def edited(plan: Schedule, rank: int, edit: Callable[[list[Op]], list[Op]]) -> Schedule:
    """Return a schedule in which ``edit`` has changed the operations of a rank."""
    streams = [list(own) for own in plan.streams]
    streams[rank] = [Stream(one.name, tuple(edit(list(one.ops)))) for one in streams[rank]]
    return replace(plan, streams=tuple(map(tuple, streams)))


def without(kind: type[Op]) -> Callable[[list[Op]], list[Op]]:
    return lambda ops: [op for op in ops if not isinstance(op, kind)]


def test_a_wait_left_out(tmp_path: Path) -> None:
    """Check that a rank that does not wait reads incomplete votes, which are poisoned."""
    with pytest.raises(PoolError, match=r"device 0: \d+ reads are poisoned, first 0x"):
        run(tmp_path, edited(votes(1), 0, without(Wait)))


def test_a_signal_that_nobody_gives(tmp_path: Path) -> None:
    plan = edited(votes(1), 0, lambda ops: [Wait((1,), 99), *ops])
    with pytest.raises(PoolError, match=r"rank 0 waits for ever: Wait\(ranks=\(1,\), number=99"):
        run(tmp_path, plan)


def test_a_contribution_to_another_line(tmp_path: Path) -> None:
    """Check that a line without a rank's contribution is never read as complete."""
    far = edited(
        votes(1),
        0,
        lambda ops: [replace(op, line=600) if isinstance(op, Contribute) else op for op in ops],
    )
    with pytest.raises(PoolError, match="reads are poisoned"):
        run(tmp_path, far)


def test_a_pool_that_is_too_large(tmp_path: Path) -> None:
    plan = shipped(Collective.BROADCAST, 2, 1, 1 << 20)
    with pytest.raises(PoolError, match="lines of memory on each device, which has 1,048,576"):
        run(tmp_path, plan)
    assert DeviceParams().mem_lines == 1 << 20


def test_a_region_of_another_use(tmp_path: Path) -> None:
    """Check that `Ready` sees a region whose commit for this use was left out.

    The second collective needs the commit that the leader makes in the first one.
    """
    plan = votes(1)
    streams = tuple(tuple(one for one in own if one.name != "control") for own in plan.streams)
    with pytest.raises(PoolError, match=r"region of G_BINARY: epoch 1, .* not epoch 3"):
        run(tmp_path, replace(plan, streams=streams), times=3)


def test_data_at_another_place(tmp_path: Path) -> None:
    """Negative twin: a rank that writes its part to another place changes outputs."""
    plan, model = shipped(Collective.ALL_GATHER, 2, 1, 4), Simulators().bulk("verilator", {})
    wrong = edited(
        plan, 1, lambda ops: [replace(op, line=9) if isinstance(op, Write) else op for op in ops]
    )
    with pytest.raises(NfError, match="wrong lines of rank 0, first 4; nf collectives check"):
        run_checked(wrong, 1, model)
    with pytest.raises(NfError, match="all_reduce of 8 ranks on 1 devices, seed 1: rank 0 waits"):
        run_checked(edited(votes(1), 0, lambda ops: [Wait((1,), 99), *ops]), 1, model)


def test_a_rank_sees_its_own_contributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a read of a result needs the answers to the contributions of its rank.

    No signal says so: a rank does not wait for itself.
    """
    plan = shipped(Collective.ALL_REDUCE, 1, 1, 16, adder=Adder.DEVICE, route=Route.FP32)
    blocks: list[Block] = []
    real = BulkPool.run_phase

    def seen(pool: BulkPool, now: Mapping[int, Sequence[Block]]) -> None:
        blocks.extend(now[0])
        real(pool, now)

    monkeypatch.setattr(BulkPool, "run_phase", seen)
    run(tmp_path, plan)
    [block] = [one for one in blocks if one.queues]
    writes, reads = (block.ops[block.ops["kind"] == kind] for kind in (Kind.WRITE, Kind.READ))
    results = reads[reads["light"] != 0]
    needs = block.sent[results["after"]].view("<u4")[:, 0]
    assert len(writes) == len(results) == 16
    assert (needs > 16).all()  # the poll of `Ready`, then the contributions
