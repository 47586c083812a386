# SPDX-License-Identifier: Apache-2.0
"""Each aggregating mode alone: all workers, all lines, every kind of read."""

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences.aggregate import AggregateSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(profiles=ALL)
async def g_binary(test: NfBaseTest) -> None:
    """Check G_BINARY: majority votes, ties and count planes, for W of 1, 4 and 64."""
    for region, (workers, tie_minus) in enumerate(((4, False), (4, True))):
        await AggregateSequence(test.env, workers=workers, tie_minus=tie_minus, region=region).run()
    for workers, lines_log2 in ((1, 3), (64, 0)):
        await AggregateSequence(test.env, workers=workers, lines_log2=lines_log2, epochs=1).run()


@nf_test(profiles=ALL)
async def g_ternary(test: NfBaseTest) -> None:
    """Check G_TERNARY: votes with a threshold, plus and minus planes, for W of 1, 5, 6 and 64."""
    for options in (
        {"workers": 5, "threshold": 1, "region": 0},
        {"workers": 6, "threshold": 2, "region": 1},
        {"workers": 1, "threshold": 1, "lines_log2": 3, "epochs": 1},
        {"workers": 64, "threshold": 9, "lines_log2": 0, "epochs": 1},
    ):
        await AggregateSequence(test.env, mode=Mode.G_TERNARY, **options).run()


@nf_test(profiles=ALL)
async def fp32(test: NfBaseTest) -> None:
    """Check FP32 sums (worker order, bit for bit) and single workers' lines; W of 1, 5, 64."""
    await AggregateSequence(test.env, mode=Mode.FP32, workers=5, partial=0.2).run()
    for workers, lines_log2 in ((1, 2), (64, 0)):
        await AggregateSequence(
            test.env, mode=Mode.FP32, workers=workers, lines_log2=lines_log2, epochs=1
        ).run()
