# SPDX-License-Identifier: Apache-2.0
"""Errors that end a link, that the CRC detects, and that it cannot detect (link spec §2, §9)."""

from itertools import product
from typing import Any

import cocotb

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.faults import FaultKind, FaultRule, random_flips
from cocotbext.cxl.wire.crc import crc_ok, seal
from cocotbext.cxl.wire.flits import Direction, WireFlit, chunks_of_line
from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.register_map import REG_MAP
from verif.env.base_test import run_negative
from verif.env.config import EnvConfig
from verif.tests.decorator import nf_test
from verif.tests.link_base_test import ICARUS, RETRY_TIMEOUT, HandMadeTest, LinkTest
from verif.tests.link_messages import data_flit, slots_flit

_ABORT, _KIND_ABORT = REG_MAP.enums["Lrsm"]["ABORT"], REG_MAP.enums["LinkError"]["ABORT"]
REGS = REG_MAP.expand()


class Abort(LinkTest):
    """Test of ABORT, after ten times 10 unanswered retries and a retrain, and of a reset."""

    shows = "test_link_errors::link_abort_and_reset"
    rules = (
        FaultRule(FaultKind.FLIP_1, Direction.M2S, places=(0,)),
        FaultRule(FaultKind.SILENT_LOSS, Direction.M2S, rate=1.0),
    )

    def shape(self, cfg: CxlConfig) -> None:
        super().shape(cfg)
        cfg.link.retry_timeout = 1 << 40  # the host asks for no retrain
        cfg.link.idle_flit_rate = 0.05

    async def scenario(self) -> None:
        registers, dut = self.env.registers, self.dut
        await self.some_traffic()
        await registers.write("IRQ_ENABLE.LINK_ERROR", 1)
        await registers.write("LINK_ERR_INFO.VALID", 1)
        self.faults.armed = True
        flying = self.env.cxl.host.submit(M2SReq(ReqOp.MEM_RD, 0, 64))  # never comes to the pins
        tries = 11 * 10 * (RETRY_TIMEOUT + 40)
        await self.until(self._aborted, 2 * tries, "ABORT")
        got = await self.read("LINK_STATE", "LINK_ERR_INFO", "STATUS", "IRQ_STATUS", "PHY_REINIT")
        got |= await self.read("CRC_ERROR", "RETRY_LOCAL", "RETRY_TIMEOUT")
        self.logger.info("aborted: %s", got)
        fields = {name: REGS[name].unpack(word) for name, word in got.items()}
        assert fields["LINK_STATE"]["LRSM"] == _ABORT
        assert fields["LINK_STATE"]["ABORTED"]
        assert not fields["STATUS"]["LINK_UP"], "link_up in ABORT"
        assert got["PHY_REINIT"] == 10
        assert fields["LINK_ERR_INFO"]["VALID"]
        assert fields["IRQ_STATUS"]["LINK_ERROR"]
        assert dut.irq.value == 1, "no interrupt"
        assert fields["LINK_ERR_INFO"]["KIND"] in (1, _KIND_ABORT), "the first error is kept"
        # Quiet, whatever comes in; readable and writable by registers.
        self.faults.armed = False
        before = await self.read("TX_FLIT")
        await self.env.clocks(400)
        assert await self.read("TX_FLIT") == before, "it still talks"
        await registers.write("CAP_WINDOW", 32)
        assert await registers.read("CAP_WINDOW") == 32
        assert not flying.done
        dut.rst_n.value = 0
        await self.env.clocks(5)
        dut.rst_n.value = 1
        await self.env.host.link_up()
        assert flying.aborted, "the driver has told the request's owner"
        state = await self.read("LINK_STATE", "LINK_ERR_INFO", "RETRY_LOCAL", "CRC_ERROR", "STATUS")
        assert state == dict.fromkeys(state, 0) | {"STATUS": 1}, state
        await self.some_traffic()

    def _aborted(self) -> bool:
        # Registers take clocks to read: the pins tell the same.
        now = self.env.cxl.monitor.tracker.counters["TX_FLIT"]
        if now != self._sent:
            self._sent, self._since = now, self.env.cxl.monitor.cycle
        return self.env.cxl.monitor.cycle - self._since > 600

    _sent = _since = 0


