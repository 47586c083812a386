# SPDX-License-Identifier: Apache-2.0
"""The register predictor: commits are rebuilt from single writes; wrong read-backs are flagged."""

from __future__ import annotations

import pytest

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, ReqOp
from models.device import DeviceModel
from models.line_packing import Mode
from models.parameters import DeviceParams
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.register_predictor import COUNTERS, RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard


class Bus:
    def __init__(self) -> None:
        self.scoreboard = Scoreboard(DeviceModel(DeviceParams()), 8)
        self.predictor = RegisterPredictor(self.scoreboard, DeviceParams())

    def write(self, name: str, value: int) -> None:
        self.access(AxiLiteAccess(True, self.predictor.by_name[name].address, value, 0xF))

    def read(self, name: str, value: int) -> None:
        self.access(AxiLiteAccess(False, self.predictor.by_name[name].address, value))

    def access(self, access: AxiLiteAccess) -> None:
        self.predictor.begin(access)
        self.predictor.end(access)


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


def test_wrong_status_is_flagged() -> None:
    for name, value in (
        ("REGION[1].STATUS", 0x01 | 3 << 4),
        ("REGION[1].STATUS", 0x101),
        ("REGION[1].EPOCH", 6),
        ("REGION[1].COMPLETE_LINES", 1),
        ("DONE", 2),
        ("ERR_INFO", 1),
        ("DUPLICATE", 1),
    ):
        bus = committed()
        bus.read(name, value)
        assert bus.scoreboard.errors, name


def test_refused_commit_changes_nothing() -> None:
    bus = committed()
    bus.write("REGION[1].WORKERS", 65)
    bus.write("REGION[1].EPOCH", 8)
    bus.read("REGION[1].STATUS", 1 | 1 << 4)
    bus.read("REGION[1].EPOCH", 7)
    assert bus.scoreboard.errors == []


def test_error_capture_is_compared() -> None:
    bus = committed()
    bus.scoreboard.request(M2SReq(ReqOp.MEM_RD, 9, 1 << 45, ldid=4))
    bus.scoreboard.response(S2MDRS(0, 9, 4, poison=True, data=b"\xff" * 64))
    bus.read("ERR_INFO", 1 | 2 << 4 | 1 << 12 | 4 << 16)
    assert bus.scoreboard.errors == []
    bus.read("ERR_INFO", 1 | 2 << 4 | 1 << 12 | 5 << 16)
    assert "ERR_INFO" in bus.scoreboard.errors[0]


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


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("IRQ_STATUS", ("IRQ_STATUS", None)),
        ("IRQ_STATUS.DONE", ("IRQ_STATUS", "DONE")),
        ("REGION[2].STATUS", ("REGION[2].STATUS", None)),
        ("REGION[2].STATUS.CODE", ("REGION[2].STATUS", "CODE")),
    ],
)
def test_find(name: str, parts: tuple[str, str | None]) -> None:
    register, field = Bus().predictor.find(name)
    assert (register.name, field and field.name) == parts


@pytest.mark.parametrize("name", ["A.B.C", "REGION[1]", "REGION[0].STATUS.CODE.X"])
def test_find_refuses(name: str) -> None:
    with pytest.raises(KeyError, match="no register or field"):
        Bus().predictor.find(name)
