# SPDX-License-Identifier: Apache-2.0
"""Counters that saturate: CNT_W smaller than W needs (not in the default parameter set)."""

from models.modes import Mode
from models.regions import INFO_SELECTOR
from verif.env.base_test import NfBaseTest
from verif.sequences.aggregate import AggregateSequence
from verif.sequences.base import NfSequence
from verif.tests.decorator import ALL, nf_test


async def saturate(test: NfBaseTest) -> None:
    """Run G_BINARY and G_TERNARY with W at, above and far above the largest count.

    If the counters are too small for 64 workers, SATURATED must occur.
    """
    top = (1 << test.cfg.hw.cnt_w) - 1
    for mode in (Mode.G_BINARY, Mode.G_TERNARY):
        for workers in sorted({min(64, top), min(64, top + 1), 64}):
            await AggregateSequence(
                test.env, mode=mode, workers=workers, lines_log2=0, epochs=2, early=0.1
            ).run()
            await test.env.registers.read_status()
    run = NfSequence(test.env)
    for mode in (Mode.G_BINARY, Mode.G_TERNARY):  # poison of the last worker comes after it
        config = await run.start_region(0, mode, 0, 64)
        await run.fill_lines(config, 0, range(63))
        await run.fill_lines(config, 0, 63, poison=True)
        await run.read_lines(config, 0, (INFO_SELECTOR, 0))
    if top < 64:
        assert test.env.coverage.model.points["line events"].bins["SATURATED"], "nothing saturated"


@nf_test(profiles=ALL, shows="test_saturation::saturation")
async def saturation(test: NfBaseTest) -> None:
    """Check that counters stop at their maximum, and that SATURATED stays until a commit."""
    await saturate(test)
