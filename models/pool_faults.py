# SPDX-License-Identifier: Apache-2.0
"""Faults of the hosts of a pool: dead, paused and wrong ranks, poison and refused writes.

`inject` draws a pool and a fault from a seed and runs them. Whatever the fault:

- The run ends. A rank that can no longer go on reports its deadline.
- No rank gets a wrong output: it has the oracle's, or reports a fault.
- After `shrunken` the remaining ranks complete their collectives.
- A host that was shut out may wake up at any time. Each of its accesses that writes is refused or
  late, is counted, and changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.line_packing import U8
from models.pool import Location, Pool, PoolFault
from models.pool_devices import BELLS, Needs, PoolDevice
from models.pool_oracle import drawn_inputs, expected
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import (
    Adder,
    Collective,
    Commit,
    Contribute,
    Read,
    Result,
    Schedule,
    Write,
)
from neuron_fabric.collectives.shipped import shipped_any

_STOPS = _BEFORE, _IN, _AFTER, _LEADER, _PAUSED = (
    "dead before publish",
    "dead in publish",
    "dead after publish",
    "leader dead between two commits",
    "paused over close and shrink",
)
_REPORTED = _POISON, _REFUSED, _SIZES = ("poison", "refused write", "wrong sizes")
FAULTS = (*_STOPS, *_REPORTED)
_CALLS = 3
_EPOCHS = 8
"""Epochs from one pool to the next on the same devices; more than `_CALLS` and two."""


@dataclass
class Finding:
    """Result of one injected fault.

    Attributes:
        fault: A name of `FAULTS`.
        seed: Seed that draws the same run again.
        reported: What the ranks reported; empty if the fault came too late to matter.
        wrong: Ranks with a wrong output.
        writes: Writes of hosts that were shut out.
        counted: Those of ``writes`` that a device counted as refused or late.
        problem: Broken promise, or an empty text.
    """

    fault: str
    seed: int
    reported: str = ""
    wrong: int = 0
    writes: int = 0
    counted: int = 0
    problem: str = ""


def inject(fault: str, seed: int) -> Finding:
    """Run collectives of a drawn pool with a fault and return what was found."""
    rnd = random.Random(f"{fault} {seed}")
    finding = Finding(fault, seed)
    calls = [_drawn_call(rnd, fault)] * _CALLS
    data = [drawn_inputs(one, seed + e) for e, one in enumerate(calls)]
    victim = rnd.randrange(calls[0].ranks)
    others = {}
    if fault == _LEADER:
        victim = rnd.randrange(min(calls[0].ranks, calls[0].devices))
    if fault == _SIZES:
        others[1, victim] = _like(calls[0], calls[0].ranks, calls[0].lines + 1)
        data[1][victim] = drawn_inputs(others[1, victim], seed)[victim]
    pool = Pool(calls, data, others=others)
    if fault == _POISON:
        pool.poisoned = frozenset({_written(rnd, pool, victim)})
    if fault == _REFUSED:
        region = _written(rnd, pool, victim).region
        for device in pool.devices:
            device.fence(region, victim)
    if fault in _STOPS:
        _until(rnd, pool, fault, victim)
        pool.stopped = frozenset({victim})
    try:
        pool.run(rnd.getrandbits(32))
    except PoolFault as problem:
        finding.reported = str(problem)
    if fault in _STOPS:
        _go_on(rnd, pool, victim, finding)
    elif not finding.reported:
        finding.problem = "nobody reported the fault"
    finding.wrong += _wrong(pool)
    if finding.wrong:
        finding.problem = f"{finding.wrong} outputs are wrong"
    if missed := finding.writes - finding.counted:
        finding.problem = f"{missed} of {finding.writes} writes of a zombie were not counted"
    return finding


def _drawn_call(rnd: random.Random, fault: str) -> Schedule:
    """Return a call of a drawn shape, in which data crosses from each rank to another one."""
    which: Collective = rnd.choice([one for one in Collective if one is not Collective.BARRIER])
    adder, route = rnd.choice([*Adder]), rnd.choice([*Route])
    if fault == _LEADER:
        which, adder = Collective.ALL_REDUCE, Adder.DEVICE
    shape = rnd.randint(2, 4), rnd.randint(1, 2), rnd.randint(1, 4)
    return shipped_any(which, *shape, adder, route, granule=1, tile=1)


def _like(old: Schedule, ranks: int, lines: int) -> Schedule:
    """Return the shipped schedule of the same call for other ranks and lines."""
    shape = ranks, old.devices, lines
    return shipped_any(old.collective, *shape, old.adder, old.route, granule=1, tile=1)


def _written(rnd: random.Random, pool: Pool, victim: int) -> Location:
    """Return a line that ``victim`` writes or contributes; of any rank, if it does neither."""
    places = [
        (key.rank == victim, place)
        for key, ops in pool.ops.items()
        for op in ops
        if isinstance(op, Write | Contribute)
        for place in pool.places_of(key, op)
    ]
    mine = [place for own, place in places if own]
    return rnd.choice(mine or [place for _, place in places])


def _until(rnd: random.Random, pool: Pool, fault: str, victim: int) -> None:
    """Run until the moment of the fault, in a drawn collective."""
    keys = pool.keys(rnd.randrange(_CALLS), victim)
    e = keys[0].call

    def reached() -> bool:
        at = [pool.streams[key].at for key in keys]
        if fault == _BEFORE:
            return e == 0 or pool.ended(pool.keys(e - 1, victim))
        if fault == _AFTER:
            publish = keys[0]
            return at[0] == len(pool.ops[publish]) and not pool.streams[publish].stores
        if fault == _LEADER:
            return any(
                isinstance(op, Commit)
                for key, n in zip(keys, at, strict=True)
                for op in pool.ops[key][:n]
            )
        return any(at) and rnd.random() < 0.1

    while not reached() and not pool.run(rnd.getrandbits(32), most=1):
        pass


def _go_on(rnd: random.Random, pool: Pool, victim: int, finding: Finding) -> None:
    """Shrink the pool, run collectives of the remaining ranks, and let the lost host wake up."""
    live = [host for host in pool.hosts if host != pool.hosts[victim]]
    first = pool.first + _EPOCHS
    if finding.fault == _LEADER and len(live) > 1:
        # The rank that shrinks the pool dies too, when it has committed the first device only.
        pool.devices[0].admit(pool.needs, live, first)
        del live[0]
        first += _EPOCHS
    if finding.fault == _PAUSED:
        _close(rnd, pool, victim, finding)
    calls = [_like(pool.calls[0], len(live), rnd.randint(1, 4))] * _CALLS
    data = [drawn_inputs(one, rnd.getrandbits(32)) for one in calls]
    new = shrunken(pool, live, calls, data, first)
    pool.stopped = frozenset(pool.world) - {victim}
    awake = finding.fault == _PAUSED
    try:
        while not new.run(rnd.getrandbits(32), most=7):
            awake = _wake(rnd, pool, new, finding, awake)
        while awake or pool.lanes_of(victim):
            awake = _wake(rnd, pool, new, finding, awake)
        new.settle()
    except PoolFault as problem:
        finding.problem = f"after the shrink: {problem}"
    finding.wrong += _wrong(new)


def _close(rnd: random.Random, pool: Pool, victim: int, finding: Finding) -> None:
    """Close the regions that add, and deliver some of the lost host's contributions after that."""
    host = pool.hosts[victim - 1]
    for device in pool.devices:
        for region in pool.needs.regions():
            if region[0] != BELLS:
                device.close(host, region)
    for lane in [lane for lane in pool.lanes if lane[0] == victim]:
        for index in reversed(range(len(pool.lanes[lane]))):
            if pool.lanes[lane][index].kind is Contribute and rnd.random() < 0.5:
                before = _losses(pool)
                pool.do(("deliver", lane, index))
                finding.writes += 1
                finding.counted += _losses(pool) == before + 1


