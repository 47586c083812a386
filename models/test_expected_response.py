# SPDX-License-Identifier: Apache-2.0
"""Tests that every wrong field of a response is found, and that undetermined bytes are ignored."""

from dataclasses import replace

import pytest

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, DevLoad, DrsOp, MetaField, NdrOp
from models.access_decode import Access, Kind
from models.expected_response import ExpectedResponse

ACCESS = Access(Kind.MEMORY, False, 0, memory_line=0)
NDR = S2MNDR(NdrOp.CMP, 7, 1)
DRS = S2MDRS(DrsOp.MEM_DATA, 7, 1, data=bytes(range(64)))


def test_the_expected_answer_has_no_differences() -> None:
    for response in (NDR, DRS, None):
        assert ExpectedResponse(ACCESS, response).differences(response) == []


def test_devload_is_not_judged() -> None:
    severe = replace(DRS, devload=DevLoad.SEVERE)
    assert ExpectedResponse(ACCESS, DRS).differences(severe) == []


@pytest.mark.parametrize(
    "change",
    [
        {"opcode": 1},
        {"tag": 8},
        {"ldid": 2},
        {"meta_field": MetaField.META0_STATE},
        {"meta_value": 2},
        {"poison": True},
        {"data": bytes(64)},
        {"data": bytes(range(63)) + b"\x00"},
        {"data": b""},
    ],
)
def test_each_field(change: dict[str, object]) -> None:
    for want in (DRS, NDR):
        if all(hasattr(want, name) for name in change):
            actual = replace(want, **change)  # type: ignore[arg-type]
            assert len(ExpectedResponse(ACCESS, want).differences(actual)) == 1


def test_wrong_kind_missing_and_unasked_answers() -> None:
    assert ExpectedResponse(ACCESS, NDR).differences(DRS) == [
        ("answer", "answered by S2MDRS, expected S2MNDR", None, "")
    ]
    assert ExpectedResponse(ACCESS, NDR).differences(None) == [("answer", "not answered", None, "")]
    assert "expected no answer" in ExpectedResponse(ACCESS, None).differences(NDR)[0].text


def test_undetermined_bytes_and_poison_are_not_judged() -> None:
    partly = ExpectedResponse(ACCESS, DRS, known_bytes=0b11, poison_known=False)
    actual = replace(DRS, poison=True, data=DRS.data[:2] + b"\xee" * 62)
    assert partly.differences(actual) == []
    wrong = replace(DRS, data=b"\xee" * 64)
    text = "2 data bytes differ, the first is byte 0: got ee, expected 00"
    assert partly.differences(wrong) == [("data", text, 0, "one element")]


@pytest.mark.parametrize(
    ("first", "last", "extent"),
    [
        (5, 5, "one byte"),
        (4, 7, "one element"),
        (3, 4, "one slot"),
        (0, 15, "one slot"),
        (15, 16, "whole line"),
        (0, 63, "whole line"),
    ],
)
def test_the_extent_of_a_difference(first: int, last: int, extent: str) -> None:
    data = bytearray(DRS.data)
    for place in (first, last):
        data[place] = 0xEE
    (found,) = ExpectedResponse(ACCESS, DRS).differences(replace(DRS, data=bytes(data)))
    assert (found.byte, found.extent) == (first, extent)
