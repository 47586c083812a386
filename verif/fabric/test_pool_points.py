# SPDX-License-Identifier: Apache-2.0
"""Negative twins of the cover points of a pool: each event hits its bin, its neighbour does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cocotbext.cxl.wire.messages import S2MDRS, DrsOp, M2SReq, M2SRwD, ReqOp, RwdOp
from models.device import DeviceModel
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import INFO_SELECTOR, RegionConfig
from verif.coverage.cover_model import CoverModel
from verif.fabric.pool_points import PoolPoints

REGION = RegionConfig(1 << 40, 1 << 20, 2, 3, Mode.G_BINARY)


def wrote(points: PoolPoints, ldid: int) -> None:
    address = REGION.address(0, 0)
    points.sent(0, M2SRwD(RwdOp.MEM_WR, 5, address, ldid=ldid, data=bytes(64)))


def looked(points: PoolPoints) -> None:
    points.sent(0, M2SReq(ReqOp.MEM_RD, 5, REGION.address(INFO_SELECTOR, 0), ldid=1))


def answered(points: PoolPoints) -> None:
    points.answered(0, S2MDRS(DrsOp.MEM_DATA, 5, ldid=1))


Steps = tuple[Callable[[PoolPoints], object], ...]
TWINS: dict[str, tuple[str, Steps, Steps]] = {
    "pool meets": (
        "contribution x INFO",
        (looked, lambda points: wrote(points, 0)),
        (looked, lambda points: wrote(points, 1)),
    ),
    "pool meets, answered": (
        "contribution x INFO",
        (looked, lambda points: wrote(points, 0)),
        (looked, answered, lambda points: wrote(points, 0)),
    ),
    "pool look": (
        "route x before",
        (lambda points: points.looked("route", -1, 0, 3),),
        (lambda points: points.looked("route", 0, 0, 3),),
    ),
    "pool signals": (
        "some x 3",
        (lambda points: points.looked("bells", 0, 2, 3),),
        (lambda points: points.looked("bells", 1, 2, 3),),
    ),
    "pool abort": (
        "DONE",
        (lambda points: points.aborted("DONE"),),
        (lambda points: points.aborted("signal"),),
    ),
    "pool ahead": ("2", (lambda points: points.running(2),), (lambda points: points.running(1),)),
}


def hits(point: str, steps: Steps) -> dict[str, int]:
    """Return the hits of a point after some steps at a device with one region."""
    device = DeviceModel(DeviceParams())
    assert device.commit(0, REGION, 1) == 0
    model = CoverModel()
    points = PoolPoints(model, [device])
    for step in steps:
        step(points)
    return model.hits().get(point, {})


@pytest.mark.parametrize("name", TWINS)
def test_event_and_neighbour(name: str) -> None:
    found, event, near = TWINS[name]
    point = name.partition(",")[0]
    assert found in hits(point, event)
    assert found not in hits(point, near)
