# SPDX-License-Identifier: Apache-2.0
"""Constrained-random scenarios: one generator, and directed uses of it by weights."""

from __future__ import annotations

from verif.scenario.scenario_test import ScenarioTest
from verif.tests.decorator import nf_test


@nf_test(ScenarioTest, use="mixed")
def mixed() -> None:
    """Regions, orders, data, memory and link drawn by the default weights."""


@nf_test(ScenarioTest, use="hot_slots")
def hot_slots() -> None:
    """Few lines, accessed back to back."""


@nf_test(ScenarioTest, use="wide_regions")
def wide_regions() -> None:
    """More lines than slots, far apart in large regions."""


@nf_test(ScenarioTest, use="many_commits")
def many_commits() -> None:
    """Epochs by the hundred, most of them under load."""


@nf_test(ScenarioTest, use="reshaped_regions")
def reshaped_regions() -> None:
    """Commits that change W, mode or size on the same area, and commits that are refused."""


@nf_test(ScenarioTest, use="memory_faults")
def memory_faults() -> None:
    """Errors and poison of the memory on plain lines, FP32 data and records."""


@nf_test(ScenarioTest, use="correlated_workers")
def correlated_workers() -> None:
    """Workers that agree, nearly agree or are tied; counts at their edges."""


@nf_test(ScenarioTest, use="fp32_values")
def fp32_values() -> None:
    """Classes of operands, cancellation and rounding of the FP32 sum."""


@nf_test(ScenarioTest, use="register_traffic")
def register_traffic() -> None:
    """Register accesses of every kind while traffic runs."""


@nf_test(ScenarioTest, use="refused_accesses")
def refused_accesses() -> None:
    """Accesses that must be refused, among legal ones."""


@nf_test(ScenarioTest, use="slow_memory")
def slow_memory() -> None:
    """Memory latency of hundreds of clocks, with many misses open."""
