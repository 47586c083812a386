# SPDX-License-Identifier: Apache-2.0
"""Constrained-random scenarios: one generator, and uses of it with other weights."""

from verif.scenario.scenario_test import ScenarioTest
from verif.tests.decorator import nf_test


@nf_test(ScenarioTest, use="mixed")
def mixed() -> None:
    """Check scenarios of regions, orders, data, memory and link with the default weights."""


@nf_test(ScenarioTest, use="hot_slots")
def hot_slots() -> None:
    """Check scenarios with few lines that are accessed back to back."""


@nf_test(ScenarioTest, use="wide_regions")
def wide_regions() -> None:
    """Check scenarios with more lines than slots, far apart in large regions."""


@nf_test(ScenarioTest, use="many_commits")
def many_commits() -> None:
    """Check scenarios with hundreds of commits, most of them under load."""


@nf_test(ScenarioTest, use="reshaped_regions")
def reshaped_regions() -> None:
    """Check scenarios whose commits change W, mode or size on the same area, or are refused."""


@nf_test(ScenarioTest, use="memory_faults")
def memory_faults() -> None:
    """Check scenarios with memory errors and poison on plain lines, FP32 data and records."""


@nf_test(ScenarioTest, use="correlated_workers")
def correlated_workers() -> None:
    """Check scenarios whose workers agree, nearly agree or are tied; counts at their edges."""


@nf_test(ScenarioTest, use="fp32_values")
def fp32_values() -> None:
    """Check scenarios with classes of FP32 operands, cancellation and rounding of sums."""


@nf_test(ScenarioTest, use="register_traffic")
def register_traffic() -> None:
    """Check scenarios with register accesses of every kind under traffic."""


@nf_test(ScenarioTest, use="refused_accesses")
def refused_accesses() -> None:
    """Check scenarios with accesses that must be refused among legal ones."""


@nf_test(ScenarioTest, use="slow_memory")
def slow_memory() -> None:
    """Check scenarios with a memory latency of hundreds of clocks and many misses in flight."""
