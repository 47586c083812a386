# SPDX-License-Identifier: Apache-2.0
"""Rates at the link for lines in their slots. Needs the default number of slots and credits."""

from typing import Any

from cocotbext.cxl.wire.messages import S2MDRS, M2SRwD
from models.modes import Mode
from models.register_map import REG_MAP
from verif.env.base_test import NfBaseTest
from verif.sequences.base import NfSequence
from verif.tests.decorator import ALL, nf_test

REGS = REG_MAP.expand()
LINES_PER_FLIT = 4 / 5
LINES_PER_FLIT_MULTI = 8 / 9  # reads, with H5 and G6
PERIOD = 8
"""Number of lines after which the packing of writes, and that of reads, repeats."""
MULTI_HEADER = REGS["CTRL"].field("MULTI_HEADER").mask


class LinkRateTest(NfBaseTest):
    """Measurement of contributions and vote reads per flit time at the pins, for lines in slots."""

    async def scenario(self) -> None:
        run = self.sequence = NfSequence(self.env)
        config = await run.start_region(0, Mode.G_BINARY, 4, 64)
        await run.fill_lines(config, None, 0)  # every line has its slot
        places = [(w, i) for w in range(1, 16) for i in range(config.lines)]
        writes = await self.measure(
            [run.write_msg(config.address(w, i), run.randbytes(64)) for w, i in places]
        )
        reads = await self.measure([run.read_msg(config.address(0, i)) for _, i in places])
        await self.env.registers.write("CTRL", MULTI_HEADER)
        multi = await self.measure([run.read_msg(config.address(0, i)) for _, i in places])
        for name, rate, limit in (
            ("write", writes, LINES_PER_FLIT),
            ("vote_read", reads, LINES_PER_FLIT),
            ("vote_read_multi_header", multi, LINES_PER_FLIT_MULTI),
        ):
            self.rate(f"{name}_lines_per_flit_time", round(rate, 4))
            if self.cfg.profile == "streaming":
                assert 0.97 * limit < rate <= limit, f"{name} rate {rate:.4f}, limit {limit:.4f}"

    async def measure(self, messages: list[Any]) -> float:
        """Send messages back to back; return lines per clock, of write requests or of read data.

        The window leaves out the start and spans whole periods of the packing: part of one gave
        0.8022 lines instead of 0.8.
        """
        async with self.sequence.traced() as trace:
            for message in messages:
                await self.sequence.issue(message)
        kind = M2SRwD if isinstance(messages[0], M2SRwD) else S2MDRS
        cycles = [seen.cycle for seen in trace if isinstance(seen.message, kind)]
        skip = len(cycles) // 10
        count = (len(cycles) - 1 - skip) // PERIOD * PERIOD
        return count / (cycles[skip + count] - cycles[skip])


@nf_test(LinkRateTest, profiles=ALL)
def link_rates() -> None:
    """Check rates of 4 lines per 5 flits, and 8 reads per 9 with H5 and G6, when streaming."""
