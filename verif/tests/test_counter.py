# SPDX-License-Identifier: Apache-2.0
"""Block test of `nf_counter` alone, with a narrow count or wide steps, so that it saturates."""

import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

from verif.parameters import build_parameters


@cocotb.test()
async def saturates(dut: Any) -> None:
    """Check that the count stops at all ones, and counts an event in the clock of a clear."""
    params = build_parameters()
    top, increments = (1 << params["WIDTH"]) - 1, 1 << params["INC_W"]
    rng = random.Random(cocotb.RANDOM_SEED)
    dut.clear.value, dut.inc.value, dut.rst_n.value = 0, 0, 0
    Clock(dut.clk, 10, unit="ns", impl="gpi").start()
    await ClockCycles(dut.clk, 2)
    dut.rst_n.value = 1
    count, saturated, cleared_at_top = 0, 0, 0
    for _ in range(2000):
        await FallingEdge(dut.clk)
        assert int(dut.count.value) == count
        clear, inc = rng.random() < 0.03, rng.randrange(increments)
        dut.clear.value, dut.inc.value = int(clear), inc
        saturated += count == top and inc > 0 and not clear
        cleared_at_top += count == top and clear
        count = min(top, (0 if clear else count) + inc)
    assert saturated > 50, "the counter never had to saturate"
    assert cleared_at_top > 5, "the counter was never cleared when full"
