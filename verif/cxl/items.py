# SPDX-License-Identifier: Apache-2.0
"""Transactions of the driver, observations of the monitor, sequence items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cocotb.triggers import Event
from pyuvm import uvm_sequence_item

from models.cxl.messages import Completion, M2SMessage, S2MMessage


class Transaction:
    """A request that was given to the driver; ``message`` has the tag that it travels under."""

    __slots__ = ("_event", "aborted", "end", "expects", "message", "response", "start")

    def __init__(self, message: M2SMessage, expects: Completion, start: int) -> None:
        self.message = message
        self.expects = expects
        self.start = start
        """Clock in which it was queued."""
        self.end = -1
        """Clock in which its response was complete; -1: not yet."""
        self.response: S2MMessage | None = None
        self.aborted = False
        """A reset came first."""
        self._event: Event | None = None

    @property
    def done(self) -> bool:
        """Nothing more will happen to it."""
        return self.end >= 0 or self.aborted

    def finish(self, response: S2MMessage | None, clock: int) -> None:
        """Called by the driver."""
        self.response = response
        self.end = clock
        if self._event is not None:
            self._event.set()

    def abort(self) -> None:
        """Called by the driver on a reset."""
        self.aborted = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> S2MMessage | None:
        """Waits for the end; the response, or None where none is owed or a reset came first."""
        if not self.done:
            if self._event is None:
                self._event = Event()
            await self._event.wait()
        return self.response


class CxlMemItem(uvm_sequence_item):
    """One request. finish_item() returns when the driver has taken it, ``wait()`` at the end."""

    def __init__(self, message: M2SMessage, keep_tag: bool = False, name: str = "cxl") -> None:
        super().__init__(name)
        self.messages: list[M2SMessage] = [message]
        self.keep_tag = keep_tag
        self.transactions: list[Transaction] = []

    @property
    def response(self) -> S2MMessage | None:
        """The response, once there is one."""
        return self.transactions[0].response if self.transactions else None

    async def wait(self) -> S2MMessage | None:
        """Waits for the response."""
        return await self.transactions[0].wait()


class CxlBatchItem(uvm_sequence_item):
    """Many requests in one item: far cheaper than one item each."""

    def __init__(
        self, messages: Iterable[M2SMessage], keep_tag: bool = False, name: str = "cxl_batch"
    ) -> None:
        super().__init__(name)
        self.messages = list(messages)
        self.keep_tag = keep_tag
        self.transactions: list[Transaction] = []

    async def wait(self) -> list[S2MMessage | None]:
        """Waits for all responses, in the order of the requests."""
        return [await transaction.wait() for transaction in self.transactions]


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """An M2S message, complete on the pins in clock ``cycle``; ``misframed``: illegal Sz / BE."""

    message: M2SMessage
    cycle: int
    time_ns: float
    misframed: bool = False


@dataclass(frozen=True, slots=True)
class ObservedResponse:
    """An S2M message, complete on the pins in clock ``cycle``."""

    message: S2MMessage
    cycle: int
    time_ns: float
