# SPDX-License-Identifier: Apache-2.0
"""When the credits of consumed messages go back to the peer (spec: link spec §3, §9)."""

from __future__ import annotations

import heapq

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire.flits import encode_credit, largest_credit
from cocotbext.cxl.wire.packer import Credits


class CreditReturn:
    """Credits on their way back: held (delay), free (may go), granted (the peer has them)."""

    def __init__(self, config: LinkConfig) -> None:
        self._config = config
        self._free = Credits()
        self._held: list[tuple[int, bool]] = []
        self._initial = False
        self.held = False
        """True: nothing goes back (a test starves the peer)."""
        self.peer = Credits()
        """What the peer may still spend."""

    def grant_initial(self) -> None:
        """INIT is over: everything that the configuration grants goes out as fast as it can."""
        self._free.plain += self._config.grant_plain
        self._free.data += self._config.grant_data
        self._initial = True

    @property
    def initial(self) -> bool:
        """Part of the first grant has not left."""
        return self._initial and not self.held

    def release(self, now: int, plain: int = 0, data: int = 0) -> None:
        """Messages were consumed at clock ``now``."""
        low, high = self._config.return_delay
        if not high:
            self._free.plain += plain
            self._free.data += data
            return
        for is_data, count in ((False, plain), (True, data)):
            for _ in range(count):
                due = now + self._config.rng.randint(low, high)
                heapq.heappush(self._held, (due, is_data))

    def tick(self, now: int) -> None:
        """Free the held credits whose time has come."""
        while self._held and self._held[0][0] <= now:
            if heapq.heappop(self._held)[1]:
                self._free.data += 1
            else:
                self._free.plain += 1

    @property
    def ready(self) -> tuple[bool, bool]:
        """Whether plain / data credits may go now."""
        if self.held:
            return False, False
        free, config = self._free, self._config
        plain = free.plain > 0 and (
            self._initial or free.plain >= min(config.return_batch, config.grant_plain)
        )
        data = free.data > 0 and (
            self._initial or free.data >= min(config.return_batch, config.grant_data)
        )
        return plain, data

    def take(self) -> tuple[int, int]:
        """Nibbles (plain, data) for the flit that leaves now."""
        plain_ready, data_ready = self.ready
        plain = largest_credit(self._free.plain) if plain_ready else 0
        data = largest_credit(self._free.data) if data_ready else 0
        self._free.plain -= plain
        self._free.data -= data
        self.peer.plain += plain
        self.peer.data += data
        if not self._free.plain and not self._free.data:
            self._initial = False
        return encode_credit(plain), encode_credit(data)

    def spent(self, plain: int, data: int) -> bool:
        """The peer used credits; False if it did not have them (they are clamped)."""
        self.peer.plain -= plain
        self.peer.data -= data
        if self.peer.plain >= 0 and self.peer.data >= 0:
            return True
        self.peer.plain, self.peer.data = max(self.peer.plain, 0), max(self.peer.data, 0)
        return False
