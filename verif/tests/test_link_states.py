# SPDX-License-Identifier: Apache-2.0
"""Each state of the local retry with each flit that can arrive (top ``nf_link``).

The expected effects are the table of the link spec §9. Build with a short RETRY_TIMEOUT; ESeq and
the write pointer (nf_link_lrsm.eseq_q, nf_link_retry_buffer.wr_q) are public.
"""

import random
from dataclasses import replace
from typing import Any, Self

import cocotb

from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    encode_control,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import ProtocolCode, WireFlit, decode_protocol_id
from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from verif.coverage.link_points import ERRORS
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import FRAMES, PID, slots_flit
from verif.tests.link_testbench import (
    ABORT,
    LLRREQ,
    LOCAL_IDLE,
    NORMAL,
    PHY_REINIT,
    RETRY_TIMEOUT,
    RetryTestbench,
)

_NULLS = (ProtocolCode.NULL, ProtocolCode.NULL_EDS)
_GOOD = ("data or header", "LLCRD", "INIT.Param")
_SILENT = ("RETRY.Idle", "RETRY.Frame", "RETRY.Req alone", "RETRY.Ack alone")
_BAD = {"bad CRC": "CRC", "bad Protocol ID": "PROTOCOL_ID"}
_BROKEN = "broken control flit"  # an error in NORMAL alone


class StateBench(RetryTestbench):
    """Testbench whose host is silent: the test puts all flits on the wire."""

    async def up(self, settle: int = 80) -> Self:
        """Bring the link up, wait until it is quiet, and mute the host; return the testbench."""
        self.tracker, self.auto_phy = None, False
        await super().up(settle)
        self.muted = True
        await self.clocks(10)
        return self

    @property
    def eseq(self) -> int:
        """Number of the flit that the device expects next (ESeq of nf_link_lrsm)."""
        return int(self.dut.u_lrsm.eseq_q.value)

    def bad(self) -> WireFlit:
        """Return a flit with CACHEMEM Protocol ID and one to three wrong bits."""
        flit = seal(self.rng.getrandbits(512))
        for bit in self.rng.sample(range(528), self.rng.randrange(1, 4)):
            flit ^= 1 << bit
        return PID, flit

    def bad_id(self) -> WireFlit:
        """Return a flit with a good CRC and an unknown Protocol ID."""
        while True:
            word = self.rng.getrandbits(16)
            if decode_protocol_id(word).code is None:
                return word, 0

    async def cycle_phy(self) -> None:
        """Let phy_up fall and rise again after 2 to 5 clocks."""
        self.set_phy(False)
        await self.clocks(self.rng.randrange(2, 6))
        self.set_phy(True)

    async def lose(self) -> RetryReq:
        """Let the device receive a bad flit; return the RETRY.Req that it sends."""
        sent = len(self.tx_log)
        self.raw.append(self.bad())
        await self.until(lambda: self.lrsm == LOCAL_IDLE, 60)
        await self.clocks(4)
        return self.requests(sent)[-1]

    async def reach(self, state: int) -> None:
        """Bring the device from NORMAL into an LRSM state, in which it stays for a while."""
        if state == NORMAL:
            return
        if state == LLRREQ:
            self.ready_rate = 0.0  # the sequence cannot leave
        self.raw.append(self.bad())
        await self.clocks(8)
        if state == ABORT:
            for _ in range(11):
                await self.until(lambda: self.lrsm in (PHY_REINIT, ABORT), 12 * RETRY_TIMEOUT + 900)
                if self.lrsm == ABORT:
                    break
                await self.cycle_phy()
                await self.clocks(4)
        await self.until(lambda: self.lrsm == state, 12 * RETRY_TIMEOUT + 900)

    def flits_of(self, event: str, echo: int, pointer: int) -> list[WireFlit]:
        """Return the flits of an event.

        Args:
            event: name, such as "LLCRD" or "RETRY.Req alone" (without its five frames).
            echo: NUM_RETRY of a RETRY.Ack.
            pointer: ESeq of a RETRY.Req.
        """
        rng = self.rng
        request = RetryReq(pointer, rng.randrange(32), rng.randrange(11))
        viral, *unread = rng.random() < 0.5, *rng.randbytes(3)  # a device takes no notice of these
        answer = RetryAck(True, viral, echo, *unread)
        if event == "bad CRC":
            return [self.bad()]
        if event == "bad Protocol ID":
            return [self.bad_id()]
        if event == _BROKEN:
            kind = rng.choice((Llcrd(0, 9, 0, 9), RetryIdle(), RetryFrame(), request, answer))
            payload = encode_control(kind) | 1 << rng.randrange(192, 512)
            return [(PID, seal(rng.choice((payload, 1 | 5 << 32))))]
        if event == "data or header":
            raw = M2SReq(ReqOp.MEM_RD, rng.getrandbits(16), rng.getrandbits(46) << 6).pack()
            return [(PID, slots_flit((5, 4, 4, 4), (raw, 0, 0, 0)))]
        table: dict[str, list[ControlFlit]] = {
            "LLCRD": [Llcrd(0, 9, 0, 9)],
            "INIT.Param": [InitParam(rng.randrange(21, 255))],
            "RETRY.Idle": [RetryIdle()],
            "RETRY.Frame": [RetryFrame()],
            "RETRY.Req alone": [*FRAMES[: rng.randrange(5)], request],
            "RETRY.Ack alone": [*FRAMES[: rng.randrange(5)], answer],
            "RETRY.Req": [*[RetryFrame()] * rng.randrange(5, 9), request],
            "RETRY.Ack": [*[RetryFrame()] * rng.randrange(5, 9), answer],
        }
        return [(PID, seal(encode_control(kind))) for kind in table[event]]


