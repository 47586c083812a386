# SPDX-License-Identifier: Apache-2.0
"""An FP32 sum is atomic: each store to its line is wholly before or wholly after it."""

from __future__ import annotations

import struct

from cocotbext.cxl.wire.messages import M2SRwD
from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.base import NfSequence
from verif.tests.decorator import ALL, nf_test

WORKERS = 64


class StoresUnderSum(NfSequence):
    """A low worker stores again and is answered, then a high one, while the sum is gathered.

    A sum that reads line after line would hold the later store without the earlier one.
    """

    repeats = 12

    async def body(self) -> None:
        config = self.layout.region(Mode.FP32, 0, WORKERS)
        await self.commit(0, config)
        for worker in range(WORKERS):
            await self.contribute(config, worker, 0, self._line())
        await self.drain()
        for _ in range(self.cfg.count(self.repeats)):
            await self.read_region(config, 0, 0)
            await self.env.clocks(self.rng.randint(1, 40))
            low = self.rng.randrange(1, WORKERS - 8)
            await self.env.host.call(self._store(config, low))
            await self.contribute(config, WORKERS - 1, 0, self._line())
            await self.drain()

    def _line(self) -> bytes:
        """Values of one scale: no infinity or NaN that would swallow all other workers."""
        return struct.pack("<16f", *(self.rng.uniform(-1, 1) for _ in range(16)))

    def _store(self, config: RegionConfig, worker: int) -> M2SRwD:
        ldid = self.ldid_for(config, worker)
        return self.write_msg(config.address(worker, 0), self._line(), ldid=ldid)


@nf_test(StoresUnderSum, profiles=ALL)
def stores_under_sum() -> None:
    """Second stores of workers while their line's sum is gathered."""
