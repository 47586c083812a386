# SPDX-License-Identifier: Apache-2.0
"""Constrained-random scenarios: one generator, and directed uses of it by weights."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import run_uvm
from verif.scenario.scenario_test import ScenarioTest


class MixedScenario(ScenarioTest):
    """Everything, by the default weights."""


@cocotb.test()
async def mixed(_dut: Any) -> None:
    """Regions, orders, data, memory and link drawn by the default weights."""
    await run_uvm(MixedScenario)
