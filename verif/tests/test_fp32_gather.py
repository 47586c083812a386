# SPDX-License-Identifier: Apache-2.0
"""Block test of `nf_fp32_gather` alone: sums, errors and poison, and the clocks that sums take."""

import cocotb
from cocotb.triggers import ClockCycles

from models.fp32 import ordered_sum
from verif.tests.gather_testbench import LINES, ONES, GatherBench, Sum, as_line
from verif.tests.ports import block_test


def expected(bench: GatherBench, one: Sum) -> tuple[int, bool, bool]:
    """Return data, Poison, and whether to keep the sum, of a request to the gather unit.

    Controller spec §4; hdl/README.md, Trust.
    """
    lines = [bench.memory[place] for place in bench.places(one)]
    error = any(line.error for line in lines)
    poison = error or one.poison or any(line.poison for line in lines)
    if error:
        data = ONES
    elif not lines:
        data = 0
    elif one.raw:
        data = lines[0].data
    else:
        data = as_line(ordered_sum([[line.array()] for line in lines]))
    return data, poison, one.keep and not poison


gather_test = block_test(lambda dut: GatherBench(dut).reset())
"""Decorator that registers a test of `nf_fp32_gather`, which gets a GatherBench."""


async def check(bench: GatherBench, sums: list[Sum], limit: int = 20000) -> None:
    """Run the requests and compare every response and every end with `expected`."""
    await bench.run(sums, limit)
    assert sorted(bench.answers) == list(range(len(sums))), "not every request was answered once"
    for tag, one in enumerate(sums):
        data, poison, keep = expected(bench, one)
        answer, end = bench.answers[tag], bench.ends[tag]
        assert answer.data == data, f"{one}: {answer.data:#x}, not {data:#x}"
        assert answer.poison == poison, f"{one}: Poison {answer.poison}"
        assert end.keep == keep, f"{one}: keep {end.keep}"
        assert not keep or end.data == data, f"{one}: another sum is to be kept"


@gather_test
async def sums(bench: GatherBench) -> None:
    """Check sums, raw and empty requests of any number of workers, with each port slow in turn.

    Ports are stalled in 10, 50 and 90 % of the clocks: the queue of responses fills.
    """
    rng = bench.rng
    for slow in ("op", "ar", "r", "drs", "end", ""):
        for share in (0.1, 0.5, 0.9) if slow else (0.0,):
            bench.latency = rng.choice((0, 1, 3, 17))
            bench.stalls = {slow: share}
            bench.fill(error=rng.choice((0, 0.02)), poison=rng.choice((0, 0.02)))
            await check(bench, [Sum.draw(rng) for _ in range(20)])


@gather_test
async def kept_inputs(bench: GatherBench) -> None:
    """Check that a sum is offered to be kept (KEEP_SUM) only without error or poison."""
    rng = bench.rng
    for _ in range(12):
        bench.fill(error=0, poison=0)
        workers = rng.randint(2, 8)
        bad = rng.sample(range(LINES), LINES // 2)
        for index in bad:
            line = bench.memory[bench.place(rng.randrange(workers), index)]
            line.poison = rng.random() < 0.5
            line.error = not line.poison
        await check(bench, [Sum(index, (1 << workers) - 1, keep=True) for index in range(LINES)])
        kept = [tag for tag, end in bench.ends.items() if end.keep]
        assert len(kept) == LINES - len(bad), f"{len(kept)} sums are to be kept"


@gather_test
async def rates(bench: GatherBench) -> None:
    """Check clocks: a sum alone takes the latency and two a line; a stream takes one a line."""
    rng = bench.rng
    bench.fill(error=0, poison=0)
    for latency in (3, 48, 300):
        bench.latency = latency
        for workers in (2, 8, rng.randint(3, 20)):
            everyone = (1 << workers) - 1
            await check(bench, [Sum(0, everyone, keep=True)])
            alone = bench.answers[0].clock - bench.begun[0]
            assert alone <= latency + 2 * workers + 2, f"W {workers}: {alone} clocks alone"
            stream = [Sum(number % LINES, everyone, keep=True) for number in range(24)]
            await check(bench, stream)
            clocks = sorted(answer.clock for answer in bench.answers.values())
            spent = clocks[-1] - clocks[1]
            assert spent <= workers * (len(clocks) - 2), f"W {workers}: {spent} clocks for a stream"
        raw = [Sum(number % LINES, 1 << number % 8, raw=True) for number in range(40)]
        await check(bench, raw)
        clocks = sorted(answer.clock for answer in bench.answers.values())
        assert clocks[-1] - clocks[0] == len(raw) - 1, "raw lines do not come one a clock"


@gather_test
async def shared_channel(bench: GatherBench) -> None:
    """Check that the lines of a sum that is alone are accepted at once by the gather unit."""
    bench.fill(error=0, poison=0)
    for latency in (0, 7, 48):
        bench.latency = latency
        bench.held = 0
        for workers in (2, 9, 64):
            await check(bench, [Sum(1, (1 << workers) - 1)])
        assert bench.held == 0, f"RREADY was low for {bench.held} clocks with a line of a lone sum"


@gather_test
async def short_sums(bench: GatherBench) -> None:
    """Check that sums of at most two lines never make a line wait for the adder.

    They use the two sides of the unit in turn, whatever the stalls of requests and memory.
    """
    rng = bench.rng
    bench.fill(error=0, poison=0)
    for _ in range(4):
        bench.stalls = {"op": 0.7, "ar": rng.choice((0.3, 0.6)), "r": rng.choice((0.3, 0.6))}
        shapes = [rng.sample(range(64), rng.choice((1, 2, 2))) for _ in range(120)]
        sums = [Sum(rng.randrange(LINES), sum(1 << one for one in shape)) for shape in shapes]
        await check(bench, sums)
    assert bench.held == 0, f"RREADY was low for {bench.held} clocks"


@gather_test
async def ends_pass_answers(bench: GatherBench) -> None:
    """Check that ends do not wait for responses that nobody accepts, and the other way round."""
    bench.fill(error=0, poison=0)
    sums = [Sum(1, 1 << 3, raw=True), Sum(2, 1 << 5, raw=True), Sum(3, 0b11)]
    for first, second in (("end", "drs"), ("drs", "end")):
        bench.stalls = {first: 1.0}
        running = cocotb.start_soon(check(bench, sums))
        await ClockCycles(bench.dut.clk, 60)
        taken = {"end": bench.ends, "drs": bench.answers}
        assert not taken[first]
        assert len(taken[second]) == 1, "one request at a time"
        bench.stalls = {second: 1.0}
        await ClockCycles(bench.dut.clk, 60)
        assert len(taken[first]) == 2, f"{first} of the next one waits for {second}"
        bench.stalls = {}
        await running
