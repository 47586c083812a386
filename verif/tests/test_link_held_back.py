# SPDX-License-Identifier: Apache-2.0
"""Flits that leave the device late: after a retry, or a RETRY sequence under back-pressure.

Top ``nf_link`` with a small RETRY_TIMEOUT (build link_retry; spec: link spec §6, §9).
"""

import random
from typing import Any

import cocotb

from cocotbext.cxl.wire.control import RetryAck, RetryFrame, RetryReq
from cocotbext.cxl.wire.flits import WireFlit
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import random_drs, random_ndr, random_req
from verif.tests.link_testbench import RetryTestbench

_CHUNK = 16
"""Number of bytes of a data slot."""
_SEQUENCE = 6
"""Number of flits of a RETRY sequence."""


class HeldBench(RetryTestbench):
    """Testbench that can lose single flits and find data in the flits that the device sent."""

    def __init__(self, dut: Any, seed: int) -> None:
        super().__init__(dut, seed, tracked=False, grant=400)

    def lose_one(self, to_host: bool) -> None:
        """Damage one bit of the next flit on one wire."""
        name = "to_host" if to_host else "to_device"

        def damage(wire: WireFlit) -> WireFlit:
            setattr(self, name, None)
            return wire[0], wire[1] ^ 1 << self.rng.randrange(528)

        setattr(self, name, damage)

    def place_of(self, chunk: bytes, since: int) -> int | None:
        """Return the number of the first flit from `since` on with these bytes; None for none."""
        for place, (_, flit) in enumerate(self.tx_log[since:], since):
            if chunk in flit.to_bytes(66, "little"):
                return place
        return None


@link_test
async def retry_in_an_answer(dut: Any) -> None:
    """Check that `drs_gone` is low until the last flit of a read response has left, retry or not.

    So a CLOSE that waits for it is not answered before.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await HeldBench(dut, rng.getrandbits(32)).up(100)
    apart = 0
    for delay in range(32):  # until the retry comes before the answer
        since, answer = len(bench.tx_log), random_drs(rng)
        bench.lose_one(to_host=True)
        bench.answer(random_ndr(rng))
        await bench.clocks(delay)
        bench.answer(answer)
        first = last = None
        while last is None:
            inside = bench.drs is None and not bench.out_drs
            await bench.clock()
            assert not (inside and int(dut.drs_gone.value)), "gone, though its last data is inside"
            first = bench.place_of(answer.data[:_CHUNK], since)
            last = bench.place_of(answer.data[-_CHUNK:], since)
            assert bench.now < 10_000, "an answer does not leave"
        assert first is not None
        apart += last > first + 1
        await bench.completed(400)
        await bench.clocks(20)
    bench.check()
    assert apart, "no retry came between the two flits of an answer"


@link_test
async def sequence_held_back(dut: Any) -> None:
    """Check that a RETRY sequence is sent and counted once under back-pressure at each flit."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await HeldBench(dut, rng.getrandbits(32)).up(100)
    for place in range(_SEQUENCE + 1):
        for to_host in (True, False):
            since, counted = len(bench.tx_log), bench.events["retry_remote"]
            bench.lose_one(to_host)
            if to_host:
                bench.answer(random_ndr(rng))
            else:
                bench.send(random_req(rng))
            for _ in range(200):
                await bench.clock()
                if bench.controls(since).count(RetryFrame()) + 1 > place:
                    break
            bench.ready_rate = 0.0
            await bench.clocks(rng.randrange(5, 12))
            bench.ready_rate = 1.0
            await bench.completed(400)
            await bench.clocks(40)
            sent = bench.controls(since)
            answers = sum(isinstance(one, RetryAck) for one in sent)
            asked = [one.num_retry for one in sent if isinstance(one, RetryReq)]
            assert (answers, asked) == ((1, []) if to_host else (0, [1])), f"{place}: {sent}"
            assert bench.events["retry_remote"] == counted + answers, f"held at {place}: {answers}"
    bench.check()
