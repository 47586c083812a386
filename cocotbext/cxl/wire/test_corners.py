# SPDX-License-Identifier: Apache-2.0
"""Random packing reaches every legal placement and rollover of link spec §6."""

import random

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, DrsOp, M2SReq, M2SRwD, NdrOp, ReqOp, RwdOp
from cocotbext.cxl.wire.packer import Credits, M2SPacker, PackOptions, S2MPacker
from cocotbext.cxl.wire.unpack import M2SUnpacker, S2MUnpacker

PLENTY = Credits(10**6, 10**6)


def test_m2s_corners() -> None:
    rng = random.Random(1)
    packer = M2SPacker(PackOptions(dense=False, rng=rng))
    unpacker = M2SUnpacker()
    placements = set()
    rollovers = set()
    be_in_slot_2 = False
    for _ in range(4000):
        if packer.waiting < 4:
            packer.push(M2SReq(ReqOp.MEM_RD, 0, 0))
            packer.push(M2SRwD(rng.choice(list(RwdOp)), 0, 0))
        packed = packer.next(PLENTY)
        assert packed is not None
        report = unpacker.feed(packed.payload)
        placements |= set(report.placements)
        if not report.adf:
            rollovers.add((report.owed_before, report.owed_after))
            be_in_slot_2 |= report.owed_after == 4 and (2, 5) in report.placements
    assert placements == {(0, 4), (0, 5), *((s, f) for s in (1, 2, 3) for f in (4, 5))}
    # Every R can be followed by every R that the free slots can lead to.
    assert {after for before, after in rollovers if before == 0} == {0, 1, 2, 3, 4, 5}
    assert {after for before, after in rollovers if before == 3} == {0, 4, 5}
    assert be_in_slot_2


def test_s2m_corners() -> None:
    rng = random.Random(2)
    packer = S2MPacker(PackOptions(dense=False, multi_header=True, rng=rng))
    unpacker = S2MUnpacker()
    placements = set()
    rollovers = set()
    for _ in range(6000):
        if packer.waiting < 8:
            packer.push(S2MNDR(NdrOp.CMP, 0))
            packer.push(S2MDRS(DrsOp.MEM_DATA, 0))
        packed = packer.next(PLENTY)
        assert packed is not None
        report = unpacker.feed(packed.payload)
        placements |= set(report.placements)
        rollovers.add(report.owed_after)
    assert placements == {
        *((0, f) for f in (3, 4, 5)),
        *((s, f) for s in (1, 2, 3) for f in (4, 5, 6)),
    }
    # 9 is impossible: G6 leaves 10 or more, H5 over a rollover of 3 leaves 8.
    assert rollovers == set(range(13)) - {9}
