# SPDX-License-Identifier: Apache-2.0
"""Block tests of ``nf_link_lrsm``, the state machine of local retry (spec: link spec §8, §9).

Before INIT.Param nothing moves ESeq through the pins of the link, so its wrap value of that time
can only be seen here; and here a RETRY.Ack can arrive in the very clock of the time-out.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer

from verif.tests.ports import block_test, ports, tie_inputs

_OUTPUTS = [
    name
    for name in ports("nf_link_lrsm.sv", "output")
    if not name.startswith(("ev_", "bad_", "ack_"))
]
_FLITS = ["lost", "good_retryable", "got_frame", "got_req", "got_ack", "got_other"]

EDGE_NS = 2
TIMEOUT = 300
"""RETRY_TIMEOUT of the build, in flits sent."""
REINIT = 3
"""Code of RETRY_PHY_REINIT in the output `lrsm`."""


class LrsmBench:
    """Testbench of `nf_link_lrsm`: `pulse` drives inputs for clocks, `bench[NAME]` is an output."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.edge = FallingEdge(dut.clk)
        self.rng = random.Random(cocotb.RANDOM_SEED)

    async def start(self) -> LrsmBench:
        """Start the clock, reset with the physical layer up, and return the testbench."""
        Clock(self.dut.clk, EDGE_NS, unit="ns", impl="gpi").start()
        await self.reset()
        await self.reset()  # the first edge may see the state before the reset
        return self

    def outputs(self) -> dict[str, int]:
        """Return the outputs that show the state, by name."""
        return {name: self[name] for name in _OUTPUTS}

    def __getitem__(self, output: str) -> int:
        """Return the value of an output."""
        return int(getattr(self.dut, output).value)

    async def pulse(self, *names: str, clocks: int = 1) -> None:
        """Drive inputs high for some clocks, then low.

        `got_other` is added for flits other than RETRY.Frame.
        """
        if {"got_req", "got_ack", "good_retryable"} & set(names):
            names = (*names, "got_other")
        for name in names:
            getattr(self.dut, name).value = 1
        for _ in range(clocks):
            await self.edge
        for name in names:
            getattr(self.dut, name).value = 0

    async def reset(self) -> dict[str, int]:
        """Reset for one clock, and return the outputs after it."""
        tie_inputs(self.dut, "nf_link_lrsm", phy_up=1)
        self.dut.rst_n.value = 0
        await self.edge
        self.dut.rst_n.value = 1
        return self.outputs()

    async def anything(self) -> None:
        """Drive one clock of random inputs that the link could produce in the present state."""
        dut, rng, names = self.dut, self.rng, []
        normal, want_req = self["normal"], self["want_req"]
        flit = rng.choice([*_FLITS, "got_frame", "got_frame", ""])
        if flit and (normal or flit != "good_retryable"):
            names.append(flit)
        names += ["req_sent"] if want_req and rng.random() < 0.5 else []
        names += [name for name in ("req_held", "rx_empty", "tx_flit") if rng.random() < 0.5]
        dut.rx_echo.value = self["num_retry"] if rng.random() < 0.5 else 0
        dut.phy_up.value = rng.random() < 0.95
        await self.pulse(*names)

    async def lose(self) -> None:
        """Report a lost flit, and that the RETRY.Req has been sent."""
        await self.pulse("lost")
        await self.pulse("req_sent")

    async def retrain(self, clocks: int, after: int = 2) -> None:
        """Let the physical layer be down for some clocks, then wait `after` clocks."""
        self.dut.phy_up.value = 0
        await self.pulse(clocks=clocks)
        self.dut.phy_up.value = 1
        await self.pulse(clocks=after)

    async def request(
        self, *inputs: str, eseq: int = 0, number: int = 0, frames: int = 5, held: bool = True
    ) -> None:
        """Receive a RETRY.Req after some RETRY.Frame flits.

        Args:
            inputs: other inputs that are high in the clock of the RETRY.Req.
            eseq: its ESeq.
            number: its NUM_RETRY.
            frames: number of RETRY.Frame flits.
            held: the retry buffer has the requested flit.
        """
        self.dut.rx_eseq.value, self.dut.rx_num_retry.value = eseq, number
        await self.pulse("got_frame", clocks=frames)
        await self.pulse("got_req", *(["req_held"] if held else []), *inputs)

    async def echo(self, *inputs: str) -> None:
        """Receive a RETRY.Ack for the last RETRY.Req; `inputs`: others high with it."""
        self.dut.rx_echo.value = self["num_retry"]
        await self.pulse("got_ack", *inputs)

    async def answer(self, *inputs: str) -> None:
        """Answer the last RETRY.Req: five RETRY.Frame flits and `echo`, with other `inputs`."""
        await self.pulse("got_frame", clocks=5)
        await self.echo(*inputs)

    async def recover(self) -> None:
        """Send the RETRY.Req, receive its RETRY.Ack, and check that the state is normal."""
        await self.pulse("req_sent")
        await self.answer()
        assert self["normal"]

    async def exhaust(self) -> None:
        """Lose a flit, and let every RETRY.Req time out until the physical layer must retrain."""
        await self.pulse("lost")
        while self["lrsm"] != REINIT:
            await self.pulse("req_sent")
            await self.time_out()

    async def time_out(self) -> None:
        """Send so many flits that the wait for a RETRY.Ack times out."""
        await self.pulse("tx_flit", clocks=TIMEOUT + 1)
        await self.pulse()


