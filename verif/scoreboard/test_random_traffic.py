# SPDX-License-Identifier: Apache-2.0
"""Laws of the scoreboard under drawn traffic: a right device has no finding, each fault has one.

A second device model executes each request, commit and close at a drawn time between its start and
its end, so that requests race on few lines of few regions.
"""

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from cocotbext.cxl.wire.messages import (
    S2MDRS,
    S2MNDR,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from models.modes import Mode
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.coverage.device_coverage import NfCoverage
from verif.scoreboard.memory_port import COUNTED
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.ranges import SETTLE_CLOCKS
from verif.scoreboard.scoreboard import Scoreboard
from verif.scoreboard.test_scoreboard import Bench

MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.IDENTITY, Mode.G_INT4, Mode.G_INT8)
STATUS = REG_MAP.region_register("STATUS")
Change = Callable[[S2MDRS, Random], S2MMessage]


class Traffic:
    """Drawn requests, commits and closes on a scoreboard, executed by a device model.

    Args:
        seed: Seed of everything that is drawn.
        change: Change of one response with data, or None for a right device.
        flights: Requests and commits that may be in flight at once.
        modes: Mode of each region.
        board: Class of the scoreboard.
        options: Parameters of the device.
    """

    def __init__(
        self,
        seed: int,
        change: Change | None = None,
        flights: int = 5,
        modes: Sequence[Mode] = MODES,
        board: type[Scoreboard] = Scoreboard,
        **options: int,
    ) -> None:
        self.flights = flights
        rng = self.rng = Random(seed)
        self.configs = [
            RegionConfig(
                (n + 1) << 40,
                n << 20,
                rng.randrange(2),
                rng.randrange(1, 5),
                mode,
                strict=rng.random() < 0.3,
                tie_minus=rng.random() < 0.5,
                bind=rng.random() < 0.2,
                ld_mask=rng.choice((0xFFFF, 0xFFF7)),
                signed=rng.random() < 0.5,
                keep_sum=mode is Mode.FP32,
            )
            for n, mode in enumerate(modes)
        ]
        self.bench = Bench(
            *self.configs, coverage=NfCoverage(), budget=20000, board=board, **options
        )
        self.bus = PredictorBench(self.bench.scoreboard, self.bench.device.params)
        self.change, self.victim = change, rng.randrange(1, 12)
        self.flying: list[list[Any]] = []
        """Requests in flight, each with its response once it is executed."""
        self.pending: dict[int, list[Callable[[], object]]] = {}
        """Commits and closes in flight, by region: what is still to be done, the next one last."""

    def run(self, steps: int) -> Bench:
        """Run drawn steps, then answer everything and compare counters and status values."""
        for _ in range(steps):
            self.step()
            if not self.rng.randrange(40):
                self.quiet()
        self.quiet()
        self.bench.scoreboard.finish()
        return self.bench

    def step(self) -> None:
        rng, bench = self.rng, self.bench
        choice = rng.randrange(20)
        region = rng.randrange(len(self.configs))
        room = len(self.flying) + len(self.pending) < self.flights
        if choice < 8 and room:
            self.flying.append([bench.begin(self.message(region)), None])
        elif choice < 13 and self.flying:
            self.execute(rng.choice(self.flying))
        elif choice < 18 and self.flying:
            self.answer(rng.choice(self.flying))
        elif choice == 18 and room and region not in self.pending:
            self.commit(region)
        elif self.pending:
            self.settle(rng.choice(list(self.pending)))

    def commit(self, region: int) -> None:
        """Begin a drawn commit of a region, or a close."""
        rng, board, device = self.rng, self.bench.scoreboard, self.bench.device
        if rng.randrange(3):
            config = dataclasses.replace(self.configs[region], strict=rng.random() < 0.5)
            epoch = rng.randrange(1 << 32)
            board.commit_begin(region, config, epoch)
            act: Callable[[], object] = lambda: device.commit(region, config, epoch)  # noqa: E731
        elif board.close_begin(region) is not None:
            act = lambda: device.close(region)  # noqa: E731
        else:
            return
        self.pending[region] = [lambda: board.commit_end(region), act]

    def message(self, region: int) -> M2SMessage:
        """Draw a request: mostly to few lines of a region, some to memory or refused."""
        rng, config = self.rng, self.configs[region]
        write = rng.random() < 0.6
        last = config.workers if write else 70
        selector = rng.randrange(config.workers) if rng.random() < 0.8 else rng.randrange(last)
        addr = config.address(selector, rng.randrange(config.lines))
        if rng.random() < 0.15:
            addr = rng.choice((3, 12 << 14, 1 << 44)) << 6
        ldid = selector if config.bind and rng.random() < 0.9 else rng.randrange(5)
        if not write:
            op = ReqOp.MEM_RD if rng.random() < 0.9 else rng.choice(list(ReqOp)[:3])
            return M2SReq(op, 0, addr, ldid & 15)
        partial = rng.random() < 0.2
        return M2SRwD(
            RwdOp.MEM_WR_PTL if partial else RwdOp.MEM_WR,
            *(0, addr),
            ldid=ldid & 15,
            data=rng.randbytes(64) if rng.random() < 0.8 else bytes(64),
            poison=rng.random() < 0.1,
            **({"be": rng.getrandbits(64)} if partial else {}),
        )

    def execute(self, one: list[Any]) -> None:
        if one[1] is None:
            one[1] = self.bench.device.step(one[0])

    def answer(self, one: list[Any]) -> None:
        self.execute(one)
        self.flying.remove(one)
        if isinstance(one[1], S2MDRS):
            self.victim -= 1
            if self.victim == 0 and self.change is not None:
                one[1] = self.change(one[1], self.rng)
        self.bench.scoreboard.response(one[1])

    def settle(self, region: int) -> None:
        """Execute the commit or close of a region, or record its response."""
        self.pending[region].pop()()
        if not self.pending[region]:
            del self.pending[region]

    def quiet(self) -> None:
        """Answer everything, and compare counters and status: one value each, if nothing raced."""
        while self.flying:
            self.answer(self.rng.choice(self.flying))
        while self.pending:
            self.settle(self.rng.choice(list(self.pending)))
        bench, board = self.bench, self.bench.scoreboard
        values = {name: n for name, n in bench.device.counters.items() if name not in COUNTED}
        board.compare_counters(values)
        if self.flights == 1:
            self.registers(values)
            assert {name: board.counter_range(name) for name in values} == {
                name: (value, value) for name, value in values.items()
            }
        for region in range(len(self.configs)):
            status = dataclasses.asdict(bench.device.region_status(region))
            board.compare_region(region, status)
            want = board.status.end(region, board.status.begin(region))
            assert self.flights > 1 or all(want[name].low == want[name].high for name in status)
        if not self.rng.randrange(3):
            bench.device.clear_counters()
            board.clear_counters()

    def registers(self, values: dict[str, int]) -> None:
        """Check that each read of a register has one right value, with nothing in flight."""
        board, device = self.bench.scoreboard, self.bench.device
        board.now += SETTLE_CLOCKS
        flags = [device.region_status(region) for region in range(len(self.configs))]
        reads = values | {"DONE": sum(one.done << region for region, one in enumerate(flags))}
        for region, one in enumerate(flags):
            known = {
                field.name: int(getattr(one, field.name.lower(), 0)) for field in STATUS.fields
            }
            reads[f"REGION[{region}].STATUS"] = STATUS.pack(**known)
            reads[f"REGION[{region}].COMPLETE_LINES"] = one.complete_lines
            reads[f"REGION[{region}].EPOCH"] = one.epoch
        assert board.errors == []
        for name, value in reads.items():
            self.bus.exact(name, value, value ^ 1)
            board.errors.clear()  # it keeps a few only


