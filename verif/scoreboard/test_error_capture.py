# SPDX-License-Identifier: Apache-2.0
"""Tests of the error capture: it shows the first refused access, or any of those that raced to be
it.
"""

import dataclasses
from typing import Any

import pytest

from cocotbext.cxl.wire.messages import M2SMessage
from models.parameters import DeviceParams
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.test_scoreboard import Bench, read, write

FAR = 1 << 45


class CaptureBench(Bench):
    """Testbench of the scoreboard with a register bus."""

    def __init__(self) -> None:
        super().__init__()
        self.bus = PredictorBench(self.scoreboard, DeviceParams(mem_lines_log2=20))
        self.reads = self.bus.read

    def info(self, msg: M2SMessage, valid: int = 1, **change: int) -> int:
        fields: dict[str, Any] = {
            "VALID": valid,
            "CAUSE": 2,
            "WRITE": hasattr(msg, "data"),
            "OPCODE": int(msg.opcode),
            "LDID": msg.ldid,
            **change,
        }
        return self.bus.predictor.by_name["ERR_INFO"].pack(**fields)


@pytest.mark.parametrize("field", ["VALID", "CAUSE", "WRITE", "OPCODE", "LDID"])
def test_each_field_is_compared(field: str) -> None:
    bench = CaptureBench()
    assert bench.reads("ERR_INFO", 0)
    msg = bench.begin(dataclasses.replace(read(FAR | 64), ldid=5))
    bench.answer(msg)
    right = bench.info(msg)
    assert bench.reads("ERR_INFO", right)
    flip = 1 << bench.bus.predictor.by_name["ERR_INFO"].field(field).lsb
    assert not bench.reads("ERR_INFO", right ^ flip)


def test_address_and_tag_belong_to_it() -> None:
    bench = CaptureBench()
    first = bench.begin(read(FAR | 64 | 1 << 51))
    bench.answer(first)
    bench.do(write(FAR | 128))
    low, high = first.addr & 0xFFFF_FFFF, first.addr >> 32
    assert bench.reads("ERR_ADDR_LO", low)
    assert bench.reads("ERR_ADDR_HI", high)
    assert bench.reads("ERR_TAG", first.tag)
    assert not bench.reads("ERR_ADDR_LO", 128)
    assert not bench.reads("ERR_ADDR_HI", high ^ 1 << 19)
    assert not bench.reads("ERR_TAG", first.tag + 1)


def test_of_two_that_race_either_but_not_a_mixture() -> None:
    for chosen in (0, 1):
        bench = CaptureBench()
        both = [bench.begin(dataclasses.replace(read(FAR | 64 << k), ldid=k)) for k in (1, 2)]
        late = None
        for msg in both:
            bench.answer(msg)
        late = bench.begin(dataclasses.replace(read(FAR), ldid=3))
        bench.answer(late)
        assert not bench.reads("ERR_INFO", bench.info(late))
        assert bench.reads("ERR_INFO", bench.info(both[chosen]))
        bench.bus.exact("ERR_TAG", both[chosen].tag, both[1 - chosen].tag)


def test_arming_starts_again() -> None:
    bench = CaptureBench()
    first = bench.begin(read(FAR | 64))
    bench.answer(first)
    bench.bus.write("ERR_INFO", 1)
    assert not bench.reads("ERR_INFO", bench.info(first))
    assert bench.reads("ERR_INFO", bench.info(first, valid=0)), "the other fields stay"
    assert not bench.reads("ERR_INFO", 0)
    bench.scoreboard.clear_counters()  # has nothing to do with it
    second = bench.begin(write(FAR | 128))
    bench.answer(second)
    assert not bench.reads("ERR_INFO", bench.info(first, valid=0))
    assert bench.reads("ERR_INFO", bench.info(second))


def test_a_read_around_an_arming_write_may_show_the_old_capture_or_none() -> None:
    values = {"the capture": {}, "its fields": {"valid": 0}, "another": {"LDID": 9}}
    for name, change in values.items():
        bench = CaptureBench()
        first = bench.begin(read(FAR | 64))
        bench.answer(first)
        assert bench.reads("ERR_INFO", bench.info(first))
        reading = AxiLiteAccess(False, bench.bus.address("ERR_INFO"), bench.info(first, **change))
        bench.bus.predictor.begin(reading)
        bench.bus.write("ERR_INFO", 1)
        bench.bus.predictor.end(reading)
        assert (bench.errors == []) == (name != "another")


def test_in_flight_it_may_be_captured_or_not() -> None:
    bench = CaptureBench()
    msg = bench.begin(read(FAR | 64))
    assert bench.reads("ERR_INFO", 0)
    bench.bus.exact("ERR_INFO", bench.info(msg), bench.info(msg, LDID=9))


@pytest.mark.parametrize("answered", ["before", "within", "after"])
@pytest.mark.parametrize("valid", [0, 1])
def test_a_refusal_around_an_arming_write(answered: str, valid: int) -> None:
    """Check that the write of VALID clears a capture before it, and may clear one in flight."""
    bench = CaptureBench()
    msg = bench.begin(read(FAR | 64))
    arming = AxiLiteAccess(True, bench.bus.address("ERR_INFO"), 1, 0xF)
    for moment in ("before", "within", "after"):
        if moment == answered:
            bench.answer(msg)
        if moment != "after":
            (bench.bus.predictor.end if moment == "within" else bench.bus.predictor.begin)(arming)
    assert bench.reads("ERR_INFO", bench.info(msg, valid)) is not (valid and answered == "before")
    assert not bench.reads("ERR_INFO", bench.info(msg, valid, LDID=9))


def test_what_came_after_the_first_may_be_captured_after_arming() -> None:
    """Check that a request in flight is not forgotten while many others are refused."""
    bench = CaptureBench()
    bench.do(read(FAR | 64))
    held = bench.begin(dataclasses.replace(read(FAR | 128), ldid=7))
    for _ in range(70):
        bench.do(read(FAR | 64))
    bench.bus.write("ERR_INFO", 1)
    bench.answer(held)
    assert bench.reads("ERR_INFO", bench.info(held))
    assert not bench.reads("ERR_INFO", 0)