class Flood(LinkTest):
    """Base of tests with damaged random flits among good ones, and the device's counters."""

    seen = 0

    def shape(self, cfg: CxlConfig) -> None:
        super().shape(cfg)
        cfg.link.max_retry = 31
        cfg.link.retry_depth = 64

    async def flood(self, patterns: list[int]) -> None:
        """Send random flits with error patterns (528 bits); check that each is a CRC error."""
        rng, driver = self.env.rng, self.env.cxl.host
        before = await self.read("CRC_ERROR", "PROTOCOL_ERROR")
        for start in range(0, len(patterns), 50):
            for pattern in patterns[start : start + 50]:
                flit = seal(rng.getrandbits(512)) ^ pattern
                assert not crc_ok(flit)
                driver.inject(flit)
            await self.some_traffic(1)
            await self.until(lambda: self.host.tx_idle, 40 * RETRY_TIMEOUT, "end of the flood")
        await self.env.clocks(200)
        rise = await self.rise(before)
        assert rise == {"CRC_ERROR": len(patterns), "PROTOCOL_ERROR": 0}, f"{rise} seen"


class IllegalSize(HandMadeTest):
    """Test of writes whose bits Sz or BE do not fit the opcode, among others that are right."""

    shows = "test_link_errors::link_illegal_size"
    waived = ("framing",)

    async def scenario(self) -> None:
        rng, run = self.env.rng, self.memory()
        kinds = [*product((RwdOp.MEM_WR, RwdOp.MEM_WR_PTL), (False, True), (False, True))]
        before = await self.read("UNSUPPORTED", "PROTOCOL_ERROR")
        wrong = 0
        for op, sz, be in rng.sample(2 * kinds, 2 * len(kinds)):
            addr = rng.randrange(8) << 6
            await run.write(addr, self.line())
            await run.drain()
            wrong += not sz or be != (op is RwdOp.MEM_WR_PTL)
            await self.send(op, addr, sz, be)
            await self.check(addr)
        assert await self.rise(before) == dict.fromkeys(before, wrong)

    async def send(self, op: RwdOp, addr: int, sz: bool, be: bool) -> None:
        """Send a write made by hand, its header in slot 2; the scoreboard predicts the response."""
        driver, enables = self.env.cxl.host, self.env.rng.getrandbits(64)
        write = M2SRwD(op, 0x740, addr, data=self.line(), be=enables if be else BE_ALL)
        d = chunks_of_line(write.data)
        head = slots_flit((5, 4, 5, 0), (0, 0, write.pack(), d[0]), sz, be)
        done = driver.inject(head, retryable=True, data=1, expect=[write])
        rest = data_flit(*d[1:], enables) if be else slots_flit((5, 0, 0, 0), (0, *d[1:]), sz=True)
        driver.inject(rest, retryable=True)
        await done[0].wait()


class SilentTest(LinkTest):
    """Negative twin: undetected loss of a request's flit, which sequence numbers cannot show.

    It must end in an error of a checker, never in silence.
    """

    way = Direction.M2S

    def configure(self, cfg: EnvConfig) -> None:
        super().configure(cfg)
        cfg.check_counters = False  # the end of the test, which reads them, is skipped

    def plan(self) -> tuple[FaultRule, ...]:
        def chosen(wire: WireFlit) -> bool:
            return not wire[1] & 1  # a protocol flit

        return (FaultRule(FaultKind.SILENT_LOSS, self.way, places=(0,), where=chosen),)

    async def scenario(self) -> None:
        await self.some_traffic(5)
        await self.env.clocks(200)
        self.hit()
        cxl = self.env.cxl
        flying = [cxl.host.submit(M2SReq(ReqOp.MEM_RD, 0, 64))]
        await self.env.clocks(300)
        flying += [cxl.host.submit(M2SReq(ReqOp.MEM_RD, 0, 64 * k)) for k in range(8)]
        await self.env.clocks(1500)
        told = [*cxl.host.finish(), *cxl.monitor.errors]
        late = not all(one.done for one in flying)
        self.logger.info("unanswered: %s; told: %s", late, told[:3])
        assert told or not late, "a request is unanswered and nobody says so"

    async def finish(self) -> None:
        """Skip the wait for responses: some of them never come."""

    def hit(self) -> None:
        """Let the planned fault hit the next flit that it may hit."""
        self.faults.armed = True


