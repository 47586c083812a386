# SPDX-License-Identifier: Apache-2.0
"""Credit starvation: the host grants few response credits, late, and the device must wait."""

from __future__ import annotations

from typing import Any

import cocotb

from cocotbext.cxl.config import CxlConfig
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.mixed import MixedRegionsSequence, PlainMemorySequence


class StarvedTest(NfBaseTest):
    """One response credit of each kind, given back late."""

    plain = 1
    data = 1
    delay = (0, 30)

    def configure(self, cfg: EnvConfig) -> None:
        def shape(link: CxlConfig) -> None:
            link.link.grant_plain = self.plain
            link.link.grant_data = self.data
            link.link.return_delay = self.delay

        cfg.shape_link = shape

    async def scenario(self) -> None:
        # Answers come late: fewer requests on a line at a time keep their orders countable.
        await PlainMemorySequence(self.env, transactions=80, race=2).run()
        await MixedRegionsSequence(self.env, transactions=150, race=2).run()


class DataStarvedTest(StarvedTest):
    """Completions flow, data does not: writes must not wait behind reads."""

    plain = 64
    delay = (100, 160)

    async def scenario(self) -> None:
        await super().scenario()
        # Reads fill whatever queue there is; the writes behind them must still be completed.
        sequence = PlainMemorySequence(self.env)
        reads = [await sequence.read(0x40 * k) for k in range(24)]
        for k in range(24):
            await sequence.write(0x8000 + 0x40 * k, bytes([k] * 64))
        await self.env.host.drain_if(lambda msg: msg.addr >= 0x8000)
        left = sum(not request.done for request in reads)
        self.figure("reads_left_when_the_writes_were_done", left)
        await sequence.drain()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def credit_starvation(_dut: Any, profile: str) -> None:
    """The device never sends without a credit and never loses a response."""
    await run_uvm(StarvedTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def data_starvation(_dut: Any, profile: str) -> None:
    """NDR does not wait for DRS credits."""
    await run_uvm(DataStarvedTest, profile)
