# SPDX-License-Identifier: Apache-2.0
"""FP32 sums are atomic: each store to the line is wholly before or wholly after a sum."""

import random
import struct

from models.modes import Mode
from verif.sequences.base import NfSequence
from verif.tests.decorator import ALL, nf_test

WORKERS = 64


def line(rng: random.Random) -> bytes:
    """Return a line of binary32 values in -1..1: infinity or NaN would hide other workers."""
    return struct.pack("<16f", *(rng.uniform(-1, 1) for _ in range(16)))


@nf_test(NfSequence, profiles=ALL)
async def stores_under_sum(run: NfSequence) -> None:
    """Check that a sum holds no later store without an earlier one of another worker.

    A low worker stores again while the sum is gathered and is answered, then a high one stores. A
    sum that reads line after line without order would hold the later store without the earlier one.
    """
    config = await run.start_region(0, Mode.FP32, 0, WORKERS)
    await run.fill_lines(config, 0, data=lambda _worker, _line: line(run.rng))
    for _ in range(run.cfg.count(12)):
        await run.read_region(config, 0, 0)
        await run.cycles(run.randint(1, 40))
        low = run.randrange(1, WORKERS - 8)
        ldid = run.ldid_for(config, low)
        await run.env.host.call(run.write_msg(config.address(low, 0), line(run.rng), ldid=ldid))
        await run.contribute(config, WORKERS - 1, 0, line(run.rng))
        await run.drain()
