# SPDX-License-Identifier: Apache-2.0
"""Passive side of the memory agent: samples the port, checks the rules, publishes beats."""

from __future__ import annotations

from cocotb.triggers import First, RisingEdge
from pyuvm import uvm_analysis_port, uvm_component

from verif.mem.axi4_rules import AxiRules
from verif.mem.pins import AxiPins

_STUCK_PERIOD = 1024


class MemMonitor(uvm_component):
    """`pins` and `rules` are set by the agent. Publishes `MemBeat` items on `ap`."""

    pins: AxiPins
    rules: AxiRules

    def build_phase(self) -> None:
        self.ap = uvm_analysis_port("ap", self)
        self.cycle = 0

    async def run_phase(self) -> None:
        pins = self.pins
        edge = RisingEdge(pins.clk)
        wake = (RisingEdge(pins.awvalid), RisingEdge(pins.wvalid), RisingEdge(pins.arvalid))
        while True:
            await edge
            if pins.rst_n.value != 1:
                continue
            self.cycle += 1
            try:
                busy = self._sample()
            except ValueError:
                self.rules.unknown(self.cycle, self._where)
                continue
            rules = self.rules
            while rules.beats:
                self.ap.write(rules.beats.popleft())
            if self.cycle % _STUCK_PERIOD == 0:
                rules.stuck(self.cycle)
            if not busy and not rules.outstanding:
                await First(*wake)

    def _sample(self) -> bool:
        pins, rules, cycle = self.pins, self.rules, self.cycle
        held = rules._held
        busy = False
        payload: tuple[int, ...]
        self._where = "AWVALID/AWREADY"
        if int(pins.awvalid.value):
            busy = True
            self._where = "AW payload"
            payload = (
                int(pins.awid.value),
                int(pins.awaddr.value),
                int(pins.awlen.value),
                int(pins.awsize.value),
                int(pins.awburst.value),
            )
            rules.aw(cycle, True, bool(int(pins.awready.value)), payload)
        elif "AW" in held:
            rules.aw(cycle, False, False, ())
        self._where = "WVALID/WREADY"
        if int(pins.wvalid.value):
            busy = True
            self._where = "W payload"
            payload = (
                int(pins.wdata.value),
                int(pins.wstrb.value),
                int(pins.wlast.value),
                int(pins.wuser.value) & 1,
            )
            rules.w(cycle, True, bool(int(pins.wready.value)), payload)
        elif "W" in held:
            rules.w(cycle, False, False, ())
        self._where = "ARVALID/ARREADY"
        if int(pins.arvalid.value):
            busy = True
            self._where = "AR payload"
            payload = (
                int(pins.arid.value),
                int(pins.araddr.value),
                int(pins.arlen.value),
                int(pins.arsize.value),
                int(pins.arburst.value),
            )
            rules.ar(cycle, True, bool(int(pins.arready.value)), payload)
        elif "AR" in held:
            rules.ar(cycle, False, False, ())
        self._where = "BREADY/RREADY"
        if int(pins.bvalid.value):
            payload = (int(pins.bid.value), int(pins.bresp.value))
            rules.b(cycle, True, bool(int(pins.bready.value)), payload)
        if int(pins.rvalid.value):
            ready = bool(int(pins.rready.value))
            payload = (
                int(pins.rid.value),
                int(pins.rdata.value) if ready else 0,
                int(pins.rresp.value),
                int(pins.rlast.value),
                int(pins.ruser.value) & 1,
            )
            # The data of a waiting beat is this agent's own: only a taken beat is read whole.
            held.pop("R", None)
            rules.r(cycle, True, ready, payload)
        return busy
