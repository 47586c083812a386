# SPDX-License-Identifier: Apache-2.0
"""Settings of CxlMemHost and CxlMemMonitor; random choices come from generators passed in."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, repeat

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.packer import PackOptions

Damage = Callable[[WireFlit], WireFlit]
"""Hook that changes a flit on the wire."""


@dataclass(slots=True)
class ReadyPattern:
    """Pattern of s2m_ready: always high, high with a probability per clock, or a repeated pattern.

    ``hold`` (min, max): number of clocks for which it stays low; only with ``rate`` below 1.
    """

    rate: float = 1.0
    pattern: tuple[bool, ...] = ()
    hold: tuple[int, int] = (1, 1)

    def values(self, rng: random.Random) -> Iterator[bool]:
        """Return an endless iterator of s2m_ready: one value per clock, True for high.

        A fixed ``pattern`` takes precedence over ``rate``.
        """
        if self.pattern:
            return cycle(self.pattern)
        if self.rate >= 1.0:
            return repeat(True)
        return self._random(rng)

    def _random(self, rng: random.Random) -> Iterator[bool]:
        while True:
            if rng.random() < self.rate:
                yield True
            else:
                yield from repeat(False, rng.randint(*self.hold))


@dataclass(slots=True)
class CxlConfig:
    """Settings of host and monitor; the defaults are the fastest legal host.

    Attributes:
        link: packing, credits that the host grants, acknowledgements, retry (LinkConfig).
        idle_rate: probability per clock that the host sends nothing although it could.
        ready: back-pressure on the device's output.
        queue_depth: messages that may be queued in the host before ``issue`` waits.
        max_outstanding: requests without a response before ``issue`` waits.
        phy_up_delay: clocks from the end of reset to phy_up.
        retrain_clocks: length of a retrain in clocks.
        damage_to_device: hook that changes flits before the device's pins.
        damage_to_host: hook that changes flits after the device's pins (the monitor sees the pins).
        response_timeout: clocks that the oldest request may wait for its response, from when it
            became the oldest or from a link-level retry, and that a queue may stall; 0 for no
            limit. A call that waits then raises CxlTimeout.
        link_up_timeout: clocks from the end of reset to the first credits of both kinds; 0 for no
            limit.
        waive: ``waive(rule, direction)`` is True for rules that a test breaks deliberately;
            ("timeout", "S2M") waives missing responses.
        device_wrap: LLR wrap value that the device must announce; None for any.
        check_stable: the s2m pins must hold their value while s2m_ready is low.
    """

    link: LinkConfig = field(default_factory=LinkConfig)
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    idle_rate: float = 0.0
    ready: ReadyPattern = field(default_factory=ReadyPattern)
    queue_depth: int = 64
    max_outstanding: int = 4096
    sequential_tags: bool = False
    phy_up_delay: int = 4
    retrain_clocks: int = 8
    response_timeout: int = 20_000
    link_up_timeout: int = 20_000
    damage_to_device: Damage | None = None
    damage_to_host: Damage | None = None
    waive: Callable[[str, str], bool] | None = None
    device_wrap: int | None = None
    check_stable: bool = True

    @classmethod
    def dense(cls, seed: int) -> CxlConfig:
        """Return settings with the densest packing: 4 writes per 5 flits, 2 reads per flit."""
        rng = random.Random(seed)
        return cls(link=LinkConfig(rng=rng, pack=PackOptions(rng=rng)), rng=rng)

    @classmethod
    def sparse(cls, seed: int) -> CxlConfig:
        """Return settings with random slot placement, idle clocks and empty flits.

        All forms of packing that the link specification allows occur.
        """
        rng = random.Random(seed)
        pack = PackOptions(dense=False, rng=rng, empty_weight=rng.choice((0.2, 0.6, 1.5)))
        link = LinkConfig(rng=rng, pack=pack, idle_flit_rate=0.1, eds_rate=0.05)
        return cls(link=link, rng=rng, idle_rate=rng.choice((0.0, 0.2, 0.5)))

    @classmethod
    def starved(cls, seed: int, credits: int = 2) -> CxlConfig:
        """Return settings of a host that grants few credits and stalls the device at random.

        The host grants ``credits`` credits each for NDR and DRS and returns each 0 to 40 clocks
        after the response. s2m_ready falls with a probability of 40 % per clock, for 1 to 12
        clocks.
        """
        rng = random.Random(seed)
        pack = PackOptions(dense=rng.random() < 0.5, rng=rng)
        link = LinkConfig(
            rng=rng,
            pack=pack,
            grant_plain=credits,
            grant_data=credits,
            return_delay=(0, 40),
            ak_in_headers=rng.random() < 0.7,
            credits_in_headers=rng.random() < 0.7,
        )
        return cls(link=link, rng=rng, ready=ReadyPattern(0.6, hold=(1, 12)))
