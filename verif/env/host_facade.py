# SPDX-License-Identifier: Apache-2.0
"""Host of sequences: sends a request, waits for its response, waits for all responses.

Requests go through the sequencer of the CXL agent; responses are those that the driver received.
Checking is not done here: the scoreboard has its own view, from the monitor.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import cocotb
from cocotb.triggers import Event

from cocotbext.cxl.errors import CxlError
from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.uvm_agent import CxlMemAgent, CxlMemSequence
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage


class Host:
    """Host of the tests: sends requests over the CXL agent and follows those in flight."""

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

    async def issue(self, msg: M2SMessage, limit: int | None = None) -> Transaction:
        """Pass a request to the driver, and return its transaction, whose `wait` gives the
        response.

        Args:
            msg: Request; the driver chooses its tag.
            limit: Wait until fewer requests than that are in flight on its line; None: do not wait.
        """
        key = self.line_key(msg)
        if limit is not None and key is not None:
            while self.busy.get(key, 0) >= limit:
                await self._change()
        if key is not None:
            self.busy[key] = self.busy.get(key, 0) + 1
        [transaction] = await self.sequence.issue_all([msg])
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
