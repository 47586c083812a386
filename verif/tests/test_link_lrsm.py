# SPDX-License-Identifier: Apache-2.0
"""``nf_link_lrsm`` alone (top ``nf_link_lrsm``; spec: link spec §8, §9).

Before INIT.Param nothing moves ESeq through the pins of the link, so its wrap value of that time
can only be seen here; and here an answer can be put into the very clock of the time-out.
"""

from __future__ import annotations

import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer

from verif.tests.ports import ports, tie_inputs

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
"""Code of RETRY_PHY_REINIT in `lrsm`."""


class LrsmBench:
    """Bench of the state machine: `pulse` drives inputs for a clock or more."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.edge = FallingEdge(dut.clk)

    async def start(self) -> LrsmBench:
        """Reset, with the physical layer up; return the bench."""
        tie_inputs(self.dut, "nf_link_lrsm", phy_up=1)
        self.dut.rst_n.value = 0
        Clock(self.dut.clk, EDGE_NS, unit="ns", impl="gpi").start()
        for _ in range(2):  # the first edge may see the state before the reset
            await self.edge
        self.dut.rst_n.value = 1
        return self

    async def pulse(self, *names: str, clocks: int = 1) -> None:
        """Drive inputs high for some clocks; `got_other` with each flit but RETRY.Frame."""
        if {"got_req", "got_ack", "good_retryable"} & set(names):
            names = (*names, "got_other")
        for name in names:
            getattr(self.dut, name).value = 1
        for _ in range(clocks):
            await self.edge
        for name in names:
            getattr(self.dut, name).value = 0

    async def reset(self) -> dict[str, int]:
        """Reset, and return the outputs after it."""
        tie_inputs(self.dut, "nf_link_lrsm", phy_up=1)
        self.dut.rst_n.value = 0
        await self.edge
        self.dut.rst_n.value = 1
        return {name: int(getattr(self.dut, name).value) for name in _OUTPUTS}

    async def anything(self, rng: random.Random) -> None:
        """Drive one clock of random events that the link may show."""
        dut, names = self.dut, []
        normal, want_req = int(dut.normal.value), int(dut.want_req.value)
        flit = rng.choice([*_FLITS, "got_frame", "got_frame", ""])
        if flit and (normal or flit != "good_retryable"):
            names.append(flit)
        names += ["req_sent"] if want_req and rng.random() < 0.5 else []
        names += [name for name in ("req_held", "rx_empty", "tx_flit") if rng.random() < 0.5]
        dut.rx_echo.value = int(dut.num_retry.value) if rng.random() < 0.5 else 0
        dut.phy_up.value = rng.random() < 0.95
        await self.pulse(*names)

    async def answer(self, empty: bool = False) -> None:
        """Answer the last RETRY.Req: five frames and RETRY.Ack."""
        await self.pulse("got_frame", clocks=5)
        self.dut.rx_echo.value = int(self.dut.num_retry.value)
        await self.pulse("got_ack", *(["rx_empty"] if empty else []))


@cocotb.test
async def reset_in_any_state(dut: Any) -> None:
    """A reset leaves nothing over of what was: outputs, frames counted, the wrap value of ESeq."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    fresh = await bench.reset()
    for _ in range(20):
        dut.init_wrap.value = rng.randrange(21, 255)
        await bench.pulse("got_init")
        for _ in range(rng.randrange(5, 80)):
            await bench.anything(rng)
        assert await bench.reset() == fresh
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("got_req", "req_held")
        assert int(dut.want_ack.value), "five frames are enough"
        await bench.pulse("good_retryable", clocks=12)
        assert int(dut.eseq.value) == 2, "12 flits, modulo 10"


