# SPDX-License-Identifier: Apache-2.0
"""What the second edition adds for hosts: workers that share an LD-ID."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import M2SRwD
from models.regions import Cause, Kind, RegionConfig
from verif.coverage.cover_model import CoverModel
from verif.scoreboard.operations import Op

_WRITES = (Kind.CONTRIBUTION, Kind.IDENTITY)


class ViewPoints:
    """Feed it with `op`."""

    def __init__(self, model: CoverModel) -> None:
        self.bind_shift = model.cross(
            "bind shift",
            "writes by the LD-ID that owns the worker, by the one that would own it without the "
            "shift, and by another one; without a shift the first two are the same",
            {"shift": ("0", "1", "2"), "LD-ID": ("owner", "unshifted", "other")},
            test="test_protection::protection",
            ignore=lambda shift, ldid: shift == "0" and ldid == "unshifted",
        )

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """An answered operation."""
        access, msg = op.access, op.msg
        if config is None or not config.bind or not isinstance(msg, M2SRwD):
            return
        if access.kind in _WRITES or access.cause is Cause.BIND:
            owners = {config.owner(access.selector): "owner"}
            who = owners.get(msg.ldid, "unshifted" if msg.ldid == access.selector else "other")
            self.bind_shift.hit(str(config.bind_shift), who)
