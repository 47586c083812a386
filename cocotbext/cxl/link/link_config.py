# SPDX-License-Identifier: Apache-2.0
"""Settings of a link partner (spec: link spec §6, §8, §9)."""

import random
from dataclasses import dataclass, field

from cocotbext.cxl.wire.assumptions import FLUSH_RETIMER_CLOCKS
from cocotbext.cxl.wire.packer import PackOptions


@dataclass(slots=True)
class LinkConfig:
    """Settings of HostLink and DeviceLink; the defaults are the fastest legal partner.

    Attributes:
        grant_plain: credits for messages without data that the peer receives after INIT (a host
            grants NDR, a device Req).
        grant_data: credits for messages with data (a host grants DRS, a device RwD).
        return_delay: (min, max) clocks from the reception of a message until its credit is free.
        return_batch: free credits of a kind that trigger their return.
        retry: link-level retry; without it a bad flit is counted and lost.
        idle_flit_rate: probability of a flit of empty slots in an idle clock.
        eds_rate: probability of the end-of-data-stream Protocol ID.
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