class SilentLossUp(SilentTest):
    """Negative twin: the flit of a response is lost, without an error to detect."""

    way = Direction.S2M


class SilentCopyDown(SilentTest):
    """Negative twin: the host sends the flit of a request twice, without an error to detect."""

    def plan(self) -> tuple[FaultRule, ...]:
        return (FaultRule(FaultKind.FLIP_1, places=(1 << 40,)),)

    def hit(self) -> None:
        self.host.repeat_sent()


class SilentCopyUp(SilentCopyDown):
    """Negative twin: the host receives the flit of a response twice, without an error to detect."""

    def hit(self) -> None:
        self.host.repeat_received()


@nf_test(Abort)
def link_abort_and_reset() -> None:
    """Check that ABORT leaves a quiet link, registers and an interrupt; a reset restores it."""


@nf_test(Flood)
async def link_three_bit_errors(test: Flood) -> None:
    """Check that 10,000 (Icarus: 600) random 3-bit errors are detected."""
    count = round((600 if ICARUS else 10_000) * min(1.0, test.cfg.scale))
    await test.flood([random_flips(test.env.rng, 3) for _ in range(count)])
    test.figure("three_bit_errors_detected", count)
    await test.some_traffic()


@nf_test(Flood)
async def link_beyond_crc(test: Flood) -> None:
    """Check that dense errors are counted, but for those that are code words: these stay unseen.

    About one dense error in 2^16 is a code word, and such a flit is like any other; one is made
    here. The share of escapes is judged in cocotbext/cxl.
    """
    rng, host = test.env.rng, test.env.cxl.host
    count = round((200 if ICARUS else 2_000) * min(1.0, test.cfg.scale))
    patterns = [rng.getrandbits(528) | 1 for _ in range(count)]
    escapes = [p for p in patterns if crc_ok(p)]  # linear: a code word more is a code word
    await test.flood([p for p in patterns if not crc_ok(p)])
    # An error that is a code word: the address is another one and nobody can know.
    await test.some_traffic()
    sent = M2SReq(ReqOp.MEM_RD, 0x1234, 3 << 6)
    pattern = seal(1 << 32 + 28 + 2)  # address bit 7 (word 2 of it) and the CRC bits
    before = await test.read("CRC_ERROR")
    flit = slots_flit((5, 4, 4, 4), (sent.pack(), 0, 0, 0)) ^ pattern
    answer = await host.inject(flit, retryable=True, plain=1, expect=[sent])[0].wait()
    assert isinstance(answer, S2MDRS)
    assert await test.read("CRC_ERROR") == before, "it is not seen"
    test.figure("beyond_crc", {"errors": count, "escapes": len(escapes), "made": 1})
    test.logger.info("%d escapes, expected %.3f", len(escapes), count / 65536)


@nf_test(IllegalSize)
def link_illegal_size() -> None:
    """Check that a write with a wrong Sz or BE bit changes nothing, is answered, and is counted."""


@cocotb.test()
async def link_silent_loss(_dut: Any) -> None:
    """Check that an undetected loss of a flit, either way, is reported as a missing response."""
    await run_negative(SilentTest, "no response for")
    await run_negative(SilentLossUp, "no response for")


@cocotb.test()
async def link_silent_copy(_dut: Any) -> None:
    """Check that an undetected copy of a flit, either way, is reported as a second response."""
    await run_negative(SilentCopyDown, "second response")
    await run_negative(SilentCopyUp, "second response")
