# SPDX-License-Identifier: Apache-2.0
"""Executor of collectives in numpy: hosts with caches, links without order, devices of a pool.

It is written from the specification of the pool, and finds what a schedule forgets:

- The cache of a host is not coherent with any other. A line that is written stays in it until a
  signal flushes it, or is written back at any moment before. A line that will be read can be
  fetched at any moment, and stays until a wait drops it.
- A message to a device is in flight until it is delivered. A host holds a message for a line until
  its older ones for that line, or for a contribution to it, are complete; all others pass.
- Streams take turns in any order.

`Pool.run` draws one order from a seed. `outcomes` visits every order of a small pool. `Rules` turns
off one rule at a time: each must then have an order with a wrong result.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from models.line_packing import LINE_BYTES, U8
from models.memory import ZERO_LINE
from models.pool_devices import BELLS, PLAIN, Needs, PoolDevice, Region
from models.pool_oracle import reduced
from neuron_fabric.collectives import schedule as sched
from neuron_fabric.collectives.schedule import DONE, Adder, Collective, Schedule


class PoolFault(Exception):
    """Failure that a rank sees and reports: a deadline, poison, a loss, or another call."""


@dataclass(frozen=True)
class Rules:
    """Rules of memory and of the pool; a twin turns one off.

    Attributes:
        flush: A signal writes back the lines that its stream has written.
        completion: A signal leaves after the completions of the writes of its stream.
        loads: A signal leaves after the data of the reads of its stream.
        acquire: A wait drops the cached lines that its stream reads.
        done: Collective e starts after `DONE` of e - 2.
        epoch: A signal leaves after its bells have the epoch of its collective.
        calls: A wait compares the calls of the ranks.
        ordered: Messages of a host to one device keep their order; not a rule of CXL.
        repeat: Share of messages that are delivered twice.
    """

    flush: bool = True
    completion: bool = True
    loads: bool = True
    acquire: bool = True
    done: bool = True
    epoch: bool = True
    calls: bool = True
    ordered: bool = False
    repeat: float = 0.0


class Key(NamedTuple):
    """A stream: number of the collective, rank, and name."""

    call: int
    rank: int
    name: str


class Location(NamedTuple):
    """A line of plain memory or of a region."""

    device: int
    region: Region
    line: int


class Message(NamedTuple):
    """Message of a stream to a place."""

    kind: type[sched.Op]
    place: Location
    stream: Key
    data: bytes = ZERO_LINE
    target: tuple[sched.Buffer, int] | None = None
    number: int = 0
    """Number of a view, or epoch of a commit."""


class _Progress(NamedTuple):
    at: int = 0
    loads: int = 0
    stores: int = 0


Action = tuple[str, Hashable, Hashable]
"""A step of the machine: its kind, and what it concerns."""


class Pool:
    """Hosts and devices of a pool that execute a sequence of collectives."""

    def __init__(
        self,
        calls: Sequence[Schedule],
        inputs: Sequence[Sequence[U8]],
        *,
        device: Callable[[Needs, Sequence[int], int], PoolDevice] = PoolDevice,
        rules: Rules | None = None,
        hosts: Sequence[int] | None = None,
        first: int = 0,
        others: dict[tuple[int, int], Schedule] | None = None,
    ) -> None:
        """Create the pool at rest.

        Args:
            calls: Collectives in their order, all of the same number of ranks.
            inputs: "in" buffer uint8[n, 64] of each rank, for each of ``calls``.
            device: Returns a device for its needs, the LD-IDs of the hosts, and the first epoch.
            rules: Rules; all of them by default.
            hosts: LD-ID of each rank; its number by default.
            first: Epoch of the first collective.
            others: What a rank calls instead, by (number of the collective, rank).
        """
        self.calls, self.rules, self.first = calls, rules or Rules(), first
        self.inputs, self.others = inputs, others or {}
        self.world = range(calls[0].ranks)
        self.hosts = list(hosts or self.world)
        self.needs = needs_of([*calls, *self.others.values()])
        count = max(one.devices for one in [*calls, *self.others.values()])
        self.devices = [device(self.needs, self.hosts, first) for _ in range(count)]
        self.caches: list[dict[Location, tuple[bytes, Key | None]]] = [{} for _ in self.world]
        """Data of cached lines, and the stream that wrote a line that is dirty."""
        self.lanes: dict[tuple[int, int], tuple[Message, ...]] = {}
        """Messages in flight by (rank, device), oldest first."""
        self.ops = {
            Key(e, rank, one.name): one.ops
            for e in range(len(calls))
            for rank in self.world
            for one in self.schedule(e, rank).streams[rank]
        }
        self.streams = dict.fromkeys(self.ops, _Progress())
        self.started: frozenset[tuple[int, int]] = frozenset()
        self.signalled: frozenset[tuple[int, int]] = frozenset()
        """Calls (number, rank) whose `DONE` was sent."""
        self.stopped: frozenset[int] = frozenset()
        """Ranks that are dead or paused."""
        self.strays = 0
        """Refused or late accesses of hosts that are no longer in the pool."""
        self.poisoned: frozenset[Location] = frozenset()
        """Places whose next write carries poison."""
        self.reads = {
            key: frozenset(
                chain(*(self.places_of(key, op) for op in ops if type(op) is sched.Read))
            )
            for key, ops in self.ops.items()
        }
        """Places that each stream reads."""
        nowhere: frozenset[Location] = frozenset()
        self.wanted = [
            nowhere.union(*(places for key, places in self.reads.items() if key.rank == rank))
            for rank in self.world
        ]
        """Places that each rank reads in any collective, which its cache may fetch at any time."""
        self.buffers: dict[tuple[int, int, sched.Buffer, int], bytes] = {
            (e, rank, sched.Buffer.IN, i): line.tobytes()
            for e, ranks in enumerate(inputs)
            for rank, lines in enumerate(ranks)
            for i, line in enumerate(lines)
        }

    # -- what is static ---------------------------------------------------------------------------

    def schedule(self, e: int, rank: int) -> Schedule:
        """Return what a rank calls as collective ``e``."""
        return self.others.get((e, rank), self.calls[e])

    def places_of(self, key: Key, op: sched.Op) -> list[Location]:
        """Return the lines of the devices that an operation of a stream reads or writes."""
        if not isinstance(op, sched.Read | sched.Write | sched.Contribute | sched.Result):
            return []
        region, first = PLAIN, op.line + key.call % 2 * (self.needs.room // 2)
        if isinstance(op, sched.Contribute | sched.Result):
            region, first = self._region(key), op.line
        return [Location(op.device, region, first + i) for i in range(op.count)]

    def _use(self, key: Key) -> int:
        """Return how many collectives before this one use its route in the devices."""
        mine = self.schedule(key.call, key.rank)
        return sum(
            one.adder is Adder.DEVICE and one.route is mine.route for one in self.calls[: key.call]
        )

    def _region(self, key: Key, back: int = 0) -> Region:
        route = self.schedule(key.call, key.rank).route
        assert route is not None
        return (route.value, (self._use(key) - back) % 2)

    # -- what a host sees -------------------------------------------------------------------------

    def _bell(self, e: int, number: int) -> Location:
        return Location(number % len(self.devices), (BELLS, e % 2), number)

    def _info(self, rank: int, place: Location) -> tuple[int, int]:
        host = self.hosts[rank]
        return self.devices[place.device].info(host, place.region, place.line)

    def _rung(self, rank: int, ranks: Sequence[int], e: int, number: int) -> bool:
        """Return whether a rank sees a signal of all ``ranks`` in collective ``e``.

        Bells of a later epoch tell that all ranks were done.
        """
        epoch, bitmap = self._info(rank, self._bell(e, number))
        if epoch > self.first + e:
            return number == DONE
        return epoch == self.first + e and all(bitmap >> one & 1 for one in ranks)

    def _may_signal(self, e: int, rank: int, keys: Sequence[Key], number: int) -> bool:
        """Return whether the writes and reads before a signal of these streams are complete."""
        if self.rules.completion and any(self.streams[key].stores for key in keys):
            return False
        if self.rules.loads and any(self.streams[key].loads for key in keys):
            return False
        epoch, _ = self._info(rank, self._bell(e, number))
        return epoch == self.first + e or not self.rules.epoch

    def _dirty(self, rank: int, keys: Sequence[Key]) -> list[Location]:
        """Return the cached lines of these streams that a signal must write back first."""
        if not self.rules.flush:
            return []
        return [place for place, (_, by) in self.caches[rank].items() if by in keys]

    def keys(self, e: int, rank: int) -> list[Key]:
        """Return the streams of a call."""
        return [Key(e, rank, one.name) for one in self.schedule(e, rank).streams[rank]]

    def _can(self, key: Key, op: sched.Op) -> bool:
        """Return whether the next operation of a stream can be issued."""
        progress = self.streams[key]
        match op:
            case sched.Signal():
                dirty = bool(self._dirty(key.rank, [key]))
                return dirty or self._may_signal(key.call, key.rank, [key], op.number)
            case sched.Wait():
                return self._rung(key.rank, op.ranks, key.call - op.back, op.number)
            case sched.Ready():
                place = Location(op.device, self._region(key), 0)
                return self._info(key.rank, place)[0] == self.first + self._use(key)
            case sched.Write() | sched.Copy() | sched.Contribute() | sched.Add():
                return progress.loads == 0  # its source may be the target of a read
        return True

    # -- actions ----------------------------------------------------------------------------------

    def progress(self) -> Iterator[Action]:
        """Yield the actions that bring the collectives on; a deadlock has none."""
        for e in range(len(self.calls)):
            for rank in self.world:
                if rank not in self.stopped:
                    yield from self._of_call(e, rank)
        for lane in self.lanes:
            if lane[0] not in self.stopped:
                yield ("deliver", lane, 0)
        for number in range(len(self.devices)):
            for parity in (0, 1):
                if 0 not in self.stopped and self._may_renew(number, parity):
                    yield ("renew", number, parity)

    def _of_call(self, e: int, rank: int) -> Iterator[Action]:
        if (e, rank) in self.signalled:
            return
        if (e, rank) not in self.started:
            if e < 2 or not self.rules.done or self._rung(rank, self.world, e - 2, DONE):
                yield ("start", e, rank)
            return
        keys = self.keys(e, rank)
        for key in keys:
            ops, at = self.ops[key], self.streams[key].at
            if at < len(ops) and self._can(key, ops[at]):
                yield ("step", key, 0)
        last = e + 1 == len(self.calls)  # nobody waits for its `DONE`
        if last or not self.ended(keys):
            return
        if self._dirty(rank, keys) or self._may_signal(e, rank, keys, DONE):
            yield ("done", e, rank)

    def ended(self, keys: Iterable[Key]) -> bool:
        """Return whether streams have issued their operations and have the data of all reads."""
        return all(
            self.streams[key].at == len(self.ops[key]) and not self.streams[key].loads
            for key in keys
        )

    def _may_renew(self, number: int, parity: int) -> bool:
        """Return whether the leader can commit the bells of a device for their next collective.

        `DONE` is on device 0, whose bells are therefore the last.
        """
        place = Location(number, (BELLS, parity), 0)
        epoch = self._info(0, place)[0]
        e = epoch - self.first
        if e + 2 >= len(self.calls) or not self._rung(0, self.world, e, DONE):
            return False
        rest = range(1, len(self.devices)) if number == 0 else ()
        return all(self._info(0, place._replace(device=d))[0] > epoch for d in rest)

    def moves(self) -> Iterator[Action]:
        """Yield every action, with each message that can be delivered and each move of a cache.

        A start of the first two collectives changes nothing that others see, so it comes alone.
        """
        progress = list(self.progress())
        if starts := [one for one in progress if one[0] == "start" and one[1] in (0, 1)]:
            yield starts[0]
            return
        yield from (one for one in progress if one[0] != "deliver")
        for lane, messages in self.lanes.items():
            if lane[0] not in self.stopped:
                for index in self._free(messages):
                    yield ("deliver", lane, index)
        for rank in self.world:
            yield from (("evict", rank, place) for place in self.caches[rank])
            wanted = self.wanted[rank].difference(self.caches[rank])
            yield from (("fetch", rank, place) for place in sorted(wanted))

    def _free(self, messages: tuple[Message, ...]) -> list[int]:
        """Return the messages of a lane that no older one for the same place holds up."""
        if self.rules.ordered:
            return [0]
        oldest: dict[Location, int] = {}
        for index, message in enumerate(messages):
            oldest.setdefault(message.place, index)
        return list(oldest.values())

    def message(self, action: Action) -> Message | None:
        """Return the message that an action delivers, or None."""
        match action:
            case ("deliver", (int(rank), int(number)), int(index)):
                return self.lanes[rank, number][index]
        return None

    def lanes_of(self, rank: int) -> int:
        """Return how many messages of a rank are in flight."""
        return sum(len(messages) for lane, messages in self.lanes.items() if lane[0] == rank)

    def do(self, action: Action) -> None:
        """Take an action of `progress` or `moves`.

        Raises:
            PoolFault: The host sees poison or another call.
        """
        match action:
            case ("start", int(e), int(rank)):
                self.started |= {(e, rank)}
                for key in self.keys(e, rank):
                    self._acquire(key)
            case ("step", Key() as key, _):
                self._step(key)
            case ("done", int(e), int(rank)):
                keys = self.keys(e, rank)
                if dirty := self._dirty(rank, keys):
                    self._write_back(rank, dirty)
                else:
                    self.signalled |= {(e, rank)}
                    self._send(Message(sched.Signal, self._bell(e, DONE), Key(e, rank, "done")))
            case ("deliver", (int(rank), int(number)), int(index)):
                messages = self.lanes[rank, number]
                left = messages[:index] + messages[index + 1 :]
                self.lanes[rank, number] = left
                if not left:
                    del self.lanes[rank, number]
                self._deliver(messages[index])
            case ("renew", int(number), int(parity)):
                epoch = self._info(0, Location(number, (BELLS, parity), 0))[0]
                self.devices[number].commit(self.hosts[0], (BELLS, parity), epoch + 2)
            case (str(move), int(rank), Location() as place):
                self._stir(move, rank, place)

    def _stir(self, move: str, rank: int, place: Location) -> None:
        """Let a cache fetch a line, or evict one: drop it, or write it back if it is dirty."""
        cached = self.caches[rank]
        if move == "fetch":
            line = self.devices[place.device].read(self.hosts[rank], place.line)
            if not line.poison:
                cached[place] = (line.data, None)
        elif cached[place][1] is None:
            del cached[place]
        else:
            self._write_back(rank, [place])

    def _acquire(self, key: Key) -> None:
        if self.rules.acquire:
            cached = self.caches[key.rank]
            for place in [p for p, (_, by) in cached.items() if by is None]:
                if place in self.reads[key]:
                    del cached[place]

    def _write_back(self, rank: int, places: Sequence[Location]) -> None:
        for place in places:
            data, by = self.caches[rank][place]
            assert by is not None
            self.caches[rank][place] = (data, None)
            self._send(Message(sched.Write, place, by, data))

    def _send(self, message: Message) -> None:
        key = message.stream
        lane = (key.rank, message.place.device)
        self.lanes[lane] = (*self.lanes.get(lane, ()), message)
        self._count(key, message.kind, 1)

    def _count(self, key: Key, kind: type[sched.Op], amount: int) -> None:
        if key in self.streams:
            at, loads, stores = self.streams[key]
            load = kind in (sched.Read, sched.Result)
            self.streams[key] = _Progress(at, loads + amount * load, stores + amount * (not load))

    def _step(self, key: Key) -> None:
        op = self.ops[key][self.streams[key].at]
        if isinstance(op, sched.Signal) and (dirty := self._dirty(key.rank, [key])):
            self._write_back(key.rank, dirty)
            return
        self.streams[key] = self.streams[key]._replace(at=self.streams[key].at + 1)
        self._issue(key, op)
        e, rank, _ = key
        if self.calls[e].collective is Collective.BARRIER and self.ended(self.keys(e, rank)):
            for other in self.world:
                if (e, other) not in self.started:
                    raise PoolFault(f"rank {rank} leaves barrier {e} before rank {other} enters it")

    def _issue(self, key: Key, op: sched.Op) -> None:
        places = self.places_of(key, op)
        match op:
            case sched.Write():
                for place, data in zip(places, self._lines(key, op.source, op.count), strict=True):
                    self.caches[key.rank][place] = (data, key)
            case sched.Contribute():
                for place, data in zip(places, self._lines(key, op.source, op.count), strict=True):
                    self._send(Message(sched.Contribute, place, key, data))
            case sched.Read():
                for i, place in enumerate(places):
                    self._load(key, place, (op.target.buffer, op.target.line + i))
            case sched.Result():
                view = self.schedule(key.call, key.rank).views.index(op.view)
                for i, place in enumerate(places):
                    target = (op.target.buffer, op.target.line + i)
                    self._send(Message(sched.Result, place, key, target=target, number=view))
            case sched.Copy():
                for i, data in enumerate(self._lines(key, op.source, op.count)):
                    self._keep(key, op.target.buffer, op.target.line + i, data)
            case sched.Add():
                self._add(key, op)
            case _:
                self._order(key, op)

    def _order(self, key: Key, op: sched.Op) -> None:
        match op:
            case sched.Signal():
                self._send(Message(sched.Signal, self._bell(key.call, op.number), key))
            case sched.Wait():
                self._acquire(key)
                self._compare(key, op)
            case sched.Close() | sched.Commit() if self._use(key):
                place = Location(op.device, self._region(key, 1), 0)
                epoch = self.first + self._use(key) + 1
                self._send(Message(type(op), place, key, number=epoch))

    def _compare(self, key: Key, op: sched.Wait) -> None:
        """Check that the ranks of a wait have made the same call as this one."""
        mine = self.schedule(key.call, key.rank)
        for rank in op.ranks if self.rules.calls and not op.back else ():
            if header(self.schedule(key.call, rank)) != header(mine):
                theirs = header(self.schedule(key.call, rank))
                raise PoolFault(
                    f"collective {key.call}: rank {key.rank} calls {header(mine)}, "
                    f"rank {rank} calls {theirs}; make the same call on all ranks"
                )

    def _local(self, key: Key, buffer: sched.Buffer, line: int) -> bytes:
        found = self.buffers.get(_local_line(key, buffer, line))
        if found is None:
            raise PoolFault(f"{key}: line {line} of {buffer} is used before it is written")
        return found

    def _lines(self, key: Key, first: sched.Place, count: int) -> list[bytes]:
        return [self._local(key, first.buffer, first.line + i) for i in range(count)]

    def _keep(self, key: Key, buffer: sched.Buffer, line: int, data: bytes) -> None:
        self.buffers[_local_line(key, buffer, line)] = data

    def _load(self, key: Key, place: Location, target: tuple[sched.Buffer, int]) -> None:
        held = self.caches[key.rank].get(place)
        if held is None:
            self._send(Message(sched.Read, place, key, target=target))
        else:
            self._keep(key, *target, held[0])

    def _add(self, key: Key, op: sched.Add) -> None:
        schedule = self.schedule(key.call, key.rank)
        rows = [self._lines(key, one, op.count) for one in op.sources]
        stack = np.frombuffer(b"".join(chain(*rows)), np.uint8).reshape(len(rows), -1, LINE_BYTES)
        for v, view in enumerate(reduced(stack, schedule.route, schedule.views)):
            for i, line in enumerate(view):
                at = op.target.line + v * schedule.lines + i
                self._keep(key, op.target.buffer, at, line.tobytes())

    def _deliver(self, message: Message) -> None:
        kind, place, key, data, target, number = message
        device, host = self.devices[place.device], self.hosts[key.rank]
        if kind not in (sched.Read, sched.Result):
            self._count(key, kind, -1)
        if kind in (sched.Read, sched.Result):
            if kind is sched.Read:
                line = device.read(host, place.line)
            else:
                views = self.schedule(key.call, key.rank).views
                line = device.result(host, place.region, views, number, place.line)
            if line.poison:
                raise PoolFault(
                    f"rank {key.rank}: line {place.line} of device {place.device} is poisoned"
                )
            assert target is not None
            self._count(key, kind, -1)
            self._keep(key, *target, line.data)
            if kind is sched.Read:
                self.caches[key.rank].setdefault(place, (line.data, None))
            return
        poison = place in self.poisoned and kind is not sched.Signal
        match kind.__name__:
            case "Write":
                device.write(host, place.line, data, poison)
            case "Contribute" | "Signal":
                device.contribute(host, key.rank, place.region, place.line, data, poison)
            case "Close":
                device.close(host, place.region)
            case "Commit":
                device.commit(host, place.region, number)

    # -- runs -------------------------------------------------------------------------------------

    def over(self) -> bool:
        """Return whether all ranks that are not stopped have ended, with nothing in flight."""
        live = (key for key in self.streams if key.rank not in self.stopped)
        return self.ended(live) and all(rank in self.stopped for rank, _ in self.lanes)

    def outputs(self, e: int) -> list[U8]:
        """Return the "out" buffer uint8[n, 64] of each rank after collective ``e``."""
        return [self.output(e, rank) for rank in self.world]

    def output(self, e: int, rank: int) -> U8:
        """Return the "out" buffer uint8[n, 64] of a rank. Raise PoolFault if a line is missing."""
        lines = range(self.schedule(e, rank).size(rank, sched.Buffer.OUT))
        data = b"".join(self._local(Key(e, rank, ""), sched.Buffer.OUT, i) for i in lines)
        return np.frombuffer(data, np.uint8).reshape(-1, LINE_BYTES)

    def run(self, seed: int, most: int | None = None) -> bool:
        """Take actions in an order drawn from ``seed``, at most ``most``; return whether all ended.

        Ranks, links and caches have drawn speeds that differ by up to 1,000, so that one
        overtakes another by far.

        Raises:
            PoolFault: A rank waits for ever, sees poison or another call, or a device lost a
                contribution.
        """
        rnd = random.Random(seed)
        stirs = rnd.choice((0.0, 0.1, 0.5))
        speeds: dict[Hashable, float] = {}
        while most is None or most > 0:
            actions = list(self.progress())
            if not actions:
                break
            for action in actions:
                if action[:2] not in speeds:
                    speeds[action[:2]] = 10.0 ** rnd.uniform(-3, 0)
            action = rnd.choices(actions, [speeds[one[:2]] for one in actions])[0]
            if action[0] == "deliver":
                free = self._free(self.lanes[action[1]])  # type: ignore[index]
                action = ("deliver", action[1], rnd.choice(free))
                message = self.message(action)
                if message and rnd.random() < self.rules.repeat:
                    self._count(message.stream, message.kind, 1)
                    self._deliver(message)
            self.do(action)
            if rnd.random() < stirs:
                self._stir_any(rnd)
            most = None if most is None else most - 1
        return self.settle()

    def settle(self) -> bool:
        """Return whether all ranks are done. Raise PoolFault for a loss, or if nothing can move."""
        if lost := sum(device.losses() for device in self.devices) - self.strays:
            raise PoolFault(f"{lost} accesses were refused or late")
        if not self.over() and not any(self.progress()):
            raise PoolFault(f"deadline: {self.waiting()}")
        return self.over()

    def waiting(self) -> str:
        """Return what the ranks that are not done wait for."""
        stuck = [
            f"rank {key.rank} in {self.calls[key.call].collective} {key.call}, "
            f"{key.name}: {self.ops[key][now.at]}"
            for key, now in self.streams.items()
            if (key.call, key.rank) in self.started and now.at < len(self.ops[key])
        ]
        return "; ".join(stuck) or "nothing was started"

    def _stir_any(self, rnd: random.Random) -> None:
        """Let one cache fetch, write back or drop a line."""
        rank = rnd.choice(self.world)
        if rank in self.stopped:
            return
        held = sorted(self.caches[rank])
        if held and rnd.random() < 0.5:
            self._stir("evict", rank, rnd.choice(held))
        elif missing := sorted(self.wanted[rank].difference(held)):
            self._stir("fetch", rank, rnd.choice(missing))

    def copy(self) -> Self:
        """Return an independent copy."""
        new = copy(self)
        new.devices = [device.copy() for device in self.devices]
        new.caches = [one.copy() for one in self.caches]
        new.lanes, new.streams = self.lanes.copy(), self.streams.copy()
        new.buffers = self.buffers.copy()
        return new

    def key(self) -> Hashable:
        """Return the whole state as a value that can be compared."""
        caches = tuple(frozenset(one.items()) for one in self.caches)
        local = frozenset(
            item for item in self.buffers.items() if item[0][2] is not sched.Buffer.IN
        )
        lanes, streams = frozenset(self.lanes.items()), tuple(self.streams.values())
        devices = tuple(device.key() for device in self.devices)
        return (streams, lanes, caches, local, devices, self.started, self.signalled)


def _local_line(key: Key, buffer: sched.Buffer, line: int) -> tuple[int, int, sched.Buffer, int]:
    """Return the name of a line of a local buffer; each parity has a scratch buffer."""
    return (key.call % 2 if buffer is sched.Buffer.SCRATCH else key.call, key.rank, buffer, line)


def header(schedule: Schedule) -> str:
    """Return a call in words: what all ranks must agree on."""
    root = "" if schedule.root is None else f", root {schedule.root}"
    what = f"{schedule.route} by {schedule.adder}, " if schedule.route else ""
    return f"{schedule.collective}({what}{schedule.lines} lines{root})"


def needs_of(calls: Sequence[Schedule]) -> Needs:
    """Return the memory and routes that collectives need on each device."""
    routes = (one.route for one in calls if one.adder is Adder.DEVICE and one.route is not None)
    return Needs(2 * max(one.room for one in calls) or 1, tuple(dict.fromkeys(routes)))


def final_outputs(pool: Pool) -> Hashable:
    """Return the outputs of all collectives of a pool at its end as bytes, rank by rank."""
    pool.settle()
    return tuple(tuple(one.tobytes() for one in pool.outputs(e)) for e in range(len(pool.calls)))


def outcomes(
    pool: Pool, see: Callable[[Pool], Hashable] = final_outputs
) -> tuple[Counter[Hashable], int]:
    """Visit every order of a small pool.

    Args:
        pool: The pool at rest; it stays as it is.
        see: Returns the outcome of a pool in which nothing can move.

    Returns:
        How many final states have each outcome, and the number of states. An outcome is what
        ``see`` returns, or the text of a `PoolFault`.
    """
    found: Counter[Hashable] = Counter()
    seen = {pool.key()}
    todo = [pool]
    while todo:
        now = todo.pop()
        if not any(now.progress()):
            found[_outcome(see, now)] += 1
            continue
        for action in now.moves():
            after = now.copy()
            try:
                after.do(action)
            except PoolFault as fault:
                found[str(fault)] += 1
                continue
            if (key := after.key()) not in seen:
                seen.add(key)
                todo.append(after)
    return found, len(seen)


def _outcome(see: Callable[[Pool], Hashable], pool: Pool) -> Hashable:
    try:
        return see(pool)
    except PoolFault as fault:
        return str(fault)
