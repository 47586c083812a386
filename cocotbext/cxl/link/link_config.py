# SPDX-License-Identifier: Apache-2.0
"""Settings of a link partner (spec: link spec §6, §8, §9)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from cocotbext.cxl.wire.assumptions import FLUSH_RETIMER_CLOCKS
from cocotbext.cxl.wire.packer import PackOptions


@dataclass(slots=True)
class LinkConfig:
    """Knobs of HostLink and DeviceLink; the defaults are the fastest legal partner.

    ``grant_plain`` / ``grant_data``: credits that the peer gets after INIT (a host grants NDR /
    DRS, a device Req / RwD). A credit is free again ``return_delay`` (min, max) clocks after its
    message was received, and goes back once ``return_batch`` of its kind are free.
    ``retry``: link-level retry; without it a bad flit is counted and lost.
    ``idle_flit_rate``: chance of a flit of empty slots in a clock that has nothing to send.
    ``eds_rate``: chance of the end-of-data-stream Protocol ID.
    """

    pack: PackOptions = field(default_factory=PackOptions)
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    grant_plain: int = 64
    grant_data: int = 64
    return_delay: tuple[int, int] = (0, 0)
    return_batch: int = 1
    ak_in_headers: bool = True
    credits_in_headers: bool = True
    ack_force_threshold: int = 16
    flush_retimer: int = FLUSH_RETIMER_CLOCKS
    idle_flit_rate: float = 0.0
    eds_rate: float = 0.0
    retry: bool = False
    retry_depth: int = 64
    retry_timeout: int = 4096
    max_retry: int = 10
    max_phy_reinit: int = 10
