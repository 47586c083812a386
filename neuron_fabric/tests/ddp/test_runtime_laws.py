# SPDX-License-Identifier: Apache-2.0
"""Laws of the runtime over real gloo processes, each with a twin that must fail.

One process imports torch and forks four ranks, which go through all cases; cases of fewer workers
run in a group of the first ranks. What a case finds is a number of differences: 0 in the law, more
in its twin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.tests.ddp import (
    attach_cases,
    capacity_cases,
    code_cases,
    job_cases,
    law_cases,
    lost_cases,
    part_cases,
)

TWIN = "twin: "
MODULES = (attach_cases, capacity_cases, part_cases, lost_cases, code_cases, job_cases, law_cases)
NAMES = [name for module in MODULES for name, _, _ in module.CASES]


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, int]:
    """Differences by case, the largest over the ranks; of the cases that were asked for."""
    out = tmp_path_factory.mktemp("laws")
    asked = [one for one in request.session.items if isinstance(one, pytest.Function)]
    names = [str(one.callspec.params["name"]) for one in asked if one.module is request.module]
    command = [sys.executable, "-m", "neuron_fabric.tests.ddp.law_run", str(out), *names]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stderr[-3000:])  # shown with a case that fails
    ranks = [json.loads(file.read_text(encoding="utf-8")) for file in out.glob("rank-*.json")]
    assert len(ranks) == 4
    return {name: max(rank.get(name, 0) for rank in ranks) for rank in ranks for name in rank}


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(TWIN)])
def test_it_holds(found: dict[str, int], name: str) -> None:
    assert found[name] == 0


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(TWIN)])
def test_its_twin_fails(found: dict[str, int], name: str) -> None:
    assert found[name] > 0
