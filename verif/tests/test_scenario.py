# SPDX-License-Identifier: Apache-2.0
"""Constrained-random scenarios: one generator, and directed uses of it by weights."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import run_uvm
from verif.scenario.scenario_test import ScenarioTest


async def _use(name: str) -> None:
    await run_uvm(type(f"Scenario.{name}", (ScenarioTest,), {"use": name}))


@cocotb.test()
async def mixed(_dut: Any) -> None:
    """Regions, orders, data, memory and link drawn by the default weights."""
    await _use("mixed")


@cocotb.test()
async def hot_slots(_dut: Any) -> None:
    """Few lines, accessed back to back."""
    await _use("hot_slots")


@cocotb.test()
async def wide_regions(_dut: Any) -> None:
    """More lines than slots, far apart in large regions."""
    await _use("wide_regions")


@cocotb.test()
async def many_commits(_dut: Any) -> None:
    """Epochs by the hundred, most of them under load."""
    await _use("many_commits")


@cocotb.test()
async def reshaped_regions(_dut: Any) -> None:
    """Commits that change W, mode or size on the same area, and commits that are refused."""
    await _use("reshaped_regions")


@cocotb.test()
async def memory_faults(_dut: Any) -> None:
    """Errors and poison of the memory on plain lines, FP32 data and records."""
    await _use("memory_faults")


@cocotb.test()
async def correlated_workers(_dut: Any) -> None:
    """Workers that agree, nearly agree or are tied; counts at their edges."""
    await _use("correlated_workers")


@cocotb.test()
async def fp32_values(_dut: Any) -> None:
    """Classes of operands, cancellation and rounding of the FP32 sum."""
    await _use("fp32_values")


@cocotb.test()
async def register_traffic(_dut: Any) -> None:
    """Register accesses of every kind while traffic runs."""
    await _use("register_traffic")


@cocotb.test()
async def refused_accesses(_dut: Any) -> None:
    """Accesses that must be refused, among legal ones."""
    await _use("refused_accesses")


@cocotb.test()
async def slow_memory(_dut: Any) -> None:
    """Memory latency of hundreds of clocks, with many misses open."""
    await _use("slow_memory")
