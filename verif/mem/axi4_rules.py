# SPDX-License-Identifier: Apache-2.0
"""AXI4 rules for the device-memory port, checked on sampled values without a simulator.

Each channel method is called for a cycle in which VALID of the channel is 1 or has just fallen.
Findings are texts in `errors`; the environment asserts that the list is empty.
"""

from collections import deque
from dataclasses import dataclass, replace

from verif.axi import Handshakes
from verif.mem.memory_config import FULL_STROBE, MemBeat

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
