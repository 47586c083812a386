# SPDX-License-Identifier: Apache-2.0
"""Tests of message layouts against the bit numbers of link spec §5."""

from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    S2MNDR,
    Completion,
    DevLoad,
    DrsOp,
    M2SReq,
    M2SRwD,
    MetaField,
    MetaValue,
    NdrOp,
    ReqOp,
    RwdOp,
    SnpType,
    completion_of,
)

HEAD = {
    "tag": st.integers(0, 0xFFFF),
    "ldid": st.integers(0, 15),
    "meta_field": st.integers(0, 3),
    "meta_value": st.integers(0, 3),
}
M2S = HEAD | {
    "opcode": st.integers(0, 15),
    "snp_type": st.integers(0, 7),
    "tc": st.integers(0, 3),
}
S2M = HEAD | {"opcode": st.integers(0, 7), "devload": st.integers(0, 3)}
LINE = st.binary(min_size=64, max_size=64)
req = st.builds(M2SReq, addr=st.integers(0, 2**47 - 1).map(lambda a: a << 5), **M2S)
rwd = st.builds(
    M2SRwD,
    addr=st.integers(0, 2**46 - 1).map(lambda a: a << 6),
    data=LINE,
    be=st.integers(0, BE_ALL),
    poison=st.booleans(),
    **M2S,
)
ndr = st.builds(S2MNDR, **S2M)
drs = st.builds(S2MDRS, data=LINE, poison=st.booleans(), **S2M)


_REQUEST = {
    "opcode": (4, 1),
    "snp_type": (7, 5),
    "meta_field": (9, 8),
    "meta_value": (11, 10),
    "tag": (27, 12),
    "tc": (76, 75),
    "ldid": (80, 77),
}
_RESPONSE = {"opcode": (3, 1), "meta_field": (5, 4), "meta_value": (7, 6), "tag": (23, 8)}
LAYOUTS: dict[str, tuple[st.SearchStrategy[Any], int, dict[str, tuple[int, int]]]] = {
    "Req": (req, 81, _REQUEST | {"addr": (74, 28)}),
    "RwD": (rwd, 81, _REQUEST | {"addr": (73, 28), "poison": (74, 74)}),
    "NDR": (ndr, 30, _RESPONSE | {"ldid": (27, 24), "devload": (29, 28)}),
    "DRS": (drs, 31, _RESPONSE | {"poison": (24, 24), "ldid": (28, 25), "devload": (30, 29)}),
}
"""(messages, bits of the header, highest and lowest bit of each field) by channel."""
UNSENT = {"Req": 5, "RwD": 6}
"""Lowest address bits that are not sent."""


@pytest.mark.parametrize("channel", LAYOUTS)
@given(st.data())
def test_layout(channel: str, data: st.DataObject) -> None:
    strategy, width, places = LAYOUTS[channel]
    message = data.draw(strategy)
    raw = message.pack()
    assert raw >> width == 0
    assert raw & 1
    for name, (high, low) in places.items():
        value = getattr(message, name) >> (UNSENT[channel] if name == "addr" else 0)
        assert raw >> low & (1 << high - low + 1) - 1 == value, name
    slots = [getattr(message, name) for name in ("data", "be") if hasattr(message, name)]
    assert type(message).unpack(raw, *slots) == message
    if channel in UNSENT:
        other = message.with_tag(7)
        assert other.tag == 7
        assert other.with_tag(message.tag) == message


@pytest.mark.parametrize(
    "message",
    [
        M2SReq(ReqOp.MEM_RD, 1 << 16, 0),
        M2SReq(ReqOp.MEM_RD, 0, 31),
        M2SReq(ReqOp.MEM_RD, 0, 1 << 52),
        M2SRwD(RwdOp.MEM_WR, 0, 32),
        M2SRwD(16, 0, 0),
        S2MNDR(8, 0),
        S2MDRS(0, 0, ldid=16),
        S2MNDR(NdrOp.CMP, -1),
    ],
)
def test_what_does_not_fit_is_refused(message: M2SReq | M2SRwD | S2MNDR | S2MDRS) -> None:
    with pytest.raises(ValueError, match=r"does not fit|not aligned"):
        message.pack()


def test_check_names_what_is_illegal() -> None:
    assert M2SReq(ReqOp.MEM_RD, 0, 0).check() == []
    assert "opcode" in M2SReq(5, 0, 0).check()[0]
    assert "SnpType" in M2SReq(ReqOp.MEM_RD, 0, 0, snp_type=4).check()[0]
    assert "MetaField" in S2MNDR(NdrOp.CMP, 0, meta_field=1).check()[0]
    assert S2MNDR(NdrOp.CMP, 0, meta_field=MetaField.META0_STATE, meta_value=1).check()
    assert "opcode" in S2MNDR(3, 0).check()[0]
    assert "opcode" in S2MDRS(1, 0).check()[0]
    assert "bytes" in S2MDRS(DrsOp.MEM_DATA, 0, data=b"").check()[0]
    assert M2SRwD(RwdOp.MEM_WR, 0, 0, be=1).check()
    assert not M2SRwD(RwdOp.MEM_WR_PTL, 0, 0, be=1).check()


def test_completion_of_every_opcode() -> None:
    drs_ops = {ReqOp.MEM_RD, ReqOp.MEM_RD_DATA, ReqOp.MEM_RD_FWD}
    for opcode in range(16):
        kind = completion_of(M2SReq(opcode, 0, 0))
        if opcode in drs_ops:
            assert kind is Completion.DRS
        elif opcode == ReqOp.MEM_SPEC_RD:
            assert kind is Completion.NONE
        else:
            assert kind is Completion.NDR
        assert completion_of(M2SRwD(opcode, 0, 0)) is Completion.NDR


CODES: dict[type[IntEnum], str] = {
    ReqOp: "MEM_INV 0 MEM_RD 1 MEM_RD_DATA 2 MEM_RD_FWD 3 MEM_WR_FWD 4 MEM_SPEC_RD 8 MEM_INV_NT 9",
    RwdOp: "MEM_WR 1 MEM_WR_PTL 2",
    NdrOp: "CMP 0 CMP_S 1 CMP_E 2",
    DrsOp: "MEM_DATA 0",
    DevLoad: "LIGHT 0 OPTIMAL 1 MODERATE 2 SEVERE 3",
    MetaField: "META0_STATE 0 NO_OP 3",
    MetaValue: "INVALID 0 ANY 2 SHARED 3",
    SnpType: "NO_OP 0 SNP_DATA 1 SNP_CUR 2 SNP_INV 3",
}
"""Names and codes of link spec §5."""


@pytest.mark.parametrize("kind", CODES)
def test_codes_of_the_specification(kind: type[IntEnum]) -> None:
    assert " ".join(f"{one.name} {int(one)}" for one in kind) == CODES[kind]
