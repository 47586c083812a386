# SPDX-License-Identifier: Apache-2.0
"""Test that `nf replay --quick` reduces the optimisation of the compiler on both transports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.build import bulk_build
from scripts.common.records import BuildSpec
from scripts.run import replay_simulators
from scripts.run.replay_simulators import Simulators


@pytest.mark.parametrize(("quick", "opt"), [(False, BuildSpec.opt), (True, "-O0")])
def test_quick_is_the_optimisation_of_the_build(
    quick: bool, opt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(replay_simulators, "run_simulation", lambda spec, _: seen.append(spec))
    monkeypatch.setattr(bulk_build, "build", lambda *_, **how: seen.append(how))
    simulators = Simulators(quick=quick)
    simulators.simulate("verilator", "a.b_bench", parameters={}, runs=tmp_path, waves=False)
    simulators.bulk("verilator", {})
    assert seen[0].build.opt == opt
    assert seen[1] == {"quick": quick}
