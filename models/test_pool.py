# SPDX-License-Identifier: Apache-2.0
"""Laws of the collectives over a pool, each with a twin that fails.

L1: the outputs are the oracle's for any order. L2: they do not depend on devices, granule, tile or
reducer. L3: a message that is delivered twice changes nothing. L4: no wait, signal or rule can be
left out. L6: planes and sums of groups add up to those of all ranks. L5, zombies, is in
`test_pool_faults.py`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.int_sums import sums_of_views
from models.line_packing import U8
from models.pool import Pool, PoolFault, Rules, final_outputs, outcomes
from models.pool_devices import BELLS, Line, Needs, PoolDevice
from models.pool_oracle import digest, drawn_inputs, expected, reduced
from neuron_fabric.codec import Route, add_planes
from neuron_fabric.collectives import schedule as sched
from neuron_fabric.collectives.checker import check
from neuron_fabric.collectives.schedule import Adder, Collective, Schedule
from neuron_fabric.collectives.shipped import SUMS, shipped_any, views_of
from neuron_fabric.errors import LineError

FEW = settings(max_examples=15, deadline=None)


def schedule(
    collective: Collective,
    ranks: int = 3,
    devices: int = 2,
    lines: int = 3,
    adder: Adder = Adder.DEVICE,
    route: Route = Route.FP32,
    granule: int = 2,
    tile: int = 2,
) -> Schedule:
    """Return a shipped schedule with all views."""
    views = views_of(route, ranks) if collective in SUMS else None
    how: dict[str, Any] = {"granule": granule, "tile": tile, "views": views}
    return shipped_any(collective, ranks, devices, lines, adder, route, **how)


def drawn(calls: list[Schedule], seed: int = 1) -> list[list[U8]]:
    return [drawn_inputs(one, seed + e) for e, one in enumerate(calls)]


def run(calls: list[Schedule], seed: int, rules: Rules | None = None) -> Pool:
    """Run collectives in an order drawn from ``seed`` and compare all outputs with the oracle."""
    data = drawn(calls)
    pool = Pool(calls, data, rules=rules)
    assert pool.run(seed)
    for e, one in enumerate(calls):
        for rank, want in enumerate(expected(one, data[e])):
            assert np.array_equal(pool.output(e, rank), want), (one.collective, e, rank)
    return pool


def fails(calls: list[Schedule], rules: Rules | None = None, seeds: int = 60) -> bool:
    """Return whether one of many orders gives a fault or a wrong output."""
    for seed in range(seeds):
        try:
            run(calls, seed, rules)
        except (PoolFault, AssertionError):
            return True
    return False


ANY = st.builds(
    schedule,
    st.sampled_from(Collective),
    ranks=st.integers(1, 4),
    devices=st.integers(1, 3),
    lines=st.integers(1, 5),
    adder=st.sampled_from(Adder),
    route=st.sampled_from(Route),
    granule=st.integers(1, 3),
    tile=st.integers(1, 3),
)


@FEW
@given(st.lists(ANY, min_size=1, max_size=4), st.integers(0, 2**32))
def test_l1_outputs_are_the_oracles_for_any_order(calls: list[Schedule], seed: int) -> None:
    world = calls[0].ranks
    run([one for one in calls if one.ranks == world], seed)


def test_l1_of_a_rank_without_operations() -> None:
    """Check a barrier of one rank, which has no stream, before other collectives."""
    run([schedule(Collective.BARRIER, ranks=1), *[schedule(Collective.GATHER, ranks=1)] * 2], 1)


@pytest.mark.parametrize("rule", ["flush", "completion", "acquire", "done", "epoch"])
def test_l1_needs_each_rule(rule: str) -> None:
    one = schedule(Collective.BROADCAST if rule != "epoch" else Collective.BARRIER)
    assert fails([one] * 4, Rules(**{rule: False}))
    assert not fails([one] * 4, seeds=3)


@pytest.mark.parametrize("collective", [Collective.BROADCAST, Collective.BARRIER])
def test_l1_in_every_order_of_a_small_pool(collective: Collective) -> None:
    one = schedule(collective, ranks=2, devices=1, lines=1)
    data = drawn([one])
    found, states = outcomes(Pool([one], data))
    want = tuple(line.tobytes() for line in expected(one, data[0]))
    assert list(found) == [(want,)]
    assert states > 10
    broken, _ = outcomes(Pool([one], data, rules=Rules(completion=False)))
    assert (len(broken) > 1) is (collective is Collective.BROADCAST)


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(SUMS),
    st.sampled_from(Route),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 2**32),
)
def test_l2_bits_depend_on_no_cut_and_no_reducer(
    collective: Collective, route: Route, cut: tuple[int, int, int], seed: int
) -> None:
    devices, granule, tile = cut
    found = set()
    for adder in Adder:
        one = schedule(collective, 3, devices, 4, adder, route, granule=granule, tile=tile)
        found.add(digest(run([one], seed).outputs(0)))
    plain = schedule(collective, 3, 1, 4, Adder.DEVICE, route)
    found.add(digest(run([plain], seed).outputs(0)))
    assert len(found) == 1


def test_l2_does_not_hold_for_another_order_of_addition() -> None:
    one = schedule(Collective.REDUCE, ranks=3, lines=8)
    data = drawn_inputs(one, 1)
    assert digest(expected(one, data)) != digest(expected(one, data[::-1]))


@FEW
@given(ANY, st.integers(0, 2**32))
def test_l3_messages_delivered_twice_change_nothing(one: Schedule, seed: int) -> None:
    run([one] * 2, seed, Rules(repeat=0.5))


def test_l3_needs_devices_that_know_who_contributed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a device that counts each delivery as another worker's gives wrong sums."""
    count = iter(range(100, 10_000))

    def forgetful(
        self: PoolDevice,
        host: int,
        worker: int,
        region: tuple[str, int],
        line: int,
        data: bytes,
        poison: bool,
    ) -> None:
        at = worker if region[0] == BELLS else next(count)
        self.lines.setdefault((region, line), {})[at] = Line(data, poison)

    one = schedule(Collective.ALL_REDUCE, route=Route.G_INT8)
    monkeypatch.setattr(PoolDevice, "contribute", forgetful)
    assert fails([one], Rules(repeat=0.5))
    assert not fails([one], seeds=3)


