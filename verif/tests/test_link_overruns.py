# SPDX-License-Identifier: Apache-2.0
"""Messages without a credit at ``nf_link`` alone: counted, dropped whole, nothing else is affected.

spec: link spec §3, §6, §9.
"""

import cocotb

from cocotbext.cxl.wire.flits import chunks_of_line
from cocotbext.cxl.wire.messages import M2SReq, M2SRwD, ReqOp
from verif.tests.link_messages import data_flit, random_rwd, rwd_word, slots_flit, write_flits
from verif.tests.link_testbench import (
    ALL_CREDITS,
    REQ_CREDITS,
    RWD_CREDITS,
    LinkTestbench,
    link_up_test,
)

HELD = {"core": "core_rate", "wire": "ready_rate"}
"""Attribute of the testbench, a rate, that is 0 while no credit may return."""


@link_up_test
async def request_without_credit(bench: LinkTestbench) -> None:
    """Check that a request without a credit is counted and dropped, and earlier ones arrive."""
    bench.core_rate = 0.0
    count = REQ_CREDITS + 1
    bench.host.credits.plain = 0
    for tag in range(count):
        raw = M2SReq(ReqOp.MEM_RD, tag, tag << 6).pack()
        bench.drive(slots_flit((5, 4, 4, 4), (raw, 0, 0, 0)))
    await bench.clocks(count + 10)
    assert bench.events["protocol_error"] == 1
    bench.core_rate = 1.0
    await bench.clocks(count + 300)  # several LLCRD, each of a power of two
    assert [word >> 50 & 0xFFFF for word in bench.got.req] == list(range(REQ_CREDITS))
    assert bench.host.credits == ALL_CREDITS


@cocotb.parametrize(held_by=["core", "wire"])
@link_up_test
async def write_without_credit(bench: LinkTestbench, held_by: str) -> None:
    """Check that writes beyond the credits are counted and dropped, and earlier ones arrive.

    No credit returns because the core accepts no write (the queue is full), or because the wire
    accepts no flit (the queue is empty: a write too many would find room; some grants had left
    before).
    """
    rng = bench.rng
    setattr(bench, HELD[held_by], 0.0)
    extra = rng.randrange(1, 4) if held_by == "core" else 2 * RWD_CREDITS
    writes = [random_rwd(rng, 0.0) for _ in range(RWD_CREDITS + extra)]
    bench.host.credits.data = 0
    for part in (writes[:RWD_CREDITS], writes[RWD_CREDITS:]):
        for write in part:
            bench.drive(*write_flits(write))
        await bench.clocks(2 * len(part) + 50)  # until no more grants go out
    dropped = bench.events["protocol_error"]
    assert dropped == extra if held_by == "core" else 0 < dropped <= extra
    bench.host.credits.data -= extra - dropped  # spent on grants that the host has not seen yet
    setattr(bench, HELD[held_by], 1.0)
    await bench.clocks(2 * len(writes) + 300)
    assert bench.got.rwd == [rwd_word(write) for write in writes[:-dropped]]
    assert bench.host.credits == ALL_CREDITS
    after: M2SRwD = random_rwd(rng)
    bench.send(after)
    await bench.clocks(60)
    assert bench.got.rwd[-1] == rwd_word(after), "the link goes on"


@cocotb.parametrize(held_by=["core", "wire"])
@link_up_test
async def refused_write_behind_another(bench: LinkTestbench, held_by: str) -> None:
    """Check the data of two writes if the header of a refused one precedes the other's last data.

    That is an error of the host. The first write has the last credit (the core accepts no write),
    or is refused, too (the wire accepts no flit: a refused write would find room).
    """
    rng = bench.rng
    setattr(bench, HELD[held_by], 0.0)
    writes = [random_rwd(rng, 0.0) for _ in range(RWD_CREDITS - 1 if held_by == "core" else 99)]
    bench.host.credits.data = 0
    for write in writes:
        bench.drive(*write_flits(write))
    await bench.clocks(2 * len(writes) + 50)
    dropped = bench.events["protocol_error"]
    first, second = random_rwd(rng, 0.0), random_rwd(rng, 0.0)
    a, b = chunks_of_line(first.data), chunks_of_line(second.data)
    bench.drive(
        write_flits(first)[0],
        slots_flit((4, 4, 4, 4), (second.pack(), 0, 0, 0), True),
        data_flit(a[3], *b[:3]),
        write_flits(second)[1],
    )
    await bench.clocks(50)
    wanted = [rwd_word(write) for write in writes[: len(writes) - dropped]]
    if held_by == "core":
        assert (dropped, bench.events["protocol_error"]) == (0, 1)
        wanted.append(rwd_word(first))
    else:
        assert bench.events["protocol_error"] == dropped + 2
    bench.host.credits.data = RWD_CREDITS - len(wanted)  # grants on their way add up to all of them
    setattr(bench, HELD[held_by], 1.0)
    await bench.clocks(2 * len(writes) + 300)
    assert bench.got.rwd == wanted
    assert bench.host.credits == ALL_CREDITS
