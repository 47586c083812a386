# SPDX-License-Identifier: Apache-2.0
"""Cover points of a pool: what hosts do at the same time, and what ranks see of bells."""

from __future__ import annotations

from collections.abc import Sequence

from cocotbext.cxl.wire.messages import S2MDRS, M2SMessage, M2SRwD, S2MMessage
from models.access_decode import Access, Kind
from models.device import DeviceModel
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Points

_Key = tuple[bool, int, int]


def kind_of(access: Access, writes: bool) -> str:
    """Return the name of a kind of request in the list POOL_KINDS of `plan.toml`."""
    names = {Kind.CONTRIBUTION: "contribution", Kind.INFO: "INFO", Kind.CONTROL: "commit"}
    names |= dict.fromkeys((Kind.RESULT, Kind.SUM, Kind.PLANE), "result")
    return names.get(access.kind, "write" if writes else "read")


class PoolPoints(Points):
    """Cover points of a pool.

    Args:
        model: Coverage model that counts the hits.
        devices: Model of each device, which decodes requests.
    """

    def __init__(self, model: CoverModel, devices: Sequence[DeviceModel]) -> None:
        super().__init__(model)
        self.devices = devices
        self.flying: list[dict[_Key, str]] = [{} for _ in devices]

    def sent(self, device: int, message: M2SMessage) -> None:
        """Count a request that the switch sends, and the requests of other hosts at the device."""
        writes = isinstance(message, M2SRwD)
        kind = kind_of(self.devices[device].decode(message), writes)
        flying = self.flying[device]
        for other in {flying[key] for key in flying if key[2] != message.ldid}:
            self.hit("pool meets", kind, other)
        flying[not writes, message.tag, message.ldid] = kind

    def answered(self, device: int, response: S2MMessage) -> None:
        """Note the response to a request."""
        key = (isinstance(response, S2MDRS), response.tag, response.ldid)
        self.flying[device].pop(key, None)

    def looked(self, of: str, ahead: int, workers: int, ranks: int) -> None:
        """Count a look at a line of bells, or of a region of a route.

        Args:
            of: "bells" or "route".
            ahead: Use that the region is in, less the use that is meant.
            workers: Number of workers that have contributed to the line.
            ranks: Number of ranks.
        """
        self.hit("pool look", of, "before" if ahead < 0 else "after" if ahead else "same")
        if of == "bells" and not ahead:
            seen = "all" if workers == ranks else "some" if workers else "none"
            self.hit("pool signals", seen, str(ranks) if ranks < 4 else "4..")

    def running(self, collectives: int) -> None:
        """Count how many collectives a rank runs at once, when it starts one."""
        self.hit("pool ahead", str(collectives))

    def aborted(self, kind: str) -> None:
        """Count a wait, by its kind, in which a rank sees `ABORT`."""
        self.hit("pool abort", kind)
