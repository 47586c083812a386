# SPDX-License-Identifier: Apache-2.0
"""A sequence of collectives over a pool: drawn schedules, their ranks, and the verdict."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence

import cocotb
from cocotb.triggers import Timer, gather

from models.line_packing import U8
from models.pool_oracle import drawn_inputs
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import DONE, Adder, Collective, Schedule
from neuron_fabric.collectives.shipped import ROOTED, SUMS, shipped, views_of
from neuron_fabric.data import as_object, parse_json
from verif.env.config import CLOCK_NS, Profile
from verif.env.env import clock_now
from verif.fabric.pool_bench import ABORT, Pool, PoolTest
from verif.fabric.pool_scoreboard import PoolScoreboard
from verif.fabric.rank_streams import CollectiveAborted, CollectiveTimeout, Rank

VARIABLE = "NF_COLLECTIVES"
"""JSON object: "names" of collectives, and numbers of "hosts" and "lines"; else drawn."""
HOSTS = (2, 3, 4)
"""Numbers of hosts; the traffic profiles of a seed have all of them."""
MOST_LINES = 14
LEAST = 6
"""Collectives of a run, so that several uses of bells follow."""
FEW = 64
"""Lines that bells can signal one by one."""
SOME = 6
"""Collectives before and after the pool shrinks."""


def drawn(
    test: PoolTest, names: Sequence[Collective], ranks: int, lines: int | None = None
) -> list[Schedule]:
    """Draw schedules in random order: each collective that moves data once, and each that adds once
    for each route and adder; fewer with a scale below 1. Half of the sums have all views.

    Args:
        test: Test, whose seed the draws are from.
        names: The collectives.
        ranks: Number of ranks.
        lines: Lines of each, with root 0, for digests; None draws them.
    """
    rng, devices, tile = test.env.rng, len(test.envs), test.cfg.hw.slots // 4
    kinds: list[tuple[Collective, Adder | None, Route | None]] = []
    for name in names:
        pairs = [(adder, route) for adder in Adder for route in Route] if name in SUMS else [None]
        kinds += [(name, *(pair or (None, None))) for pair in pairs]
    kinds *= 1 if lines else -(-LEAST // len(kinds))
    made = []
    for name, adder, route in rng.sample(kinds, min(len(kinds), test.cfg.count(len(kinds)))):
        count = 0 if name is Collective.BARRIER else lines or rng.randint(1, MOST_LINES)
        rooted = name in ROOTED and not lines
        made.append(
            shipped(
                name,
                ranks,
                devices,
                count,
                granule=rng.choice((1, 2, 4)),
                tile=rng.choice((1, tile)) if ranks * count <= FEW else tile,
                adder=adder,
                route=route,
                root=rng.randrange(ranks) if rooted else None,
                views=views_of(route, ranks) if route and rng.randrange(2) and not lines else None,
            )
        )
    return made


class Ranks:
    """All ranks of a pool with their inputs, and the scoreboard."""

    def __init__(self, pool: Pool, seed: int, step: int = 1) -> None:
        """Start the ranks; collective k has the inputs of ``seed`` + ``step`` * k."""
        self.pool = pool
        inputs = [drawn_inputs(one, seed + step * k) for k, one in enumerate(pool.schedules)]
        self.board = PoolScoreboard(pool.schedules, inputs)
        self.tasks = [
            cocotb.start_soon(self._end(Rank(pool, number), [data[number] for data in inputs]))
            for number in range(len(pool.hosts))
        ]

    async def _end(self, rank: Rank, inputs: list[U8]) -> str:
        """Run a rank; return why it gave up, or "" if it did not."""
        try:
            await rank.run(inputs, self.board.ended)
        except AssertionError as error:
            return str(error) or "a rank failed"
        return ""

    async def ended(self) -> None:
        """Wait until all ranks have ended all collectives; their outputs must be right.

        Raises:
            AssertionError: An output is missing or wrong, or the switch saw a message of nobody.
        """
        pauses = cocotb.start_soon(self._pauses())
        gave_up = [why for why in await gather(*self.tasks) if why]
        pauses.cancel()
        errors = [*gave_up, *self.board.finish(), *self.pool.switch.errors()]
        assert not errors, "; ".join(errors)

    async def _pauses(self) -> None:
        """Pause one host after the other."""
        rng = self.pool.rng
        while True:
            await Timer(rng.randint(200, 2000) * CLOCK_NS, "ns")
            port = self.pool.switch.ports[rng.choice(self.pool.hosts)]
            port.pause()
            await Timer(rng.randint(1, 600) * CLOCK_NS, "ns")
            port.resume()


async def run_collectives(test: PoolTest) -> None:
    """Run collectives that are drawn from the seed on all ranks; all outputs must be right.

    Raises:
        AssertionError: See `Ranks.ended`.
    """
    given = as_object(parse_json(os.environ.get(VARIABLE) or "{}"))
    names = [Collective(one) for one in given.get("names", Collective)]
    seed = int(os.environ["COCOTB_RANDOM_SEED"])  # that of each test is another one
    turn = seed + list(Profile).index(test.cfg.profile)
    count = given.get("hosts") or HOSTS[turn % len(HOSTS)]
    lines = given.get("lines")
    pool = Pool(test, count, drawn(test, names, count, lines))
    await pool.open()
    ranks = Ranks(pool, seed, step=0 if lines else 1)
    await ranks.ended()
    lost = await _lost(test)
    assert not lost, f"the devices have refused or dropped {lost} requests of the ranks"
    for schedule, digest in zip(pool.schedules, ranks.board.digests(), strict=True):
        what = " ".join(filter(None, (schedule.collective, schedule.adder, schedule.route)))
        test.logger.info("%s, %d lines: digest %s", what, schedule.lines, digest)
        if lines:  # drawn ones may have a name twice
            test.metrics[f"digest of {what}"] = digest


async def run_zombie(test: PoolTest) -> None:
    """Pause a host for good; the others give up, shrink the pool and go on. Then it wakes up.

    Raises:
        AssertionError: A rank hangs, an output is wrong, or a message of the host has an effect.
    """
    rng = test.env.rng
    count = rng.choice(HOSTS[1:])
    plans = [drawn(test, list(Collective), ranks)[:SOME] for ranks in (count, count - 1)]
    added = next((one for one in plans[0] if one.adder is Adder.DEVICE), None)
    if added is not None and rng.randrange(2):
        plans[0] = [added] * SOME  # so that a route waits for commits of its leader
    pool = Pool(test, count, [*plans[0], *plans[1]])
    await pool.open()
    pool.schedules = plans[0]
    ranks = Ranks(pool, test.cfg.seed)
    zombie = pool.switch.ports[rng.randrange(count)]
    await test.env.clocks(rng.randint(0, 1000))
    while not any(lane.items for lane in zombie.lanes):
        await test.env.clocks(1)
    zombie.pause()
    begin = clock_now()
    ends = [await task for rank, task in enumerate(ranks.tasks) if rank != zombie.number]
    took = clock_now() - begin
    assert any(ends), "the other ranks ended without the paused host"
    assert took < 2 * pool.patience, f"the other ranks took {took} clocks to give up"
    assert not ranks.board.errors, ranks.board.errors
    ranks.tasks[zombie.number].cancel()
    while any(port.waiting for port in pool.switch.ports if port is not zombie):
        await test.env.clocks(10)
    await pool.shrink(zombie.number)
    pool.schedules = plans[1]
    ranks = Ranks(pool, test.cfg.seed + SOME)
    await test.env.clocks(rng.randint(0, 300))
    sent, before = zombie.sent, await _lost(test)
    zombie.resume()
    await ranks.ended()
    while zombie.waiting:
        await test.env.clocks(10)
    sent, refused = zombie.sent - sent, await _lost(test) - before
    test.figure("requests of the zombie", sent)
    assert refused == sent, f"{refused} of the {sent} requests of the zombie were refused"


async def run_aborts(test: PoolTest) -> None:
    """Let a rank give a wait up that nobody ends; all waits of the others must end by `ABORT`.

    Raises:
        AssertionError: A wait ends in another way, or a kind of wait is not met.
    """
    rng, name = test.env.rng, Collective.ALL_REDUCE
    count, tile = rng.choice(HOSTS), test.cfg.hw.slots // 4
    route = rng.choice(list(Route))
    one = shipped(name, count, len(test.envs), 4, tile=tile, adder=Adder.DEVICE, route=route)
    pool = Pool(test, count, [one])
    await pool.open()
    ranks, silent = [Rank(pool, number) for number in range(count)], rng.randrange(count)
    device = rng.choice(pool.devices)

    def waits(rank: Rank) -> dict[str, Coroutine[None, None, None]]:
        return {
            "bells": rank.committed(device.bells, 2),
            "route": rank.committed(device.routes[route], 2),
            "signal": rank.wait(0, (silent,), rng.randint(1, ABORT - 1)),
            "DONE": rank.wait(0, (silent,), DONE),
        }

    async def end(wait: Coroutine[None, None, None]) -> type[AssertionError] | None:
        try:
            await wait
        except (CollectiveTimeout, CollectiveAborted) as error:
            return type(error)
        return None

    first = rng.choice([rank for rank in ranks if rank.number != silent])
    early = waits(first)
    gives_up = cocotb.start_soon(end(early.pop(rng.choice(sorted(early)))))
    for unused in early.values():
        unused.close()
    await test.env.clocks(rng.randint(pool.patience // 4, pool.patience // 2))
    left = [(rank.number, *each) for rank in ranks for each in waits(rank).items()]
    ends = await gather(*(end(wait) for _, _, wait in left))
    assert await gives_up is CollectiveTimeout, f"rank {first.number} did not give its wait up"
    stays = [
        (rank, kind)
        for (rank, kind, _), why in zip(left, ends, strict=True)
        if why is not CollectiveAborted
    ]
    assert not stays, f"waits that ABORT did not end (rank, kind): {stays}"


async def _lost(test: PoolTest) -> int:
    """Return how many requests the devices have refused, or dropped as too late."""
    names = ("REFUSED", "LATE")
    return sum([await env.registers.read(name) for env in test.envs for name in names])
