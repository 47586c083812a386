# SPDX-License-Identifier: Apache-2.0
"""Requests that are owed a response: their tags, and the pairing of responses with requests."""

from __future__ import annotations

import random
from collections import deque

from cocotb.triggers import Event

from cocotbext.cxl.errors import CxlError, ErrorLog
from cocotbext.cxl.link.response_key import Key, channel, key_of, stray
from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.messages import Completion, M2SMessage, S2MMessage, completion_of

_TAGS = 1 << 16
_NAMED = 3  # requests that a text names


class Transaction:
    """Request that was queued in a host, and its response once it arrived.

    ``message`` is the request with the tag that is sent, ``expects`` the kind of completion owed.
    """

    __slots__ = ("_errors", "_event", "aborted", "end", "expects", "message", "response", "start")

    def __init__(
        self, message: M2SMessage, expects: Completion, start: int, errors: ErrorLog
    ) -> None:
        self.message = message
        self.expects = expects
        self.start = start
        """Clock in which the request was queued."""
        self.end = -1
        """Clock in which the response was complete; -1 before."""
        self.response: S2MMessage | None = None
        self.aborted = False
        """True if a reset ended the request."""
        self._errors = errors
        self._event: Event | None = None

    @property
    def done(self) -> bool:
        """Return True if the request has ended: by its response or by a reset."""
        return self.end >= 0 or self.aborted

    def finish(self, response: S2MMessage | None, clock: int) -> None:
        """Record the response (None if none is owed) and wake the waiting call, for the host."""
        self.response = response
        self.end = clock
        self.wake()

    def abort(self) -> None:
        """End the request because of a reset. Called by the host."""
        self.aborted = True
        self.wake()

    def wake(self) -> None:
        """Wake the waiting call so that it checks the state again."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> S2MMessage | None:
        """Wait for the end of the request.

        Returns:
            The response; None if none is owed or a reset came first.

        Raises:
            CxlError: the link broke.
            CxlTimeout: the response did not arrive in time.
        """
        while not self.done:
            self._errors.check()
            if self._event is None:
                self._event = Event()
            await self._event.wait()
        return self.response


class Outstanding:
    """Table of the requests that are owed a response: tags, expected responses and ages."""

    def __init__(self, errors: ErrorLog, rng: random.Random, sequential: bool = False) -> None:
        self._errors = errors
        self._rng = rng
        self._sequential = sequential
        self._waiting: dict[Key, deque[Transaction]] = {}
        self._by_age: deque[Transaction] = deque()
        self._tags: set[int] = set()
        self._last_tag = -1
        self.count = 0
        """Requests without their response."""
        self.completed = 0

    def new_tag(self) -> int:
        """Return a tag that no request in flight uses. Raise CxlError if all are in use."""
        if len(self._tags) == _TAGS:
            raise CxlError(
                f"all {_TAGS:,} tags are in flight: wait for responses, or send with keep_tag"
            )
        tag = self._last_tag
        while True:
            tag = (tag + 1) & 0xFFFF if self._sequential else self._rng.getrandbits(16)
            if tag not in self._tags:
                self._last_tag = tag
                return tag

    def expect(self, message: M2SMessage, clock: int) -> Transaction:
        """Record a queued request and return its transaction.

        A request that is owed no response ends at once and is not kept in the table.
        """
        kind = completion_of(message)
        transaction = Transaction(message, kind, clock, self._errors)
        if kind is Completion.NONE:
            transaction.finish(None, clock)
        else:
            key = (kind is Completion.DRS, message.tag, message.ldid)
            self._waiting.setdefault(key, deque()).append(transaction)
            self._by_age.append(transaction)
            self._tags.add(message.tag)
            self.count += 1
        return transaction

    def respond(self, message: S2MMessage, clock: int) -> str:
        """Pair a response with its request and finish the transaction.

        Returns:
            "", or why the response matches no request.
        """
        key = key_of(message)
        queue = self._waiting.get(key)
        if not queue:
            return stray(message, self._waiting.keys())
        transaction = queue.popleft()
        if not queue:
            del self._waiting[key]
            self._tags.discard(message.tag)
        self.count -= 1
        self.completed += 1
        transaction.finish(message, clock)
        return ""

    def abort(self) -> None:
        """End all requests because of a reset."""
        for transaction in self.open():
            transaction.abort()
        self._waiting.clear()
        self._by_age.clear()
        self._tags.clear()
        self.count = 0

    def open(self) -> list[Transaction]:
        """Return the requests that are owed a response, oldest first."""
        return [transaction for transaction in self._by_age if not transaction.done]

    @property
    def oldest(self) -> Transaction | None:
        """Return the oldest request that is owed a response, or None."""
        by_age = self._by_age
        while by_age and by_age[0].done:
            by_age.popleft()
        return by_age[0] if by_age else None

    def owed(self, clock: int) -> str:
        """Describe the responses owed to the oldest requests, with ages in clocks; "" if none.

        At most 3 requests are described; others are counted.
        """
        waiting = self.open()
        if not waiting:
            return ""
        parts = [
            f"{channel(one.expects is Completion.DRS)} for {describe_message(one.message)}, "
            f"{clock - one.start} clocks old"
            for one in waiting[:_NAMED]
        ]
        if len(waiting) > _NAMED:
            parts.append(f"{len(waiting) - _NAMED} more")
        return "owed: " + ", ".join(parts)

    def wake(self) -> None:
        """Wake all waiting calls after an error."""
        for transaction in self.open():
            transaction.wake()
