# SPDX-License-Identifier: Apache-2.0
"""Requests that are owed a response: tags, pairing with responses, and time-outs of a host."""

import random
from collections import deque
from dataclasses import dataclass

from cocotb.triggers import Event

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.errors import CxlError, ErrorLog
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.link.tracker import Key, channel, key_of, stray
from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.messages import Completion, M2SMessage, S2MMessage, completion_of

_TAGS = 1 << 16
_NAMED = 3  # requests that a text names
_RETRIES = ("retry_local", "retry_remote", "retry_timeout", "phy_reinit")
_OFTEN = 64  # clocks between two looks, at most


@dataclass(slots=True, eq=False)
class Transaction:
    """Request that was queued in a host, and its response once it arrived.

    Attributes:
        message: Request with the tag that is sent.
        expects: Kind of completion owed.
        start: Clock in which the request was queued.
        end: Clock in which the response was complete; -1 before.
        response: Response, or None.
        aborted: True if a reset ended the request.
    """

    message: M2SMessage
    expects: Completion
    start: int
    _errors: ErrorLog
    end: int = -1
    response: S2MMessage | None = None
    aborted: bool = False
    _event: Event | None = None

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


class Watchdog:
    """Detector of time-outs; call ``check`` every ``interval`` clocks.

    The response time-out starts when a request becomes the oldest one, so that a slow device may
    have any number of requests queued. A link-level retry restarts it, because retries have their
    own limits; beyond these limits a retrying device is not waited for.
    """

    def __init__(self, cfg: CxlConfig, link: HostLink, requests: Outstanding) -> None:
        self._cfg = cfg
        self._link = link
        self._requests = requests
        limits = [n for n in (cfg.response_timeout, cfg.link_up_timeout) if n]
        self.interval = max(1, min([_OFTEN, *(n // 16 for n in limits)]))
        self._state: object = None
        self._since = 0
        self._retries = 0
        self._spare = 0
        self._told = False

    def check(self, clock: int, up: bool, in_reset: bool = False, awaited: bool = True) -> str:
        """Check for a time-out.

        Args:
            clock: current clock.
            up: credits of both kinds have been received.
            in_reset: the reset is active.
            awaited: a call is waiting; if so, time-outs also count during reset.

        Returns:
            The text of a time-out that expires in this clock, or "".
        """
        state, limit, what = self._look(up, in_reset, awaited)
        retries = sum(self._link.counters[name] for name in _RETRIES)
        if state != self._state:
            config = self._link.config
            self._state, self._since, self._told = state, clock, False
            self._spare = 2 * config.max_retry * (config.max_phy_reinit + 1)
        elif retries != self._retries and self._spare > 0:
            self._spare -= 1
            self._since = clock
        self._retries = retries
        if not limit or self._told or clock - self._since < limit:
            return ""
        self._told = True
        return f"time-out: {what} within {limit:,} clocks; {self._link_text(in_reset)}"

    def _look(self, up: bool, in_reset: bool, awaited: bool) -> tuple[object, int, str]:
        """Return what the host waits for: the state, its limit in clocks (0: none), and a text.

        The state is compared with that of the previous check; a change of state restarts the
        time-out.
        """
        cfg, oldest = self._cfg, self._requests.oldest
        if in_reset and not awaited:
            return None, 0, ""
        if not up:
            return ("link-up", in_reset), cfg.link_up_timeout, "no link-up"
        if oldest is not None:
            return oldest, cfg.response_timeout, "no response to the oldest request"
        if not self._link.tx_idle:
            return self._link.unsent, cfg.response_timeout, "nothing could be sent"
        return None, 0, ""

    def _link_text(self, in_reset: bool) -> str:
        """Describe the state of the link for a time-out message, credits first."""
        link = self._link
        if in_reset:
            return "rst_n is not 1"
        credits = {"Req": link.credits.plain, "RwD": link.credits.data}
        missing = [name for name, count in credits.items() if count <= 0]
        parts = [
            f"no {' and no '.join(missing)} credits from the device"
            if missing
            else f"credits from the device: {credits['Req']} Req, {credits['RwD']} RwD"
        ]
        granted = {"NDR": link.returns.peer.plain, "DRS": link.returns.peer.data}
        if link.active:
            parts += [f"the device has no {name} credits" for name, n in granted.items() if n <= 0]
        if link.packer.waiting:
            parts.append(f"requests not sent: {link.packer.waiting}")
        if not link.phy:
            parts.append("phy_up is low")
        if not link.counters["rx_flit"]:
            parts.append("no flit has come from the device")
        elif not link.initialised:
            parts.append("no INIT.Param has come from the device")
        if bad := link.counters["crc_error"] + link.counters["pid_uncorrectable"]:
            parts.append(f"bad flits from the device: {bad}")
        if link.retry.lrsm is not Lrsm.NORMAL:
            parts.append(f"RETRY.Req {link.retry.num_retry} of the host is not acknowledged")
        if retrains := link.counters["phy_reinit"]:
            parts.append(f"retrains: {retrains}")
        if link.config.retry and link.buffer.free <= 2:
            parts.append(f"flits that the device has not acknowledged: {link.unacknowledged}")
        return ", ".join(parts)
