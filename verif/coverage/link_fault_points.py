# SPDX-License-Identifier: Apache-2.0
"""Faults on the wire: each kind, in a retry and outside of one, under every traffic profile."""

from __future__ import annotations

from cocotbext.cxl.faults import CAMPAIGN, LOST_KINDS, FaultKind
from verif.coverage.cover_model import CoverModel

PROFILES = ("streaming", "idle", "backpressure")
_OF_RETRIES = frozenset(
    kind.value
    for kind in (*LOST_KINDS, FaultKind.DAMAGED_FRAME, FaultKind.DAMAGED_REQ, FaultKind.DAMAGED_ACK)
)


class LinkFaultPoints:
    """Feed it with `fault` when one is injected."""

    def __init__(self, model: CoverModel) -> None:
        self.faults = model.cross(
            "link fault",
            "every fault on the wire x a retry of either end x the traffic that it meets; RETRY "
            "flits travel in a retry alone",
            {
                "fault": tuple(kind.value for kind in CAMPAIGN),
                "state": ("no retry", "retry"),
                "profile": PROFILES,
            },
            test="test_link_faults::link_faults",
            ignore=lambda fault, state, _profile: fault in _OF_RETRIES and state == "no retry",
        )

    def fault(self, kind: FaultKind, retrying: bool, profile: str) -> None:
        """A fault was injected; what no campaign injects is no bin."""
        if kind in CAMPAIGN:
            self.faults.hit(kind.value, "retry" if retrying else "no retry", profile)