def shrunken(
    pool: Pool,
    live: Sequence[int],
    calls: Sequence[Schedule],
    inputs: Sequence[Sequence[U8]],
    first: int,
) -> Pool:
    """Return a new pool of the hosts ``live`` on the devices of ``pool``.

    The lowest of them commits all regions again, with masks that admit them alone.

    Args:
        pool: Pool whose devices go on.
        live: LD-IDs of the remaining hosts.
        calls: Collectives of the new pool.
        inputs: Their inputs, as of `Pool`.
        first: Epoch of the first of them, even and above all epochs of ``pool``.
    """
    devices = iter(pool.devices)

    def admitted(needs: Needs, hosts: Sequence[int], first: int) -> PoolDevice:
        device = next(devices)
        device.admit(needs, hosts, first)
        return device

    new = Pool(calls, inputs, device=admitted, hosts=live, first=first)
    new.strays = sum(device.losses() for device in new.devices)
    return new


def _wake(rnd: random.Random, zombie: Pool, new: Pool, finding: Finding, awake: bool) -> bool:
    """Let a host that was shut out take a step; return whether it can take more.

    A host that is not awake still has messages in flight. A refused read ends it: it sees poison.
    """
    before = _losses(new)
    actions = [one for one in zombie.progress() if awake or one[0] == "deliver"]
    polled = _losses(new)
    if actions:
        action = rnd.choice(actions)
        message = zombie.message(action)
        writes = action[0] == "renew" or (message and message.kind not in (Read, Result))
        try:
            zombie.do(action)
        except PoolFault:
            awake = False
        finding.writes += bool(writes)
        finding.counted += bool(writes) and _losses(new) == polled + 1
    new.strays += _losses(new) - before
    return awake and bool(actions)


def _losses(pool: Pool) -> int:
    return sum(device.losses() for device in pool.devices)


def _wrong(pool: Pool) -> int:
    """Return how many ranks have got a wrong output of a collective.

    Ranks read the losses of the devices before they return an output.
    """
    if _losses(pool) > pool.strays and not pool.stopped:
        return 0
    return sum(
        not np.array_equal(pool.output(e, rank), expected(one, pool.inputs[e])[rank])
        for e, one in enumerate(pool.calls)
        for rank in pool.world
        if all(call != e for call, _ in pool.others) and pool.ended(pool.keys(e, rank))
    )
