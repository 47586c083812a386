# SPDX-License-Identifier: Apache-2.0
"""Credits that one end of a link returns to its peer."""

from __future__ import annotations

import heapq

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire.flits import encode_credit, largest_credit
from cocotbext.cxl.wire.packer import Credits


class CreditReturn:
    """Credits that one end returns to its peer: held (delay), free (to be sent), granted.

    Granted credits belong to the peer. Plain credits are for messages without data (Req or NDR),
    data credits for RwD or DRS. Spec: link spec §3, §9.
    """

    def __init__(self, config: LinkConfig) -> None:
        self._config = config
        self._free = [0, 0]  # plain, data
        self._held: list[tuple[int, bool]] = []
        self._initial = False
        self.held = False
        """True if no credit is returned (a test starves the peer)."""
        self.peer = Credits()
        """Credits that the peer may still spend."""

    def grant_initial(self) -> None:
        """Grant the initial credits of the configuration, as fast as possible, at the end of
        INIT.
        """
        self._free[0] += self._config.grant_plain
        self._free[1] += self._config.grant_data
        self._initial = True

    @property
    def initial(self) -> bool:
        """Return True if part of the first grant is unsent and no hook holds credits back."""
        return self._initial and not self.held

    def release(self, now: int, plain: int, data: int) -> None:
        """Schedule the return of the credits of messages that were consumed at clock ``now``.

        Each credit becomes free after a random delay (LinkConfig.return_delay).
        """
        low, high = self._config.return_delay
        for is_data, count in ((False, plain), (True, data)):
            for _ in range(count):
                due = now + self._config.rng.randint(low, high) if high else now
                heapq.heappush(self._held, (due, is_data))
        if not high:
            self.tick(now)

    def tick(self, now: int) -> None:
        """Make the held credits free whose delay has ended at clock ``now``."""
        while self._held and self._held[0][0] <= now:
            self._free[heapq.heappop(self._held)[1]] += 1

    @property
    def ready(self) -> tuple[bool, bool]:
        """Return whether plain and data credits may be sent now, a bool each."""
        config = self._config
        grants = config.grant_plain, config.grant_data
        plain, data = (
            not self.held and free >= (1 if self._initial else max(1, min(config.return_batch, n)))
            for free, n in zip(self._free, grants, strict=True)
        )
        return plain, data

    def take(self) -> tuple[int, int]:
        """Grant credits with the flit that is sent now; return their nibbles (plain, data)."""
        plain, data = (
            largest_credit(free) * ready for free, ready in zip(self._free, self.ready, strict=True)
        )
        self._free[0] -= plain
        self._free[1] -= data
        self.peer.plain += plain
        self.peer.data += data
        self._initial = self._initial and any(self._free)
        return encode_credit(plain), encode_credit(data)

    def spent(self, plain: int, data: int) -> bool:
        """Subtract credits that the peer used; return False if it used more than it owned.

        Its credits then become 0.
        """
        left = self.peer.plain - plain, self.peer.data - data
        self.peer.plain, self.peer.data = max(left[0], 0), max(left[1], 0)
        return min(left) >= 0
