# SPDX-License-Identifier: Apache-2.0
"""Coverage bins: hits, holes, merging; and that the subscriber's names are planned ones."""

from __future__ import annotations

import json

from cocotbext.cxl.wire.messages import M2SReq, M2SRwD, ReqOp, RwdOp
from models.device import DeviceModel
from models.line_packing import Mode
from models.regions import RegionConfig
from verif.coverage.cover_model import CoverModel
from verif.coverage.cover_points import NfCoverage
from verif.mem.memory_config import MemBeat
from verif.scoreboard.scoreboard import Scoreboard


def _model() -> CoverModel:
    model = CoverModel()
    model.point("p", "because", ["a", "b", "c"])
    return model


def test_holes_and_merge() -> None:
    merged = _model()
    for name in ("a", "b"):
        run = _model()
        run.points["p"].hit(name)
        run.points["p"].hit("unplanned")
        hits = json.loads(json.dumps(run.hits()))
        assert hits == {"p": {name: 1, "unplanned": 1}}  # no zeros: it travels with every record
        merged.add(hits)
    merged.add({"gone": {"x": 3}})
    assert merged.points["p"].holes == ["c"]
    assert merged.points["p"].unexpected == {"unplanned": 2}
    assert merged.points["gone"].unexpected == {"x": 3}


def test_samples_fall_into_planned_bins() -> None:
    coverage = NfCoverage()
    scoreboard = Scoreboard(DeviceModel(), 8)
    scoreboard.on_op = coverage.op
    scoreboard.on_commit = coverage.committed
    device = DeviceModel()
    for region, mode in enumerate(Mode):
        config = RegionConfig((region + 1) << 40, region << 20, 2, 5, mode)
        for _ in range(2):
            scoreboard.commit_begin(region, config, 1)
            device.commit(region, config, 1)
            scoreboard.commit_end(region)
        for selector in (0, 1, 2, 8, 15, 63, 64, 70, 255):
            addr = config.address(selector, 0)
            for msg in (
                M2SRwD(RwdOp.MEM_WR, 1, addr, poison=selector == 1),
                M2SRwD(RwdOp.MEM_WR_PTL, 1, addr, be=5),
                M2SRwD(7, 1, addr),
                M2SReq(ReqOp.MEM_RD, 1, addr),
                M2SReq(ReqOp.MEM_INV, 1, addr),
                M2SReq(12, 1, addr),
            ):
                scoreboard.request(msg)
                response = device.step(msg)
                assert response is not None
                scoreboard.response(response)
    for write in (True, False):
        for line in (1, *(k + (region << 14) for region in range(4) for k in (0, 1, 20, 255))):
            for axi_id in (0, 3):
                for strobe in (3, (1 << 64) - 1):
                    for resp in (2, 3):
                        beat = MemBeat(write, axi_id, line, 2, strobe, True, resp)
                        coverage.beat(beat, scoreboard.memory.place(beat))
            poisoned = MemBeat(write, 1, line, 2, 3, True, 0)
            if not write or scoreboard.memory.place(poisoned) in ("MEMORY", "IDENTITY"):
                coverage.beat(poisoned, scoreboard.memory.place(poisoned))
    coverage.register("IRQ_STATUS", 63)
    coverage.register("SLOT_HIT", 1)
    assert scoreboard.errors == []
    for point in coverage.model.points.values():
        assert point.unexpected == {}, point.name
    assert coverage.interrupt.holes == []
    assert coverage.side_band.holes == []
    assert "read UNMAPPED" in coverage.refusal.holes
