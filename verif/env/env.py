# SPDX-License-Identifier: Apache-2.0
"""The pyuvm environment: three agents (link, registers, memory), the host of sequences, register
predictor, scoreboard, coverage.
"""

import random
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, Event, FallingEdge, First, RisingEdge, Timer, ValueChange
from cocotb.utils import get_sim_time
from pyuvm import uvm_analysis_export, uvm_component, uvm_env

from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.errors import CxlError
from cocotbext.cxl.monitor import ObservedRequest, ObservedResponse
from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.uvm_agent import CxlMemAgent, CxlMemSequence
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage
from models.memory import MemoryLine
from verif.axi import AXI4, bind_port
from verif.coverage.device_coverage import NfCoverage
from verif.env import message_log, recorder
from verif.env.config import CLOCK_NS, EnvConfig, cxl_config
from verif.env.region_layout import RegionLayout
from verif.env.registers import Registers
from verif.env.rtl_packages import parameter
from verif.mem.memory_agent import MemAgent
from verif.mem.memory_config import MemBeat
from verif.regs.axil_agent import AxiLiteAccess, AxiLiteAgent
from verif.scoreboard.checkers_off import switched_off
from verif.scoreboard.link_state import LinkState
from verif.scoreboard.ranges import SETTLE_CLOCKS, Span
from verif.scoreboard.register_predictor import RegisterPredictor


def clock_now() -> int:
    """Return the number of the present cycle, from the simulation time."""
    return round(get_sim_time("ns")) // CLOCK_NS


class Sink(uvm_analysis_export):
    """Analysis export that calls a function with each item."""

    def __init__(self, name: str, parent: Any, function: Callable[[Any], None]) -> None:
        super().__init__(name, parent)
        self.function = function

    def write(self, item: Any) -> None:
        self.function(item)


class Host:
    """Host of sequences: sends requests, follows those in flight, and waits for responses.

    Requests go through the sequencer of the CXL agent; responses are those that the driver
    received. The scoreboard, not the host, checks them: it sees them through the monitor.
    """

    def __init__(self, line_key: Callable[[M2SMessage], Hashable | None]) -> None:
        """Start with no request in flight.

        Args:
            line_key: Returns the key of the line whose state a request touches, or None.
        """
        self.line_key = line_key
        self.busy: dict[Hashable, int] = {}
        self.flight: dict[Transaction, Hashable | None] = {}
        self._changed = Event()

    def connect(self, agent: CxlMemAgent) -> None:
        """Connect to the CXL agent; called in the connect phase."""
        self.agent = agent
        self.sequence: Any = CxlMemSequence("host")
        self.sequence.sequencer = agent.sequencer

    async def link_up(self) -> None:
        """Wait until the device has granted credits, so that requests can be sent."""
        await self.agent.host.wait_up()

    async def issue(
        self, msg: M2SMessage, limit: int | None = None, keep_tag: bool = False
    ) -> Transaction:
        """Pass a request to the driver, and return its transaction, whose `wait` gives the
        response.

        Args:
            msg: Request.
            limit: Wait until fewer requests than that are in flight on its line; None: do not wait.
            keep_tag: Send the tag of the request; else the driver chooses one.
        """
        key = self.line_key(msg)
        if limit is not None and key is not None:
            while self.busy.get(key, 0) >= limit:
                await self._change()
        if key is not None:
            self.busy[key] = self.busy.get(key, 0) + 1
        [transaction] = await self.sequence.issue_all([msg], keep_tag)
        self.flight[transaction] = key
        cocotb.start_soon(self._follow(transaction))
        return transaction

    async def _follow(self, transaction: Transaction) -> None:
        with suppress(CxlError):  # the calls that wait raise it
            await transaction.wait()
        key = self.flight.pop(transaction)
        if key is not None:
            self.busy[key] -= 1
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def call(self, msg: M2SMessage) -> S2MMessage | None:
        """Send a request and return its response; None if no response is due."""
        return await (await self.issue(msg)).wait()

    async def drain(self) -> None:
        """Wait until all requests have their responses."""
        while self.flight:
            await self._change()
        await self.agent.host.drain()

    async def drain_if(self, chosen: Callable[[M2SMessage], bool]) -> None:
        """Wait until no request in flight satisfies `chosen`."""
        while any(chosen(transaction.message) for transaction in self.flight):
            await self._change()


