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

LAWS = (
    "equal parameters on all ranks",
    "all FP32 is DDP without a hook, 2 workers",
    "all FP32 is DDP without a hook, 3 workers",
    "all FP32 is DDP without a hook, 4 workers",
    "shadows leave FP32 as it is",
    "ordered sums do not depend on neighbours",
    "whole leaves FP32 parameters of mixed buckets as they are",
    "abstaining is not being there",
    "not finite where DDP is not",
    "not finite in bfloat16 where DDP is not",
    "fallback is DDP where a worker is not finite",
    "sent and kept is what came in",
    "resumed is uninterrupted",
    "parts under no_sync are one backward",
)
CASES = (
    "join ends",
    "unused parameters keep no gradient",
    "one worker gets its own votes",
    "an error comes out of backward",
    "samples are the cosines",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Differences by case, the largest over the ranks."""
    out = tmp_path_factory.mktemp("laws")
    command = [sys.executable, "-m", "neuron_fabric.runtime.law_ranks", str(out)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads(file.read_text(encoding="utf-8")) for file in out.glob("rank-*.json")]
    assert len(ranks) == 4
    return {name: max(rank.get(name, 0) for rank in ranks) for rank in ranks for name in rank}


@pytest.mark.parametrize("law", LAWS)
def test_law(found: dict[str, int], law: str) -> None:
    assert found[law] == 0


@pytest.mark.parametrize("law", LAWS)
def test_its_twin_fails(found: dict[str, int], law: str) -> None:
    assert found[f"twin: {law}"] > 0


@pytest.mark.parametrize("case", CASES)
def test_case(found: dict[str, int], case: str) -> None:
    assert found[case] == 0
