# SPDX-License-Identifier: Apache-2.0
"""Laws of the hook over real gloo processes, each with a twin that must fail; see `law_ranks`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.tests.ddp import law_run
from neuron_fabric.tests.ddp.law_ranks import CASES, TWIN, WORLD


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Run the collected cases, and return their differences on all ranks."""
    out = tmp_path_factory.mktemp("laws")
    asked = [one for one in request.session.items if isinstance(one, pytest.Function)]
    names = [str(one.callspec.params["name"]) for one in asked if one.module is request.module]
    command = [sys.executable, "-m", law_run.__name__, str(out), *names]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stderr[-3000:])  # shown with a case that fails
    ranks = [json.loads(file.read_text("utf-8")) for file in sorted(out.glob("rank-*.json"))]
    assert len(ranks) == WORLD
    return {
        name: "\n".join(rank[name] for rank in ranks if rank.get(name))
        for name in {name for rank in ranks for name in rank}
    }


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(TWIN)])
def test_it_holds(found: dict[str, str], name: str) -> None:
    if found[name]:
        pytest.fail(found[name], pytrace=False)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(TWIN)])
def test_its_twin_fails(found: dict[str, str], name: str) -> None:
    assert found[name], "the twin holds"