lrsm_test = block_test(lambda dut: LrsmBench(dut).start())
"""Decorator that registers a test of `nf_link_lrsm`, which gets an LrsmBench."""


@lrsm_test
async def reset_in_any_state(bench: LrsmBench) -> None:
    """Check that a reset clears all state: outputs, frames counted, and the wrap value of ESeq."""
    rng, fresh = bench.rng, await bench.reset()
    for _ in range(20):
        bench.dut.init_wrap.value = rng.randrange(21, 255)
        await bench.pulse("got_init")
        for _ in range(rng.randrange(5, 80)):
            await bench.anything()
        assert await bench.reset() == fresh
        await bench.request()
        assert bench["want_ack"], "five frames are enough"
        await bench.pulse("good_retryable", clocks=12)
        assert bench["eseq"] == 2, "12 flits, modulo 10"


@lrsm_test
async def first_training_is_no_retrain(bench: LrsmBench) -> None:
    """Check that the time until the physical layer is first up has no effect, and is no retrain."""
    dut, fresh = bench.dut, await bench.reset()
    for clocks in (1, 2, bench.rng.randrange(3, 100)):
        dut.rst_n.value = dut.phy_up.value = 0
        await bench.edge
        dut.rst_n.value = 1
        await bench.retrain(clocks, after=0)
        for _ in range(4):
            await bench.edge
            assert bench.outputs() == fresh


@lrsm_test
async def eseq_wraps(bench: LrsmBench) -> None:
    """Check ESeq: 0..9 until INIT.Param, 0..wrap after it; frozen from an error to RETRY.Ack."""

    async def count(flits: int) -> list[int]:
        seen = []
        for _ in range(flits):
            seen.append(bench["eseq"])
            await bench.pulse("good_retryable")
        return seen

    assert await count(23) == [n % 10 for n in range(23)]
    for wrap in (21, 63, 254):
        bench.dut.init_wrap.value = wrap
        await bench.pulse("got_init")
        start = bench["eseq"]
        assert await count(600) == [(start + n) % (wrap + 1) for n in range(600)]
    frozen = bench["eseq"]
    await bench.pulse("lost")
    assert not bench["normal"]
    await bench.recover()
    assert bench["eseq"] == frozen


@lrsm_test
async def answer_at_the_time_out(bench: LrsmBench) -> None:
    """Check that a RETRY.Ack is in time up to and in the clock of the time-out, not later."""
    for late in (-1, 0, 1):
        await bench.lose()
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("tx_flit", clocks=TIMEOUT + late)
        await bench.echo()
        assert bool(bench["normal"]) == (late <= 0), f"answer {late} flits late"
        if late <= 0:
            await bench.pulse("good_retryable")


@lrsm_test
async def empty_answer_clears_counts(bench: LrsmBench) -> None:
    """Check that after a reinit a RETRY.Ack with Empty clears NUM_RETRY and NUM_PHY_REINIT.

    Without Empty a good flit would clear them, but there is none.
    """
    await bench.exhaust()
    assert bench["num_phy_reinit"] == 1
    await bench.retrain(3)
    await bench.pulse("req_sent")
    assert bench["num_retry"] == 1
    await bench.answer("rx_empty")
    assert bench["normal"]
    assert (bench["num_retry"], bench["num_phy_reinit"]) == (0, 0)


@lrsm_test
async def request_waits_for_its_answer(bench: LrsmBench) -> None:
    """Check that a RETRY.Req is kept, with its fields, until its RETRY.Ack begins."""
    dut, rng = bench.dut, bench.rng
    for _ in range(20):
        asked, number = rng.getrandbits(8), rng.getrandbits(5)
        await bench.request(eseq=asked, number=number)
        dut.rx_eseq.value, dut.rx_num_retry.value = rng.getrandbits(8), rng.getrandbits(5)
        await bench.pulse("got_other", clocks=rng.randrange(8))
        assert bench["want_ack"]
        assert (bench["ack_eseq"], bench["ack_num_retry"]) == (asked, number)
        await bench.pulse("ack_begun")
        assert not bench["want_ack"]


