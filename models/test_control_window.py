# SPDX-License-Identifier: Apache-2.0
"""Tests of the control window in the device model: decoding, refusals, positions, written words."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, S2MNDR, M2SReq, M2SRwD, ReqOp, RwdOp
from models.access_decode import Cause, Kind
from models.commit_check import CommitCode, check_commit, check_move
from models.control_window import (
    CONTROL_LINES,
    REGION_LINE,
    ControlWindow,
    pack_line,
    whole_words,
    written_words,
)
from models.device import DeviceModel
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig

HW = DeviceParams(regions=2, mem_lines_log2=10)
BASE = 1 << 30
REGION = RegionConfig(1 << 32, 0, 0, 2, Mode.G_BINARY)


def device() -> DeviceModel:
    model = DeviceModel(HW)
    assert model.move_control(BASE) is CommitCode.OK
    model.control = replace(model.control, ld_mask=1 << 9, owners=(None, 4))
    return model


def write(line: int, ldid: int, be: int | None = None, poison: bool = False) -> M2SRwD:
    opcode = RwdOp.MEM_WR if be is None else RwdOp.MEM_WR_PTL
    return M2SRwD(
        opcode,
        0,
        BASE + 64 * line,
        ldid=ldid,
        data=bytes(64),
        be=BE_ALL if be is None else be,
        poison=poison,
    )


@pytest.mark.parametrize(
    ("line", "ldid", "be", "poison", "cause"),
    [
        (0, 9, None, False, Cause.NONE),
        (0, 4, None, False, Cause.CONTROL),
        (REGION_LINE, 4, None, False, Cause.CONTROL),
        (REGION_LINE + 1, 4, None, False, Cause.NONE),
        (REGION_LINE + 1, 9, None, False, Cause.NONE),
        (REGION_LINE + 2, 4, None, False, Cause.CONTROL),
        (REGION_LINE + 1, 4, None, True, Cause.CONTROL),
        (REGION_LINE + 1, 4, 0xF0, False, Cause.NONE),
        (REGION_LINE + 1, 4, 0, False, Cause.NONE),
        (REGION_LINE + 1, 4, 0x70, False, Cause.PARTIAL),
        (REGION_LINE + 1, 5, 0x70, True, Cause.PARTIAL),
    ],
)
def test_writes(line: int, ldid: int, be: int | None, poison: bool, cause: Cause) -> None:
    model, message = device(), write(line, ldid, be, poison)
    access = model.decode(message)
    assert access.cause is cause
    assert access.kind is (Kind.REFUSED if cause else Kind.CONTROL)
    assert access.line == line
    assert isinstance(model.step(message), S2MNDR)
    assert model.counters["REFUSED"] == bool(cause)
    assert "registers" in model.explain(message) or "refused" in model.explain(message)


def test_reads_and_other_opcodes() -> None:
    model = device()
    for opcode in (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA):
        got = model.step_result(M2SReq(opcode, 0, BASE + 63 * 64, ldid=1))
        assert got.access.kind is Kind.CONTROL
        assert isinstance(got.response, S2MDRS)
        assert not got.response.poison
        assert not got.known_bytes, "what registers hold is compared elsewhere"
    assert model.decode(M2SReq(ReqOp.MEM_INV, 0, BASE, ldid=1)).kind is Kind.NO_EFFECT
    assert model.decode(M2SReq(ReqOp.MEM_RD_FWD, 0, BASE, ldid=1)).cause is Cause.UNSUPPORTED
    beyond = M2SReq(ReqOp.MEM_RD, 0, BASE + CONTROL_LINES * 64, ldid=1)
    assert model.decode(beyond).cause is Cause.UNMAPPED
    assert model.move_control(0) is CommitCode.OK
    assert model.decode(M2SReq(ReqOp.MEM_RD, 0, BASE, ldid=1)).cause is Cause.UNMAPPED
    assert model.decode(M2SReq(ReqOp.MEM_RD, 0, 0, ldid=1)).kind is Kind.MEMORY


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (0, CommitCode.OK),
        (1 << 20, CommitCode.OK),
        ((1 << 20) + 64, CommitCode.BASE_ALIGN),
        ((1 << 16) - 4096, CommitCode.WINDOW_MEMORY),
        (1 << 16, CommitCode.OK),
        (REGION.base, CommitCode.WINDOW_OVERLAP),
        (REGION.base + 3 * 4096, CommitCode.WINDOW_OVERLAP),
        (REGION.base + 4 * 4096, CommitCode.OK),
    ],
)
def test_places(place: int, code: CommitCode) -> None:
    assert check_move(HW, place, [REGION]) is code
    model = device()
    assert model.commit(0, REGION, 1) is CommitCode.OK
    assert model.move_control(place) is code
    assert model.control.base == (place if code is CommitCode.OK else BASE)


def test_a_region_keeps_off_the_window() -> None:
    inside = (REGION.base >> 6) + 128
    assert check_commit(HW, REGION, (), inside) is CommitCode.WINDOW_OVERLAP
    assert check_commit(HW, REGION, (), (REGION.base >> 6) + 256) is CommitCode.OK
    assert check_commit(HW, REGION, ()) is CommitCode.OK


@given(st.dictionaries(st.integers(0, 15), st.integers(0, (1 << 32) - 1), min_size=1))
def test_words_come_back(words: dict[int, int]) -> None:
    registers = {0x400 + 4 * word: value for word, value in words.items()}
    data, be = pack_line(registers)
    assert whole_words(be)
    assert written_words(16, data, be) == registers
    assert ControlWindow(base=BASE).address(0x400) == BASE + 16 * 64


def test_words_of_two_lines() -> None:
    with pytest.raises(ValueError, match="one line"):
        pack_line({0: 1, 64: 1})


@given(st.integers(0, 15), st.integers(1, 14))
def test_part_of_a_word(word: int, lanes: int) -> None:
    assert not whole_words(lanes << 4 * word)
