# SPDX-License-Identifier: Apache-2.0
"""``run_cocotb``: the cocotb tests of a module on bench_wire, which is built once a simulator."""

from __future__ import annotations

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
    """build_once(simulator): its runner. (Not a parametrized fixture of the session: that is made
    again whenever the parameter changes, which it does in the order that pytest-xdist runs in.)"""
    return cache(lambda name: build(name, tmp_path_factory.mktemp("sim_build")))


@pytest.fixture(params=sorted(PROGRAMS))
def built(request: pytest.FixtureRequest, build_once: Callable[[str], Any]) -> Any:
    """The runner of each simulator that is installed."""
    if not find_program(request.param):
        pytest.skip(f"{request.param} is not installed")
    return build_once(request.param)


@pytest.fixture
def run_cocotb(built: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCocotb:
    """run_cocotb(module, **environment): (tests, failed)."""
    # Neither the caller's shell nor a runner above this session has a say.
    for name in [name for name in os.environ if name.startswith(STRAY)]:
        monkeypatch.delenv(name)

    def run(module: str, **environment: str) -> tuple[int, int]:
        return run_module(built, module, tmp_path, environment)

    return run