@cocotb.test
async def first_training_is_no_retrain(dut: Any) -> None:
    """However long the physical layer takes to come up first, the link is as if it had been up."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    fresh = await bench.reset()
    for clocks in (1, 2, rng.randrange(3, 100)):
        dut.rst_n.value = dut.phy_up.value = 0
        await bench.edge
        dut.rst_n.value = 1
        for _ in range(clocks):
            await bench.edge
        dut.phy_up.value = 1
        for _ in range(4):
            await bench.edge
            assert {name: int(getattr(dut, name).value) for name in _OUTPUTS} == fresh


@cocotb.test
async def eseq_wraps(dut: Any) -> None:
    """0..9 until INIT.Param has come, 0..wrap afterwards; frozen from an error to RETRY.Ack."""
    bench = await LrsmBench(dut).start()
    pulse = bench.pulse

    async def count(flits: int) -> list[int]:
        seen = []
        for _ in range(flits):
            seen.append(int(dut.eseq.value))
            await pulse("good_retryable")
        return seen

    assert await count(23) == [n % 10 for n in range(23)]
    for wrap in (21, 63, 254):
        dut.init_wrap.value = wrap
        await pulse("got_init")
        start = int(dut.eseq.value)
        assert await count(600) == [(start + n) % (wrap + 1) for n in range(600)]
    frozen = int(dut.eseq.value)
    await pulse("lost")
    assert not int(dut.normal.value)
    await pulse("req_sent")
    await bench.answer()
    assert int(dut.normal.value)
    assert int(dut.eseq.value) == frozen


@cocotb.test
async def answer_at_the_time_out(dut: Any) -> None:
    """An answer counts up to the clock of the time-out, that one included."""
    bench = await LrsmBench(dut).start()
    for late in (-1, 0, 1):
        await bench.pulse("lost")
        await bench.pulse("req_sent")
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("tx_flit", clocks=TIMEOUT + late)
        dut.rx_echo.value = int(dut.num_retry.value)
        await bench.pulse("got_ack")
        assert bool(int(dut.normal.value)) == (late <= 0), f"answer {late} flits late"
        if late <= 0:
            await bench.pulse("good_retryable")


@cocotb.test
async def empty_answer_clears_counts(dut: Any) -> None:
    """After a reinit an answer with Empty clears NUM_RETRY and NUM_PHY_REINIT: no flit will."""
    bench = await LrsmBench(dut).start()
    await bench.pulse("lost")
    while int(dut.lrsm.value) != REINIT:
        await bench.pulse("req_sent")
        await bench.pulse("tx_flit", clocks=TIMEOUT + 1)
        await bench.pulse()
    assert int(dut.num_phy_reinit.value) == 1
    dut.phy_up.value = 0
    await bench.pulse(clocks=3)
    dut.phy_up.value = 1
    await bench.pulse(clocks=2)
    await bench.pulse("req_sent")
    assert int(dut.num_retry.value) == 1
    await bench.answer(empty=True)
    assert int(dut.normal.value)
    assert (int(dut.num_retry.value), int(dut.num_phy_reinit.value)) == (0, 0)


@cocotb.test
async def request_waits_for_its_answer(dut: Any) -> None:
    """A RETRY.Req is remembered until its RETRY.Ack begins, however long, and with its fields."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    for _ in range(20):
        asked, number = rng.getrandbits(8), rng.getrandbits(5)
        dut.rx_eseq.value, dut.rx_num_retry.value = asked, number
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("got_req", "req_held")
        dut.rx_eseq.value, dut.rx_num_retry.value = rng.getrandbits(8), rng.getrandbits(5)
        await bench.pulse("got_other", clocks=rng.randrange(8))
        assert int(dut.want_ack.value)
        assert (int(dut.ack_eseq.value), int(dut.ack_num_retry.value)) == (asked, number)
        await bench.pulse("ack_begun")
        assert not int(dut.want_ack.value)


@cocotb.test
async def reset_forgets_the_request(dut: Any) -> None:
    """No RETRY.Ack is owed once the physical layer has been down, for a clock or for longer, or the
    link has asked for that: the peer, which sees it too, asks again."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()

    async def asked() -> None:
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("got_req", "req_held")
        assert int(dut.want_ack.value)

    async def forgotten(clocks: int) -> None:
        dut.phy_up.value = 0
        for clock in range(clocks + 4):
            await bench.edge
            assert not int(dut.want_ack.value), f"{clock + 1} clocks after the physical layer fell"
            dut.phy_up.value = clock + 1 >= clocks
        await bench.pulse("req_sent")
        await bench.answer()
        assert int(dut.normal.value)
        assert not int(dut.want_ack.value)

    for clocks in (1, 2, rng.randrange(3, 20)):
        await asked()
        await forgotten(clocks)
    await bench.pulse("lost")
    while int(dut.lrsm.value) != REINIT:
        await bench.pulse("req_sent")
        await asked()
        await bench.pulse("tx_flit", clocks=TIMEOUT + 1)
        await bench.pulse()
    await bench.pulse()
    assert not int(dut.want_ack.value), "the link has given up what was before"
    await forgotten(3)


@cocotb.test
async def request_beside_an_answer(dut: Any) -> None:
    """A RETRY.Req that comes in the very clock in which the answer to the one before it begins is
    owed a second answer."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    for clocks in (0, 1, rng.randrange(2, 9)):
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("got_req", "req_held")
        await bench.pulse(clocks=clocks)
        await bench.pulse("got_frame", clocks=5)
        asked = rng.getrandbits(8)
        dut.rx_eseq.value = asked
        await bench.pulse("got_req", "req_held", "ack_begun")
        assert int(dut.want_ack.value), "the second request is forgotten"
        assert int(dut.ack_eseq.value) == asked
        await bench.pulse("ack_begun")
        assert not int(dut.want_ack.value)


