# SPDX-License-Identifier: Apache-2.0
"""Memory agent: AXI4 subordinate (active), monitor of the device-memory port, and the AXI rules."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from pyuvm import uvm_agent, uvm_analysis_port, uvm_component

from verif.axi import Handshakes, clock_port
from verif.mem.memory_config import FULL_STROBE, MemBeat, MemConfig
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore

SIZE_64_BYTES = 6
BURST_INCR = 1
PAGE_LINES = 64
MAX_ERRORS = 20


@dataclass(slots=True)
class _Burst:
    axi_id: int
    line: int
    beats: int
    cycle: int
    done: int = 0


class AxiRules:
    """Checker of one AXI4 port, which also rebuilds the data beats of its bursts.

    Args:
        lines_log2: Size of the memory in lines of 64 bytes, as power of two.
        stuck_timeout: Cycles after which `stuck` reports a burst.

    Attributes:
        errors: Findings, MAX_ERRORS at most.
        beats: Completed beats, which the monitor takes away.
    """

    def __init__(self, lines_log2: int, stuck_timeout: int = 20000) -> None:
        self.lines = 1 << lines_log2
        self.stuck_timeout = stuck_timeout
        self.errors: list[str] = []
        self.beats: deque[MemBeat] = deque()
        self.handshakes = Handshakes()
        self._aw: deque[_Burst] = deque()
        self._w: deque[tuple[int, int, bool, bool]] = deque()
        self._await_b: dict[int, deque[tuple[_Burst, list[MemBeat]]]] = {}
        self._await_r: dict[int, deque[_Burst]] = {}
        self._collect: list[MemBeat] = []

    def _error(self, cycle: int, text: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(f"axi: cycle {cycle}: {text}")

    def _stable(
        self, cycle: int, name: str, valid: bool, ready: bool, payload: tuple[int, ...]
    ) -> None:
        wrong = self.handshakes.violation(name, valid, ready, payload)
        if wrong:
            self._error(cycle, wrong)

    def _burst(
        self, cycle: int, name: str, axi_id: int, addr: int, length: int, size: int, burst: int
    ) -> _Burst:
        line = addr >> 6
        if addr & 63:
            self._error(cycle, f"{name}ADDR {addr:#x} is not aligned to a line")
        if size != SIZE_64_BYTES:
            self._error(cycle, f"{name}SIZE is {size}, not 6 (64 bytes)")
        if burst != BURST_INCR:
            self._error(cycle, f"{name}BURST is {burst}, not INCR")
        if line % PAGE_LINES + length >= PAGE_LINES:
            self._error(cycle, f"{name} burst of {length + 1} at {addr:#x} crosses a 4 KB boundary")
        if line + length >= self.lines:
            self._error(cycle, f"{name} burst of {length + 1} at {addr:#x} leaves the memory")
        return _Burst(axi_id, line, length + 1, cycle)

    def aw(self, cycle: int, valid: bool, ready: bool, payload: tuple[int, ...]) -> None:
        """Check the write address channel in a cycle; payload is (id, addr, len, size, burst)."""
        self._stable(cycle, "AW", valid, ready, payload)
        if valid and ready:
            self._aw.append(self._burst(cycle, "AW", *payload))
            self._match_writes(cycle)

    def w(self, cycle: int, valid: bool, ready: bool, payload: tuple[int, ...]) -> None:
        """Check the write data channel in a cycle; payload is (data, strobe, last, poison).

        Data may come before its address.
        """
        self._stable(cycle, "W", valid, ready, payload)
        if valid and ready:
            data, strobe, last, poison = payload
            if not 0 <= strobe <= FULL_STROBE:
                self._error(cycle, f"WSTRB {strobe:#x} is wider than 64 bits")
            self._w.append((data, strobe, bool(last), bool(poison & 1)))
            self._match_writes(cycle)

    def _match_writes(self, cycle: int) -> None:
        while self._aw and self._w:
            burst = self._aw[0]
            data, strobe, last, poison = self._w.popleft()
            line = burst.line + burst.done
            self._collect.append(MemBeat(True, burst.axi_id, line, data, strobe, poison, 0))
            burst.done += 1
            if last != (burst.done == burst.beats):
                self._error(cycle, f"WLAST={int(last)} at beat {burst.done} of {burst.beats}")
            if burst.done == burst.beats:
                self._aw.popleft()
                self._await_b.setdefault(burst.axi_id, deque()).append((burst, self._collect))
                self._collect = []

    def b(self, cycle: int, valid: bool, ready: bool, payload: tuple[int, ...]) -> None:
        """Check the write response channel in a cycle; payload is (id, resp)."""
        self._stable(cycle, "B", valid, ready, payload)
        if not (valid and ready):
            return
        axi_id, resp = payload
        queue = self._await_b.get(axi_id)
        if not queue:
            self._error(cycle, f"write response for ID {axi_id} without a write")
            return
        burst, beats = queue.popleft()
        clocks = cycle - burst.cycle
        for beat in beats:
            last = beat is beats[-1]
            self.beats.append(replace(beat, resp=resp, answered=last, clocks=clocks, last=last))

    def ar(self, cycle: int, valid: bool, ready: bool, payload: tuple[int, ...]) -> None:
        """Check the read address channel in a cycle; payload is (id, addr, len, size, burst)."""
        self._stable(cycle, "AR", valid, ready, payload)
        if valid and ready:
            burst = self._burst(cycle, "AR", *payload)
            self._await_r.setdefault(burst.axi_id, deque()).append(burst)

    def r(self, cycle: int, valid: bool, ready: bool, payload: tuple[int, ...]) -> None:
        """Check the read data channel in a cycle; payload is (id, data, resp, last, poison).

        Bursts of one ID are answered in order.
        """
        self._stable(cycle, "R", valid, ready, payload)
        if not (valid and ready):
            return
        axi_id, data, resp, last, poison = payload
        queue = self._await_r.get(axi_id)
        if not queue:
            self._error(cycle, f"read data for ID {axi_id} without a read")
            return
        burst = queue[0]
        line = burst.line + burst.done
        burst.done += 1
        clocks, ended = cycle - burst.cycle, burst.done == burst.beats
        self.beats.append(
            MemBeat(False, axi_id, line, data, 0, bool(poison & 1), resp, True, clocks, ended)
        )
        if bool(last) != ended:
            self._error(cycle, f"RLAST={last} at beat {burst.done} of {burst.beats}")
        if ended:
            queue.popleft()

    def unknown(self, cycle: int, what: str) -> None:
        """Report that the signals `what` hold X or Z."""
        self._error(cycle, f"{what} holds X or Z")

    def stuck(self, cycle: int) -> None:
        """Report a read that is incomplete, or a write without all its data, after `stuck_timeout`
        cycles.
        """
        for queue in self._await_r.values():
            if queue and cycle - queue[0].cycle > self.stuck_timeout:
                self._error(cycle, f"read of line {queue[0].line:#x} stuck")
        if self._aw and cycle - self._aw[0].cycle > self.stuck_timeout:
            self._error(cycle, f"write of line {self._aw[0].line:#x} has no data")

    @property
    def outstanding(self) -> int:
        """Return the number of bursts that have begun and not ended; data without an address count
        as one.
        """
        reads = sum(len(q) for q in self._await_r.values())
        writes = sum(len(q) for q in self._await_b.values())
        return reads + writes + len(self._aw) + bool(self._w or self.handshakes.waiting())

    def finish(self, cycle: int) -> None:
        """Report unfinished bursts at the end of the test."""
        if self.outstanding:
            self._error(cycle, f"{self.outstanding} transaction(s) unfinished at the end")


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
