# SPDX-License-Identifier: Apache-2.0
"""Tests of headers, Protocol IDs, credits, slots and control flits against the link spec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    UnknownControl,
    decode_control,
    encode_control,
    is_retryable,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.describe import describe, describe_message
from cocotbext.cxl.wire.flits import (
    CREDIT_SIZES,
    Direction,
    FlitHeader,
    ProtocolCode,
    chunks_of_line,
    decode_credit,
    decode_protocol_id,
    encode_credit,
    is_cache_credit,
    largest_credit,
    line_of_chunks,
)
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SRwD, NdrOp
from cocotbext.cxl.wire.slots import LAYOUTS, SlotUse

U3, U4, U5, U8 = (st.integers(0, (1 << bits) - 1) for bits in (3, 4, 5, 8))


@given(
    st.builds(
        FlitHeader,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.tuples(U3, U3, U3, U3),
        U4,
        U4,
        U4,
    )
)
def test_header_round_trip(header: FlitHeader) -> None:
    word = header.encode()
    assert FlitHeader.decode(word) == header
    assert word & 0b11 == 0
    assert word >> 17 & 7 == 0


def test_header_bit_numbers() -> None:
    assert FlitHeader(ak=True).encode() == 1 << 2
    assert FlitHeader(be=True).encode() == 1 << 3
    assert FlitHeader(sz=True).encode() == 1 << 4
    assert FlitHeader(slots=(7, 0, 0, 0)).encode() == 7 << 5
    assert FlitHeader(slots=(0, 7, 0, 0)).encode() == 7 << 8
    assert FlitHeader(slots=(0, 0, 7, 0)).encode() == 7 << 11
    assert FlitHeader(slots=(0, 0, 0, 7)).encode() == 7 << 14
    assert FlitHeader(rsp_crd=15).encode() == 15 << 20
    assert FlitHeader(req_crd=15).encode() == 15 << 24
    assert FlitHeader(data_crd=15).encode() == 15 << 28
    with pytest.raises(ValueError, match="slot formats"):
        FlitHeader(slots=(8, 0, 0, 0)).encode()
    with pytest.raises(ValueError, match="rsp_crd"):
        FlitHeader(rsp_crd=16).encode()


@pytest.mark.parametrize("bit", range(128))
def test_what_a_description_says_of_a_slot(bit: int) -> None:
    """Check each bit of a slot G4 Req: a part for CXL.cache and bits that must be 0 are named."""
    header = FlitHeader(slots=(5, 4, 0, 0), rsp_crd=2, req_crd=9, be=True)
    text = describe(seal(header.encode() | 1 << 128 + bit), Direction.M2S).splitlines()
    assert "formats 5,4,0,0 BE RspCrd=2 (cache) ReqCrd=1, CRC" in text[0]
    live = LAYOUTS[Direction.M2S][1][4].fields[0].live >> bit & 1
    assert ("! CXL.cache part is valid" in text[2]) == (bit == 88)
    reserved = not live and not 88 <= bit < 112
    assert (f"! reserved bits {1 << bit:#x}" in text[2]) == reserved
    assert ("! reserved" in text[2]) == reserved


@pytest.mark.parametrize("poison", [False, True])
def test_what_a_description_says_of_poison(poison: bool) -> None:
    for message in (M2SRwD(1, 0, 64, poison=poison), S2MDRS(0, 0, poison=poison)):
        assert describe_message(message).endswith(" POISON") is poison


def test_protocol_id() -> None:
    for code in ProtocolCode:
        assert decode_protocol_id(code.word).code is code
        assert not decode_protocol_id(code.word).corrected
        for bad in (code.word ^ 1, code.word ^ 0x100):
            half = decode_protocol_id(bad)
            assert half.code is code
            assert half.corrected
        for other in ProtocolCode:
            if other is not code:
                assert decode_protocol_id(code | other << 8).code is None
    assert decode_protocol_id(0).code is None
    assert not decode_protocol_id(0).corrected
    assert ProtocolCode.CACHEMEM.word == 0x5555
    assert ProtocolCode(0x87).is_cachemem
    assert ProtocolCode(0x4B).is_null


def test_credits() -> None:
    for count in CREDIT_SIZES:
        assert decode_credit(encode_credit(count)) == count
        assert not is_cache_credit(encode_credit(count))
    assert [decode_credit(8 | code) for code in range(8)] == [0, 1, 2, 4, 8, 16, 32, 64]
    assert all(decode_credit(code) == 0 for code in range(8))
    assert is_cache_credit(1)
    assert not is_cache_credit(0)
    assert not is_cache_credit(8)
    with pytest.raises(ValueError, match="no code"):
        encode_credit(3)
    assert [largest_credit(n) for n in (-1, 0, 1, 3, 63, 64, 200)] == [0, 0, 1, 2, 32, 64, 64]


controls = st.one_of(
    st.builds(Llcrd, U8, U4, U4, U4),
    st.just(RetryIdle()),
    st.just(RetryFrame()),
    st.builds(RetryReq, U8, U5, U5),
    st.builds(RetryAck, st.booleans(), st.booleans(), U5, U8, U8, U8),
    st.builds(InitParam, U8),
)


@given(controls)
def test_control_round_trip(flit: ControlFlit) -> None:
    payload = encode_control(flit)
    assert payload & 1
    assert payload >> 128 == 0
    assert payload >> 40 & 0xFF_FFFF == 0
    assert decode_control(payload) == (flit, [])
    assert is_retryable(flit) == isinstance(flit, Llcrd | InitParam)
    assert type(flit).__name__ in describe(seal(payload), Direction.M2S)


def _code(payload: int) -> tuple[int, int]:
    return payload >> 32 & 15, payload >> 36 & 15


def test_control_bit_numbers() -> None:
    assert _code(encode_control(Llcrd())) == (0, 1)
    assert encode_control(UnknownControl(2, 5)) == 1 | 2 << 32 | 5 << 36
    assert _code(encode_control(RetryIdle())) == (1, 0)
    assert _code(encode_control(RetryFrame())) == (1, 3)
    assert _code(encode_control(InitParam(0))) == (0xC, 8)
    ack = encode_control(Llcrd(0b1010_1101))
    assert ack >> 2 & 1 == 1  # Ak = bit 3 of Full_Ack
    assert ack >> 64 == 0b1010_0101
    assert encode_control(Llcrd(0, 1, 2, 3)) >> 20 & 0xFFF == 0x321
    request = encode_control(RetryReq(0xA5, 9, 3))
    assert _code(request) == (1, 1)
    assert request >> 64 == 0xA5 | 9 << 16 | 3 << 21
    answer = encode_control(RetryAck(True, False, 17, 0x12, 0x34, 0x56))
    assert _code(answer) == (1, 2)
    assert answer >> 64 == 1 | 17 << 3 | 0x12 << 8 | 0x34 << 16 | 0x56 << 24
    assert encode_control(InitParam(63)) >> 64 == 2 | 63 << 24
    with pytest.raises(ValueError, match="ack"):
        encode_control(Llcrd(256))


def test_every_static_bit_of_every_control_flit() -> None:
    live: dict[ControlFlit, list[int]] = {
        RetryIdle(): [],
        RetryFrame(): [],
        Llcrd(): [2, *range(20, 32), 64, 65, 66, 68, 69, 70, 71],
        RetryReq(0): [*range(64, 72), *range(80, 90)],
        RetryAck(): [64, 65, *range(67, 96)],
        InitParam(0): [*range(64, 68), *range(88, 96)],
    }
    for flit, bits in live.items():
        payload = encode_control(flit)
        for bit in range(512):
            if bit == 0 or 32 <= bit < 40:
                continue
            wrong = decode_control(payload ^ 1 << bit)[1]
            if bit not in bits:
                assert wrong == [f"static bit {bit} of a control flit is 1"]
            elif 64 <= bit < 68 and isinstance(flit, InitParam):
                assert "version" in wrong[0]
            else:
                assert not wrong
    assert isinstance(decode_control(encode_control(UnknownControl(2, 2)))[0], UnknownControl)


def test_slot_layouts() -> None:
    for direction, (h, g) in LAYOUTS.items():
        assert len(h) == len(g) == 8
        assert g[0].use is SlotUse.DATA
        assert h[7].use is g[7].use is SlotUse.RESERVED
        for layout in (*h, *g):
            assert sum(f.live for f in layout.fields) & layout.reserved == 0
            assert direction is Direction.S2M or not layout.multi_header
    s2m_h, s2m_g = LAYOUTS[Direction.S2M]
    split = S2MNDR(NdrOp.CMP_E, 0xBEEF, 9, 3)
    for layout, slot_low, devload in ((s2m_h[4], 0, 58), (s2m_g[4], 40, 98), (s2m_g[5], 0, 58)):
        field = next(f for f in layout.fields if f.devload)
        bits = field.insert(split.pack())
        assert bits == split.pack() % (1 << 28) << slot_low | 3 << devload
        assert S2MNDR.unpack(field.extract(bits)) == split
    m2s_g = LAYOUTS[Direction.M2S][1]
    assert m2s_g[4].cache_valid == m2s_g[5].cache_valid == 1 << 88
    # Req / RwD end in six reserved bits, bit 87 is reserved; the cache part lies above.
    assert m2s_g[4].reserved == 0x7F << 81 | 0xFFFF << 112
    assert m2s_g[5].reserved == 0x7F << 81 | 0xFF << 120


@given(st.binary(min_size=64, max_size=64))
def test_chunks(line: bytes) -> None:
    chunks = chunks_of_line(line)
    assert line_of_chunks(chunks) == line
    assert [c.to_bytes(16, "little") for c in chunks] == [line[i : i + 16] for i in (0, 16, 32, 48)]