@cocotb.test
async def retrains_of_others(dut: Any) -> None:
    """A retrain that the link has not asked for counts in no number and asks for no other one,
    whatever state it comes in and however short it is (the table of §9: no action)."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    for clocks in (1, 2, rng.randrange(3, 30)):
        for before in ((), ("lost",), ("lost", "req_sent")):
            await bench.reset()
            await bench.pulse()  # the physical layer has been up
            for step in before:
                await bench.pulse(step)
            dut.phy_up.value = 0
            await bench.pulse(clocks=clocks)
            dut.phy_up.value = 1
            for _ in range(3):
                await bench.edge
                assert not int(dut.retrain_request.value), f"{clocks} clocks down, after {before}"
            assert int(dut.num_phy_reinit.value) == 0
            await bench.pulse("req_sent")
            await bench.answer()
            assert int(dut.normal.value)
            assert int(dut.num_phy_reinit.value) == 0


@cocotb.test
async def refused_request_beside_another(dut: Any) -> None:
    """A RETRY.Req that changes no state (without its frames, or for a flit that is gone) does not
    change either what the one before it is answered with."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    for frames in [0, 4, *(rng.randrange(8) for _ in range(20))]:
        asked, number = rng.getrandbits(8), rng.getrandbits(5)
        dut.rx_eseq.value, dut.rx_num_retry.value = asked, number
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("got_req", "req_held")
        dut.rx_eseq.value = asked ^ rng.randrange(1, 256)
        dut.rx_num_retry.value = number ^ rng.randrange(1, 32)
        await bench.pulse("got_frame", clocks=frames)
        await bench.pulse("got_req", *(["req_held"] if frames < 5 else []))
        assert int(dut.want_ack.value)
        told = int(dut.ack_eseq.value), int(dut.ack_num_retry.value)
        assert told == (asked, number), f"changed by a request after {frames} frames"
        await bench.pulse("ack_begun")
        assert not int(dut.want_ack.value), "the refused one is answered, too"


@cocotb.test
async def time_outs_counted(dut: Any) -> None:
    """A time-out is reported once for each RETRY.Req without an answer in time; an answer in the
    clock of the time-out is in time."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    for late in (-1, 0, 1, rng.randrange(2, 40), 0):
        told = 0
        await bench.pulse("lost")
        await bench.pulse("req_sent")
        await bench.pulse("got_frame", clocks=5)
        dut.rx_echo.value = int(dut.num_retry.value)
        for clock in range(TIMEOUT + late + 1):
            dut.tx_flit.value = 1
            if clock == TIMEOUT + late:
                dut.got_ack.value = dut.got_other.value = 1
            await Timer(EDGE_NS / 4, unit="ns")  # what the edge that comes will count
            told += int(dut.ev_timeout.value)
            await bench.edge
        dut.tx_flit.value = dut.got_ack.value = dut.got_other.value = 0
        assert told == (late > 0), f"an answer {late} flits late"
        assert bool(int(dut.normal.value)) == (late <= 0)
        if late <= 0:
            await bench.pulse("good_retryable")
            continue
        await bench.pulse("req_sent")
        await bench.answer()
        await bench.pulse("good_retryable")
        assert int(dut.normal.value)


@cocotb.test
async def time_out_starts_anew(dut: Any) -> None:
    """TIMEOUT begins with each RETRY.Req, also where a retrain has ended the wait before it."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LrsmBench(dut).start()
    for _ in range(5):
        await bench.pulse("lost")
        await bench.pulse("req_sent")
        await bench.pulse("tx_flit", clocks=rng.randrange(10, TIMEOUT))
        dut.phy_up.value = 0
        await bench.pulse(clocks=rng.randrange(1, 9))
        dut.phy_up.value = 1
        await bench.pulse(clocks=2)
        await bench.pulse("req_sent")
        await bench.pulse("got_frame", clocks=5)
        await bench.pulse("tx_flit", clocks=TIMEOUT)
        dut.rx_echo.value = int(dut.num_retry.value)
        await bench.pulse("got_ack")
        assert int(dut.normal.value), "the time before the retrain was counted, too"
        await bench.pulse("good_retryable")