async def _event(bench: StateBench, state: int, event: str, echo: int, fits: bool) -> None:
    """Let the event happen in the state that was reached, and check all effects.

    Args:
        bench: testbench in that state.
        state: LRSM state.
        event: name of the event, see `flits_of`.
        echo: NUM_RETRY of a RETRY.Ack.
        fits: the RETRY.Ack is the expected one, so that the retry ends.
    """
    dut = bench.dut
    eseq, taken = bench.eseq, len(bench.got.req)
    pointer, wrap = bench.write_pointer, int(dut.u_lrsm.wrap_q.value)
    bench.errors.clear()
    sent = len(bench.tx_log)
    where = f"{event} in state {state}"
    if event == "phy down":
        await bench.cycle_phy()
    else:
        bench.raw.extend(bench.flits_of(event, echo, pointer))
    await bench.clocks(24)
    errors = [ERRORS[kind - 1] for kind in bench.errors]
    good = bench.eseq != eseq
    assert good == (state == NORMAL and event in _GOOD), f"{where}: ESeq moved: {good}"
    assert (len(bench.got.req) > taken) == (state == NORMAL and event == "data or header"), where
    if good:
        assert bench.eseq == (eseq + 1 if eseq < wrap else 0), where
    answers = bench.answers(sent)
    assert len(answers) == (event == "RETRY.Req" and state in (NORMAL, LOCAL_IDLE)), where
    if answers:
        assert answers[0].empty
        assert answers[0].eseq == answers[0].wr_ptr == pointer, where
    owed = bench.status()["rrsm"] == 1
    assert owed == (event == "RETRY.Req" and state == LLRREQ), f"{where}: RETRY.Ack owed: {owed}"
    if state in (PHY_REINIT, ABORT):
        assert bench.lrsm == (LOCAL_IDLE if event == "phy down" and state == PHY_REINIT else state)
        assert len(bench.tx_log) == sent or event == "phy down", f"{where}: it is not quiet"
        return
    told = {
        "INIT.Param": ["SECOND_INIT"] * (state == NORMAL),
        "RETRY.Ack": ["RETRY_ACK"] * (state == NORMAL),
        _BROKEN: ["CONTROL"] * (state == NORMAL),
    }.get(event, [_BAD[event]] if event in _BAD else [])
    if not (event == "RETRY.Ack" and state == LLRREQ):  # the link spec is silent
        assert errors == told, f"{where}: {errors}"
    if state == LLRREQ:
        # After a retrain the sequence waits at the pins again.
        follows = (LLRREQ,)
    elif event == "RETRY.Ack" and fits:
        follows = (NORMAL,)
    elif event in (*_BAD, _BROKEN, "phy down") or state == LOCAL_IDLE:
        follows = (LOCAL_IDLE,)
    else:
        follows = (NORMAL,)
    assert bench.lrsm in follows, f"{where}: it is in {bench.lrsm}"


@link_test
async def states(dut: Any) -> None:
    """Check the effects of each flit, and of a fall of phy_up, in each LRSM state."""
    rng = random.Random(cocotb.RANDOM_SEED)
    events = [*_GOOD, *_SILENT, "RETRY.Req", "RETRY.Ack", *_BAD, _BROKEN, "phy down"]
    for state in (NORMAL, LLRREQ, LOCAL_IDLE):
        for event in rng.sample(events, len(events)):
            # NUM_RETRY is 1 then: an echo that fits, and each that differs in one bit.
            others = [1 ^ 1 << bit for bit in range(5)] if event == "RETRY.Ack" else []
            for echo in (1, *others):
                bench = await StateBench(dut, rng.getrandbits(32)).up()
                await bench.reach(state)
                await _event(bench, state, event, echo, echo == 1 and state == LOCAL_IDLE)
    for state in (PHY_REINIT, ABORT):
        bench = await StateBench(dut, rng.getrandbits(32)).up()
        await bench.reach(state)
        asked = state == PHY_REINIT
        assert int(dut.retrain_request.value) == asked
        for event in [*rng.sample(events[:-1], len(events) - 1), "phy down"]:
            await _event(bench, state, event, 10, False)


