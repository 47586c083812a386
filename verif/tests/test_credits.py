# SPDX-License-Identifier: Apache-2.0
"""Credit starvation: the host grants few response credits, late, and the device must wait."""

from verif.env.base_test import NfBaseTest
from verif.sequences.mixed import MixedRegionsSequence, PlainMemorySequence
from verif.tests.decorator import ALL, host_link, nf_test


async def starved_traffic(test: NfBaseTest) -> None:
    """Run random traffic with at most two requests in flight on a line.

    Late responses allow more orders, all of which the scoreboard would try.
    """
    await PlainMemorySequence(test.env, transactions=80, race=2).run()
    await MixedRegionsSequence(test.env, transactions=150, race=2).run()


@nf_test(profiles=ALL, configure=host_link(grant_plain=1, grant_data=1, return_delay=(0, 30)))
async def credit_starvation(test: NfBaseTest) -> None:
    """Check that the device never sends without a credit and never loses a response."""
    await starved_traffic(test)


@nf_test(profiles=ALL, configure=host_link(grant_plain=64, grant_data=1, return_delay=(100, 160)))
async def data_starvation(test: NfBaseTest) -> None:
    """Check that completions (NDR) do not wait for credits of read data (DRS)."""
    await starved_traffic(test)
    # Reads fill every queue for data; the writes after them must still complete.
    sequence = PlainMemorySequence(test.env)
    reads = [await sequence.read(0x40 * k) for k in range(24)]
    for k in range(24):
        await sequence.write(0x8000 + 0x40 * k, bytes([k] * 64))
    await test.env.host.drain_if(lambda msg: msg.addr >= 0x8000)
    left = sum(not request.done for request in reads)
    test.figure("reads_left_when_the_writes_were_done", left)
    await sequence.drain()
