# SPDX-License-Identifier: Apache-2.0
"""Lines whose record could not be read (lost), and write-backs that memory refused."""

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences.memory_faults import BlameSequence, LostLineSequence
from verif.tests.decorator import nf_test


@nf_test()
async def lost_lines(test: NfBaseTest) -> None:
    """Check that a lost line stays poisoned and never completes, though all workers contribute."""
    rng = test.env.rng
    for mode in (rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), Mode.FP32):
        region = rng.randrange(test.cfg.hw.regions)
        await LostLineSequence(test.env, mode=mode, region=region).run()


@nf_test(BlameSequence)
def blame() -> None:
    """Check that a refused write-back makes only the records of its region untrusted."""