@link_test
async def frames_in_a_row(dut: Any) -> None:
    """Check that any flit between RETRY.Frame flits ends their run, also a discarded one.

    NULL is no flit of the link, and a clock without a flit is nothing: neither ends it.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    for _ in range(6):
        bench = await StateBench(dut, rng.getrandbits(32)).up()
        asked = await bench.lose()
        before = rng.randrange(1, 5)
        answer = RetryAck(True, num_retry=asked.num_retry, eseq=asked.eseq)
        bench.put(*FRAMES[:before])
        bench.raw.append(rng.choice([bench.bad(), (PID, 0), (PID, seal(1 << 40))]))
        bench.put(*FRAMES[before:], answer)
        await bench.clocks(30)
        assert bench.lrsm == LOCAL_IDLE, f"{before} frames, a discarded flit, {5 - before} frames"
        # Frames do not count together with those after a retrain.
        wr = bench.write_pointer
        bench.put(*FRAMES[:before])
        await bench.clocks(before + 3)
        await bench.cycle_phy()
        sent = len(bench.tx_log)
        bench.put(*FRAMES[before:], RetryReq(wr, 1))
        await bench.clocks(40)
        assert not bench.answers(sent), f"{before} frames, a retrain, {5 - before} frames"
        # NULL in their midst: they still are five.
        null, asked = rng.choice(_NULLS), bench.requests(sent)[-1]
        bench.put(*FRAMES[:before])
        bench.raw.append((null.word, rng.getrandbits(528)))
        await bench.clocks(before + rng.randrange(1, 5))
        bench.put(*FRAMES[before:], RetryAck(True, num_retry=asked.num_retry, eseq=asked.eseq))
        await bench.clocks(30)
        assert bench.lrsm == NORMAL, f"{before} frames, {null.name}, {5 - before} frames"


@link_test
async def answers_and_requests(dut: Any) -> None:
    """Check that RETRY.Ack is sent before RETRY.Req, and that each received RETRY.Req gets one.

    A RETRY.Req from before a retrain gets none.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    for number in range(4):
        bench = await StateBench(dut, rng.getrandbits(32), grant_plain=8, grant_data=8).up()
        bench.ready_rate = 0.0
        bench.answer_random(ndr=3)  # both stages in front of the pins are full
        await bench.clocks(8)
        wr = bench.write_pointer
        kinds: list[ControlFlit] = [*FRAMES, RetryReq(wr, 7)]
        sequence = [(PID, seal(encode_control(kind))) for kind in kinds]
        lost = bench.bad() if number < 2 else bench.bad_id()
        bench.raw.extend([*sequence, lost] if number % 2 else [lost, *sequence])
        await bench.clocks(20)
        assert bench.status()["rrsm"] == 1, "a RETRY.Ack is owed"
        assert bench.lrsm == LLRREQ
        # Other flits change nothing of it.
        for event in rng.sample(("RETRY.Req alone", "RETRY.Ack alone", "RETRY.Ack", "LLCRD"), 4):
            bench.raw.extend(bench.flits_of(event, 1, wr))
        await bench.clocks(40)
        sent = len(bench.tx_log)
        bench.ready_rate = 1.0
        await bench.clocks(40)
        assert [(a.num_retry, a.eseq) for a in bench.answers(sent)] == [(7, wr)]
        order = [type(c) for c in bench.controls(sent) if isinstance(c, RetryReq | RetryAck)]
        assert order == [RetryAck, RetryReq], "the answer goes first"
        # The peer asks again while its answer is on its way.
        sent = len(bench.tx_log)
        bench.put(*FRAMES, RetryReq(wr, 3))
        await bench.until(lambda b=bench: b.status()["rrsm"] == 1, 20)  # type: ignore[misc]
        await bench.clocks(rng.randrange(2, 6))
        bench.ready_rate = 0.0
        bench.put(*FRAMES, RetryReq(wr, 4))
        await bench.clocks(20)
        bench.ready_rate = 1.0
        await bench.clocks(40)
        assert [a.num_retry for a in bench.answers(sent)] == [3, 4], "one answer for each"
        assert bench.status()["rrsm"] == 0
        # A request from before a retrain is not answered after it: the peer asks again.
        bench.ready_rate = 0.0
        bench.answer_random(ndr=3)
        await bench.clocks(8)
        bench.put(*FRAMES, RetryReq(wr, 5))
        await bench.until(lambda b=bench: b.status()["rrsm"] == 1, 20)  # type: ignore[misc]
        await bench.cycle_phy()
        sent = len(bench.tx_log)
        bench.ready_rate = 1.0
        await bench.clocks(40)
        assert not bench.answers(sent), "an answer that a retrain has overtaken"


