# SPDX-License-Identifier: Apache-2.0
"""AXI4-Lite agent: manager over cocotbext-axi, and a monitor that samples the pins by itself."""

from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyuvm

from verif.axi import AXI4_LITE, Handshakes, Resp, bind_port, clock_port
from verif.regs.axil import PREFIX, AxiLitePort

READ_WAIT = 32
"""Clocks within which a read is answered: it waits for one write of the control window, 16 words at
most, but for no commit (spec: registers, STATUS.COMMIT_BUSY).
"""


@dataclass(slots=True, eq=False)
class AxiLiteAccess:
    """Access on the register bus.

    Attributes:
        write: Whether it is a write.
        address: Byte address.
        data: Data of a write, or of a read once it is answered.
        strobe: Byte strobes of a write.
        resp: Response, once it is answered.
        since: Value that a listener of `begin_port` stores for the end of the access.
    """

    write: bool
    address: int
    data: int = 0
    strobe: int = 0
    resp: Resp = Resp.OKAY
    since: Any = None


class AxiLiteMonitor(pyuvm.uvm_component):
    """Monitor of the register bus.

    `begin_port` publishes each access when it is accepted (a write: address and data), `ap` when it
    is answered; violations of the channel rules are added to `errors`.

    Rules: VALID is known, and stays with an unchanged payload until READY; a response answers an
    accepted request; RVALID comes within `read_wait` clocks.
    """

    pins: SimpleNamespace
    read_wait = READ_WAIT

    def build_phase(self) -> None:
        self.begin_port = pyuvm.uvm_analysis_port("begin_port", self)
        self.ap = pyuvm.uvm_analysis_port("ap", self)
        self.errors: list[str] = []
        self.accesses = 0
        self._handshakes = Handshakes()
        self._where = ""
        self._clear()

    def _clear(self) -> None:
        self._handshakes.clear()
        self._aw: deque[int] = deque()
        self._w: deque[tuple[int, ...]] = deque()
        self._writes: deque[AxiLiteAccess] = deque()
        self._reads: deque[AxiLiteAccess] = deque()
        self._waited = 0

    async def run_phase(self) -> None:
        await clock_port(self.pins, self._step, self._clear)

    def _step(self) -> bool:
        """Check one cycle; return False if nothing is in progress on the bus."""
        try:
            return self._sample() or self._open
        except ValueError:
            text = f"AXI4-Lite: a signal of channel {self._where} that must be known is X or Z"
            self.errors.append(text)
            return True

    def _sample(self) -> bool:
        p = self.pins
        aw = self._channel("AW", p.awvalid, p.awready, (p.awaddr,))
        w = self._channel("W", p.wvalid, p.wready, (p.wdata, p.wstrb))
        ar = self._channel("AR", p.arvalid, p.arready, (p.araddr,))
        # Responses first: one that comes with its own request would answer nothing.
        b = self._channel("B", p.bvalid, p.bready, (p.bresp,))
        r = self._channel("R", p.rvalid, p.rready, (p.rresp, p.rdata))
        if b:
            if self._writes:
                self._end(self._writes.popleft(), Resp(b[0]))
            else:
                self.errors.append(f"AXI4-Lite: write response {b[0]:#x} answers no write")
        if r:
            if self._reads:
                self._reads[0].data = r[1]
                self._end(self._reads.popleft(), Resp(r[0]))
            else:
                self.errors.append(f"AXI4-Lite: read data {r[1]:#x} answer no read")
        self._waited = self._waited + 1 if self._reads and not int(p.rvalid.value) else 0
        if self._waited == self.read_wait:
            address = self._reads[0].address
            self.errors.append(f"AXI4-Lite: no data of {address:#x} after {self._waited} clocks")
        if aw:
            self._aw.append(aw[0])
        if w:
            self._w.append(w)
        if self._aw and self._w:
            data, strobe = self._w.popleft()
            self._begin(self._writes, AxiLiteAccess(True, self._aw.popleft(), data, strobe))
        if ar:
            self._begin(self._reads, AxiLiteAccess(False, ar[0]))
        return self._handshakes.waiting() or bool(aw or w or ar or b or r)

    def _channel(
        self, name: str, valid: Any, ready: Any, payload: tuple[Any, ...]
    ) -> tuple[int, ...] | None:
        """Check one channel in this cycle.

        Args:
            name: Name of the channel: "AW", "W", "B", "AR" or "R".
            valid: Handle of VALID.
            ready: Handle of READY.
            payload: Handles of the payload.

        Returns:
            The payload if it is transferred in this cycle, else None.

        Raises:
            ValueError: A signal that must be known is X or Z.
        """
        self._where = name
        is_valid = bool(int(valid.value))
        values = tuple([int(handle.value) for handle in payload]) if is_valid else ()
        taken = is_valid and bool(int(ready.value))
        wrong = self._handshakes.violation(name, is_valid, taken, values)
        if wrong:
            self.errors.append(f"AXI4-Lite: {wrong}")
        return values if taken else None

    @property
    def _open(self) -> bool:
        """Return whether an accepted access, or a part of a write, has no response yet."""
        return bool(self._aw or self._w or self._writes or self._reads)

    def _begin(self, queue: deque[AxiLiteAccess], access: AxiLiteAccess) -> None:
        queue.append(access)
        self.begin_port.write(access)

    def _end(self, access: AxiLiteAccess, resp: Resp) -> None:
        access.resp = resp
        self.accesses += 1
        self.ap.write(access)

    def finish(self) -> list[str]:
        """Report unanswered accesses, and return the findings of the whole run."""
        if self._open or self._handshakes.waiting():
            left = [f"read of {one.address:#x}" for one in self._reads]
            left += [f"write of {one.address:#x}" for one in self._writes]
            left += [f"address {address:#x} without data" for address in self._aw]
            left += [f"data {word[0]:#x} without address" for word in self._w]
            text = ", ".join(left or ["VALID waits for READY"])
            self.errors.append(f"AXI4-Lite: not answered by the end of the test: {text}")
        return self.errors


class AxiLiteAgent(pyuvm.uvm_agent):
    """Agent of the register bus; set `dut` (the design) before the build phase.

    `port` issues accesses, `monitor.ap` publishes each answered `AxiLiteAccess`.
    """

    dut: Any

    def build_phase(self) -> None:
        super().build_phase()
        self.monitor = AxiLiteMonitor("monitor", self)
        self.monitor.pins = bind_port(self.dut, PREFIX, AXI4_LITE)
        self.port = AxiLitePort(self.dut)
