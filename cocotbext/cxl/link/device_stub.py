# SPDX-License-Identifier: Apache-2.0
"""Plain Type-3 memory with a DeviceLink, without a simulator; CxlMemDevice drives it onto pins.

Unsupported opcodes are answered as in link spec §5.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.messages import (
    BE_ALL,
    LINE_BYTES,
    S2MDRS,
    S2MNDR,
    ZERO_LINE,
    Completion,
    DrsOp,
    M2SMessage,
    M2SRwD,
    NdrOp,
    ReqOp,
    RwdOp,
    S2MMessage,
    completion_of,
    lines_of,
)


@dataclass(slots=True)
class PlainMemory:
    """Lines by line number (address / 64), each with its poison; unwritten lines are 0.

    ``size`` in bytes (0: no limit): a read beyond it is answered with poison, a write is dropped.
    """

    lines: dict[int, tuple[bytes, bool]] = field(default_factory=dict)
    size: int = 0

    def holds(self, address: int) -> bool:
        """Return True if the byte at ``address`` is within the memory."""
        return not self.size or address < self.size

    def respond(self, message: M2SMessage) -> S2MMessage | None:
        """Execute a request on the memory; return its response, or None if none is owed."""
        line = message.addr >> 6
        if isinstance(message, M2SRwD):
            if message.opcode in (RwdOp.MEM_WR, RwdOp.MEM_WR_PTL) and self.holds(message.addr):
                self._write(line, message)
            return S2MNDR(NdrOp.CMP, message.tag, message.ldid)
        kind = completion_of(message)
        if kind is Completion.NONE:
            return None
        if kind is Completion.NDR:
            return S2MNDR(NdrOp.CMP, message.tag, message.ldid)
        if message.opcode == ReqOp.MEM_RD_FWD or not self.holds(message.addr):
            data, poison = b"\xff" * LINE_BYTES, True
        else:
            data, poison = self.lines.get(line, (ZERO_LINE, False))
        return S2MDRS(DrsOp.MEM_DATA, message.tag, message.ldid, poison=poison, data=data)

    def read(self, address: int, length: int) -> bytes:
        """Return ``length`` bytes from byte ``address`` on, whether or not they are poisoned."""
        parts = lines_of(address, length)
        return b"".join(
            self.lines.get(line >> 6, (ZERO_LINE, False))[0][first : first + size]
            for line, first, size in parts
        )

    def write(self, address: int, data: bytes, poison: bool = False) -> None:
        """Set bytes from byte ``address`` on, and the poison of every line that has one of them."""
        at = 0
        for line, first, size in lines_of(address, len(data)):
            old, _ = self.lines.get(line >> 6, (ZERO_LINE, False))
            new = old[:first] + data[at : at + size] + old[first + size :]
            self.lines[line >> 6] = (new, poison)
            at += size

    def _write(self, line: int, message: M2SRwD) -> None:
        if message.opcode == RwdOp.MEM_WR or message.be == BE_ALL:
            self.lines[line] = (message.data, message.poison)
            return
        old, poison = self.lines.get(line, (ZERO_LINE, False))
        data = bytes(
            n if message.be >> i & 1 else o
            for i, (o, n) in enumerate(zip(old, message.data, strict=True))
        )
        self.lines[line] = (data, poison or message.poison)


ChangeResponse = Callable[[M2SMessage, S2MMessage | None], S2MMessage | None]
"""Function of (request, response of the memory) that returns the response to send."""


class DeviceStub:
    """DeviceLink and memory; a response follows ``latency`` (min, max) clocks after its request.

    Each function in ``on_request`` is called with each request; ``change_response`` returns the
    response that replaces that of the memory (None: send nothing).
    """

    def __init__(
        self,
        link: DeviceLink,
        latency: tuple[int, int] = (4, 4),
        rng: random.Random | None = None,
    ) -> None:
        self.link = link
        self.memory = PlainMemory()
        self.on_request: list[Callable[[M2SMessage], None]] = []
        self.change_response: ChangeResponse = lambda _request, response: response
        self._latency = latency
        self._rng = rng or random.Random(0)
        self._due: list[tuple[int, int, S2MMessage]] = []
        self._order = 0

    def reset(self) -> None:
        """Reset the link and drop pending responses; the memory keeps its lines."""
        self.link.reset()
        self._due.clear()

    def receive(self, protocol_id: int, flit: int) -> None:
        """Process a flit from the host: answer its requests, each after its latency."""
        for message in self.link.receive(protocol_id, flit):
            for take in self.on_request:
                take(message)
            response = self.change_response(message, self.answer(message))
            if response is not None:
                self._order += 1
                due = self.link.now + self._rng.randint(*self._latency)
                heapq.heappush(self._due, (due, self._order, response))

    def answer(self, message: M2SMessage) -> S2MMessage | None:
        """Execute a request on the memory and return its response, or None; to be overridden."""
        return self.memory.respond(message)

    def next_flit(self, ready: bool = True) -> WireFlit | None:
        """Advance by one clock and return the flit to send, or None.

        ``ready`` = False stalls the wire: nothing is sent.
        """
        while self._due and self._due[0][0] <= self.link.now:
            self.link.send(heapq.heappop(self._due)[2])
        if not ready:
            self.link.stall()
            return None
        return self.link.next_flit()

    @property
    def idle(self) -> bool:
        """Return True if no response is pending and the link has nothing to send."""
        return not self._due and self.link.tx_idle