@lrsm_test
async def reset_forgets_the_request(bench: LrsmBench) -> None:
    """Check that no RETRY.Ack is owed after the physical layer was down or the link asked for it.

    The peer, which sees it too, sends its RETRY.Req again.
    """
    dut = bench.dut

    async def asked() -> None:
        await bench.request()
        assert bench["want_ack"]

    async def forgotten(clocks: int) -> None:
        dut.phy_up.value = 0
        for clock in range(clocks + 4):
            await bench.edge
            assert not bench["want_ack"], f"{clock + 1} clocks after the physical layer fell"
            dut.phy_up.value = clock + 1 >= clocks
        await bench.recover()
        assert not bench["want_ack"]

    for clocks in (1, 2, bench.rng.randrange(3, 20)):
        await asked()
        await forgotten(clocks)
    await bench.pulse("lost")
    while bench["lrsm"] != REINIT:
        await bench.pulse("req_sent")
        await asked()
        await bench.time_out()
    await bench.pulse()
    assert not bench["want_ack"], "the link has given up what was before"
    await forgotten(3)


@lrsm_test
async def request_beside_an_answer(bench: LrsmBench) -> None:
    """Check that a RETRY.Req in the clock in which the RETRY.Ack of the last one begins is kept."""
    for clocks in (0, 1, bench.rng.randrange(2, 9)):
        await bench.request()
        await bench.pulse(clocks=clocks)
        asked = bench.rng.getrandbits(8)
        await bench.request("ack_begun", eseq=asked)
        assert bench["want_ack"], "the second request is forgotten"
        assert bench["ack_eseq"] == asked
        await bench.pulse("ack_begun")
        assert not bench["want_ack"]


@lrsm_test
async def retrains_of_others(bench: LrsmBench) -> None:
    """Check that a retrain that the link did not request is not counted and causes no other one.

    In each state, and however short (the table of §9: no action).
    """
    befores: tuple[tuple[str, ...], ...] = ((), ("lost",), ("lost", "req_sent"))
    for clocks, before in product((1, 2, bench.rng.randrange(3, 30)), befores):
        await bench.reset()
        await bench.pulse()  # the physical layer has been up
        for step in before:
            await bench.pulse(step)
        await bench.retrain(clocks, after=0)
        for _ in range(3):
            await bench.edge
            assert not bench["retrain_request"], f"{clocks} clocks down, after {before}"
        assert bench["num_phy_reinit"] == 0
        await bench.recover()
        assert bench["num_phy_reinit"] == 0


@lrsm_test
async def refused_request_beside_another(bench: LrsmBench) -> None:
    """Check that a refused RETRY.Req does not change the RETRY.Ack of the one before it.

    Refused: without its five frames, or for a flit that the retry buffer no longer has.
    """
    rng = bench.rng
    for frames in [0, 4, *(rng.randrange(8) for _ in range(20))]:
        asked, number = rng.getrandbits(8), rng.getrandbits(5)
        await bench.request(eseq=asked, number=number)
        refused = {"eseq": asked ^ rng.randrange(1, 256), "number": number ^ rng.randrange(1, 32)}
        await bench.request(frames=frames, held=frames < 5, **refused)
        assert bench["want_ack"]
        told = bench["ack_eseq"], bench["ack_num_retry"]
        assert told == (asked, number), f"changed by a request after {frames} frames"
        await bench.pulse("ack_begun")
        assert not bench["want_ack"], "the refused one is answered, too"


@lrsm_test
async def time_outs_counted(bench: LrsmBench) -> None:
    """Check that a time-out is reported once for each RETRY.Req without a RETRY.Ack in time."""
    dut = bench.dut
    for late in (-1, 0, 1, bench.rng.randrange(2, 40), 0):
        told = 0
        await bench.lose()
        await bench.pulse("got_frame", clocks=5)
        dut.rx_echo.value = bench["num_retry"]
        for clock in range(TIMEOUT + late + 1):
            dut.tx_flit.value = 1
            if clock == TIMEOUT + late:
                dut.got_ack.value = dut.got_other.value = 1
            await Timer(EDGE_NS / 4, unit="ns")  # what the edge that comes will count
            told += bench["ev_timeout"]
            await bench.edge
        dut.tx_flit.value = dut.got_ack.value = dut.got_other.value = 0
        assert told == (late > 0), f"an answer {late} flits late"
        assert bool(bench["normal"]) == (late <= 0)
        if late > 0:
            await bench.recover()
        await bench.pulse("good_retryable")
        assert bench["normal"]


@lrsm_test
async def time_out_starts_anew(bench: LrsmBench) -> None:
    """Check that TIMEOUT starts with each RETRY.Req, also if a retrain ended the wait before."""
    for _ in range(5):
        await bench.lose()
        await bench.pulse("tx_flit", clocks=bench.rng.randrange(10, TIMEOUT))
        await bench.retrain(bench.rng.randrange(1, 9))
        await bench.pulse("req_sent")
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("tx_flit", clocks=TIMEOUT)
        await bench.echo()
        assert bench["normal"], "the time before the retrain was counted, too"
        await bench.pulse("good_retryable")
