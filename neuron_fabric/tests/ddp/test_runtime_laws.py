# SPDX-License-Identifier: Apache-2.0
"""Laws of the hook over real gloo processes, each with a twin that must fail; see `law_testbench`.

`python -m neuron_fabric.tests.ddp.test_runtime_laws FOLDER [CASE ...]` runs cases on four ranks:
one process imports torch and forks the ranks, which run the named cases (all). Each rank writes
FOLDER/rank-N.json: the differences by the name of the case, "" where the law holds.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

import torch
import torch._dynamo  # imported before the fork: DDP imports it in every rank
from torch import distributed as dist

from neuron_fabric.lock import Lock
from neuron_fabric.tests.ddp import attach_cases, capture_cases, law_cases, shadow_cases
from neuron_fabric.tests.ddp.law_testbench import CASES, TWIN, WORLD, LawError, Ranks
from neuron_fabric.tests.python_process import run_python

assert all((attach_cases, capture_cases, law_cases, shadow_cases)), "they register their cases"


def rank_of(rank: int, folder: str, names: Collection[str]) -> None:
    """Run cases as one of the four ranks, and write their differences to ``rank-N.json``.

    Args:
        rank: Rank of this process.
        folder: Folder for the store of the process group and for the results.
        names: Cases to run; none: all.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD
    )
    ranks, found = Ranks(rank, folder), {}
    for name, (workers, case) in CASES.items():
        if rank < workers and (name in names or not names):
            found[name] = ""
            try:
                case(ranks, workers)
                ranks.settle()
            except LawError as error:
                found[name] = str(error)
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Run the collected cases in one start of four ranks; return the differences by case.

    "" where no rank has any. Processes of pytest-xdist share the start: the first one makes it.
    """
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "laws"
    asked = [one for one in request.session.items if isinstance(one, pytest.Function)]
    names = [str(one.callspec.params["name"]) for one in asked if one.module is request.module]
    with Lock(out).acquire(wait=lambda: None):
        if not (out / "ended").exists():
            out.mkdir()
            done = run_python("-m", __name__, out, *names)
            ended = f"exit code {done.returncode}\n{done.stderr[-3000:]}"
            (out / "ended").write_text(ended, encoding="utf-8")
    said = (out / "ended").read_text(encoding="utf-8")
    assert said.startswith("exit code 0\n"), said
    print(said)  # shown with a case that fails
    ranks = [json.loads(file.read_text("utf-8")) for file in sorted(out.glob("rank-*.json"))]
    assert len(ranks) == WORLD
    return {
        name: "\n".join(rank[name] for rank in ranks if rank.get(name))
        for name in {name for rank in ranks for name in rank}
    }


def _laws(twins: bool) -> list[Any]:
    """Return the cases for pytest: the twins, or the others."""
    again = pytest.mark.nightly("engine c holds it by day, and torch has the weights of engine c")
    names = [one for one in CASES if one.startswith(TWIN) == twins]
    on_torch = {one for one in names if "torch: " in one and "the weights are" not in one}
    return [pytest.param(one, id=one, marks=[again] * (one in on_torch)) for one in names]


@pytest.mark.parametrize("name", _laws(twins=False))
def test_it_holds(found: dict[str, str], name: str) -> None:
    if found[name]:
        pytest.fail(found[name], pytrace=False)


@pytest.mark.parametrize("name", _laws(twins=True))
def test_its_twin_fails(found: dict[str, str], name: str) -> None:
    assert found[name], "the twin holds"


if __name__ == "__main__":
    gc.freeze()  # a collection in a rank need not look at all of torch
    torch.multiprocessing.start_processes(
        rank_of, (sys.argv[1], sys.argv[2:]), nprocs=WORLD, start_method="fork"
    )
