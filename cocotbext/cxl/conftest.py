# SPDX-License-Identifier: Apache-2.0
"""``run_cocotb``: the cocotb tests of a module on bench_wire, which is built once a simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cocotbext.cxl.example.run import PROGRAMS, build, find_program, run_module

RunCocotb = Callable[..., tuple[int, int]]


@pytest.fixture(scope="session", params=sorted(PROGRAMS))
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The runner of each simulator that is installed."""
    if not find_program(request.param):
        pytest.skip(f"{request.param} is not installed")
    return build(request.param, tmp_path_factory.mktemp("sim_build"))


@pytest.fixture
def run_cocotb(built: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCocotb:
    """run_cocotb(module, **environment): (tests, failed)."""
    # A session that itself runs below a simulator or a runner must not be seen.
    for name in ("COCOTB_TEST_FILTER", "COCOTB_TESTCASE", "COCOTB_RANDOM_SEED", "NF_LINK_TRACE"):
        monkeypatch.delenv(name, raising=False)

    def run(module: str, **environment: str) -> tuple[int, int]:
        return run_module(built, module, tmp_path, environment)

    return run
