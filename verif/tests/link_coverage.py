# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of the testbenches of ``nf_link``: flits at its pins and its status port."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.regression import TestGenerator
from cocotb.utils import get_sim_time

from cocotbext.cxl.link.flit_event import FlitEvent
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.flits import Direction
from models.parameters import DeviceParams
from verif.coverage.cover_model import CoverModel
from verif.coverage.link_points import LinkPoints, LinkStatePoints
from verif.env.base_test import leave
from verif.env.config import CLOCK_NS
from verif.parameters import build_parameters

_PARAMETERS = {**DeviceParams().as_rtl(), **build_parameters()}


def _never(text: str) -> None:
    raise AssertionError(text)


class _Points:
    def __init__(self) -> None:
        self.model = CoverModel(_never)
        self.link = LinkPoints(self.model)
        self.state = LinkStatePoints(self.model)


_points = _Points()


class LinkObserver:
    """Functional coverage of one testbench of `nf_link`.

    Call `clock` once a clock, then `sent` for a flit of the device. It has a separate link tracker
    whose rules are all waived, because a testbench may break them.
    """

    def __init__(self, grant_plain: int, grant_data: int) -> None:
        self.tracker = LinkTracker(True, lambda _rule, _way: True)
        self.points = _points
        own = {"Req": _PARAMETERS["REQ_CREDITS"], "RwD": _PARAMETERS["RWD_CREDITS"]}
        self.points.link.bind(self.tracker, {**own, "NDR": grant_plain, "DRS": grant_data})
        self.points.state.reset()
        self._phy = True

    def clock(
        self, now: int, status: dict[str, int], phy: bool, driven: tuple[int, int] | None
    ) -> None:
        """Sample the status port, phy_up and the flit at the receive pins for coverage.

        Args:
            now: number of the clock.
            status: fields of the status port.
            phy: value of phy_up.
            driven: protocol ID and flit that the host drives, None for none.
        """
        if phy != self._phy:
            self._phy = phy
            self.points.link.phy(phy)
            if not phy:
                self.tracker.phy_down()
        event = self._observe(Direction.M2S, driven, now) if driven is not None and phy else None
        self.points.state.clock(status, phy, event)

    def sent(self, now: int, flit: tuple[int, int]) -> None:
        """Sample a flit (protocol ID, bits) that the device has transferred in clock `now`."""
        self._observe(Direction.S2M, flit, now)

    def _observe(self, way: Direction, wire: tuple[int, int], now: int) -> FlitEvent:
        event = self.tracker.observe(way, *wire, now)
        self.points.link.flit(event)
        return event


def link_test(test: Callable[..., Coroutine[Any, Any, None]]) -> TestGenerator:
    """Register a test of a link testbench with cocotb, with a clock of 2 ns and coverage.

    Only a test that has passed leaves coverage. A device that checks no RAM (ECC 0) may send
    anything: its flits cover nothing.
    """

    @functools.wraps(test)
    async def run(dut: Any, **kwargs: Any) -> None:
        global _points
        _points = _Points()
        Clock(dut.clk, 2, unit="ns", impl="gpi").start(start_high=False)
        began = get_sim_time("ns")
        await test(dut, **kwargs)
        points = _points if _PARAMETERS["ECC"] else _Points()
        leave(points.model, {"cycles": round((get_sim_time("ns") - began) / CLOCK_NS)})

    return cocotb.test(run)