class NfEnv(uvm_env):
    """Environment of the controller; set `dut` and `cfg` before the build phase.

    Attributes:
        dut: Top level of the simulated design.
        cfg: Configuration of the run.
        trace: Requests and responses that the link monitor saw, if a test sets it to a list.
    """

    dut: Any
    cfg: EnvConfig

    def build_phase(self) -> None:
        cfg = self.cfg
        self.rng = random.Random(cfg.seed)
        self.failed = Event()
        self.trace: list[ObservedRequest | ObservedResponse] | None = None
        parts = cfg.parts
        self.layout = RegionLayout(cfg.hw, self.rng)
        self.mem = MemAgent("mem", self)
        self.mem.pins = bind_port(self.dut, "m_axi", AXI4)
        self.mem.cfg = cfg.mem
        self.mem.seed = cfg.seed
        self.mem.store_type = parts.store
        self.axil = AxiLiteAgent("axil", self)
        self.axil.dut = self.dut
        self.cxl = CxlMemAgent("cxl", self)
        self.cxl.bus = CxlMemBus.from_entity(self.dut)
        self.cxl.clock, self.cxl.reset = self.dut.clk, self.dut.rst_n
        self.cxl.cfg = self.link = cxl_config(cfg)
        self.cxl.judged = False  # errors() asks it: its check phase would hide the other checkers
        # The watchdog of the test is the checker of what the device does not answer in time.
        self.link.response_timeout = max(self.link.response_timeout, 3 * cfg.stuck_clocks)
        cfg.shape_link(self.link)
        if "link" in switched_off():
            self.link.waive = lambda _rule, _direction: True
        model = parts.model(cfg.hw, self._background)
        self.coverage = NfCoverage()
        self.scoreboard = parts.scoreboard(
            model,
            cfg.hw.regions,
            cfg.order_budget,
            clock_now,
            self.coverage,
            self._failed,
            lambda: not self.mem.idle,
        )
        self.coverage.watch(self.scoreboard)
        self.coverage.pair.marks_log2 = parameter("WRITTEN_LOG2")
        self.messages = message_log.from_environment(self.scoreboard)
        self.link_state = LinkState(clock_now, lambda: self.cxl.monitor.tracker.counters)
        self.predictor = parts.predictor(self.scoreboard, cfg.hw, self.link_state)
        self.irq = IrqMonitor("irq", self)
        self.irq.dut, self.irq.predictor = self.dut, self.predictor
        self.host = Host(model.line_key)

    def connect_phase(self) -> None:
        self.registers = Registers(self.axil.port, self.predictor, self.cfg.seed)
        self.host.connect(self.cxl)
        self.cxl.request_port.connect(Sink("request_sink", self, self._request))
        self.cxl.response_port.connect(Sink("response_sink", self, self._response))
        self.cxl.link_port.connect(Sink("link_sink", self, self.link_state.flit))
        self.cxl.link_port.connect(Sink("flit_sink", self, self.coverage.link.flit))
        self.cxl.phy_port.connect(Sink("phy_sink", self, self.coverage.link.phy))
        self.mem.monitor.ap.connect(Sink("mem_sink", self, self._beat))
        self.axil.monitor.begin_port.connect(Sink("begin_sink", self, self.predictor.begin))
        self.axil.monitor.ap.connect(Sink("axil_sink", self, self._register))
        for number, (port, function) in enumerate(recorder.listeners(self)):
            port.connect(Sink(f"recorder_{number}", self, function))

    async def run_phase(self) -> None:
        reset, phy = FallingEdge(self.dut.rst_n), FallingEdge(self.dut.phy_up)
        await RisingEdge(self.dut.rst_n)  # what falls before is left over from another test
        while True:
            if await First(reset, phy) is reset:
                self.predictor.reset()
            elif self.dut.rst_n.value == 1:
                self.link_state.retrain()

    def start_of_simulation_phase(self) -> None:
        hw, grants = self.cfg.hw, self.link.link
        own = {"Req": hw.req_credits, "RwD": hw.rwd_credits}
        given = {"NDR": grants.grant_plain, "DRS": grants.grant_data}
        self.coverage.link.bind(self.cxl.monitor.tracker, {**own, **given})

    def _request(self, observed: ObservedRequest) -> None:
        if self.trace is not None:
            self.trace.append(observed)
        if self.messages is not None:
            self.messages.request(observed)
        self.scoreboard.request(observed.message, observed.misframed)

    def _response(self, observed: ObservedResponse) -> None:
        if self.trace is not None:
            self.trace.append(observed)
        if self.messages is not None:
            self.messages.response(observed)
        self.scoreboard.response(observed.message)

    def _failed(self, found: str) -> None:
        self.failed.set()
        if self.messages is not None:
            self.messages.failure(found)

    def _background(self, line: int) -> MemoryLine:
        return MemoryLine(self.mem.store.background_line(line).to_bytes(64, "little"))

    def _beat(self, beat: MemBeat) -> None:
        self.coverage.beat(beat)
        if self.messages is not None:
            self.messages.beat(beat)
        self.scoreboard.memory_beat(beat)

    def _register(self, access: AxiLiteAccess) -> None:
        self.predictor.end(access)
        register = self.predictor.by_address.get(access.address & ~3)
        if register is not None:
            self.coverage.register(register.name, access.data, access.write)

    async def clocks(self, count: int) -> None:
        """Wait for a number of cycles."""
        await Timer(count * CLOCK_NS, "ns")

    def errors(self) -> list[str]:
        """Return the findings of all checkers at the end of the test; counters only without other
        findings.
        """
        scoreboard = self.scoreboard
        scoreboard.finish()
        if self.cfg.check_counters and not scoreboard.errors:
            self.predictor.finish()
            self._compare_credits()
        memory, link = self.mem.finish(), self.cxl.finish()
        memory = [] if "memory" in scoreboard.off else memory
        link = [] if "link" in scoreboard.off else link
        return [*scoreboard.errors, *memory, *self.axil.monitor.finish(), *link]

    def _compare_credits(self) -> None:
        """Report credits that a quiet device has not returned, or has returned twice (spec: link
        spec §3).
        """
        link, hw = self.cxl.host.link, self.cfg.hw
        if link.failed or not link.active:
            return
        for kind, have, granted in (
            ("Req", link.credits.plain, hw.req_credits),
            ("RwD", link.credits.data, hw.rwd_credits),
        ):
            if have != granted:
                text = f"{kind} CREDITS: the host has {have} of {granted} at the end of the test"
                self.scoreboard.error(text, f"link: {kind} credits at the end")


