# SPDX-License-Identifier: Apache-2.0
"""Litmus tests of ranks: small programs, the outcome that their order forbids, and their twins.

A twin leaves out one rule that a rank keeps: completions before a signal ("completion"), a wait
before the reads after it ("acquire"), or responses of reads before a signal ("response"). It must
show the forbidden outcome, or the litmus test could not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cocotb.triggers import Timer, gather

from models.line_packing import LINE_BYTES
from verif.env.config import CLOCK_NS
from verif.fabric.pool_bench import SIGNALS_LOG2, Pool, PoolTest
from verif.fabric.rank_streams import Rank, data_of
from verif.fabric.switch import Request

RANKS = 3
AT_ONCE = 4
"""Rounds that run at the same time, on different lines."""
SIGNALS = 2
"""Signals of a round."""
ROUNDS = (1 << SIGNALS_LOG2) // SIGNALS
"""Rounds of a use of the bells."""
PATIENCE = 20 * ROUNDS
"""Rounds after which a twin has shown nothing."""


@dataclass(frozen=True)
class Litmus:
    """A litmus test.

    Attributes:
        programs: Steps of each rank: "write V", "read V", "signal N", "wait N"; V is x or y.
        forbidden: Returns whether an outcome is forbidden, from whether each read is of the new
            value, in the order of ranks and steps.
        twins: Rules without which the outcome must occur.
    """

    programs: tuple[tuple[str, ...], ...]
    forbidden: Callable[[Sequence[bool]], bool]
    twins: tuple[str, ...]


def _stale(fresh: Sequence[bool]) -> bool:
    return not all(fresh)


SHAPES = {
    "message passing": Litmus(
        (("write x", "signal 0"), ("wait 0", "read x")), _stale, ("completion", "acquire")
    ),
    "store buffering": Litmus(
        (("write x", "read y"), ("write y", "read x")),
        lambda fresh: not any(fresh),
        ("completion",),
    ),
    "WRC": Litmus(
        (("write x", "signal 0"), ("wait 0", "read x", "signal 1"), ("wait 1", "read x")),
        _stale,
        ("completion", "acquire"),
    ),
    "ISA2": Litmus(
        (("write x", "signal 0"), ("wait 0", "write y", "signal 1"), ("wait 1", "read x")),
        _stale,
        ("completion", "acquire"),
    ),
    "write after read": Litmus((("read x", "signal 0"), ("wait 0", "write x")), any, ("response",)),
}
"""Write after read is that of a shadow, which may be overwritten after the reader's `DONE`."""


class Round:
    """A round of a litmus test: the lines of its variables, and its signals.

    Args:
        pool: The pool.
        litmus: The litmus test.
        number: Number of the round, which places its lines and signals.
        without: Rule that all ranks break; "" for none.
    """

    def __init__(self, pool: Pool, litmus: Litmus, number: int, without: str) -> None:
        self.litmus, self.without = litmus, without
        self.use, place = divmod(number, ROUNDS)
        self.first = place * SIGNALS
        self.value = (number + 1).to_bytes(8, "little") * (LINE_BYTES // 8)
        devices = pool.rng.sample(pool.devices, len(pool.devices))
        self.places = {
            name: (device.number, device.plain.base + LINE_BYTES * (2 * place + index))
            for index, (name, device) in enumerate(zip("xy", (devices[0], devices[-1])))
        }

    async def run(self, ranks: Sequence[Rank]) -> list[bool]:
        """Run all programs at once; return whether each read found the new value."""
        parts = [self._program(*one) for one in zip(ranks, self.litmus.programs)]
        return [fresh for reads in await gather(*parts) for fresh in reads]

    def steps(self, program: Sequence[str]) -> list[str]:
        """Return the steps of a program; without acquire a read goes before the wait."""
        steps = list(program)
        for at in range(1, len(steps) if self.without == "acquire" else 0):
            if steps[at - 1].startswith("wait") and steps[at].startswith("read"):
                steps[at - 1 : at + 1] = steps[at], steps[at - 1]
        return steps

    async def _program(self, rank: Rank, program: Sequence[str]) -> list[bool]:
        posted: list[Request] = []
        reads: list[Request] = []
        await Timer(rank.pool.rng.randint(1, 40) * CLOCK_NS, "ns")
        for step in self.steps(program):
            kind, name = step.split()
            if kind == "write":
                posted.append(await rank.write(*self.places[name], self.value))
                if self.without != "completion":
                    await posted[-1].wait()
            elif kind == "read":
                reads.append(await rank.read(*self.places[name]))
                if self.without not in ("acquire", "response"):
                    await reads[-1].wait()
            elif kind == "signal":
                await rank.signal(self.use, self.first + int(name))
            else:
                await rank.wait(self.use, (self.giver(name),), self.first + int(name))
        for request in posted:
            await request.wait()
        return [await data_of(request) == self.value for request in reads]

    def giver(self, name: str) -> int:
        """Return the rank that gives a signal."""
        return [f"signal {name}" in one for one in self.litmus.programs].index(True)


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
            await self._bells()
            batch = [
                Round(self.pool, litmus, self.number + at, without).run(self.ranks)
                for at in range(AT_ONCE)
            ]
            self.number += AT_ONCE
            found += sum(map(litmus.forbidden, await gather(*batch)))
        return found

    async def _bells(self) -> None:
        """Commit the bells, where the next rounds are the first of a use; nothing is in flight."""
        use, place = divmod(self.number, ROUNDS)
        for device in self.pool.devices if use > 1 and not place else ():
            await self.ranks[device.leader].commit(device.bells, use)


async def run_litmus(test: PoolTest) -> None:
    """Run each litmus test as it is, in which no forbidden outcome may occur.

    Raises:
        AssertionError: One has.
    """
    run = LitmusRun(test)
    await run.pool.open()
    rounds = test.cfg.count(ROUNDS)
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
        for without in litmus.twins:
            found = rounds = 0
            while not found and rounds < PATIENCE:
                found += await run.forbidden(litmus, ROUNDS, without)
                rounds += ROUNDS
            test.figure(f"{name} without {without}: forbidden outcomes of {rounds}", found)
            assert found, f"{name} without {without}: no forbidden outcome in {rounds} rounds"
