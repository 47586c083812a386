# SPDX-License-Identifier: Apache-2.0
"""Litmus tests of ranks (`models.pool_litmus`) on the RTL, and their twins.

A twin leaves out one rule that a rank keeps: completions before a signal ("completion"), a wait
before the reads after it ("acquire"), or the data of reads before a signal ("loads"). It must show
the forbidden outcome, or the litmus test could not see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import cocotb
from cocotb.task import Task
from cocotb.triggers import Timer, gather

from models.pool_litmus import LITMUS, SIGNALS, Litmus, inputs, origins, program
from neuron_fabric.collectives.schedule import Op, Place, Read, Signal, Stream, Wait, Write
from verif.env.config import CLOCK_NS
from verif.fabric.pool_bench import ABORT, Pool, PoolTest
from verif.fabric.rank_streams import Rank, Running, StreamSequence

RANKS = 3
AT_ONCE = 4
"""Rounds that run at the same time, on different lines."""
ROUNDS = (ABORT - 1) // SIGNALS // AT_ONCE * AT_ONCE
"""Rounds of a use of the bells; signal 0 and the line of `ABORT` are not used."""
DRAWS = 64
"""Rounds of a litmus test."""
PATIENCE = 20 * DRAWS
"""Rounds after which a twin has shown nothing."""
SHAPES = {name: test for name, test in LITMUS.items() if test.uncached}
"""Litmus tests that need no caches; only `DONE` of a pool at work orders the others."""


class LitmusStream(StreamSequence):
    """Stream of a rank that breaks the rule ``without``; "" for none."""

    def __init__(self, running: Running, stream: Stream, without: str) -> None:
        super().__init__(running, stream)
        self.without = without
        self.late: list[Task[None]] = []

    async def body(self) -> None:
        await Timer(self.rank.pool.rng.randint(1, 40) * CLOCK_NS, "ns")
        await super().body()
        await super().settle()
        for task in self.late:
            await task

    async def settle(self) -> None:
        if self.without != "completion":
            await super().settle()

    async def load(self, device: int, target: Place, count: int, address: int) -> None:
        read = super().load(device, target, count, address)
        if self.without == "loads":
            self.late.append(cocotb.start_soon(read))
        else:
            await read


def placed(litmus: Litmus, rank: int, place: int, devices: Sequence[int]) -> Iterator[Op]:
    """Yield the operations of a rank in a round, with the devices of its two lines.

    A rank waits for its own writes before it reads, so its waits for itself are left out.
    """
    others = [ops for other, ops in enumerate(litmus.ranks) if other != rank]
    heard = {op.number for ops in others for op in ops if isinstance(op, Wait)}
    for op in litmus.ranks[rank]:
        match op:
            case Write() | Read():
                yield replace(op, device=devices[op.device], line=2 * place + op.line)
            case Wait() if op.ranks != (rank,):
                yield replace(op, number=SIGNALS * place + op.number)
            case Signal() if op.number in heard:
                yield replace(op, number=SIGNALS * place + op.number)


def read_first(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return operations in which each read goes before the wait that it follows."""
    out = list(ops)
    for at in range(1, len(out)):
        if isinstance(out[at - 1], Wait) and isinstance(out[at], Read):
            out[at - 1 : at + 1] = out[at], out[at - 1]
    return tuple(out)


class LitmusRun:
    """Litmus tests on the devices of a test."""

    def __init__(self, test: PoolTest) -> None:
        self.test = test
        self.pool = Pool(test, RANKS, [])
        self.ranks = [Rank(self.pool, number) for number in range(RANKS)]
        self.number = 0

    async def forbidden(self, litmus: Litmus, rounds: int, without: str = "") -> int:
        """Return how many of some rounds have the forbidden outcome."""
        found = 0
        for _ in range(-(-rounds // AT_ONCE)):
            for env in self.test.envs:
                env.cfg.mem.latency = self.pool.rng.choice(((1, 4), (10, 60), (60, 160)))
            use, place = divmod(self.number, ROUNDS)
            for device in self.pool.devices if use > 1 and not place else ():
                await self.ranks[device.leader].commit(device.bells, use)
            batch = range(self.number, self.number + AT_ONCE)
            self.number = batch.stop
            found += sum(await gather(*(self._round(litmus, one, without) for one in batch)))
        return found

    async def _round(self, litmus: Litmus, number: int, without: str) -> bool:
        """Run the programs of all ranks at once; return whether the outcome is forbidden."""
        use, place = divmod(number, ROUNDS)
        order = self.pool.rng.sample(range(len(self.pool.devices)), len(self.pool.devices))
        plan, runs = program(litmus, len(order)), []
        for rank, data in enumerate(inputs(litmus, number)):
            ops = tuple(placed(litmus, rank, place, (order[0], order[-1])))
            stream = Stream("publish", read_first(ops) if without == "acquire" else ops)
            running = Running(self.ranks[rank], use, 0, plan, data)
            runs.append(LitmusStream(running, stream, without))
        await gather(*(one.start() for one in runs))
        known = origins(litmus, number)
        return litmus.forbidden(
            {
                (rank, op.target.line): known.get(one.local(op.target, 1).tobytes())
                for rank, one in enumerate(runs)
                for op in one.stream.ops
                if isinstance(op, Read)
            }
        )


async def run_litmus(test: PoolTest) -> None:
    """Run each litmus test as it is, in which no forbidden outcome may occur.

    Raises:
        AssertionError: One has.
    """
    run = LitmusRun(test)
    await run.pool.open()
    rounds = test.cfg.count(DRAWS)
    for name, litmus in SHAPES.items():
        found = await run.forbidden(litmus, rounds)
        test.figure(f"{name}: forbidden outcomes of {rounds}", found)
        assert not found, f"{name}: the forbidden outcome in {found} of {rounds} rounds"


async def run_twins(test: PoolTest) -> None:
    """Run the twins of each litmus test until the forbidden outcome has occurred.

    Raises:
        AssertionError: One does not show it.
    """
    run = LitmusRun(test)
    await run.pool.open()
    for name, litmus in SHAPES.items():
        for without in litmus.uncached:
            found = rounds = 0
            while not found and rounds < PATIENCE:
                found += await run.forbidden(litmus, DRAWS, without)
                rounds += DRAWS
            test.figure(f"{name} without {without}: forbidden outcomes of {rounds}", found)
            assert found, f"{name} without {without}: no forbidden outcome in {rounds} rounds"
