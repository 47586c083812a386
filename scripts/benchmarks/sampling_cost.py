# SPDX-License-Identifier: Apache-2.0
"""Runs in a simulator for `nf measure bench coverage`: a test with its sampling of coverage timed.

The clock is that of the wall, for both parts of the ratio: what else the machine does slows both.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import cocotb

from scripts.benchmarks.bench_coverage import FIGURE
from verif.coverage.cover_points import NfCoverage
from verif.coverage.link_points import LinkPoints
from verif.env import run_metrics
from verif.env.base_test import PROFILES, run_uvm
from verif.scoreboard.memory_port import MemoryPort
from verif.tests.test_mixed import InterleaveTest

_SAMPLED = ("__init__", "watch", "op", "judged", "committed", "beat", "register", "finished")
_now = time.perf_counter_ns


class Meter:
    """Nanoseconds spent in functions that were wrapped."""

    def __init__(self) -> None:
        self.spent = 0
        self.sampling = False
        self.overhead = 0
        probe = self.sample(lambda: None)
        for _ in range(1000):
            probe()
        self.overhead, self.spent = self.spent // 1000, 0

    def sample(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        @functools.wraps(function)
        def timed(*args: Any, **more: Any) -> Any:
            self.sampling = True
            start = _now()
            try:
                return function(*args, **more)
            finally:
                self.spent += _now() - start - self.overhead
                self.sampling = False

        return timed

    def shared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time taken off: the scoreboard would have called it a moment later."""

        @functools.wraps(function)
        def timed(*args: Any, **more: Any) -> Any:
            if not self.sampling:
                return function(*args, **more)
            start = _now()
            try:
                return function(*args, **more)
            finally:
                self.spent -= _now() - start

        return timed


METER = Meter()
for _name in _SAMPLED:
    setattr(NfCoverage, _name, METER.sample(getattr(NfCoverage, _name)))
for _name in ("bind", "flit", "phy"):
    setattr(LinkPoints, _name, METER.sample(getattr(LinkPoints, _name)))
setattr(MemoryPort, "located", METER.shared(MemoryPort.located))  # noqa: B010 (a method)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def interleaved_workers(_dut: Any, profile: str) -> None:
    """As the test of that name; leaves what sampling has added to its time, in percent."""
    METER.spent, start = 0, _now()
    await run_uvm(InterleaveTest, profile)
    whole = _now() - start
    figure = 100 * METER.spent / (whole - METER.spent)
    run_metrics.leave(None, {f"{FIGURE}.{profile}": figure})
