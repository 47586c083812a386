# SPDX-License-Identifier: Apache-2.0
"""Tests of `RamFaults`: each wrong counter and each wrong capture of a RAM error is reported."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, ReqOp
from models.access_decode import Kind
from models.device import DeviceModel
from models.parameters import DeviceParams
from models.register_map import REG_MAP
from verif.scoreboard.lenient import LenientScoreboard, owns_up
from verif.scoreboard.ram_faults import NONE, PARITY, SECDED, RamFaults
from verif.scoreboard.ranges import Span
from verif.scoreboard.scoreboard import REGISTERS

RAMS = REG_MAP.enums["Ram"]
PLACES = st.lists(st.tuples(st.sampled_from(sorted(set(RAMS.values()) - {RAMS["RETRY"]})),
                            st.integers(0, 255)), max_size=6)  # fmt: skip


@pytest.mark.parametrize("marked", [False, True])
def test_what_marks_a_response_as_untrusted(marked: bool) -> None:
    others = (~(1 << 137) % (1 << 512)).to_bytes(64, "little")
    for kind, response, owns in (
        (Kind.RESULT, S2MDRS(0, 0, poison=marked, data=bytes(64)), marked),
        (Kind.INFO, S2MDRS(0, 0, data=(marked << 137).to_bytes(64, "little")), marked),
        (Kind.INFO, S2MDRS(0, 0, poison=marked, data=others), False),
        (Kind.RESULT, S2MNDR(0, 0), False),
    ):
        op: Any = SimpleNamespace(response=response, access=SimpleNamespace(kind=kind))
        assert owns_up(op) is owns


def faults(ecc: int, places: list[tuple[int, int]]) -> RamFaults:
    out = RamFaults(DeviceParams(ecc=ecc))
    for ram, row in places:
        out.injected(ram, row)
    return out


@given(PLACES)
def test_no_more_errors_than_flips(places: list[tuple[int, int]]) -> None:
    assert faults(0, places).bad() == faults(0, places).corrected() == Span(0, 0)
    assert faults(1, places).bad() == Span(0, len(places))
    assert faults(1, places).corrected() == Span(0, 0)
    assert faults(2, places).bad() == Span(0, len(places) // 2)
    assert faults(2, places).corrected() == Span(0, len(places))


@given(PLACES, st.tuples(st.sampled_from(sorted(RAMS.values())), st.integers(0, 255)))
def test_a_capture_names_a_flip(places: list[tuple[int, int]], named: tuple[int, int]) -> None:
    value = {"VALID": 1, "RAM": named[0], "ROW": named[1]}
    wrong = faults(1, places).captured(value)
    assert (wrong is None) == (named in places)
    left = faults(1, places).captured(value | {"VALID": 0})
    assert (left is None) == (named in places or named == (0, 0))


def test_a_flit_is_counted_at_each_replay() -> None:
    assert faults(1, [(RAMS["RETRY"], 3)]).bad().high > 1000


def test_a_reset_forgets() -> None:
    checker = faults(1, [(0, 0)])
    checker.reset()
    assert checker.bad() == Span(0, 0)
    assert "no bit has flipped" in str(checker.captured({"VALID": 1, "RAM": 0, "ROW": 0}))


def test_a_device_has_one_of_three_codes() -> None:
    with pytest.raises(ValueError, match=r"ecc is 0\.\.2"):
        DeviceParams(ecc=3)


@pytest.mark.parametrize("ecc", [NONE, PARITY, SECDED])
def test_what_a_flipped_bit_excuses(ecc: int) -> None:
    """Check that an answer that is not marked as untrusted is a finding on a protected device."""
    device, model = (DeviceModel(DeviceParams(ecc=ecc)) for _ in range(2))
    board = LenientScoreboard(model, 8)
    changes: list[dict[str, Any]] = [{}, {"poison": True}, {"data": b"\x01" * 64}]
    for number, changed in enumerate(changes):
        msg = M2SReq(ReqOp.MEM_RD, number, 64)
        board.request(msg)
        answer = device.step(msg)
        assert answer is not None
        board.response(dataclasses.replace(answer, **changed))  # type: ignore[arg-type]
        trusted = "data" in changed
        assert [board.wrong, len(board.errors)] == [
            trusted * (ecc == NONE),
            trusted * (ecc != NONE),
        ]
        assert board.take_losses() == ("poison" in changed)
    board.error("COUNTER", "COUNTER LATE", checker=REGISTERS)
    assert (board.wrong, len(board.errors)) == ((1, 0) if ecc == NONE else (0, 1))
    board.error("COUNTER", "COUNTER EVICTION", checker=REGISTERS)
    assert len(board.errors) == (0 if ecc == NONE else 2)