PERIOD = 200
"""Clocks between two looks at a pin that does not change."""


class IrqMonitor(uvm_component):
    """Monitor that checks the level of the interrupt pin; set `dut` and `predictor` before the run
    phase.
    """

    dut: Any
    predictor: RegisterPredictor

    async def run_phase(self) -> None:
        pin, clock = self.dut.irq, self.dut.clk
        change = ValueChange(pin)
        before: Span | None = None
        while True:
            moved = await First(change, ClockCycles(clock, PERIOD)) is change
            if self.dut.rst_n.value != 1:
                before = None
                continue
            want = self.predictor.interrupts.pin()
            if moved or before is None:
                await ClockCycles(clock, SETTLE_CLOCKS)  # its cause may be seen a little later
                before, want = want, self.predictor.interrupts.pin()
            self.judge(str(pin.value), before, want)
            before = want

    def judge(self, value: str, before: Span, after: Span) -> None:
        """Report a finding if the interrupt pin is unknown or outside its range.

        Args:
            value: Level of the pin: "0", "1", "x" or "z".
            before: Expected range at an earlier moment.
            after: Expected range now; the pin may have any level between the two.
        """
        if value not in "01":
            self.predictor.rules.report(f"IRQ pin is {value}")
        elif int(value) not in Span(min(before.low, after.low), max(before.high, after.high)):
            self.predictor.rules.report(f"IRQ pin is {value}, expected {after}")