@pytest.mark.parametrize("flights", [1, 5])
@pytest.mark.parametrize("seed", range(8))
def test_a_right_device_has_no_finding(seed: int, flights: int) -> None:
    bench = Traffic(seed, flights=flights).run(300)
    assert bench.errors == []
    assert bench.scoreboard.judge.unjudged == 0
    points = bench.scoreboard.observer.model.points.values()  # type: ignore[attr-defined]
    assert [point.name for point in points if point.unexpected] == []


def test_refusals_race_with_two_pending_commits() -> None:
    """Check STATUS after two commits of a region were settled together, with refusals in flight.

    A refusal may have counted before the second of them.
    """
    traffic = Traffic(16, flights=9)
    for _ in range(300):
        traffic.step()
    traffic.quiet()
    assert traffic.bench.errors == []


def test_a_lost_line_may_count_less_than_in_the_model() -> None:
    """Check STATUS after the search gave up on a line that had several possible states."""
    traffic = Traffic(22, flights=7)
    traffic.bench.scoreboard.judge.budget = 12
    for _ in range(300):
        traffic.step()
    assert traffic.bench.scoreboard.judge.unknown == {(1, 0)}
    traffic.quiet()
    assert traffic.bench.errors == []


def flipped(answer: S2MDRS, rng: Random) -> S2MDRS:
    data = bytearray(answer.data)
    data[rng.randrange(64)] ^= 1 << rng.randrange(8)
    return dataclasses.replace(answer, data=bytes(data))


FAULTS: dict[str, Change] = {
    "a bit of the data": flipped,
    "poison": lambda answer, _: dataclasses.replace(answer, poison=not answer.poison),
    "the tag": lambda answer, _: dataclasses.replace(answer, tag=answer.tag ^ 0x4000),
    "the LD-ID": lambda answer, _: dataclasses.replace(answer, ldid=answer.ldid ^ 8),
    "the opcode": lambda answer, _: dataclasses.replace(answer, opcode=1),
    "the metadata": lambda answer, _: dataclasses.replace(answer, meta_field=0),
    "no data": lambda answer, _: S2MNDR(0, answer.tag, answer.ldid),
    "the load": lambda answer, rng: dataclasses.replace(answer, devload=rng.randrange(1, 4)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_response_has_a_finding(fault: str, seed: int) -> None:
    traffic = Traffic(seed, FAULTS[fault])
    errors = traffic.run(300).errors
    assert traffic.victim <= 0, "no response was changed"
    assert errors
