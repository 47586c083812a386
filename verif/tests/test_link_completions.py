# SPDX-License-Identifier: Apache-2.0
"""Completions of the device that share flits (top ``nf_link``; link spec §4, §6)."""

from verif.tests.link_testbench import LinkTestbench, link_up_test


@link_up_test
async def completions_in_pairs(bench: LinkTestbench) -> None:
    """Check that waiting completions leave two a flit, the last two as well."""
    last = set()
    for count in (5, 6):  # how many leave alone before the wire is held is not said
        await bench.clocks(120)
        bench.ready_rate = 0.0
        before = len(bench.got.ndr)
        bench.answer_random(ndr=count)
        await bench.clocks(20)
        bench.ready_rate = 1.0
        while (have := len(bench.got.ndr)) < before + count:
            await bench.clock()
            if len(bench.got.ndr) == before + count:
                last.add(before + count - have)
    assert 2 in last, "one a flit"
