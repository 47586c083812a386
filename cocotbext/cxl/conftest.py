# SPDX-License-Identifier: Apache-2.0
"""Fixture ``run_cocotb``: runs the cocotb tests of a module on bench_wire, built once per
simulator.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cocotbext.cxl.example.run import PROGRAMS, build, find_program, run_module

STRAY = ("COCOTB_", "GPI_", "PYGPI_", "SIM_CMD_", "NF_LINK_TRACE", "WAVES", "GUI", "RANDOM_SEED")
RunCocotb = Callable[..., tuple[int, int]]


@pytest.fixture(scope="session")
def build_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Return build_once(simulator), which builds bench_wire once and returns its cocotb runner.

    A parametrized session fixture would be rebuilt at every change of the parameter, which depends
    on the order in which pytest-xdist runs the tests.
    """
    return cache(lambda name: build(name, tmp_path_factory.mktemp("sim_build")))


@pytest.fixture(params=sorted(PROGRAMS))
def built(request: pytest.FixtureRequest, build_once: Callable[[str], Any]) -> Any:
    """Return the cocotb runner of bench_wire for a simulator; a test runs once per simulator.

    The test is skipped for a simulator that is not installed.
    """
    if not find_program(request.param):
        pytest.skip(f"{request.param} is not installed")
    return build_once(request.param)


@pytest.fixture
def run_cocotb(built: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCocotb:
    """Return run_cocotb(module, **environment): run the cocotb tests of a module on bench_wire.

    It returns the number of tests run and the number of failed tests.
    """
    # Variables of the caller's shell, or of a runner of this session, must have no effect.
    for name in [name for name in os.environ if name.startswith(STRAY)]:
        monkeypatch.delenv(name)

    def run(module: str, **environment: str) -> tuple[int, int]:
        return run_module(built, module, tmp_path, environment)

    return run