def without(one: Schedule, rank: int, stream: int, index: int) -> Schedule:
    """Return a schedule without one operation."""
    old = one.streams[rank][stream]
    return one.with_ops(rank, old.name, old.ops[:index] + old.ops[index + 1 :])


@pytest.mark.parametrize(
    ("collective", "adder"),
    [
        *((one, Adder.PASSIVE) for one in Collective),
        (Collective.ALL_REDUCE, Adder.DEVICE),
        (Collective.REDUCE, Adder.DEVICE),
    ],
)
def test_l4_no_wait_or_signal_can_be_left_out(collective: Collective, adder: Adder) -> None:
    """Check that an order of the executor finds each dropped operation.

    A wait that an earlier one of its stream repeats is needed by nothing. In a reduce_scatter by
    the devices a rank also waits for rows that it does not read: that limits its lead, no more.
    """
    one = schedule(collective, 3, 2, 4, adder, Route.G_INT8, granule=1, tile=1)
    check(one)
    places = [
        (rank, number, index)
        for rank, streams in enumerate(one.streams)
        for number, stream in enumerate(streams)
        for index, op in enumerate(stream.ops)
        if isinstance(op, sched.Signal | sched.Wait | sched.Ready) and op not in stream.ops[:index]
    ]
    assert places
    assert not [at for at in places if not fails([without(one, *at)] * 3)]


@settings(max_examples=4, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 2**32))
def test_l6_planes_and_sums_of_groups_add_up(ranks: int, cut: int, seed: int) -> None:
    cut = min(cut, ranks - 1)
    for route in (Route.G_BINARY, Route.G_TERNARY, Route.G_INT4, Route.G_INT8):
        results: list[NDArray[np.integer]] = []
        data = drawn_inputs(schedule(Collective.ALL_REDUCE, ranks, route=route), seed)
        for group in (data, data[:cut], data[cut:]):
            one = schedule(Collective.ALL_REDUCE, len(group), 1, 3, route=route)
            pool = Pool([one], [group])
            assert pool.run(seed)
            layers = pool.output(0, 0).reshape(-1, 3, 64)
            if route.votes:
                results.append(add_planes([layers[1:]], ranks))
            else:
                kind = "<i1" if route is Route.G_INT4 else "<i2"
                results.append(sums_of_views(layers, kind))
        flat, first, second = results
        if route.votes:
            groups = [first.astype(np.uint8), second.astype(np.uint8)]
            assert np.array_equal(add_planes(groups, ranks), flat)
        else:
            assert np.array_equal(first + second, flat)


def test_l6_does_not_hold_for_votes_of_votes() -> None:
    rng = np.random.default_rng(1)
    lines = rng.integers(0, 256, (6, 4, 64), np.uint8)
    flat = reduced(lines, Route.G_BINARY, ["vote"])[0]
    votes = [reduced(lines[at : at + 3], Route.G_BINARY, ["vote"])[0] for at in (0, 3)]
    assert not np.array_equal(reduced(np.stack(votes), Route.G_BINARY, ["vote"])[0], flat)


def test_the_oracle_refuses_other_shapes_and_views() -> None:
    one = schedule(Collective.ALL_GATHER)
    with pytest.raises(ValueError, match="inputs of all_gather"):
        expected(one, drawn_inputs(one, 1)[:2])
    lines = np.zeros((2, 1, 64), np.uint8)
    for route, view in ((None, "sum"), (Route.FP32, "vote"), (Route.G_INT4, "plane0")):
        with pytest.raises(ValueError, match="view"):
            reduced(lines, route, [view])


def test_a_device_with_eight_regions_takes_two_routes() -> None:
    with pytest.raises(LineError, match=r"3 routes need 9 regions .* at most 2 routes"):
        PoolDevice(Needs(4, tuple(Route)[:3]), [0, 1])


def test_a_line_used_before_it_is_written_is_a_fault() -> None:
    one = schedule(Collective.REDUCE, adder=Adder.PASSIVE)
    add = sched.Add(1, sched.Place(sched.Buffer.OUT, 0), (sched.Place(sched.Buffer.SCRATCH, 0),))
    ops: tuple[sched.Op, ...] = (add,)
    streams = tuple((replace(stream[0], ops=ops),) for stream in one.streams)
    pool = Pool([replace(one, streams=streams)], drawn([one]))
    with pytest.raises(PoolFault, match="line 0 of scratch is used before it is written"):
        pool.run(1)


def test_outputs_are_those_at_the_end() -> None:
    calls = [schedule(Collective.SCATTER), schedule(Collective.GATHER)]
    pool = run(calls, 3)
    assert final_outputs(pool) == tuple(tuple(map(bytes, chain(pool.outputs(e)))) for e in range(2))
