# SPDX-License-Identifier: Apache-2.0
"""Transactions of the driver, observations of the monitor, sequence items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cocotb.triggers import Event
from pyuvm import uvm_sequence_item

from cocotbext.cxl.agent.errors import CxlError, ErrorLog
from cocotbext.cxl.wire.messages import Completion, M2SMessage, S2MMessage


class Transaction:
    """A request that was given to the driver; ``message`` has the tag that it travels under."""

    __slots__ = ("_errors", "_event", "aborted", "end", "expects", "message", "response", "start")

    def __init__(
        self, message: M2SMessage, expects: Completion, start: int, errors: ErrorLog
    ) -> None:
        self.message = message
        self.expects = expects
        self.start = start
        """Clock in which it was queued."""
        self.end = -1
        """Clock in which its response was complete; -1: not yet."""
        self.response: S2MMessage | None = None
        self.aborted = False
        """A reset came first."""
        self._errors = errors
        self._event: Event | None = None

    @property
    def done(self) -> bool:
        """Nothing more will happen to it."""
        return self.end >= 0 or self.aborted

    def finish(self, response: S2MMessage | None, clock: int) -> None:
        """Called by the driver."""
        self.response = response
        self.end = clock
        self.wake()

    def abort(self) -> None:
        """Called by the driver on a reset."""
        self.aborted = True
        self.wake()

    def wake(self) -> None:
        """Whoever waits looks again."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> S2MMessage | None:
        """Waits for the end; the response, or None where none is owed or a reset came first.

        CxlError: the link broke first. CxlTimeout: something has not come in time.
        """
        while not self.done:
            self._errors.check()
            if self._event is None:
                self._event = Event()
            await self._event.wait()
        return self.response


class _Requests(uvm_sequence_item):
    """Requests that the driver makes into transactions."""

    def __init__(self, messages: Iterable[M2SMessage], keep_tag: bool, name: str) -> None:
        super().__init__(name)
        self.messages = list(messages)
        self.keep_tag = keep_tag
        self.error: CxlError | None = None
        """Why the driver has not taken all of them."""
        self.taken: list[Transaction] = []
        """For the driver."""

    @property
    def transactions(self) -> list[Transaction]:
        """One a message, once the driver has taken them. CxlError: the link broke first."""
        if self.error is not None:
            raise self.error
        return self.taken


class CxlMemItem(_Requests):
    """One request. finish_item() returns when the driver has taken it, ``wait()`` at the end."""

    def __init__(self, message: M2SMessage, keep_tag: bool = False, name: str = "cxl") -> None:
        super().__init__([message], keep_tag, name)

    @property
    def response(self) -> S2MMessage | None:
        """The response, once there is one."""
        return self.taken[0].response if self.taken else None

    async def wait(self) -> S2MMessage | None:
        """Waits for the response."""
        return await self.transactions[0].wait()


class CxlBatchItem(_Requests):
    """Many requests in one item: far cheaper than one item each."""

    def __init__(
        self, messages: Iterable[M2SMessage], keep_tag: bool = False, name: str = "cxl_batch"
    ) -> None:
        super().__init__(messages, keep_tag, name)

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
