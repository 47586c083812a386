# SPDX-License-Identifier: Apache-2.0
"""Ranks of a pool: each runs the streams of the collectives as sequences through its host port.

Writes and contributions are posted: signals, reads and the end of a stream wait for completions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
from cocotb.task import Task
from cocotb.triggers import TaskManager, Timer, gather
from pyuvm import uvm_sequence

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.info_status_lines import LineInfo
from models.line_packing import LINE_BYTES, U8
from models.pool_oracle import reduced, selector
from models.regions import INFO_SELECTOR
from neuron_fabric.codec import Route
from neuron_fabric.collectives import schedule as sched
from neuron_fabric.collectives.schedule import DONE, Adder, Schedule
from verif.env.config import CLOCK_NS
from verif.env.env import clock_now
from verif.fabric.pool_bench import ABORT, Device, Pair, Pool
from verif.fabric.switch import Request

LOOKS = 16
"""Looks at a line, after which a rank looks for `ABORT`."""
GAP = (10, 80)
"""Clocks between two looks at a bell: the scoreboard judges a line when it is quiet."""
ZEROS = bytes(LINE_BYTES)


class CollectiveTimeout(AssertionError):
    """A rank has waited for too long; says for what."""


class CollectiveAborted(AssertionError):
    """A rank has left its collective, as another one has given up."""


class Rank:
    """A rank: its host port, and the collectives that it runs."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool, self.number = pool, number
        self.port = pool.switch.ports[pool.hosts[number]]

    async def run(self, inputs: Sequence[U8], ended: Callable[[int, int, U8], None]) -> None:
        """Run all collectives of the pool.

        Args:
            inputs: "in" buffer of this rank for each collective.
            ended: Called with rank, number of the collective, and "out" buffer.
        """
        try:
            async with TaskManager() as tasks:
                for device in self.pool.devices:
                    if device.leader == self.number:
                        tasks.start_soon(self._keep(device))
                await self._start(tasks, inputs, ended)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _start(
        self, tasks: TaskManager, inputs: Sequence[U8], ended: Callable[[int, int, U8], None]
    ) -> None:
        """Start all collectives, each when the bells are committed for it."""
        uses: Counter[Route | None] = Counter()
        started: list[Task[None]] = []
        for number, schedule in enumerate(self.pool.schedules):
            for device in self.pool.devices:
                await self.committed(device.bells, number)
            self.pool.switch.points.running(1 + sum(not task.done() for task in started))
            one = Running(self, number, uses[schedule.route], schedule, inputs[number])
            started.append(tasks.start_soon(one.run(ended)))
            uses[schedule.route] += schedule.adder is Adder.DEVICE

    async def _keep(self, device: Device) -> None:
        """Commit the bells of a device, each when all ranks are done with the use before."""
        every = tuple(range(len(self.pool.hosts)))
        for number in range(2, len(self.pool.schedules)):
            await self.wait(number - 2, every, DONE)
            await self.commit(device.bells, number)

    # -- memory -------------------------------------------------------------------------------
    async def write(self, device: int, address: int, data: bytes) -> Request:
        """Post the write of a line."""
        return await self.port.issue(device, M2SRwD(RwdOp.MEM_WR, 0, address, data=data))

    async def read(self, device: int, address: int) -> Request:
        """Post the read of a line."""
        return await self.port.issue(device, M2SReq(ReqOp.MEM_RD, 0, address))

    async def commit(self, pair: Pair, use: int) -> None:
        """Commit a region for a use."""
        await self._control(pair, use, EPOCH=pair.epoch(use))

    async def close(self, pair: Pair, use: int) -> None:
        """Close the region of a use."""
        await self._control(pair, use, CTRL=1)

    async def _control(self, pair: Pair, use: int, **values: int) -> None:
        control = self.pool.devices[pair.device].control
        words = control.region_words(pair.regions[use % 2], **values)
        await self.port.call(pair.device, control.line_write(words, self.number))

    # -- bells --------------------------------------------------------------------------------
    async def until(
        self,
        pair: Pair,
        use: int,
        line: int,
        seen: Callable[[LineInfo], bool],
        what: str,
        kind: str,
    ) -> None:
        """Look at INFO of a line until ``seen`` is true of it.

        Args:
            pair: The bells, or the regions of a route.
            use: Use that is meant.
            line: The line.
            seen: Returns whether a look ends the wait.
            what: What the rank waits for, for errors.
            kind: Kind of the wait, a bin of "pool abort".

        Raises:
            CollectiveTimeout: It is not for ``Pool.patience`` clocks; all ranks leave.
            CollectiveAborted: Another rank has given up.
        """
        address = pair.configs[use % 2].address(INFO_SELECTOR, line)
        begin, points = clock_now(), self.pool.switch.points
        for looks in count(1):
            info = await self._info(pair.device, address)
            ahead = pair.use(info) - use
            of = "route" if pair.regions[0] else "bells"
            points.looked(of, ahead, info.m, len(self.pool.hosts))
            if seen(info):
                return
            late = clock_now() - begin > self.pool.patience
            if (late or looks % LOOKS == 0) and await self._aborted(pair.device):
                points.aborted(kind)
                raise CollectiveAborted(f"rank {self.number} leaves its wait for {what}")
            if late:
                await self._abort()
                raise CollectiveTimeout(
                    f"rank {self.number} waits for {what} on device {pair.device}: "
                    f"use {pair.use(info)}, workers {info.bitmap:b}"
                )
            await Timer(self.pool.rng.randint(*GAP) * CLOCK_NS, "ns")

    async def _info(self, device: int, address: int) -> LineInfo:
        data = await data_of(await self.read(device, address))
        try:
            return LineInfo.unpack(data)
        except ValueError as error:
            raise AssertionError(f"rank {self.number} got no INFO line: {error}") from None

    async def _aborted(self, device: int) -> bool:
        """Return whether a rank has given up; one of both bells stays as it was then."""
        bells = self.pool.devices[device].bells
        for config in bells.configs:
            if (await self._info(device, config.address(INFO_SELECTOR, ABORT))).m:
                return True
        return False

    async def _abort(self) -> None:
        for device in self.pool.devices:
            for config in device.bells.configs:
                address = config.address(self.number, ABORT)
                await (await self.write(device.number, address, ZEROS)).wait()

    async def committed(self, pair: Pair, use: int) -> None:
        """Wait until a region is committed for a use."""
        what = f"use {use} of regions {pair.regions}"
        kind = "route" if pair.regions[0] else "bells"
        await self.until(pair, use, 0, lambda info: pair.use(info) >= use, what, kind)

    def bells(self, number: int) -> Pair:
        """Return the bells of a signal."""
        return self.pool.devices[number % len(self.pool.devices)].bells

    async def signal(self, collective: int, number: int) -> None:
        """Give a signal; `run` has seen that the bells are committed for the collective."""
        bells = self.bells(number)
        address = bells.configs[collective % 2].address(self.number, number)
        await (await self.write(bells.device, address, ZEROS)).wait()

    async def wait(self, collective: int, ranks: tuple[int, ...], number: int) -> None:
        """Wait for a signal of some ranks; bells of a later use show that all ranks gave it."""
        bells, wanted = self.bells(number), sum(1 << rank for rank in ranks)

        def seen(info: LineInfo) -> bool:
            use = bells.use(info)
            return use > collective or (use == collective and wanted & ~info.bitmap == 0)

        what = f"signal {number} of ranks {ranks} in collective {collective}"
        kind = "signal" if number else "DONE"
        await self.until(bells, collective, number, seen, what, kind)


