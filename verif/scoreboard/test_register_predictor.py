# SPDX-License-Identifier: Apache-2.0
"""Tests of the register predictor: it rebuilds commits from single writes, and reports wrong
reads.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product

import pytest

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, ReqOp
from models.device import DeviceModel
from models.modes import Mode
from models.parameters import DeviceParams
from models.register_types import Counts
from verif.axi import Resp
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.ranges import Span
from verif.scoreboard.register_predictor import COUNTERS
from verif.scoreboard.scoreboard import Scoreboard


class Bus(PredictorBench):
    """Register bus of a device with default parameters and no link."""

    def __init__(self) -> None:
        super().__init__(Scoreboard(DeviceModel(DeviceParams()), 8), DeviceParams())


def committed() -> Bus:
    bus = Bus()
    bus.write("REGION[1].BASE_HI", 0x3)
    bus.write("REGION[1].BASE_LO", 0x0001_0000)
    bus.write("REGION[1].STATE_BASE_LO", 0x4000)
    bus.write("REGION[1].LINES_LOG2", 2)
    bus.write("REGION[1].WORKERS", 5)
    bus.write("REGION[1].CONFIG", 0x62)
    bus.write("REGION[1].EPOCH", 7)
    return bus


def test_commit_from_writes() -> None:
    bus = committed()
    config = bus.scoreboard.configs[1]
    assert config is not None
    assert (config.base, config.state_base) == (0x3_0001_0000, 0x4000)
    assert (config.lines_log2, config.workers, config.mode) == (2, 5, Mode.G_TERNARY)
    assert config.strict
    assert config.bind
    assert not config.tie_minus
    bus.read("REGION[1].STATUS", 1)
    bus.read("REGION[1].EPOCH", 7)
    assert bus.scoreboard.errors == []


def test_refused_commit_changes_nothing() -> None:
    bus = committed()
    bus.write("REGION[1].WORKERS", 65)
    bus.write("REGION[1].EPOCH", 8)
    bus.read("REGION[1].STATUS", 1 | 1 << 4)
    bus.read("REGION[1].EPOCH", 7)
    assert bus.scoreboard.errors == []


def test_a_reset_with_a_commit_in_flight_is_an_error_and_ends_no_commit() -> None:
    """Check a reset while a write of CLOSE is unanswered: it is an error of the testbench.

    The response to a later write of the same register does not end that close.
    """
    bus = committed()
    ctrl = bus.predictor.by_name["REGION[1].CTRL"]
    for close in (1, 0):  # the first is never answered, and its identity may be taken again
        access = AxiLiteAccess(True, ctrl.address, close, 0xF)
        bus.predictor.begin(access)
        if close:
            bus.predictor.reset()
            del access
    bus.predictor.end(access)
    assert "commits of regions [1]: such a reset inside a test" in bus.scoreboard.errors[0]
    assert not bus.scoreboard.model.region_status(1).closed


def test_a_reset_of_an_idle_device() -> None:
    """Check that every register must read its reset value after a reset without requests in flight.

    A reset with a request in flight is an error of the testbench.
    """
    bus = Bus()
    bus.write("CAP_WINDOW", 7)
    bus.write("IRQ_ENABLE", 1)
    bus.write("CTRL_LD_MASK", 3)
    bus.scoreboard.request(M2SReq(ReqOp.MEM_RD, 9, 1 << 45, ldid=4))
    bus.scoreboard.response(S2MDRS(0, 9, 4, poison=True, data=b"\xff" * 64))
    bus.predictor.reset()
    for name, register in bus.predictor.by_name.items():
        bus.read(name, register.reset)
    assert bus.scoreboard.errors == []
    bus.scoreboard.request(M2SReq(ReqOp.MEM_RD, 9, 1 << 45, ldid=4))
    bus.predictor.reset()
    assert "rst_n fell with 1 requests in flight" in bus.scoreboard.errors[0]


def test_counters_must_be_read_at_the_end() -> None:
    bus = committed()
    bus.predictor.finish()
    assert "not read" in bus.scoreboard.errors[0]
    bus = committed()
    for name in COUNTERS:
        bus.read(name, 0)
    bus.predictor.finish()
    assert bus.scoreboard.errors == []


def test_byte_strobes() -> None:
    bus = Bus()
    threshold = bus.predictor.by_name["DEVLOAD_THRESHOLD"]
    bus.access(AxiLiteAccess(True, threshold.address, 0xAABB_CCDD, 0b0110))
    assert bus.scoreboard.devload.thresholds == (0x10, 0xCC, 0xBB)
    expected = (threshold.reset & 0xFF00_00FF) | 0x00BB_CC00
    assert bus.predictor.values["DEVLOAD_THRESHOLD"] == expected


def test_every_register_has_a_rule() -> None:
    bus = Bus()  # test_a_reset_of_an_idle_device reads all of them
    del bus.predictor.rules.device["IRQ_STATUS"]
    bus.read("IRQ_STATUS", 0)
    assert "no rule compares register IRQ_STATUS" in bus.scoreboard.errors[0]


STATED = [
    name
    for name, register in Bus().predictor.by_name.items()
    if "[" not in name or name.startswith("REGION[7]")
    if not name.startswith(("LINK", "SLOT"))
    if register.counts not in (Counts.LINK, Counts.RETRY)
]


@pytest.mark.parametrize("name", STATED)
def test_every_bit_of_every_register_is_compared(name: str) -> None:
    """Check that a read with any bit inverted is reported at rest; bits of the link have other
    tests.
    """
    register = Bus().predictor.by_name[name]
    for bit in range(32):
        if (name, bit) == ("STATUS", 0):
            continue  # the link
        bus = Bus()
        bus.read(name, register.reset ^ 1 << bit)
        if (name, bit) != ("IRQ_STATUS", 3):
            assert bus.scoreboard.errors, f"bit {bit}"


def test_answers_of_the_bus() -> None:
    for address, write, data, resp, right in (
        (0x014, False, 0, Resp.SLVERR, False),
        (0x3F0, True, 0, Resp.OKAY, False),
        (0x3F0, True, 5, Resp.SLVERR, True),
        (0x3F0, False, 0, Resp.SLVERR, True),
        (0x3F0, False, 5, Resp.SLVERR, False),
    ):
        bus = Bus()
        bus.access(AxiLiteAccess(write, address, data, 0xF if write else 0, resp))
        assert ("REGISTER" not in bus.errors) is right


def test_shadow_registers_of_all_regions() -> None:
    bus = Bus()
    for region in range(8):
        bus.write(f"REGION[{region}].THRESHOLD", region + 3)
    for region in range(8):
        bus.read(f"REGION[{region}].THRESHOLD", region + 3)
    assert bus.scoreboard.errors == []
    bus.read("REGION[5].THRESHOLD", 7)
    assert "expected 0x8" in bus.scoreboard.errors[0]


def test_a_read_around_a_write_may_be_old_or_new() -> None:
    for first, (value, right) in product((0, 1), ((0x40, True), (0x20, True), (0x30, False))):
        bus = Bus()
        address = bus.predictor.by_name["CAP_WINDOW"].address
        reading, writing = AxiLiteAccess(False, address), AxiLiteAccess(True, address, 0x20, 0xF)
        for begins in ((reading, writing), (writing, reading))[first]:
            bus.predictor.begin(begins)
        bus.predictor.end(writing)
        reading.data = value
        bus.predictor.end(reading)
        assert (bus.scoreboard.errors == []) == right


def _told(
    seen: list[tuple[str, Mapping[str, int]]], name: str, _data: int, certain: Mapping[str, int]
) -> None:
    seen.append((name, certain))


def test_commit_busy_must_show_and_must_not_stay() -> None:
    for busy in (0, 1):
        bus = committed()
        status = bus.predictor.by_name["STATUS"]
        seen: list[tuple[str, Mapping[str, int]]] = []
        told = partial(_told, seen)
        bus.scoreboard.observer.register_read = told  # type: ignore[method-assign]
        epoch = bus.predictor.by_name["REGION[1].EPOCH"].address
        writing = AxiLiteAccess(True, epoch, 8, 0xF)
        bus.predictor.begin(writing)
        for _ in range(3):
            bus.scoreboard.now += 20
            bus.read("STATUS", status.pack(COMMIT_BUSY=busy, INIT_BUSY=1))
        bus.scoreboard.now += 20
        bus.predictor.end(writing)
        assert bool(bus.scoreboard.errors) == (not busy)
        assert seen.count(("STATUS", {"COMMIT_BUSY": -1})) == 2 * busy, "but for the first read"
        bus.scoreboard.errors.clear()
        bus.read("STATUS", status.pack(COMMIT_BUSY=1, INIT_BUSY=1))
        assert "COMMIT_BUSY is 1 without a commit" in bus.scoreboard.errors[0]


def test_commit_busy_of_a_commit_within_one_read() -> None:
    bus = committed()
    status = bus.predictor.by_name["STATUS"]
    busy = status.pack(COMMIT_BUSY=1, INIT_BUSY=1)
    read = AxiLiteAccess(False, status.address, busy)
    bus.predictor.begin(read)
    bus.write("REGION[1].EPOCH", 8)
    bus.predictor.end(read)
    assert bus.scoreboard.errors == []


def test_init_busy_follows_the_memory_port() -> None:
    bus = committed()
    status = bus.predictor.by_name["STATUS"]
    bus.read("STATUS", 0)
    assert "INIT_BUSY is 0, expected 1" in bus.scoreboard.errors.pop()
    for index in range(4):
        bus.read("STATUS", status.pack(INIT_BUSY=1))
        line = 0x4000 // 64 + index * 4
        bus.scoreboard.memory_beat(MemBeat(True, 3, line, 0, FULL_STROBE, False, 0))
    bus.read("STATUS", status.pack(INIT_BUSY=1))
    around = AxiLiteAccess(False, status.address, status.pack(INIT_BUSY=1))
    bus.predictor.begin(around)
    bus.scoreboard.now += 20
    bus.predictor.end(around)
    assert bus.scoreboard.errors == [], "it may fall some clocks after the last write"
    bus.read("STATUS", status.pack(INIT_BUSY=1))
    assert "INIT_BUSY is 1, expected 0" in bus.scoreboard.errors.pop()


@pytest.mark.parametrize("name", ["A.B.C", "REGION[1]", "REGION[0].STATUS.CODE.X"])
def test_find_refuses(name: str) -> None:
    with pytest.raises(KeyError, match="no register or field"):
        Bus().predictor.find(name)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_a_write_of_fallback_clears_the_flags_of_its_ones(bits: int) -> None:
    bus = Bus()
    scoreboard, address = bus.scoreboard, bus.address("FALLBACK")
    ranges = [Span(1, 1), Span(1, 1), *[Span(0, 0)] * 6]
    for flag, raised in zip(scoreboard.fallback, ranges, strict=True):
        flag.source = partial(Span, *raised[:2])
    bus.exact("FALLBACK", 3, 1, 2, 0)
    assert set(scoreboard.devload.fallback_since) == {0, 1}
    clearing = AxiLiteAccess(True, address, bits, 0xF)
    bus.predictor.begin(clearing)
    assert {0, 1} - set(scoreboard.devload.fallback_since) == {n for n in (0, 1) if bits >> n & 1}
    for value in range(4):  # until the response, a flag that is being cleared may have either value
        assert bus.read("FALLBACK", value) is (value | bits == 3)
    bus.predictor.end(clearing)
    bus.exact("FALLBACK", 3 & ~bits, 3)


def test_an_injection_is_known_by_its_place() -> None:
    bus = Bus()
    inject = bus.predictor.by_name["RAS_INJECT"]
    bus.write("RAS_INJECT", inject.pack(RAM=2, ROW=9))
    assert bus.scoreboard.ram.flips == [], "without GO nothing flips"
    bus.write("RAS_INJECT", inject.pack(RAM=2, ROW=9, GO=1))
    assert bus.scoreboard.ram.flips == [(2, 9)]


def test_a_value_that_was_written_replaces_the_one_before() -> None:
    bus = Bus()
    old = bus.predictor.by_name["CAP_WINDOW"].reset
    for value in (0x20, 0x30):
        bus.write("CAP_WINDOW", value)
        bus.exact("CAP_WINDOW", value, old)
        old = value
