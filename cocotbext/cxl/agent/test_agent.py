# SPDX-License-Identifier: Apache-2.0
"""Runs the agent's own bench on both simulators."""

from __future__ import annotations

import pytest

from scripts.run.simulate import run_tests


@pytest.mark.parametrize("sim", ["icarus", "verilator"])
def test_agent(sim: str) -> None:
    record = run_tests(
        sim,
        "cocotbext.cxl.agent.agent_bench",
        top="bench_wire",
        filelist="cocotbext/cxl/agent/bench_wire.f",
        build_name="cxl-agent",
    )
    assert record.passed, f"{record.cause} (see {record.log})"
    assert len(record.cases) == 8


@pytest.mark.parametrize("sim", ["icarus", "verilator"])
def test_broken_devices(sim: str) -> None:
    """No call hangs, and each says what is owed."""
    record = run_tests(
        sim,
        "cocotbext.cxl.agent.broken_bench",
        top="bench_wire",
        filelist="cocotbext/cxl/agent/bench_wire.f",
        build_name="cxl-agent",
    )
    assert record.passed, f"{record.cause} (see {record.log})"
    assert len(record.cases) == 12
