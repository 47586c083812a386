# SPDX-License-Identifier: Apache-2.0
"""Random link stimulus: settings of the host, and episodes that disturb a testbench."""

import random
from collections.abc import Sequence
from typing import Any

from cocotbext.cxl.wire.messages import M2SRwD, RwdOp
from cocotbext.cxl.wire.packer import PackOptions
from verif.tests import link_messages
from verif.tests.link_testbench import RetryTestbench

GRANTS = (1, 2, 3, 8, 40, 64, 130, 256)


def pack_options(rng: random.Random) -> PackOptions:
    """Draw how the host packs messages into flits: densely (33 %), else by random weights."""
    weights = (0.2, 1.0, 5.0)
    return PackOptions(
        dense=rng.random() < 0.33,
        rng=random.Random(rng.getrandbits(32)),
        header_weight=rng.choice(weights),
        data_weight=rng.choice(weights),
        empty_weight=rng.choice((0.1, 0.5, 2.0)),
    )


def host_settings(rng: random.Random) -> dict[str, Any]:
    """Draw fields of `LinkConfig` by name: legal ways of a host to grant, acknowledge and pack."""
    return {
        "pack": pack_options(rng),
        "grant_plain": rng.choice(GRANTS),
        "grant_data": rng.choice(GRANTS),
        "return_delay": (0, rng.choice((0, 0, 5, 80))),
        "return_batch": rng.choice((1, 1, 4, 16, 32, 64)),
        "ak_in_headers": rng.random() < 0.6,
        "credits_in_headers": rng.random() < 0.7,
        "ack_force_threshold": rng.choice((1, 16, 16, 60, 200)),
        "flush_retimer": rng.choice((4, 32, 32, 200)),
        "idle_flit_rate": rng.choice((0.0, 0.0, 0.2)),
        "eds_rate": rng.choice((0.0, 0.1)),
        "retry_depth": rng.choice((22, 23, 64, 254, 255)),
    }


def rates(bench: RetryTestbench) -> None:
    """Draw new rates at which device, core and host are ready, in place."""
    rng = bench.rng
    bench.ready_rate = rng.choice((1.0, 1.0, 0.9, 0.5))
    bench.core_rate = rng.choice((1.0, 1.0, 0.7, 0.3))
    bench.rx_rate = rng.choice((1.0, 1.0, 0.8, 0.4))


def messages(bench: RetryTestbench, count: int, tricky: float = 0.2) -> None:
    """Queue random messages in the testbench, for both directions.

    Args:
        bench: testbench; host requests are sent, device responses answered.
        count: number of messages; the channels are drawn by random weights.
        tricky: share of writes whose data looks like a control flit.
    """
    rng = bench.rng
    weights = [rng.choice((0.0, 1.0, 1.0, 4.0)) for _ in range(4)]
    if not any(weights):
        weights = [1.0] * 4
    partial = rng.choice((0.0, 0.3, 1.0))
    for kind in rng.choices(range(4), weights, k=count):
        if kind == 0:
            bench.send(link_messages.random_req(rng))
        elif kind == 1:
            rwd = link_messages.random_rwd(rng, partial)
            if rng.random() < tricky:
                rwd = M2SRwD(
                    RwdOp.MEM_WR, rwd.tag, rwd.addr, rwd.ldid, data=link_messages.tricky_data(rng)
                )
            bench.send(rwd)
        elif kind == 2:
            bench.answer(link_messages.random_ndr(rng))
        else:
            bench.answer(link_messages.random_drs(rng))


class Episodes:
    """Random disturbances of a testbench that has work, one after another; `calm` ends them all.

    `kinds` are the names of the episodes to draw from.
    """

    PLAIN = ("rates", "device held", "core held", "acks held", "credits held", "both", "header")

    def __init__(self, bench: RetryTestbench, kinds: Sequence[str] = PLAIN) -> None:
        self.bench, self.kinds = bench, kinds

    async def one(self) -> None:
        """Run one episode of a random kind and length, and end it."""
        bench, rng = self.bench, self.bench.rng
        kind = rng.choice(self.kinds)
        clocks = rng.choice((3, 20, 60, 150, 320))
        held = bench.ready_rate, bench.core_rate
        if kind == "rates":
            rates(bench)
        elif kind == "header":
            bench.dut.multi_header.value = rng.getrandbits(1)
        elif kind in ("device held", "both"):
            bench.ready_rate = 0.0
        elif kind == "core held":
            bench.core_rate = 0.0
        elif kind == "damage":
            bench.to_device = link_messages.random_damage(rng, rng.choice((0.01, 0.05, 0.3)))
            bench.to_host = link_messages.random_damage(rng, rng.choice((0.01, 0.05, 0.3)))
            clocks = min(clocks, 60)
        elif kind == "retrain":
            await self._retrain(clocks)
        bench.host.hold_acks(kind == "acks held")
        bench.host.hold_credits(kind in ("credits held", "both"))
        await bench.clocks(clocks)
        if kind in ("device held", "core held", "both"):
            bench.ready_rate, bench.core_rate = held
        bench.to_device = bench.to_host = None
        bench.host.hold_acks(False)
        bench.host.hold_credits(False)

    async def _retrain(self, clocks: int) -> None:
        """Let phy_up fall within some clocks, and rise again, unless the link retrains before."""
        bench = self.bench
        await bench.clocks(bench.rng.randrange(1, 1 + min(clocks, 40)))
        if bench.phy and not bench._phy_back:
            bench.set_phy(False)
            bench.tracker = None
            await bench.clocks(bench.rng.randrange(1, 8))
            bench.set_phy(True)

    def calm(self) -> None:
        """Set all rates to 1, and damage nothing."""
        bench = self.bench
        bench.ready_rate = bench.core_rate = bench.rx_rate = 1.0
        bench.to_device = bench.to_host = None
        bench.host.config.idle_flit_rate = 0.0
