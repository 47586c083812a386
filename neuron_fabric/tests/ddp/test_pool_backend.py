# SPDX-License-Identifier: Apache-2.0
"""Tests of torch's backend "pool" and of the reducer by pools: `pool_cases` on three ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch.distributed as dist

from neuron_fabric.collectives import PoolError
from neuron_fabric.collectives import torch as backend

WORLD = 3


def in_shared_memory() -> set[Path]:
    return set(Path("/dev/shm").glob("neuron-fabric-*"))


@pytest.mark.parametrize(
    ("case", "code"),
    [("reductions,moves,refusals,trainings,attached,again", 0), ("lost", 7)],
)
def test_case(case: str, code: int, tmp_path: Path) -> None:
    before = in_shared_memory()
    words = [sys.executable, "-m", "neuron_fabric.tests.ddp.pool_cases", case, f"{tmp_path}/store"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ranks = subprocess.Popen(
        [*words, str(WORLD)], encoding="utf-8", start_new_session=True, **pipes
    )
    try:
        codes, said = ranks.communicate(timeout=120)
        assert codes == f"{[code] * WORLD}\n", said
    finally:
        with suppress(ProcessLookupError):
            os.killpg(ranks.pid, signal.SIGKILL)
        ranks.communicate()
    assert in_shared_memory() == before


def test_ranks_that_do_not_share_memory(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 2)
    store.set("pool/0/1", "another-boot 1\nnode7\n")
    with pytest.raises(PoolError, match=r"rank 1 \(node7\) does not share /dev/shm with rank 0"):
        backend.PoolGroup(store, 0, 2, timedelta(seconds=5), "")


def test_a_group_that_is_opened_again() -> None:
    """Check that ranks do not meet in the keys of an earlier group: torchrun keeps its store."""
    store = dist.HashStore()

    def opened(rank: int) -> None:
        for _ in range(2):
            time.sleep(0.1 * (rank == 0))  # rank 1 finds what the first time has left
            backend.PoolGroup(store, rank, 2, timedelta(seconds=20), "").shutdown()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(opened, range(2)))


def test_torch_is_missing() -> None:
    script = "import sys; sys.modules['torch'] = None; import neuron_fabric.collectives.torch"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8")
    assert "torch is missing; pip install torch" in done.stderr.splitlines()[-1]
