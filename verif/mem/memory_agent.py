# SPDX-License-Identifier: Apache-2.0
"""Memory agent: AXI4 subordinate (active) and monitor of the device-memory port."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyuvm import uvm_agent, uvm_analysis_port, uvm_component

from verif.axi import clock_port
from verif.mem.axi4_rules import AxiRules
from verif.mem.memory_config import MemConfig
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore

# Passive side of the memory agent: samples the port, checks the rules, publishes beats.

_STUCK_PERIOD = 1024
_REQUESTS = (
    ("AW", "awid awaddr awlen awsize awburst"),
    ("W", "wdata wstrb wlast wuser"),
    ("AR", "arid araddr arlen arsize arburst"),
)
_Rule = Callable[[int, bool, bool, tuple[int, ...]], None]


class MemMonitor(uvm_component):
    """Monitor of the memory port: samples its channels, checks the AXI4 rules, publishes beats.

    The agent sets `pins` and `rules`; the analysis port `ap` publishes `MemBeat` items.
    """

    pins: SimpleNamespace
    rules: AxiRules

    def build_phase(self) -> None:
        self.ap = uvm_analysis_port("ap", self)
        self.cycle = 0

    def start_of_simulation_phase(self) -> None:
        pins = vars(self.pins)
        self._requests: list[tuple[str, _Rule, Any, Any, list[Any]]] = [
            (
                name,
                getattr(self.rules, name.lower()),
                pins[f"{name.lower()}valid"],
                pins[f"{name.lower()}ready"],
                [pins[signal] for signal in payload.split()],
            )
            for name, payload in _REQUESTS
        ]

    async def run_phase(self) -> None:
        await clock_port(self.pins, self._step)

    def _step(self) -> bool:
        """Check one cycle; return False if nothing is in progress on the port."""
        rules = self.rules
        self.cycle += 1
        try:
            busy = self._sample()
        except ValueError:
            rules.unknown(self.cycle, self._where)
            return True
        while rules.beats:
            self.ap.write(rules.beats.popleft())
        if self.cycle % _STUCK_PERIOD == 0:
            rules.stuck(self.cycle)
        return bool(busy or rules.outstanding)

    def _sample(self) -> bool:
        pins, rules, cycle = self.pins, self.rules, self.cycle
        busy = False
        for name, rule, valid, ready, payload in self._requests:
            self._where = f"{name}VALID/{name}READY"
            if int(valid.value):
                busy = True
                self._where = f"{name} payload"
                values = tuple([int(handle.value) for handle in payload])
                rule(cycle, True, bool(int(ready.value)), values)
            elif rules.handshakes.waiting(name):
                rule(cycle, False, False, ())
        self._where = "BREADY/RREADY"
        if int(pins.bvalid.value):
            response = (int(pins.bid.value), int(pins.bresp.value))
            rules.b(cycle, True, bool(int(pins.bready.value)), response)
        # The data of a waiting beat is this agent's own: only a beat that is taken is read.
        if int(pins.rvalid.value) and int(pins.rready.value):
            handles = (pins.rid, pins.rdata, pins.rresp, pins.rlast, pins.ruser)
            rules.r(cycle, True, True, tuple([int(handle.value) for handle in handles]))
        return busy


class MemAgent(uvm_agent):
    """Memory agent; set `pins`, `cfg`, `seed` and `store_type` between construction and the build
    phase.

    A type override of `MemResponder` by the UVM factory changes how the memory answers.
    """

    pins: SimpleNamespace
    cfg: MemConfig
    seed: int = 0
    store_type: type[MemStore] = MemStore

    def build_phase(self) -> None:
        self.store = self.store_type(self.cfg.background, self.seed)
        self.rules = AxiRules(self.cfg.lines_log2, self.cfg.stuck_timeout)
        self.responder = MemResponder.create("responder", self)
        self.monitor = MemMonitor("monitor", self)

    def connect_phase(self) -> None:
        self.responder.pins = self.monitor.pins = self.pins
        self.responder.cfg = self.cfg
        self.responder.store = self.store
        self.responder.rng.seed(self.seed)
        self.monitor.rules = self.rules

    @property
    def idle(self) -> bool:
        """Return whether no transaction is pending in the memory."""
        return self.responder.idle

    def finish(self) -> list[str]:
        """Report unfinished transactions, and return the findings of the whole run."""
        self.rules.finish(self.monitor.cycle)
        return self.rules.errors
