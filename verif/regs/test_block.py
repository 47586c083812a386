# SPDX-License-Identifier: Apache-2.0
"""Runs the register block's own benches on both simulators."""

from __future__ import annotations

import pytest

from scripts.run.simulate import run_tests

FILELIST = "hdl/regs/nf_regs.f"
SIMULATORS = ("verilator", "icarus")


@pytest.mark.parametrize("sim", SIMULATORS)
@pytest.mark.parametrize("regions", [8, 3])
def test_register_block(sim: str, regions: int) -> None:
    parameters = {"REGIONS": regions, "SLOTS": 16, "CNT_W": 4} if regions != 8 else {}
    record = run_tests(
        sim,
        "verif.regs.block_bench",
        parameters=parameters,
        top="nf_regs",
        filelist=FILELIST,
        build_name=f"regs-{regions}",
    )
    assert record.passed, f"{record.cause} (see {record.log})"
    assert len(record.cases) == 7


@pytest.mark.parametrize("sim", SIMULATORS)
def test_link_status(sim: str) -> None:
    record = run_tests(
        sim,
        "verif.regs.link_status_bench",
        top="nf_regs",
        filelist=FILELIST,
        build_name="regs-8",
    )
    assert record.passed, f"{record.cause} (see {record.log})"
    assert len(record.cases) == 1


@pytest.mark.parametrize("sim", SIMULATORS)
def test_counter(sim: str) -> None:
    record = run_tests(
        sim,
        "verif.regs.counter_bench",
        parameters={"WIDTH": 6, "INC_W": 4},
        top="nf_counter",
        filelist=FILELIST,
        build_name="counter-6",
    )
    assert record.passed, f"{record.cause} (see {record.log})"
    assert len(record.cases) == 1
