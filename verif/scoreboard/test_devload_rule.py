# SPDX-License-Identifier: Apache-2.0
"""DevLoad of answers that touch no line: they belong to their region all the same."""

from __future__ import annotations

import dataclasses

import pytest

from cocotbext.cxl.wire.messages import DevLoad, M2SMessage, M2SReq, ReqOp, S2MMessage
from models.line_packing import Mode
from models.regions import STATUS_SELECTOR, RegionConfig
from verif.scoreboard.test_scoreboard import Bench

REGION = RegionConfig(1 << 30, 0, 2, 3, Mode.G_BINARY)


def asked(selector: int, opcode: ReqOp = ReqOp.MEM_RD) -> M2SMessage:
    """Return a request to line 0 of the region."""
    return M2SReq(opcode, 0, REGION.address(selector, 0))


@pytest.mark.parametrize(
    ("msg", "belongs"),
    [
        (asked(STATUS_SELECTOR), True),
        (asked(255), True),
        (asked(0, ReqOp.MEM_INV), False),
        (asked(0, ReqOp.MEM_RD_FWD), False),
    ],
)
def test_answers_of_a_region_in_fallback(msg: M2SMessage, belongs: bool) -> None:
    for devload in (DevLoad.LIGHT, DevLoad.MODERATE):

        def loaded(answer: S2MMessage, load: DevLoad = devload) -> S2MMessage:
            return dataclasses.replace(answer, devload=load)

        bench = Bench(REGION)
        rule = bench.scoreboard.devload
        rule.thresholds_begin(0, 0, 0)
        rule.thresholds_end(bench.scoreboard.now)
        rule.set_capacity(16, 2)
        rule.saw_fallback(bench.scoreboard.now, 1, 8)
        begun = bench.begin(msg)
        bench.answer(begun, loaded)
        wrong = belongs and devload is DevLoad.LIGHT
        assert bool(bench.errors) == wrong, bench.errors