@link_test
async def counts_are_cleared(dut: Any) -> None:
    """Check that RETRY.Ack with Empty clears NUM_RETRY, and a good flit also NUM_PHY_REINIT.

    A RETRY.Ack without Empty clears neither. TIMEOUT counts flits only.
    """
    bench = await StateBench(dut, random.Random(cocotb.RANDOM_SEED).getrandbits(32)).up()
    first = await bench.lose()
    assert (first.num_retry, first.num_phy_reinit) == (1, 0)
    # Back-pressure: nothing leaves, so that no time passes for TIMEOUT.
    bench.ready_rate = 0.0
    await bench.clocks(3 * RETRY_TIMEOUT)
    assert bench.events["retry_timeout"] == 0, "the retry timer runs while nothing leaves"
    assert bench.lrsm == LOCAL_IDLE
    bench.ready_rate = 1.0
    sent = len(bench.tx_log)
    await bench.until(lambda: len(bench.requests(sent)) == 1, 2 * RETRY_TIMEOUT + 40)
    assert bench.requests(sent)[0].num_retry == 2

    async def again(answer: RetryAck, *more: ControlFlit) -> tuple[int, int]:
        """Receive an answer, lose a flit; return NUM_RETRY and NUM_PHY_REINIT of the request."""
        bench.put(*FRAMES, replace(answer, eseq=first.eseq), *more)
        await bench.until(lambda: bench.lrsm == NORMAL, 40)
        await bench.clocks(10 * len(more))
        lost = await bench.lose()
        return lost.num_retry, lost.num_phy_reinit

    told = await again(RetryAck(False, num_retry=2))
    assert told == (3, 0), "an answer without Empty leaves NUM_RETRY"
    told = await again(RetryAck(True, viral=True, num_retry=3))
    assert told == (1, 0), "an answer with Empty clears NUM_RETRY"
    # Exhausted once; then good flits come.
    await bench.until(lambda: bench.lrsm == PHY_REINIT, 12 * RETRY_TIMEOUT + 900)
    sent = len(bench.tx_log)
    await bench.cycle_phy()
    await bench.until(lambda: bool(bench.requests(sent)), 60)
    assert (bench.requests(sent)[0].num_retry, bench.requests(sent)[0].num_phy_reinit) == (1, 1)
    told = await again(RetryAck(False, num_retry=1))
    assert told == (2, 1), "an answer leaves both counts"
    told = await again(RetryAck(False, num_retry=2), Llcrd(0))
    assert told == (1, 0), "a good flit clears both counts"


@link_test
async def retrain_at_a_sequence(dut: Any) -> None:
    """Check that a RETRY sequence that a retrain cuts starts again with five frames.

    Nothing is received while the physical layer is down.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    for number in range(12):
        bench = await StateBench(dut, rng.getrandbits(32)).up()
        bench.ready_rate = float(number % 2)  # two flits of the sequence may wait at the pins
        bench.raw.append(bench.bad())
        await bench.until(lambda b=bench: b.lrsm == LLRREQ, 20)  # type: ignore[misc]
        await bench.clocks(number % 6)
        # Nothing is a flit while the physical layer is down.
        bench.set_phy(False)
        crc, seen, taken = bench.events["crc_error"], bench.driven_flits, len(bench.got.req)
        raw = M2SReq(ReqOp.MEM_RD, 1, 64).pack()
        bench.raw.extend([bench.bad(), (PID, slots_flit((5, 4, 4, 4), (raw, 0, 0, 0)))])
        await bench.clocks(rng.randrange(6, 9))
        assert bench.events["crc_error"] == crc, "a flit was taken while phy_up was low"
        assert bench.events["rx_flit"] == seen, "RX_FLIT counts while phy_up is low"
        bench.set_phy(True)
        bench.ready_rate = 1.0
        sent = len(bench.tx_log)
        await bench.clocks(30)
        log = bench.controls(sent)
        # The first flits may be what had left the sender before.
        place = max(i for i, c in enumerate(log) if isinstance(c, RetryReq))
        frames = 0
        while frames < place and log[place - 1 - frames] == RetryFrame():
            frames += 1
        assert 5 <= frames <= 7, f"{frames} frames before RETRY.Req after a retrain"
        assert len(bench.got.req) == taken
    fresh = RetryTestbench(dut, rng.getrandbits(32))
    await fresh.start()
    fresh.fill(20)
    await fresh.delivered(2000)
