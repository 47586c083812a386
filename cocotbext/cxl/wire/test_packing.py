# SPDX-License-Identifier: Apache-2.0
"""Tests of packers and unpackers: round trips, density, corner cases, broken rules."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from cocotbext.cxl.wire.conftest import random_requests
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.describe import describe
from cocotbext.cxl.wire.flits import Direction, FlitHeader
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    S2MNDR,
    DrsOp,
    M2SMessage,
    M2SReq,
    M2SRwD,
    Message,
    NdrOp,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from cocotbext.cxl.wire.packer import Credits, M2SPacker, Packed, PackOptions, S2MPacker
from cocotbext.cxl.wire.unpack import FlitReport, IssueKind, M2SUnpacker, S2MUnpacker

PLENTY = Credits(10**6, 10**6)
LINE = bytes(range(64))


def s2m_messages(rng: random.Random, count: int) -> list[S2MMessage]:
    out: list[S2MMessage] = []
    for tag in range(count):
        ldid, load = rng.randrange(16), rng.randrange(4)
        if rng.randrange(2):
            out.append(S2MNDR(NdrOp.CMP, tag, ldid, load))
        else:
            poison = rng.random() < 0.2
            out.append(S2MDRS(DrsOp.MEM_DATA, tag, ldid, load, poison, rng.randbytes(64)))
    return out


def random_options(rng: random.Random) -> PackOptions:
    return PackOptions(
        dense=rng.random() < 0.3,
        multi_header=rng.random() < 0.5,
        rng=rng,
        header_weight=rng.choice((0.2, 1, 5)),
        data_weight=rng.choice((0.2, 1, 5)),
        empty_weight=rng.choice((0.1, 1)),
    )


WAYS = [
    (M2SPacker, M2SUnpacker, lambda rng: random_requests(rng, 120, 1 << 46), 1, 5),
    (S2MPacker, S2MUnpacker, lambda rng: s2m_messages(rng, 150), 3, 12),
]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(
    ("pack", "unpack", "messages", "most_data", "most_owed"), WAYS, ids=["m2s", "s2m"]
)
def test_round_trip(
    pack: Any, unpack: Any, messages: Any, most_data: int, most_owed: int, seed: int
) -> None:
    rng = random.Random(seed)
    packer, unpacker, sent = pack(random_options(rng)), unpack(), messages(rng)
    got: list[Message] = []
    for message in sent:
        packer.push(message)
    for _ in range(2000):
        credits = Credits(rng.randrange(4), rng.randrange(4))
        before = unpacker.owed
        packed = packer.next(credits)
        if packed is None:
            continue
        assert packed.plain <= min(2, credits.plain)
        assert packed.data <= min(most_data, credits.data)
        report = unpacker.feed(packed.payload)
        assert not report.issues
        assert (report.owed_before, report.owed_after) == (before, packed.owed)
        assert (report.plain, report.data) == (packed.plain, packed.data)
        assert report.adf == packed.adf == (before > 3)
        assert report.owed_after <= most_owed
        got += report.messages
    assert not packer.waiting
    assert not packer.owed
    for kind in {type(one) for one in sent}:
        assert [m for m in got if type(m) is kind] == [m for m in sent if type(m) is kind]


def _flits_for(packer: M2SPacker | S2MPacker, count: int) -> list[Packed]:
    out = []
    for _ in range(count):
        packed = packer.next(PLENTY)
        assert packed is not None
        out.append(packed)
    return out


def test_dense_limits() -> None:
    writes = M2SPacker()
    for tag in range(8):
        writes.push(M2SRwD(RwdOp.MEM_WR, tag, 64 * tag, data=LINE))
    flits = _flits_for(writes, 10)  # 4 lines per 5 flits
    assert [f.owed for f in flits] == [1, 2, 3, 4, 0] * 2
    assert writes.next(PLENTY) is None

    partial = M2SPacker()
    for tag in range(4):
        partial.push(M2SRwD(RwdOp.MEM_WR_PTL, tag, 64 * tag, data=LINE, be=tag))
    assert [f.owed for f in _flits_for(partial, 6)] == [2, 4, 0] * 2  # 2 per 3
    assert partial.next(PLENTY) is None

    reads = M2SPacker()
    for tag in range(6):
        reads.push(M2SReq(ReqOp.MEM_RD, tag, 64 * tag))
    assert [f.plain for f in _flits_for(reads, 3)] == [2, 2, 2]

    single, multi = S2MPacker(), S2MPacker(PackOptions(multi_header=True))
    for tag in range(8):
        single.push(S2MDRS(DrsOp.MEM_DATA, tag, data=LINE))
        multi.push(S2MDRS(DrsOp.MEM_DATA, tag, data=LINE))
    assert [f.owed for f in _flits_for(single, 10)] == [1, 2, 3, 4, 0] * 2
    assert [f.owed for f in _flits_for(multi, 9)] == [5, 1, 6, 2, 7, 3, 8, 4, 0]  # 8 lines per 9
    assert multi.next(PLENTY) is None


def test_rwd_and_reads_share_flits_in_order_of_age() -> None:
    packer = M2SPacker()
    packer.push(M2SReq(ReqOp.MEM_RD, 1, 0))
    packer.push(M2SRwD(RwdOp.MEM_WR, 2, 64, data=LINE))
    packer.push(M2SReq(ReqOp.MEM_RD, 3, 0))
    first, second = _flits_for(packer, 2)
    assert FlitHeader.decode(first.payload & 0xFFFF_FFFF).slots == (5, 5, 0, 0)
    # Owed chunks come first, in slots 1 and 2; slot 0 already holds the next request.
    assert FlitHeader.decode(second.payload & 0xFFFF_FFFF).slots == (5, 0, 0, 4)


def _flit(slots: tuple[int, int, int, int], bodies: dict[int, int], **header: bool | int) -> int:
    payload = FlitHeader(slots=slots, **header).encode()  # type: ignore[arg-type]
    for slot, bits in bodies.items():
        payload |= bits << (128 * slot or 32)
    return payload


def _adf(*chunks: int) -> int:
    return sum(chunk << 128 * i for i, chunk in enumerate(chunks))


CHUNKS = [int.from_bytes(LINE[i : i + 16], "little") for i in (0, 16, 32, 48)]
RWD = M2SRwD(RwdOp.MEM_WR, 0x1234, 0x40, data=LINE)
PTL = M2SRwD(RwdOp.MEM_WR_PTL, 0x1235, 0x80, data=LINE, be=0x8000_0000_0000_0001)
REQ = M2SReq(ReqOp.MEM_RD, 9, 0x1000)


def test_corner_header_with_be_in_slot_2() -> None:
    unpacker = M2SUnpacker()
    report = unpacker.feed(
        _flit((5, 4, 5, 0), {2: PTL.pack(), 3: CHUNKS[0]}, sz=True, be=True),
    )
    assert report.owed_after == 4
    report = unpacker.feed(_adf(*CHUNKS[1:], PTL.be))
    assert report.adf
    assert report.messages == [PTL]
    assert unpacker.owed == 0


def test_corner_worst_cases() -> None:
    unpacker = M2SUnpacker()
    assert unpacker.feed(_flit((5, 4, 4, 5), {3: PTL.pack()}, sz=True, be=True)).owed_after == 5
    assert unpacker.feed(_adf(*CHUNKS)).owed_after == 1
    # Slot 1 must be data; slot 0 and the others are free.
    report = unpacker.feed(_flit((5, 0, 4, 4), {0: REQ.pack(), 1: PTL.be, 2: REQ.pack()}))
    assert report.messages == [REQ, PTL, REQ]
    assert not report.issues

    host = S2MUnpacker()
    drs = [S2MDRS(DrsOp.MEM_DATA, tag, data=bytes([tag]) * 64) for tag in (1, 2, 3)]
    bits = drs[0].pack() | drs[1].pack() << 40 | drs[2].pack() << 80
    assert host.feed(_flit((4, 5, 5, 6), {3: bits}, sz=True)).owed_after == 12
    reports = [host.feed(_adf(*[int.from_bytes(bytes([t]) * 16)] * 4)) for t in (1, 2, 3)]
    assert [r.owed_after for r in reports] == [8, 4, 0]
    assert [m for r in reports for m in r.messages] == drs


def test_corner_header_in_slot_0_over_a_rollover_of_3() -> None:
    unpacker = M2SUnpacker()
    unpacker.feed(_flit((4, 4, 4, 0), {0: RWD.pack(), 3: CHUNKS[0]}, sz=True))
    assert unpacker.owed == 3
    report = unpacker.feed(
        _flit(
            (4, 0, 0, 0),
            {0: PTL.pack(), 1: CHUNKS[1], 2: CHUNKS[2], 3: CHUNKS[3]},
            sz=True,
            be=True,
        )
    )
    assert report.messages == [RWD]
    assert report.owed_after == 5
    unpacker.feed(_adf(*CHUNKS))
    assert unpacker.feed(_flit((5, 0, 4, 4), {1: PTL.be})).messages == [PTL]


def test_all_zero_flit_is_empty() -> None:
    for unpacker in (M2SUnpacker(), S2MUnpacker()):
        report: FlitReport[object] = unpacker.feed(0)  # type: ignore[assignment]
        assert not report.messages
        assert {issue.kind for issue in report.issues} == {IssueKind.STRAY_DATA}


def _kinds(report: FlitReport[M2SMessage] | FlitReport[S2MMessage]) -> list[str]:
    return [issue.kind.value for issue in report.issues]


_RWD, _REQ, _PTL = RWD.pack(), REQ.pack(), PTL.pack()
BROKEN: dict[str, tuple[int, str]] = {
    "two data headers": (_flit((4, 5, 4, 4), {0: _RWD, 1: _RWD}, sz=True), "protocol_error"),
    "three Req": (_flit((5, 4, 4, 4), {0: _REQ, 1: _REQ, 2: _REQ}), "protocol_error"),
    "reserved H6": (_flit((6, 4, 4, 4), {}), "protocol_error"),
    "reserved G7": (_flit((5, 4, 7, 4), {}), "protocol_error"),
    "stray": (_flit((5, 4, 0, 4), {2: 5}), "stray_data"),
    "cache data header": (_flit((5, 4, 4, 4), {3: 1 << 88}), "cache_message"),
    "cache slot": (_flit((0, 4, 4, 4), {0: 1}), "cache_message"),
    "empty G5": (_flit((5, 5, 4, 4), {}), "not_empty_form"),
    "reserved bits": (_flit((5, 4, 4, 4), {1: 1 << 87}), "reserved_bits"),
    "reserved header": (_flit((5, 4, 4, 4), {}) | 2, "reserved_bits"),
    "Sz = 0": (_flit((4, 4, 4, 4), {0: _RWD}), "protocol_error"),
    "MemWr with BE": (_flit((4, 4, 4, 4), {0: _RWD}, sz=True, be=True), "protocol_error"),
    "MemWrPtl without BE": (_flit((4, 4, 4, 4), {0: _PTL}, sz=True), "protocol_error"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rules(name: str) -> None:
    payload, kind = BROKEN[name]
    assert _kinds(M2SUnpacker().feed(payload)) == [kind]


def test_misframed_message_follows_the_header_bits() -> None:
    unpacker = M2SUnpacker()
    assert unpacker.feed(_flit((4, 4, 4, 4), {0: RWD.pack()}, sz=True, be=True)).owed_after == 5
    unpacker.feed(_adf(*CHUNKS))
    report = unpacker.feed(_flit((5, 0, 4, 4), {1: 3}))
    assert report.misframed == report.messages
    assert report.messages[0].tag == RWD.tag


def test_data_missing_where_it_must_stand() -> None:
    unpacker = M2SUnpacker()
    unpacker.feed(_flit((4, 0, 0, 4), {0: RWD.pack()}, sz=True))
    assert unpacker.owed == 2
    report = unpacker.feed(_flit((5, 0, 4, 0), {}))
    assert _kinds(report) == ["protocol_error"]
    assert report.owed_after == 0


def test_s2m_rules() -> None:
    drs, ndr = S2MDRS(DrsOp.MEM_DATA, 1), S2MNDR(NdrOp.CMP, 2)
    two = drs.pack() | drs.pack() << 40
    assert _kinds(S2MUnpacker().feed(_flit((5, 5, 5, 5), {0: two}, sz=True))) == []
    assert _kinds(S2MUnpacker().feed(_flit((5, 4, 5, 5), {0: two, 1: drs.pack()}, sz=True))) == [
        "protocol_error"
    ]
    assert _kinds(S2MUnpacker().feed(_flit((3, 4, 5, 5), {0: drs.pack(), 1: drs.pack()}, sz=True)))
    assert _kinds(S2MUnpacker().feed(_flit((5, 5, 5, 5), {0: two}, sz=True, be=True))) == [
        "protocol_error",
        "protocol_error",
    ]
    three = _flit((3, 5, 5, 5), {0: ndr.pack() << 40, 1: ndr.pack() << 28, 2: ndr.pack() << 28})
    assert _kinds(S2MUnpacker().feed(three)) == ["protocol_error"]


def test_empty_flit() -> None:
    for packer, unpacker in ((M2SPacker(), M2SUnpacker()), (S2MPacker(), S2MUnpacker())):
        report = unpacker.feed(packer.empty().payload)
        assert not report.messages
        assert not report.issues


def test_stray_data_knob() -> None:
    options = PackOptions(dense=False, stray_data_rate=0.5, rng=random.Random(3))
    packer, unpacker = M2SPacker(options), M2SUnpacker()
    kinds = set()
    for message in random_requests(random.Random(4), 50):
        packer.push(message)
        while (packed := packer.next(PLENTY)) is not None:
            kinds |= {issue.kind for issue in unpacker.feed(packed.payload).issues}
    assert kinds == {IssueKind.STRAY_DATA}


def test_description() -> None:
    packer = M2SPacker()
    packer.push(PTL)
    packed = packer.next(PLENTY)
    assert packed is not None
    text = describe(seal(packed.payload), Direction.M2S)
    assert "MEM_WR_PTL tag=1235" in text
    assert "BE Sz" in text
    assert f"slot 1: data {LINE[:16].hex()}" in text
    assert "BAD" in describe(seal(packed.payload) ^ 1 << 520, Direction.M2S)
    assert "all-data" in describe(0, Direction.S2M, owed=4)
    assert "(stray)" in describe(0, Direction.S2M)


# -- random packing reaches every legal placement and rollover of link spec §6 --------------------
Reached = tuple[set[tuple[int, int]], set[tuple[int, int]], bool]


def reached(packer: Any, unpacker: Any, draw: Callable[[], list[Message]], flits: int) -> Reached:
    """Pack and unpack ``flits`` flits of random messages; return what they have reached.

    Returns:
        The (slot, format) of all headers, the (data slots owed before, after) of all protocol
        flits, and whether a flit with a write in slot 2 left four data slots owed.
    """
    placements: set[tuple[int, int]] = set()
    rollovers: set[tuple[int, int]] = set()
    be_in_slot_2 = False
    for _ in range(flits):
        if packer.waiting < 8:
            for message in draw():
                packer.push(message)
        report = unpacker.feed(packer.next(PLENTY).payload)
        placements |= set(report.placements)
        if not report.adf:
            rollovers.add((report.owed_before, report.owed_after))
            be_in_slot_2 |= report.owed_after == 4 and (2, 5) in report.placements
    return placements, rollovers, be_in_slot_2


def test_m2s_corners() -> None:
    rng = random.Random(1)

    def draw() -> list[Message]:
        return [M2SReq(ReqOp.MEM_RD, 0, 0), M2SRwD(rng.choice(list(RwdOp)), 0, 0)]

    packer = M2SPacker(PackOptions(dense=False, rng=rng))
    placements, rollovers, be_in_slot_2 = reached(packer, M2SUnpacker(), draw, 4000)
    assert placements == {(0, 4), (0, 5), *((s, f) for s in (1, 2, 3) for f in (4, 5))}
    # Every R can be followed by every R that the free slots can lead to.
    assert {after for before, after in rollovers if before == 0} == {0, 1, 2, 3, 4, 5}
    assert {after for before, after in rollovers if before == 3} == {0, 4, 5}
    assert be_in_slot_2


def test_s2m_corners() -> None:
    def draw() -> list[Message]:
        return [S2MNDR(NdrOp.CMP, 0), S2MDRS(DrsOp.MEM_DATA, 0)]

    packer = S2MPacker(PackOptions(dense=False, multi_header=True, rng=random.Random(2)))
    placements, rollovers, _ = reached(packer, S2MUnpacker(), draw, 6000)
    slots = {(s, f) for s in (1, 2, 3) for f in (4, 5, 6)}
    assert placements == {(0, 3), (0, 4), (0, 5)} | slots
    # 9 is impossible: G6 leaves 10 or more, H5 over a rollover of 3 leaves 8.
    assert {after for _, after in rollovers} == set(range(13)) - {9}