async def data_of(request: Request) -> bytes:
    """Return the data of the response to a read."""
    response = await request.wait()
    good = isinstance(response, S2MDRS) and not response.poison
    assert good, f"a rank got {response} for {request.message}"
    assert isinstance(response, S2MDRS)
    return response.data


class Running:
    """A collective of a rank: its buffers, and its streams."""

    def __init__(self, rank: Rank, number: int, use: int, schedule: Schedule, data: U8) -> None:
        self.rank, self.number, self.use, self.schedule = rank, number, use, schedule
        sizes = {one: schedule.size(rank.number, one) for one in sched.Buffer}
        self.buffers = {one: np.zeros((size, LINE_BYTES), np.uint8) for one, size in sizes.items()}
        self.buffers[sched.Buffer.IN][:] = data

    async def run(self, ended: Callable[[int, int, U8], None]) -> None:
        """Run all streams, pass the output to ``ended``, and give the signal `DONE`."""
        rank = self.rank
        streams = [StreamSequence(self, one) for one in self.schedule.streams[rank.number]]
        if streams:
            await gather(*(one.start() for one in streams))
        ended(rank.number, self.number, self.buffers[sched.Buffer.OUT])
        await rank.signal(self.number, DONE)


class StreamSequence(uvm_sequence):
    """Sequence of a stream: its operations in their order."""

    def __init__(self, running: Running, stream: sched.Stream) -> None:
        super().__init__(f"{stream.name}_{running.rank.number}_{running.number}")
        self.running, self.rank, self.stream = running, running.rank, stream
        self.posted: list[Request] = []

    async def body(self) -> None:
        for op in self.stream.ops:
            await self.step(op)
        await self.settle()

    async def settle(self) -> None:
        """Wait for the completions of all writes and contributions."""
        for request in self.posted:
            await request.wait()
        self.posted.clear()

    async def step(self, op: sched.Op) -> None:
        """Run an operation."""
        number, use, rank = self.running.number, self.running.use, self.rank
        match op:
            case sched.Write():
                await self.store(op.device, op.source, op.count, self.plain(op))
            case sched.Read():
                await self.load(op.device, op.target, op.count, self.plain(op))
            case sched.Contribute():
                await self.store(op.device, op.source, op.count, self.place(op, rank.number))
            case sched.Result():
                place = self.place(op, selector(self.running.schedule, op.view))
                await self.load(op.device, op.target, op.count, place)
            case sched.Signal():
                await self.settle()
                await rank.signal(number, op.number)
            case sched.Wait() if number >= op.back:
                await rank.wait(number - op.back, op.ranks, op.number)
            case sched.Ready():
                await rank.committed(self.region(op.device), use)
            case sched.Close() if use:
                await rank.close(self.region(op.device), use - 1)
            case sched.Commit() if use:
                await rank.commit(self.region(op.device), use + 1)
            case sched.Copy():
                self.local(op.target, op.count)[:] = self.local(op.source, op.count)
            case sched.Add():
                self.add(op)

    def region(self, device: int) -> Pair:
        """Return the regions of the route on a device."""
        route = self.running.schedule.route
        assert route is not None, "a schedule without a route has operations on its regions"
        return self.rank.pool.devices[device].routes[route]

    def place(self, op: sched.Contribute | sched.Result, selector: int) -> int:
        """Return the address of the first line of the route's region of an operation."""
        config = self.region(op.device).configs[self.running.use % 2]
        return config.address(selector, op.line)

    def plain(self, op: sched.Write | sched.Read) -> int:
        """Return the address of the first line of plain memory of an operation."""
        pool = self.rank.pool
        place = self.running.number % 2 * pool.room + op.line
        return pool.devices[op.device].plain.base + LINE_BYTES * place

    def local(self, place: sched.Place, count: int) -> U8:
        """Return lines of a local buffer."""
        return self.running.buffers[place.buffer][place.line : place.line + count]

    async def store(self, device: int, source: sched.Place, count: int, address: int) -> None:
        """Post the writes of lines of a buffer to an address and those after it."""
        for at, line in enumerate(self.local(source, count)):
            one = await self.rank.write(device, address + LINE_BYTES * at, line.tobytes())
            self.posted.append(one)

    async def load(self, device: int, target: sched.Place, count: int, address: int) -> None:
        """Read the lines from an address on to a buffer, after all that this stream has posted: no
        wait of a schedule is for the rank itself.
        """
        await self.settle()
        places = [address + LINE_BYTES * at for at in range(count)]
        reads = [await self.rank.read(device, one) for one in places]
        for line, one in zip(self.local(target, count), reads, strict=True):
            line[:] = np.frombuffer(await data_of(one), np.uint8)

    def add(self, op: sched.Add) -> None:
        """Reduce lines of local buffers by the route of the schedule."""
        schedule = self.running.schedule
        lines = np.stack([self.local(source, op.count) for source in op.sources])
        for view, part in enumerate(reduced(lines, schedule.route, schedule.views)):
            target = sched.Place(op.target.buffer, op.target.line + view * schedule.lines)
            self.local(target, op.count)[:] = part
